import RTPCore

/// A prompt's id, drawn by us with 128 random bits. Opaque.
public struct PromptID: Hashable, Sendable, Codable, CustomStringConvertible {
    public let text: String
    public init?(_ text: String) {
        guard isIdentifier(text) else { return nil }
        self.text = text
    }
    public var description: String { text }
}

/// The body of `POST /v1/rooms/{room}/prompts`, validated for form.
public struct PromptSpecification: Hashable, Sendable, Codable {
    public var sound: SoundName
    /// The users who are to hear it, joined or prepared; nil: everybody who is joined.
    public var to: [String]?
    /// How often; 0: until it is stopped.
    public var times: UInt32 = 1
    /// Between two times; nil: as the sound has it.
    public var pause: Interval?

    public init(_ sound: SoundName, to: [String]? = nil, times: UInt32 = 1, pause: Interval? = nil) {
        self.sound = sound
        self.to = to
        self.times = times
        self.pause = pause
    }

    public var loops: Bool { times == 0 }

    /// Most users that `to` may name.
    public static let userLimit = 100
    public static let longestPause = Limits.longestPause
    /// Most times.
    public static let timesLimit: UInt32 = 1_000
}

/// Why a prompt ended, as `prompt.ended` tells it. The end of the room is not among them: `room.closed` says it.
public enum PromptEndReason: String, Hashable, Sendable, Codable, CaseIterable {
    /// Heard as often as was wished.
    case finished
    /// By its `DELETE`.
    case stopped
    /// It began before the call was answered.
    case answered
    /// Everybody who heard it hears another one.
    case replaced
    /// Nobody who heard it is in the room any more.
    case left
    /// Nobody could hear it: no audio to them was negotiated, or the sound is not here any more.
    case failed
}

/// A prompt that is played in a room: part of the room's record, so that it goes on over a restart of control.
public struct PromptRecord: Hashable, Sendable, Codable {
    public let id: PromptID
    public let handle: PromptHandle
    public let specification: PromptSpecification
    public let startedAtMs: Int64
    /// It began while the room's call was not answered, and ends when it is.
    public let endsWithAnswer: Bool
    /// Who hears it now.
    public internal(set) var listeners: [ParticipantHandle] = []
    /// Somebody heard it to its end.
    var wasFinished = false
}

/// A prompt as the API shows it.
public struct PromptView: Hashable, Sendable {
    public var id: PromptID
    public var roomID: RoomID
    public var specification: PromptSpecification
    public var startedAtMs: Int64
    public var listeners: [ParticipantID]

    /// As events and views show it, without the listeners.
    public static func fields(of specification: PromptSpecification, _ id: PromptID) -> [JSONValue.Field] {
        var fields = [
            JSONValue.Field("promptId", .string(id.text)),
            JSONValue.Field(specification.sound.kind.rawValue, .string(specification.sound.text)),
        ]
        if let users = specification.to { fields.append(JSONValue.Field("to", .array(users.map { .string($0) }))) }
        if specification.loops {
            fields.append(JSONValue.Field("loop", .bool(true)))
        } else {
            fields.append(JSONValue.Field("times", .integer(Int64(specification.times))))
        }
        if let pause = specification.pause {
            fields.append(JSONValue.Field("pauseMs", .integer(pause.milliseconds)))
        }
        return fields
    }
}
