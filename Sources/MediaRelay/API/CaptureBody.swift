import RTPCore
import RelayCore

/// Reads the body of `POST /v1/rooms/{room}/capture`: `{seconds?, kibibytes?}`, or none. Form only; unknown fields are refused by name.
enum CaptureBody {
    static func specification(_ body: [UInt8]) throws(Problem) -> CaptureSpecification {
        var specification = CaptureSpecification()
        guard !body.isEmpty else { return specification }
        guard case .object(let fields) = try RoomBody.object(body) else { return specification }
        for field in fields {
            switch field.name {
            case "seconds":
                specification.duration = .seconds(try integer(field, CaptureSpecification.secondsAllowed))
            case "kibibytes":
                specification.byteLimit = Int(try integer(field, CaptureSpecification.kibibytesAllowed)) << 10
            default: throw RoomBody.invalid(field.name, "is not known here")
            }
        }
        return specification
    }

    private static func integer(_ field: JSONValue.Field, _ range: ClosedRange<Int64>) throws(Problem) -> Int64 {
        guard case .integer(let number) = field.value, range.contains(number) else {
            throw RoomBody.invalid(field.name, "must be an integer in \(range.lowerBound)…\(range.upperBound)")
        }
        return number
    }
}
