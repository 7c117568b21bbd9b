import RTPCore
import RelayCore
import Testing

/// The states in which the table of `Tests/Fixtures/ring-table.txt` meets every input.
enum TableState: String, CaseIterable {
    case initiated, ringing, claimed, connected, empty, prepared, ongoing, ended

    /// Whether the room has a ring; an ended room is tried with and without.
    var isOfRing: Bool? {
        switch self {
        case .initiated, .ringing, .claimed, .connected: true
        case .empty, .prepared, .ongoing: false
        case .ended: nil
        }
    }
}

/// Who asks. Ben has two devices; dan has a token for the room and no part in its ring.
enum TableRole: String, CaseIterable {
    case server, alice, phone = "ben/phone", laptop = "ben/laptop", dan

    var uid: String { self == .server ? "ben" : String(rawValue.prefix { $0 != "/" }) }
    var device: String { self == .laptop ? "laptop" : "phone" }
    func principal(in room: RoomID) -> Principal {
        self == .server ? ConductorHarness.server : ConductorHarness.token(uid, room, device: device)
    }
}

/// The timers of a room, and how it is given a time for one of them. All others are a month.
enum TableTimer: String, CaseIterable {
    case window, joinAfterClaim = "join-after-claim", preparedExpiry = "prepared", connecting, empty, idle, alone
    case maxDuration = "max-duration"

    static let length = Interval.seconds(30)

    func set(in specification: inout RoomSpecification) {
        let month = ConductorConfiguration.longestTimeout
        func time(_ timer: TableTimer) -> Interval { timer == self ? Self.length : month }
        specification.ring?.window = time(.window)
        specification.timeouts.joinAfterClaim = time(.joinAfterClaim)
        specification.timeouts.prepared = time(.preparedExpiry)
        specification.timeouts.connecting = time(.connecting)
        specification.timeouts.empty = time(.empty)
        specification.timeouts.idle = time(.idle)
        specification.timeouts.alone = time(.alone)
        specification.timeouts.maxDuration = time(.maxDuration)
    }
}

/// Alice's call to ben, in a group also to cat, or a room of theirs without ring, in one of the states.
struct TableScene {
    let harness = ConductorHarness()
    let room: RoomID
    var sessions: [TableRole: HarnessParticipant] = [:]

    /// - Parameter outcome: with `ended`: how.
    init(_ kind: RoomKind, _ state: TableState, outcome: RoomOutcome? = nil, timer: TableTimer? = nil) {
        let isOfRing = state.isOfRing ?? (outcome != nil)
        room = harness.createRoom("room", kind: kind) {
            if isOfRing {
                $0.ring = RingSpecification(caller: "alice", callees: kind == .peer ? ["ben"] : ["ben", "cat"])
            }
            timer?.set(in: &$0)
        }
        if isOfRing { ring(to: state, outcome) } else { gather(to: state) }
    }

    private mutating func ring(to state: TableState, _ outcome: RoomOutcome?) {
        sessions[.alice] = harness.prepare("alice", in: room)
        if state == .initiated || outcome == .unreachable { return end(outcome) }
        keys(.alice)
        sessions[.phone] = harness.prepared("ben", in: room)
        sessions[.laptop] = harness.prepared("ben", in: room, device: "laptop")
        if state == .ringing || outcome.map({ [.rejected, .busy, .cancelled, .unanswered].contains($0) }) == true {
            return end(outcome)
        }
        harness.answer("ben", in: room)
        if state == .claimed || outcome == .failed { return end(outcome) }
        join(.phone)
        join(.alice)
        end(outcome)
    }

    private mutating func gather(to state: TableState) {
        guard state != .empty else { return }
        sessions[.alice] = harness.prepared("alice", in: room)
        sessions[.phone] = harness.prepare("ben", in: room)
        guard state != .prepared else { return }
        keys(.phone)
        join(.alice)
        join(.phone)
        if state == .ended { _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil)) }
    }

    private func keys(_ role: TableRole) {
        guard let session = sessions[role] else { return }
        harness.news(.prepared(session.handle, at: harness.now))
    }

    private func join(_ role: TableRole) {
        guard let session = sessions[role] else { return }
        harness.join(session, in: room)
    }

    private func end(_ outcome: RoomOutcome?) {
        switch outcome {
        case nil: return
        case .ended?:
            harness.serverEnd(.rejected, "cat", in: room)
            harness.end(.ended, "alice", in: room)
            harness.end(.ended, "ben", in: room)
        case .rejected?, .busy?:
            let status: EndStatus = outcome == .busy ? .busy : .rejected
            harness.end(status, "ben", in: room)
            harness.serverEnd(status, "cat", in: room)
        case .cancelled?: harness.end(.cancelled, "alice", in: room)
        case .unanswered?, .unreachable?: harness.end(.unanswered, "alice", in: room)
        case .failed?:
            harness.serverEnd(.rejected, "cat", in: room)
            harness.advance(.seconds(20))
        case .lost?: if let alice = sessions[.alice] { harness.ended(alice, .lost) }
        case .drained?: harness.decide(.drain)
        case .nodeLost?:
            harness.lose(ConductorHarness.worker(0))
            harness.connect(ConductorHarness.worker(0, epoch: 2))
        case .expired?: break
        }
        #expect(harness.record(room)?.outcome == outcome, "the scene is not what it should be")
    }

    /// The session that a role's verb is about: its own, be it of the past; the server's and a stranger's is ben's.
    func session(of role: TableRole) -> HarnessParticipant? { sessions[role] ?? sessions[.phone] ?? sessions[.alice] }

    func name(_ event: RelayEvent) -> String? {
        let uid = event.uid
        let isBens = uid == "ben" && event.device != nil
        return uid.map { isBens ? "ben/\(event.device ?? "")" : $0 }
    }

    /// `left ben/phone declined`: an event in the table's words.
    func text(of event: RelayEvent) -> String {
        let type = event.type.rawValue
        let short = type.hasPrefix("participant.") ? String(type.dropFirst("participant.".count)) : type
        var outcome: String?
        if event.type == .callEnded || event.type == .calleeEnded, case .string(let text)? = event.value("outcome") {
            outcome = text
        }
        let reason = event.reason == outcome ? nil : event.reason
        return [short, event.type == .callEnded || event.type == .roomClosed ? nil : name(event), outcome, reason]
            .compactMap { $0 }.joined(separator: " ")
    }
}
