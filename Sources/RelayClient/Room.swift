extension RelayClient {
    public enum Kind: String, Sendable, Codable {
        case peer, group
    }
    public enum Media: String, Sendable, Codable {
        case audio, video
    }

    /// The ringing of a new room.
    public struct RingRequest: Hashable, Sendable, Codable {
        public var caller: String
        /// Exactly one in a peer room.
        public var callees: [String]
        /// How long it rings, ms, 1,000…3,600,000; nil: 45 s.
        public var windowMs: Int64?
        public var conversationId: String?
        public var callerName: String?
        public var callerAvatarUrl: String?
        public init(caller: String, callees: [String]) {
            self.caller = caller
            self.callees = callees
        }
    }

    /// A room to create.
    public struct RoomRequest: Hashable, Sendable, Codable {
        /// `[A-Za-z0-9._-]{1,128}`, never used before; nil: the relay draws one.
        public var id: String?
        public var kind: Kind
        public var media: Media
        public var ring: RingRequest?
        /// `ring` (call waiting) or `refuse` (busy at once) for a callee who is in another call.
        public var ifBusy: String?
        public var maxParticipants: Int?
        public var allowParallel: Bool?
        /// Sound is sent with what was sent just before (RED); nil: not.
        public var red: Bool?
        public var timeouts: Timeouts?
        /// Given back unread; at most 4 KiB of JSON.
        public var metadata: JSON?
        public init(id: String? = nil, kind: Kind = .peer, media: Media, ring: RingRequest? = nil) {
            self.id = id
            self.kind = kind
            self.media = media
            self.ring = ring
        }
    }

    /// Times that a room sets for itself, ms; nil: the relay's defaults (docs/calls.md). 0 turns `idleMs` and `aloneMs` off.
    public struct Timeouts: Hashable, Sendable, Codable {
        public var preparedMs: Int64?
        public var connectingMs: Int64?
        public var emptyMs: Int64?
        public var maxDurationMs: Int64?
        public var joinAfterClaimMs: Int64?
        public var idleMs: Int64?
        public var aloneMs: Int64?
        public init() {}
    }

    /// A room as the relay shows it.
    public struct Room: Sendable, Codable {
        public var id: String
        public var kind: String
        public var media: String
        /// `initiated`, `ongoing` or `ended`.
        public var status: String
        /// Set once, when it has ended.
        public var outcome: String?
        public var reason: String?
        public var createdAt: String
        public var startedAt: String?
        public var endedAt: String?
        /// The cursor that goes with this view: follow the events after it.
        public var seq: UInt64?
        public var ring: JSON?
        public var participants: [JSON]?
        public var metadata: JSON?
    }

    /// What is said at the end of a call, and for whom the server says it.
    public enum EndStatus: String, Sendable {
        case cancelled, rejected, busy, unanswered, ended
    }
}
