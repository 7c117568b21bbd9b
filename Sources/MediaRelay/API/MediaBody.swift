import RelayCore

/// Reads what the API says about media within a call: own mute and hold, the server's mute and rights, the way to video.
/// Form only. Unknown fields are refused by name.
enum MediaBody {
    /// `{audio, video: on|muted, held: bool}`, each optional.
    static func own(_ body: [UInt8]) throws(Problem) -> MediaChange {
        var change = MediaChange()
        for field in try fields(of: try RoomBody.object(body)) {
            switch field.name {
            case "audio": change.audio = try state(field)
            case "video": change.video = try state(field)
            case "held": change.isHeld = try flag(field)
            default: throw RoomBody.invalid(field.name, "is not known here")
            }
        }
        return change
    }

    /// `{audio, video: on|muted, grants: {publish: [audio, video], subscribe: bool, end: bool}}`, each optional.
    static func server(_ body: [UInt8]) throws(Problem) -> ServerMediaChange {
        var change = ServerMediaChange()
        for field in try fields(of: try RoomBody.object(body)) {
            switch field.name {
            case "audio": change.audio = try state(field)
            case "video": change.video = try state(field)
            case "grants": try readGrants(field.value, into: &change)
            default: throw RoomBody.invalid(field.name, "is not known here")
            }
        }
        return change
    }

    /// `{video: request|accept|decline}`, with `uid` where the server speaks.
    static func video(_ body: [UInt8]) throws(Problem) -> (word: VideoWord, uid: String?) {
        var word: VideoWord?
        var uid: String?
        for field in try fields(of: try RoomBody.object(body)) {
            switch (field.name, field.value) {
            case ("video", .string(let text)): word = VideoWord(rawValue: text)
            case ("uid", .string(let text)) where isIdentifier(text): uid = text
            case ("uid", _): throw RoomBody.invalid("uid", "must be [A-Za-z0-9._-]{1,128}")
            case ("video", _): break
            default: throw RoomBody.invalid(field.name, "is not known here")
            }
        }
        guard let word else { throw RoomBody.invalid("video", "must be request, accept or decline") }
        return (word, uid)
    }

    private static func readGrants(_ value: JSONValue, into change: inout ServerMediaChange) throws(Problem) {
        guard case .object(let fields) = value else { throw RoomBody.invalid("grants", "must be an object") }
        for field in fields {
            switch field.name {
            case "publish": change.publish = try kinds(field.value)
            case "subscribe": change.subscribe = try flag(field)
            case "end": change.end = try flag(field)
            default: throw RoomBody.invalid("grants.\(field.name)", "is not known here")
            }
        }
    }

    private static func kinds(_ value: JSONValue) throws(Problem) -> Set<MediaKind> {
        guard case .array(let items) = value else {
            throw RoomBody.invalid("grants.publish", "must be a list of audio and video")
        }
        var kinds: Set<MediaKind> = []
        for item in items {
            guard case .string(let text) = item, let kind = MediaKind.allCases.first(where: { $0.name == text }) else {
                throw RoomBody.invalid("grants.publish", "must be a list of audio and video")
            }
            kinds.insert(kind)
        }
        return kinds
    }

    private static func fields(of value: JSONValue) throws(Problem) -> [JSONValue.Field] {
        guard case .object(let fields) = value else { preconditionFailure("object(_:) gives objects") }
        return fields
    }

    private static func state(_ field: JSONValue.Field) throws(Problem) -> MediaSwitch {
        guard case .string(let text) = field.value, let state = MediaSwitch(rawValue: text) else {
            throw RoomBody.invalid(field.name, "must be on or muted")
        }
        return state
    }

    private static func flag(_ field: JSONValue.Field) throws(Problem) -> Bool {
        guard case .bool(let flag) = field.value else {
            throw RoomBody.invalid(field.name, "must be true or false")
        }
        return flag
    }
}
