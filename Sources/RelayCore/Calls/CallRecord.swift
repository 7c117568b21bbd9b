import RTPCore

/// What is kept of a room after its end, with or without ring (CALLS.md, "Call record"): a value made from
/// `RoomRecord` once the outcome is decided, and once more when the last figures of its legs have arrived.
public struct CallRecord: Hashable, Sendable {
    /// Raised with every change of what the fields mean.
    public static let schema = 1

    public let room: RoomID
    public let specification: RoomSpecification
    public let outcome: RoomOutcome
    public let reason: String?
    public let cause: CallCause?
    /// Of a `failed` call: who was not joined in time, and why.
    public let missing: [MissingUser]
    public let createdAtMs: Int64
    /// When it became ongoing: the claim, or the first who joined.
    public let startedAtMs: Int64?
    /// When people could talk: peer, both were joined; group, the first was.
    public let talkingSinceMs: Int64?
    public let endedAtMs: Int64
    /// How long they could.
    public let durationMs: Int64
    public let caller: String?
    public let claimer: ClaimerView?
    public let callees: [Callee]
    public let legs: [CallLeg]
    /// Legs that are not in `legs`, and their users.
    public let omittedLegs: Int
    public let omittedUsers: [String]

    public struct Callee: Hashable, Sendable {
        public let uid: String
        /// Nil for one who answered and was in to the end.
        public let outcome: RoomOutcome?
        public let isReached: Bool
        public let pushes: [Ring.Push]
        public let ringingAtMs: Int64?
        public let answeredAtMs: Int64?
        /// The device that answered, or took the call over.
        public let device: String?
    }

    /// Nil while the room has not ended.
    public init?(_ room: RoomRecord) {
        guard let outcome = room.outcome, let endedAtMs = room.endedAtMs else { return nil }
        let history = room.history ?? RoomHistory()
        self.room = room.id
        specification = room.specification
        self.outcome = outcome
        reason = room.reason
        cause = history.cause
        missing = history.missing ?? []
        createdAtMs = room.createdAtMs
        startedAtMs = room.startedAtMs
        talkingSinceMs = room.talkingSinceMs
        self.endedAtMs = endedAtMs
        durationMs = history.durationMs ?? 0
        caller = room.ring?.caller
        claimer = room.ring?.claimer
        callees = (room.ring?.callees ?? []).map { callee in
            Callee(
                uid: callee.uid, outcome: callee.outcome, isReached: callee.isReached, pushes: callee.pushes,
                ringingAtMs: history.ringingAtMs[callee.uid], answeredAtMs: callee.answeredAtMs,
                device: callee.device)
        }
        legs = history.legs
        omittedLegs = history.omittedLegs
        omittedUsers = history.omittedUsers
    }

    /// Whether the figures of every leg in `legs` are its transport's last.
    public var isComplete: Bool { legs.allSatisfy(\.isFinal) }

    /// Everybody in whose call log it stands: caller, callees, who was in; each once.
    public var users: [String] {
        var seen: Set<String> = []
        let all = [caller].compactMap { $0 } + callees.map(\.uid) + legs.map(\.uid) + omittedUsers
        return all.filter { seen.insert($0).inserted }
    }
}

/// A call as one user's log shows it.
public struct CallView: Hashable, Sendable {
    public enum Role: String, Hashable, Sendable, CaseIterable { case caller, callee, participant }
    public enum Direction: String, Hashable, Sendable, CaseIterable { case outgoing, incoming }
    public enum Status: String, Hashable, Sendable, CaseIterable {
        /// Claimed: by this callee, or, for the caller, by anybody. On whichever device: elsewhere is answered, too.
        case answered
        /// A callee who neither answered nor declined.
        case missed
        case rejected, busy, cancelled, unanswered, unreachable
        /// Claimed, and the two were not joined in time.
        case failed
        /// Somebody in a room who had no part in a ring was in, or never came to be.
        case joined
        case notJoined = "not-joined"
    }
    public var role: Role
    /// Nil without a ring.
    public var direction: Direction?
    public var status: Status
    public init(role: Role, direction: Direction?, status: Status) {
        self.role = role
        self.direction = direction
        self.status = status
    }
}

extension CallRecord {
    /// Nil for a user that had no part in it.
    public func view(of uid: String) -> CallView? {
        if uid == caller { return CallView(role: .caller, direction: .outgoing, status: callersStatus) }
        if let callee = callees.first(where: { $0.uid == uid }) {
            return CallView(role: .callee, direction: .incoming, status: Self.status(of: callee))
        }
        let wasIn = legs.contains { $0.uid == uid && $0.joinedAtMs != nil } || omittedUsers.contains(uid)
        guard wasIn || legs.contains(where: { $0.uid == uid }) else { return nil }
        return CallView(role: .participant, direction: nil, status: wasIn ? .joined : .notJoined)
    }

    private var callersStatus: CallView.Status {
        if claimer != nil { return outcome == .failed ? .failed : .answered }
        return switch outcome {
        case .rejected: .rejected
        case .busy: .busy
        case .cancelled: .cancelled
        case .unreachable: .unreachable
        // Ended over the heads of both while it rang: nobody answered (CALLS.md, "The old names").
        case .unanswered, .ended, .failed, .expired, .lost, .drained, .nodeLost: .unanswered
        }
    }

    private static func status(of callee: Callee) -> CallView.Status {
        if callee.answeredAtMs != nil { return callee.outcome == .failed ? .failed : .answered }
        return switch callee.outcome {
        case .rejected: .rejected
        case .busy: .busy
        // Whatever else ended the ring of one who did not answer, its log shows a missed call.
        default: .missed
        }
    }
}
