import RTPCore

// What the API says about a ring and sees of it: the wishes at creation, the words of a request, the view.

/// The `ring` of `POST /v1/rooms`, validated for form (lengths, known words), not for what is going on.
public struct RingSpecification: Hashable, Sendable, Codable {
    public var caller: String
    /// Users; exactly one in a peer room.
    public var callees: [String]
    /// How long it rings.
    public var window: Interval = .seconds(45)
    // What a push shows, given on unread in `call.initiated`.
    public var conversationID: String?
    public var callerName: String?
    public var callerAvatarURL: String?
    public init(caller: String, callees: [String]) {
        self.caller = caller
        self.callees = callees
    }
}

/// What becomes of a callee who is joined elsewhere: call waiting, or busy at once.
public enum BusyPolicy: String, Sendable, Codable, CaseIterable { case ring, refuse }

/// What the sender of `POST /v1/rooms/{room}/end` says; who may say what is `RingAuthority`'s table.
public enum EndStatus: String, Sendable, Codable, CaseIterable { case cancelled, rejected, busy, unanswered, ended }

/// `device`: a decline of this device only; the user's other devices ring on.
public enum EndScope: String, Sendable, Codable, CaseIterable { case user, device }

public enum CalleeState: String, Sendable, Codable, CaseIterable {
    /// No device has rung yet.
    case initiated
    case ringing
    case answered
    /// This callee's ring is over; the outcome says how.
    case ended
}

public struct CalleeView: Hashable, Sendable {
    public var uid: String
    public var state: CalleeState
    /// With `ended`.
    public var outcome: RoomOutcome?
    /// A device of the callee spoke to the relay about this room.
    public var isReached: Bool
    /// The device that answered.
    public var device: String?
    public init(uid: String, state: CalleeState, outcome: RoomOutcome?, isReached: Bool, device: String?) {
        self.uid = uid
        self.state = state
        self.outcome = outcome
        self.isReached = isReached
        self.device = device
    }
}

public struct RingView: Hashable, Sendable {
    public var caller: String
    public var callees: [CalleeView]
    /// Who claimed the call first.
    public var claimer: ClaimerView?
    /// Milliseconds since the Unix epoch; nil when nobody is rung any more.
    public var windowEndsAtMs: Int64?
    public init(caller: String, callees: [CalleeView], claimer: ClaimerView?, windowEndsAtMs: Int64?) {
        self.caller = caller
        self.callees = callees
        self.claimer = claimer
        self.windowEndsAtMs = windowEndsAtMs
    }
}

public struct ClaimerView: Hashable, Sendable, Codable {
    public var uid: String
    public var device: String
    public init(uid: String, device: String) {
        self.uid = uid
        self.device = device
    }
}
