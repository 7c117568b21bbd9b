import RTPCore
import RelayCore

/// Reads what the API says about a ring: the `ring` of a new room and the bodies of `end` and `pushed`. Form only.
enum RingBody {
    private static let textByteLimit = 1_024
    private static let calleeLimit = 99

    static func specification(_ value: JSONValue) throws(Problem) -> RingSpecification {
        guard case .object(let fields) = value else { throw RoomBody.invalid("ring", "must be an object") }
        var ring = RingSpecification(caller: try identifier(value, "caller", in: "ring."), callees: try callees(value))
        for field in fields {
            switch field.name {
            case "caller", "callees": break
            case "windowMs":
                guard case .integer(let ms) = field.value, (1_000...3_600_000).contains(ms) else {
                    throw RoomBody.invalid("ring.windowMs", "must be an integer in 1000…3600000")
                }
                ring.window = .milliseconds(ms)
            case "conversationId": ring.conversationID = try text(field)
            case "callerName": ring.callerName = try text(field)
            case "callerAvatarUrl": ring.callerAvatarURL = try text(field)
            default: throw RoomBody.invalid("ring.\(field.name)", "is not a field of a ring")
            }
        }
        return ring
    }

    static func end(_ body: [UInt8]) throws(Problem) -> (status: EndStatus, uid: String?, scope: EndScope) {
        let value = try fields(body, ["status", "uid", "scope"])
        guard case .string(let word)? = value["status"], let status = EndStatus(rawValue: word) else {
            throw RoomBody.invalid(
                "status", "must be one of \(EndStatus.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        var scope = EndScope.user
        if let given = value["scope"] {
            guard case .string(let word) = given, let known = EndScope(rawValue: word) else {
                throw RoomBody.invalid("scope", "must be user or device")
            }
            scope = known
        }
        return (status, value["uid"] == nil ? nil : try identifier(value, "uid", in: ""), scope)
    }

    static func pushed(_ body: [UInt8]) throws(Problem) -> (uid: String, device: String) {
        let value = try fields(body, ["uid", "device"])
        return (try identifier(value, "uid", in: ""), try identifier(value, "device", in: ""))
    }

    private static func fields(_ body: [UInt8], _ known: Set<String>) throws(Problem) -> JSONValue {
        let value = try RoomBody.object(body)
        guard case .object(let fields) = value else { preconditionFailure("object(_:) gives objects") }
        for field in fields where !known.contains(field.name) {
            throw RoomBody.invalid(field.name, "is not known here")
        }
        return value
    }

    private static func identifier(_ value: JSONValue, _ name: String, in prefix: String) throws(Problem) -> String {
        guard case .string(let text)? = value[name], isIdentifier(text) else {
            throw RoomBody.invalid(prefix + name, "must be [A-Za-z0-9._-]{1,128}")
        }
        return text
    }

    private static func callees(_ value: JSONValue) throws(Problem) -> [String] {
        guard case .array(let items)? = value["callees"], (1...calleeLimit).contains(items.count) else {
            throw RoomBody.invalid("ring.callees", "must be a list of 1…\(calleeLimit) users")
        }
        var callees: [String] = []
        for item in items {
            guard case .string(let uid) = item, isIdentifier(uid) else {
                throw RoomBody.invalid("ring.callees", "must hold [A-Za-z0-9._-]{1,128}")
            }
            guard !callees.contains(uid) else { throw RoomBody.invalid("ring.callees", "names \(uid) twice") }
            callees.append(uid)
        }
        return callees
    }

    private static func text(_ field: JSONValue.Field) throws(Problem) -> String {
        guard case .string(let text) = field.value, text.utf8.count <= textByteLimit else {
            throw RoomBody.invalid("ring.\(field.name)", "must be a text of at most \(textByteLimit) bytes")
        }
        return text
    }
}
