import RelayCore

/// Reads the body of `POST /v1/rooms/{room}/recordings`: `{audio?, video?, mix?, minutes?, mebibytes?}`, or nothing. Form only; unknown
/// fields are refused by name.
enum RecordingBody {
    static func specification(_ body: [UInt8]) throws(Problem) -> RecordingSpecification {
        var specification = RecordingSpecification()
        guard !body.isEmpty else { return specification }
        guard case .object(let fields) = try RoomBody.object(body) else {
            preconditionFailure("object(_:) gives objects")
        }
        for field in fields {
            switch field.name {
            case "audio": specification.audio = try flag(field)
            case "video": specification.video = try flag(field)
            case "mix": specification.mix = try flag(field)
            case "minutes": specification.minutes = try count(field)
            case "mebibytes": specification.mebibytes = try count(field)
            default: throw RoomBody.invalid(field.name, "is not known here")
            }
        }
        guard specification.audio || specification.video else {
            throw RoomBody.invalid("video", "and audio are false: nothing is left to record")
        }
        guard specification.audio || !specification.mix else {
            throw RoomBody.invalid("mix", "is made of audio, which is false")
        }
        return specification
    }

    private static func flag(_ field: JSONValue.Field) throws(Problem) -> Bool {
        guard case .bool(let flag) = field.value else { throw RoomBody.invalid(field.name, "must be true or false") }
        return flag
    }

    private static func count(_ field: JSONValue.Field) throws(Problem) -> Int64 {
        let range: ClosedRange<Int64> = 1...1_048_576
        guard case .integer(let number) = field.value, range.contains(number) else {
            throw RoomBody.invalid(field.name, "must be an integer in \(range.lowerBound)…\(range.upperBound)")
        }
        return number
    }
}
