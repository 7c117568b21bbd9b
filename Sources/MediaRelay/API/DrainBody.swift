import RTPCore
import RelayCore

/// Reads the body of `POST /v1/node/drain`: how long what runs may go on. No body: 10 min. Form only.
enum DrainBody {
    static let standard = Interval.seconds(600)
    static let longestSeconds: Int64 = 7 * 24 * 3_600

    static func deadline(_ body: [UInt8]) throws(Problem) -> Interval {
        guard !body.isEmpty else { return standard }
        guard case .object(let fields) = try RoomBody.object(body) else {
            preconditionFailure("object(_:) gives objects")
        }
        var deadline = standard
        for field in fields {
            guard field.name == "deadlineSeconds" else { throw RoomBody.invalid(field.name, "is not known here") }
            guard case .integer(let seconds) = field.value, (0...longestSeconds).contains(seconds) else {
                throw RoomBody.invalid("deadlineSeconds", "must be an integer in 0…\(longestSeconds)")
            }
            deadline = .seconds(seconds)
        }
        return deadline
    }
}
