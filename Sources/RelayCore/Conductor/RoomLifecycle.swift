/// A room's life as a pure value: what has happened to it goes in, what must follow comes out. It owns the
/// rule "status, outcome, once" and counts who is in; it knows no participant by name, no time and no worker.
/// The table is `receive`: one row for each event, read top to bottom.
public struct RoomLifecycle: Hashable, Sendable, Codable {
    public let kind: RoomKind
    public private(set) var status: RoomStatus
    public private(set) var outcome: RoomOutcome?
    /// Why a group's room ends in which one has been left for too long.
    static let aloneReason = "alone"
    /// Participants who are in, whatever their state.
    public private(set) var presentCount: Int

    public init(kind: RoomKind) {
        self.kind = kind
        status = .initiated
        outcome = nil
        presentCount = 0
    }

    public enum Event: Hashable, Sendable {
        /// Somebody new is in (not a replacement, which changes nobody's presence).
        case came
        /// A participant's gate opened, told; not of a room with a ring, which starts with the claim.
        case joined
        /// A participant is out for good. `heldSeat`: it was joined, or had taken over a joined one's place.
        /// `ring`: where the room's ring stands; nil without one.
        case left(LeaveReason, heldSeat: Bool, ring: RingStage? = nil)
        /// The ring is answered.
        case claimed
        /// The ring, or one who may, decided the room's outcome.
        case concluded(RoomOutcome, others: LeaveReason, reason: String)
        /// The server ends the room.
        case deleted
        case emptyDeadline
        case durationDeadline
        /// Nobody has sent for too long.
        case idleDeadline
        /// One was left of a group for too long.
        case aloneDeadline
        case drained
        /// The process that carried the room's media is gone.
        case workerLost
    }

    public enum Action: Hashable, Sendable {
        case nothing
        /// The first one is in: nobody needs to wait for the empty room any more.
        case becomeOccupied
        /// The last one is out: the time of an empty room without ring starts.
        case becomeEmpty
        /// Somebody has joined for the first time: the room's duration starts.
        case start
        /// Everybody leaves as `node-lost`; the room stays, and its clients prepare again elsewhere.
        case evacuate
        /// The room is over. `others`: why those who are still in leave. `reason`: what the room's view and
        /// event say.
        case end(RoomOutcome, others: LeaveReason, reason: String)
    }

    /// One event. After the end every event is answered by `nothing`: an outcome is decided once.
    public mutating func receive(_ event: Event) -> Action {
        guard status != .ended else {
            if case .left = event { leaveOne() }
            return .nothing
        }
        switch event {
        case .came:
            presentCount += 1
            return presentCount == 1 ? .becomeOccupied : .nothing
        case .joined, .claimed:
            guard status == .initiated else { return .nothing }
            status = .ongoing
            return .start
        case .left(let reason, let heldSeat, let ring):
            leaveOne()
            // Only the ring decides while nobody has claimed: who leaves is no more than removed.
            if ring == .ringing { return presentCount == 0 ? .becomeEmpty : .nothing }
            if kind == .peer, heldSeat, let outcome = Self.outcome(ofFinalLeave: reason) {
                return end(outcome, others: .peerLeft, reason: reason.rawValue)
            }
            guard presentCount == 0 else { return .nothing }
            if ring == .engaged { return .becomeEmpty }
            if ring == .settled { return end(.ended, others: .roomEnded, reason: "empty") }
            guard reason == .expired else { return .becomeEmpty }
            return end(outcomeWithoutAnybody, others: .expired, reason: reason.rawValue)
        case .concluded(let outcome, let others, let reason):
            return end(outcome, others: others, reason: reason)
        case .deleted:
            return end(.ended, others: .roomEnded, reason: LeaveReason.roomEnded.rawValue)
        case .emptyDeadline:
            guard presentCount == 0 else { return .nothing }
            return end(outcomeWithoutAnybody, others: .roomEnded, reason: "empty")
        case .durationDeadline:
            guard status == .ongoing else { return .nothing }
            return end(.ended, others: .roomEnded, reason: "max-duration")
        case .idleDeadline:
            guard status == .ongoing else { return .nothing }
            return end(.ended, others: .idle, reason: LeaveReason.idle.rawValue)
        case .aloneDeadline:
            guard status == .ongoing else { return .nothing }
            return end(.ended, others: .roomEnded, reason: Self.aloneReason)
        case .drained:
            return end(.drained, others: .drained, reason: LeaveReason.drained.rawValue)
        case .workerLost:
            guard status == .ongoing else { return .evacuate }
            return end(.nodeLost, others: .nodeLost, reason: LeaveReason.nodeLost.rawValue)
        }
    }

    /// What a peer room comes to when one that held a joined seat leaves for `reason`; nil where the room
    /// goes on, because the user is still in it with another device.
    static func outcome(ofFinalLeave reason: LeaveReason) -> RoomOutcome? {
        switch reason {
        case .hangup, .peerLeft, .kicked, .declined, .cancelled, .idle, .expired, .roomEnded: .ended
        // One that had taken a joined one's place and did not come up has stayed away past the limit as well.
        case .lost, .failed: .lost
        case .drained: .drained
        case .nodeLost: .nodeLost
        case .answeredElsewhere: nil
        }
    }

    /// Nobody is in: a room that was used has ended, one that nobody ever joined has expired.
    private var outcomeWithoutAnybody: RoomOutcome { status == .ongoing ? .ended : .expired }

    private mutating func leaveOne() {
        precondition(presentCount > 0, "a participant left a room that had none")
        presentCount -= 1
    }

    private mutating func end(_ outcome: RoomOutcome, others: LeaveReason, reason: String) -> Action {
        status = .ended
        self.outcome = outcome
        return .end(outcome, others: others, reason: reason)
    }
}
