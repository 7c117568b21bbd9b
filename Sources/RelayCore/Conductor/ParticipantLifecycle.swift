/// A participant's life as a pure value: `connecting` → `prepared` → `joined` → `left`, with the wish to join
/// kept while the media path comes up. It knows no time, no room and no other participant; the conductor
/// carries out its actions.
public struct ParticipantLifecycle: Hashable, Sendable, Codable {
    public private(set) var state: ParticipantState
    /// The gate shall open as soon as keys are in (`state=joined`, or a join asked for while connecting).
    public private(set) var wantsJoin: Bool
    /// It has been joined, or took a joined one's place by preparing anew: its leave is that of a joined
    /// participant.
    public private(set) var holdsSeat: Bool
    public private(set) var isInterrupted: Bool

    public init(wantsJoin: Bool, inheritsSeat: Bool) {
        state = .connecting
        self.wantsJoin = wantsJoin || inheritsSeat
        holdsSeat = inheritsSeat
        isInterrupted = false
    }

    /// Joined, or on the way there: what counts where a user may be joined once only.
    public var claimsSeat: Bool { state != .left && wantsJoin }

    public enum Event: Hashable, Sendable {
        /// The worker has keys; the gate is shut.
        case keysInstalled
        /// The worker has keys and the gate is open.
        case gateOpened
        case joinRequested
        /// The worker's transport ended by itself.
        case transportEnded(TransportEnd)
        /// Its own `DELETE`.
        case leaveRequested
        case kicked
        /// Connecting or prepared for too long.
        case deadline
        case interrupted
        case recovered
        /// The worker does not know it (any more).
        case transportMissing
    }

    public enum Action: Hashable, Sendable {
        case nothing
        case becomePrepared
        /// `opensGate`: the worker has to be told.
        case becomeJoined(opensGate: Bool)
        /// Keys and open gate were told at once: both changes, in this order.
        case becomePreparedAndJoined
        /// The worker opens the gate when keys are in.
        case awaitKeys
        case leave(LeaveReason, detail: String?)
        case becomeInterrupted
        case becomeRecovered
    }

    public mutating func receive(_ event: Event) -> Action {
        guard state != .left else { return .nothing }
        switch (event, state) {
        case (.keysInstalled, .connecting):
            state = .prepared
            return .becomePrepared
        case (.keysInstalled, _):
            return .nothing
        case (.gateOpened, .connecting):
            becomeJoined()
            return .becomePreparedAndJoined
        case (.gateOpened, .prepared):
            becomeJoined()
            return .becomeJoined(opensGate: false)
        case (.gateOpened, _):
            return .nothing
        case (.joinRequested, .connecting):
            guard !wantsJoin else { return .nothing }
            wantsJoin = true
            return .awaitKeys
        case (.joinRequested, .prepared):
            becomeJoined()
            return .becomeJoined(opensGate: true)
        case (.joinRequested, _):
            return .nothing
        case (.transportEnded(let end), _):
            let (reason, detail) = Self.meaning(of: end)
            return leave(reason, detail)
        case (.leaveRequested, _):
            return leave(.hangup, nil)
        case (.kicked, _):
            return leave(.kicked, nil)
        case (.deadline, .connecting):
            return leave(.failed, "ice")
        case (.deadline, .prepared):
            return leave(.expired, nil)
        case (.deadline, _):
            return .nothing
        case (.transportMissing, .connecting):
            return leave(.failed, "ice")
        case (.transportMissing, _):
            return leave(.lost, nil)
        case (.interrupted, .connecting), (.recovered, .connecting):
            return .nothing
        case (.interrupted, _):
            guard !isInterrupted else { return .nothing }
            isInterrupted = true
            return .becomeInterrupted
        case (.recovered, _):
            guard isInterrupted else { return .nothing }
            isInterrupted = false
            return .becomeRecovered
        }
    }

    /// Left for a reason that lies outside: the room's end, a takeover, the worker's death.
    public mutating func leave(_ reason: LeaveReason) {
        _ = leave(reason, nil)
    }

    /// The same user's joined device leaves while this one is on its way to take the call over: the seat
    /// passes on.
    public mutating func inheritSeat() {
        precondition(claimsSeat, "a seat passes to one who does not want it")
        holdsSeat = true
    }

    /// Why a participant leaves when its transport ended so, and the failure's detail.
    static func meaning(of end: TransportEnd) -> (LeaveReason, String?) {
        switch end {
        case .closed: (.hangup, nil)
        case .lost: (.lost, nil)
        case .fingerprintMismatch: (.failed, "fingerprint")
        case .noSRTPProfile: (.failed, "no-srtp-profile")
        case .handshakeFailed: (.failed, "dtls")
        case .peerLeft: (.peerLeft, nil)
        }
    }

    private mutating func becomeJoined() {
        state = .joined
        wantsJoin = true
        holdsSeat = true
    }

    private mutating func leave(_ reason: LeaveReason, _ detail: String?) -> Action {
        state = .left
        return .leave(reason, detail: detail)
    }
}
