/// Whether media of a kind passes, as the API says it.
public enum MediaSwitch: String, Hashable, Sendable, Codable { case on, muted }

/// What a client says about its own media; nil: as it was.
public struct MediaChange: Hashable, Sendable {
    public var audio: MediaSwitch?
    public var video: MediaSwitch?
    public var isHeld: Bool?
    public init(audio: MediaSwitch? = nil, video: MediaSwitch? = nil, isHeld: Bool? = nil) {
        self.audio = audio
        self.video = video
        self.isHeld = isHeld
    }
}

/// What the server says about a participant's media and rights; nil: as it was.
public struct ServerMediaChange: Hashable, Sendable {
    public var audio: MediaSwitch?
    public var video: MediaSwitch?
    /// The kinds that it may send, of those that its session negotiated.
    public var publish: Set<MediaKind>?
    public var subscribe: Bool?
    public var end: Bool?
    public init(
        audio: MediaSwitch? = nil, video: MediaSwitch? = nil, publish: Set<MediaKind>? = nil,
        subscribe: Bool? = nil, end: Bool? = nil
    ) {
        self.audio = audio
        self.video = video
        self.publish = publish
        self.subscribe = subscribe
        self.end = end
    }
}

/// What a participant and the server have said about the participant's media, as a pure value: own mute and hold, the
/// server's mute, rights that the server changed. The two sides' words are kept apart, so that neither undoes the other's.
public struct ParticipantMedia: Hashable, Sendable, Codable {
    public private(set) var isHeld = false
    private var ownMuted: Set<MediaKind> = []
    private var serverMuted: Set<MediaKind> = []
    /// Kinds that it may not send (any more).
    private var unpublished: Set<MediaKind> = []
    private var maySubscribe = true
    /// Nil: as its token says.
    public private(set) var mayEnd: Bool?

    public init() {}

    public mutating func apply(_ change: MediaChange) {
        if let audio = change.audio { ownMuted.set(.audio, audio == .muted) }
        if let video = change.video { ownMuted.set(.video, video == .muted) }
        if let held = change.isHeld { isHeld = held }
    }

    public mutating func apply(_ change: ServerMediaChange) {
        if let audio = change.audio { serverMuted.set(.audio, audio == .muted) }
        if let video = change.video { serverMuted.set(.video, video == .muted) }
        if let publish = change.publish { unpublished = Set(MediaKind.allCases).subtracting(publish) }
        if let subscribe = change.subscribe { maySubscribe = subscribe }
        if let end = change.end { mayEnd = end }
    }

    /// What goes over to another device of the user: the server's word, not the other device's own.
    public var serverPart: ParticipantMedia {
        var part = self
        part.isHeld = false
        part.ownMuted = []
        return part
    }

    /// Muted by whomever.
    public func state(of kind: MediaKind) -> MediaSwitch {
        ownMuted.contains(kind) || mutedByServer.contains(kind) ? .muted : .on
    }

    /// In the order of `MediaKind`.
    public var mutedByServer: [MediaKind] {
        MediaKind.allCases.filter { serverMuted.contains($0) || unpublished.contains($0) }
    }

    /// The rights as the server changed them; nil where it did not.
    public var grants: ChangedGrants? {
        guard !unpublished.isEmpty || !maySubscribe || mayEnd != nil else { return nil }
        return ChangedGrants(
            publish: MediaKind.allCases.filter { !unpublished.contains($0) }, subscribe: maySubscribe, end: mayEnd)
    }

    /// What the worker has to shut. `call`: what the room's call is now.
    func gates(in call: RoomMedia) -> MediaGates {
        var gates: MediaGates = []
        if ownMuted.contains(.audio) { gates.insert(.ownAudio) }
        if ownMuted.contains(.video) { gates.insert(.ownVideo) }
        if mutedByServer.contains(.audio) { gates.insert(.serverAudio) }
        if mutedByServer.contains(.video) { gates.insert(.serverVideo) }
        if isHeld { gates.insert(.held) }
        if call == .audio { gates.insert(.videoClosed) }
        if !maySubscribe { gates.insert(.receiving) }
        return gates
    }
}

/// A participant's rights after the server changed them. `end` nil: as its token says.
public struct ChangedGrants: Hashable, Sendable {
    public var publish: [MediaKind]
    public var subscribe: Bool
    public var end: Bool?

    /// As views and events show it.
    public var json: JSONValue {
        var fields = [
            JSONValue.Field("publish", .array(publish.map { .string($0.name) })),
            JSONValue.Field("subscribe", .bool(subscribe)),
        ]
        if let end { fields.append(JSONValue.Field("end", .bool(end))) }
        return .object(fields)
    }
}

extension Set where Element == MediaKind {
    fileprivate mutating func set(_ kind: MediaKind, _ isIn: Bool) {
        if isIn { insert(kind) } else { remove(kind) }
    }
}
