import RTPCore
import RelayCore

/// Reads the body of `POST /v1/rooms/{room}/prompts`: `{tone | file, to?, times?, loop?, pauseMs?}`. Form only; unknown fields
/// are refused by name.
enum PromptBody {
    static func specification(_ body: [UInt8]) throws(Problem) -> PromptSpecification {
        let value = try RoomBody.object(body)
        guard case .object(let fields) = value else { preconditionFailure("object(_:) gives objects") }
        var sound: SoundName?
        var specification = PromptSpecification(SoundName(.tone, ""))
        var loops = false
        for field in fields {
            switch field.name {
            case "tone", "file":
                guard sound == nil else { throw RoomBody.invalid(field.name, "goes with no other sound") }
                sound = try name(field)
            case "to": specification.to = try users(field.value)
            case "times": specification.times = UInt32(try integer(field, 1...Int64(PromptSpecification.timesLimit)))
            case "loop":
                guard case .bool(let flag) = field.value else {
                    throw RoomBody.invalid("loop", "must be true or false")
                }
                loops = flag
            case "pauseMs":
                let limit = PromptSpecification.longestPause.milliseconds
                specification.pause = .milliseconds(try integer(field, 0...limit))
            default: throw RoomBody.invalid(field.name, "is not known here")
            }
        }
        guard let sound else { throw RoomBody.invalid("tone", "is missing: a prompt is a tone or a file") }
        guard !loops || value["times"] == nil else { throw RoomBody.invalid("times", "does not go with loop") }
        if loops { specification.times = 0 }
        specification.sound = sound
        return specification
    }

    private static func name(_ field: JSONValue.Field) throws(Problem) -> SoundName {
        guard case .string(let text) = field.value, isIdentifier(text),
            let kind = SoundName.Kind(rawValue: field.name)
        else { throw RoomBody.invalid(field.name, "must be a name, [A-Za-z0-9._-]{1,128}") }
        return SoundName(kind, text)
    }

    private static func users(_ value: JSONValue) throws(Problem) -> [String] {
        guard case .array(let items) = value, (1...PromptSpecification.userLimit).contains(items.count) else {
            throw RoomBody.invalid("to", "must be a list of 1…\(PromptSpecification.userLimit) uids")
        }
        var users: [String] = []
        for (position, item) in items.enumerated() {
            guard case .string(let uid) = item, isIdentifier(uid) else {
                throw RoomBody.invalid("to[\(position)]", "must be [A-Za-z0-9._-]{1,128}")
            }
            guard !users.contains(uid) else { throw RoomBody.invalid("to[\(position)]", "\(uid) stands twice") }
            users.append(uid)
        }
        return users
    }

    private static func integer(_ field: JSONValue.Field, _ range: ClosedRange<Int64>) throws(Problem) -> Int64 {
        guard case .integer(let number) = field.value, range.contains(number) else {
            throw RoomBody.invalid(field.name, "must be an integer in \(range.lowerBound)…\(range.upperBound)")
        }
        return number
    }
}
