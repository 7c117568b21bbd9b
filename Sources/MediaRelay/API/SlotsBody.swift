import RelayCore

/// Reads the body of `PUT {location}/slots`: `{slots: [{mid, uid?, height?}]}`. Form only; unknown fields are refused by
/// name.
enum SlotsBody {
    static func requests(_ body: [UInt8]) throws(Problem) -> [SlotRequest] {
        let value = try RoomBody.object(body)
        guard case .object(let fields) = value else { preconditionFailure("object(_:) gives objects") }
        for field in fields where field.name != "slots" { throw RoomBody.invalid(field.name, "is not known here") }
        guard case .array(let items)? = value["slots"] else {
            throw RoomBody.invalid("slots", "must be a list of {mid, uid, height}")
        }
        guard items.count <= Limits.sectionsPerTransport else {
            throw RoomBody.invalid("slots", "has \(items.count) entries (limit \(Limits.sectionsPerTransport))")
        }
        var requests: [SlotRequest] = []
        for (position, item) in items.enumerated() {
            let request = try read(item, "slots[\(position)]")
            guard !requests.contains(where: { $0.mid == request.mid }) else {
                throw RoomBody.invalid("slots[\(position)].mid", "\(request.mid) stands twice")
            }
            guard request.uid == nil || !requests.contains(where: { $0.uid == request.uid }) else {
                throw RoomBody.invalid("slots[\(position)].uid", "\(request.uid ?? "") stands twice")
            }
            requests.append(request)
        }
        return requests
    }

    private static func read(_ item: JSONValue, _ name: String) throws(Problem) -> SlotRequest {
        guard case .object(let fields) = item else { throw RoomBody.invalid(name, "must be an object") }
        var request = SlotRequest(mid: "")
        for field in fields {
            switch (field.name, field.value) {
            case ("mid", .string(let mid)) where (1...16).contains(mid.utf8.count): request.mid = mid
            case ("mid", _): throw RoomBody.invalid("\(name).mid", "must be the mid of an m-line, 1…16 bytes")
            case ("uid", .string(let uid)) where isIdentifier(uid): request.uid = uid
            case ("uid", .null), ("height", .null): break
            case ("uid", _): throw RoomBody.invalid("\(name).uid", "must be [A-Za-z0-9._-]{1,128}")
            case ("height", .integer(let height)) where (0...Int64(SlotRequest.largestHeight)).contains(height):
                request.height = UInt16(height)
            case ("height", _):
                throw RoomBody.invalid("\(name).height", "must be pixels in 0…\(SlotRequest.largestHeight)")
            default: throw RoomBody.invalid("\(name).\(field.name)", "is not known here")
            }
        }
        guard !request.mid.isEmpty else { throw RoomBody.invalid("\(name).mid", "is missing") }
        return request
    }
}
