import RTPCore

/// A room's ringing as a pure value: who is rung, who answered, what became of each, and whether the whole
/// call is decided by that. It owns "claimed once", each callee's outcome and the two deadlines of a ring; it
/// knows no participant, no worker and no clock. What happens goes in by `receive`, what must follow comes out.
public struct Ring: Hashable, Sendable, Codable {
    public let kind: RoomKind
    public let caller: String
    public private(set) var callees: [Callee]
    public let windowEndsAtMs: Int64
    /// Until when it rings; nil when nobody is rung any more.
    public private(set) var windowDeadline: Instant?
    /// Who claimed first.
    public private(set) var claimer: ClaimerView?
    /// Peer: caller and claimer were joined together; group: one who answered has joined.
    public private(set) var isConnected = false
    /// `call.ended` is told.
    var endIsTold = false
    /// The caller's devices that join in the turn of the claim.
    var devicesJoiningOnAnswer: [String] = []
    /// Why a user's latest session failed, for `missing`.
    var failures: [String: String] = [:]

    public struct Callee: Hashable, Sendable, Codable {
        public let uid: String
        public internal(set) var state = CalleeState.initiated
        public internal(set) var outcome: RoomOutcome?
        public internal(set) var isReached = false
        /// The device that answered, or took the call over.
        public internal(set) var device: String?
        public internal(set) var answeredAtMs: Int64?
        /// Until when it must be joined (peer: the caller as well); nil before the claim and afterwards.
        public internal(set) var joinDeadline: Instant?
        /// Devices that declined for themselves only.
        public internal(set) var declinedDevices: [String] = []
        public internal(set) var pushes: [Push] = []
        init(uid: String) { self.uid = uid }

        var isRung: Bool { state == .initiated || state == .ringing }
    }

    public struct Push: Hashable, Sendable, Codable {
        public let device: String
        public let atMs: Int64
    }

    public init(kind: RoomKind, specification: RingSpecification, now: Instant, nowMs: Int64) {
        self.kind = kind
        caller = specification.caller
        callees = specification.callees.map(Callee.init)
        windowDeadline = now + specification.window
        windowEndsAtMs = nowMs + specification.window.milliseconds
    }

    public enum Event: Hashable, Sendable {
        /// A device of the callee said `ringing` or is prepared.
        case rang(String)
        case claimed(String, device: String, atMs: Int64, joinUntil: Instant)
        /// Rejected or busy, by the user or for the user.
        case declined(String, RoomOutcome)
        /// One callee's ring, or with nil everybody's, rings out.
        case rangOut(String?)
        /// The caller no longer wants those who are still rung (group).
        case stopped
        /// One who answered gave up before being joined (group).
        case gaveUp(String)
        /// Who is joined now.
        case joined(Set<String>)
        case joinDeadline(Instant)
    }

    public enum Effect: Hashable, Sendable {
        case tellRinging(String)
        case tellAnswered(String, device: String)
        /// That callee's ring is over without the room's being so, unless `end` follows.
        case endCallee(String, RoomOutcome)
        /// The room's outcome is decided.
        case end(RoomOutcome)
    }

    public mutating func receive(_ event: Event) -> [Effect] {
        var effects: [Effect] = []
        switch event {
        case .rang(let uid):
            guard let index = indexOfRung(uid), callees[index].state == .initiated else { return [] }
            callees[index].state = .ringing
            return [.tellRinging(uid)]
        case .claimed(let uid, let device, let atMs, let joinUntil):
            guard let index = indexOfRung(uid) else { return [] }
            callees[index].state = .answered
            callees[index].device = device
            callees[index].answeredAtMs = atMs
            callees[index].joinDeadline = joinUntil
            if claimer == nil { claimer = ClaimerView(uid: uid, device: device) }
            effects = [.tellAnswered(uid, device: device)]
        case .declined(let uid, let outcome):
            guard let index = indexOfRung(uid) else { return [] }
            effects = [end(index, outcome)]
        case .rangOut(let uid):
            for index in callees.indices where callees[index].isRung && (uid == nil || callees[index].uid == uid) {
                effects.append(end(index, callees[index].isReached ? .unanswered : .unreachable))
            }
        case .stopped:
            for index in callees.indices where callees[index].isRung { effects.append(end(index, .cancelled)) }
        case .gaveUp(let uid):
            guard let index = callees.firstIndex(where: { $0.uid == uid && $0.joinDeadline != nil }) else { return [] }
            effects = [end(index, .ended)]
        case .joined(let users):
            for index in callees.indices where callees[index].joinDeadline != nil {
                guard users.contains(callees[index].uid), kind == .group || users.contains(caller) else { continue }
                callees[index].joinDeadline = nil
                isConnected = true
            }
        case .joinDeadline(let now):
            for index in callees.indices {
                if let deadline = callees[index].joinDeadline, deadline <= now { effects.append(end(index, .failed)) }
            }
        }
        if !callees.contains(where: \.isRung) { windowDeadline = nil }
        if let outcome = conclusion, !effects.isEmpty { effects.append(.end(outcome)) }
        return effects
    }

    /// The room ended by something else: nobody is rung or awaited any more. Those whose ring that ends.
    mutating func close(_ outcome: RoomOutcome) -> [String] {
        var closed: [String] = []
        for index in callees.indices where callees[index].isRung || callees[index].joinDeadline != nil {
            closed.append(callees[index].uid)
            _ = end(index, outcome)
        }
        windowDeadline = nil
        return closed
    }

    private mutating func end(_ index: Int, _ outcome: RoomOutcome) -> Effect {
        callees[index].state = .ended
        callees[index].outcome = outcome
        callees[index].joinDeadline = nil
        return .endCallee(callees[index].uid, outcome)
    }

    /// What the callees' outcomes make of the call; nil while somebody is rung or on the way, and once it is
    /// connected, when the room's own life decides.
    private var conclusion: RoomOutcome? {
        guard !isBusy, !isConnected else { return nil }
        let outcomes = callees.map(\.outcome)
        if claimer != nil { return outcomes.contains(.failed) ? .failed : .ended }
        // CALLS.md: the first true of these.
        for outcome in [RoomOutcome.unanswered, .rejected, .busy, .cancelled] where outcomes.contains(outcome) {
            return outcome
        }
        return .unreachable
    }
}

/// Where a ring stands, as far as the room's lifecycle has to know.
public enum RingStage: Hashable, Sendable {
    /// Nobody has claimed the call.
    case ringing
    /// Claimed, and somebody is still rung or has yet to join.
    case engaged
    /// Nothing of the ring is open any more.
    case settled
}

extension Ring {
    /// Devices of one callee that are remembered by name, for declines and for pushes.
    static let devicesKept = 16

    public var stage: RingStage { claimer == nil ? .ringing : isBusy ? .engaged : .settled }

    /// Somebody is rung, or answered and not joined yet.
    var isBusy: Bool { callees.contains { $0.isRung || $0.joinDeadline != nil } }

    /// When the next one who answered has failed to join.
    public var joinDeadline: Instant? { callees.compactMap(\.joinDeadline).min() }

    public func callee(_ uid: String) -> Callee? { callees.first { $0.uid == uid } }
    func isRinging(_ uid: String) -> Bool { indexOfRung(uid) != nil }
    func isMember(_ uid: String) -> Bool { uid == caller || callee(uid) != nil }

    private func indexOfRung(_ uid: String) -> Int? { callees.firstIndex { $0.uid == uid && $0.isRung } }

    /// True when that is news.
    mutating func reach(_ uid: String) -> Bool {
        guard let index = indexOfRung(uid), !callees[index].isReached else { return false }
        callees[index].isReached = true
        return true
    }

    /// False when too many devices declined already.
    mutating func decline(_ device: String, of uid: String) -> Bool {
        guard let index = indexOfRung(uid), !callees[index].declinedDevices.contains(device) else { return true }
        guard callees[index].declinedDevices.count < Self.devicesKept else { return false }
        callees[index].declinedDevices.append(device)
        return true
    }

    /// False when too many devices were pushed to already.
    mutating func push(to device: String, of uid: String, atMs: Int64) -> Bool {
        guard let index = callees.firstIndex(where: { $0.uid == uid }) else { return false }
        guard !callees[index].pushes.contains(where: { $0.device == device }) else { return true }
        guard callees[index].pushes.count < Self.devicesKept else { return false }
        callees[index].pushes.append(Push(device: device, atMs: atMs))
        return true
    }

    /// Another device of the one who answered goes on with the call.
    mutating func move(_ uid: String, to device: String) {
        guard let index = callees.firstIndex(where: { $0.uid == uid && $0.state == .answered }) else { return }
        callees[index].device = device
    }

    /// Deadlines of another boot, counted anew by the wall clock.
    mutating func rebase(joinAfterClaim: Interval, instant: (_ ms: Int64) -> Instant) {
        if windowDeadline != nil { windowDeadline = instant(windowEndsAtMs) }
        for index in callees.indices where callees[index].joinDeadline != nil {
            callees[index].joinDeadline = callees[index].answeredAtMs.map { instant($0) + joinAfterClaim }
        }
    }

    public var view: RingView {
        RingView(
            caller: caller,
            callees: callees.map {
                CalleeView(
                    uid: $0.uid, state: $0.state, outcome: $0.outcome, isReached: $0.isReached, device: $0.device)
            },
            claimer: claimer, windowEndsAtMs: windowDeadline == nil ? nil : windowEndsAtMs)
    }
}
