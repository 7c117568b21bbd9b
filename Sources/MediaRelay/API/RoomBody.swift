import RTPCore
import RelayCore

/// Reads the body of `POST /v1/rooms`. Unknown fields are refused by name: a misspelt limit must not be ignored.
enum RoomBody {
    static func specification(_ body: [UInt8]) throws(Problem) -> RoomSpecification {
        let value = try object(body)
        guard case .object(let fields) = value else { preconditionFailure("object(_:) gives objects") }
        var id: RoomID?
        if let given = value["id"] {
            guard case .string(let text) = given, let room = RoomID(text) else {
                throw invalid("id", "must be [A-Za-z0-9._-]{1,128}")
            }
            id = room
        }
        let kind: RoomKind = try word(value, "kind", default: .peer)
        var specification = RoomSpecification(id: id, kind: kind, media: try word(value, "media", default: .video))
        for field in fields {
            switch field.name {
            case "id", "kind", "media": break
            case "videoCodec": specification.videoCodec = try codec(field.value)
            case "maxParticipants":
                let bound: ClosedRange<Int64> = kind == .peer ? 2...2 : 1...100
                specification.maxParticipants = Int(try integer(field, bound))
            case "allowParallel": specification.allowParallel = try flag(field)
            case "red": specification.red = try flag(field)
            case "timeouts": specification.timeouts = try timeouts(field.value)
            case "ring": specification.ring = try RingBody.specification(field.value)
            case "ifBusy": specification.ifBusy = try word(value, "ifBusy", default: BusyPolicy.ring)
            case "warningTone":
                guard case .string(let tone) = field.value, isIdentifier(tone) else {
                    throw invalid("warningTone", "must be the name of a tone")
                }
                specification.warningTone = tone
            case "metadata":
                let text = JSONText.of(field.value)
                guard text.count <= ConductorConfiguration.metadataByteLimit else {
                    throw invalid(
                        "metadata",
                        "has \(text.count) bytes; the limit is \(ConductorConfiguration.metadataByteLimit)")
                }
                specification.metadata = String(decoding: text, as: UTF8.self)
            default: throw invalid(field.name, "is not a field of a room")
            }
        }
        return specification
    }

    static func object(_ body: [UInt8]) throws(Problem) -> JSONValue {
        do throws(JSONRefusal) {
            let value = try JSONReader.read(body)
            guard case .object = value else { throw JSONRefusal(detail: "not an object", offset: 0) }
            return value
        } catch {
            throw Problem(
                status: 400, code: "malformed-json",
                detail: "The body is not a JSON object: \(error.detail) (byte \(error.offset)).")
        }
    }

    static func invalid(_ field: String, _ what: String) -> Problem {
        Problem(
            status: 400, code: "invalid-field", detail: "The field \(field) \(what).",
            members: [.init("field", .string(field))])
    }

    private static func word<Word: RawRepresentable & CaseIterable>(
        _ value: JSONValue, _ name: String, default absent: Word
    ) throws(Problem) -> Word where Word.RawValue == String {
        guard let given = value[name] else { return absent }
        guard case .string(let text) = given, let word = Word(rawValue: text) else {
            throw invalid(name, "must be one of \(Word.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return word
    }

    private static func codec(_ value: JSONValue) throws(Problem) -> MediaCodec {
        let codecs: [MediaCodec] = [.vp8, .h264, .vp9, .av1]
        guard case .string(let text) = value, let codec = codecs.first(where: { ViewJSON.name(of: $0) == text })
        else { throw invalid("videoCodec", "must be one of VP8, H264, VP9, AV1") }
        return codec
    }

    private static func integer(_ field: JSONValue.Field, _ range: ClosedRange<Int64>) throws(Problem) -> Int64 {
        guard case .integer(let number) = field.value, range.contains(number) else {
            throw invalid(field.name, "must be an integer in \(range.lowerBound)…\(range.upperBound)")
        }
        return number
    }

    private static func flag(_ field: JSONValue.Field) throws(Problem) -> Bool {
        guard case .bool(let flag) = field.value else { throw invalid(field.name, "must be true or false") }
        return flag
    }

    private static func timeouts(_ value: JSONValue) throws(Problem) -> RoomTimeouts {
        guard case .object(let fields) = value else { throw invalid("timeouts", "must be an object") }
        let longest = ConductorConfiguration.longestTimeout.milliseconds
        var timeouts = RoomTimeouts()
        for field in fields {
            // 0 turns off what may be off.
            if field.value == .integer(0) {
                switch field.name {
                case "idleMs":
                    timeouts.idle = nil
                    continue
                case "aloneMs":
                    timeouts.alone = nil
                    continue
                default: break
                }
            }
            let time = Interval.milliseconds(try integer(field, 100...longest))
            switch field.name {
            case "preparedMs": timeouts.prepared = time
            case "connectingMs": timeouts.connecting = time
            case "emptyMs": timeouts.empty = time
            case "maxDurationMs": timeouts.maxDuration = time
            case "joinAfterClaimMs": timeouts.joinAfterClaim = time
            case "idleMs": timeouts.idle = time
            case "aloneMs": timeouts.alone = time
            default: throw invalid("timeouts.\(field.name)", "is not a timeout of a room")
            }
        }
        return timeouts
    }
}
