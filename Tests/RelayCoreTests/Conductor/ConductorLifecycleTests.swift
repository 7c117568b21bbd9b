import RelayCore
import Testing

/// The two lifecycles as tables: every state against every event, with what must follow written out.
@Suite("Room lifecycle")
struct RoomLifecycleTests {
    /// A room that has gone so far: how many are in, and whether somebody has joined.
    static func room(_ kind: RoomKind, present: Int, status: RoomStatus) -> RoomLifecycle {
        var lifecycle = RoomLifecycle(kind: kind)
        for _ in 0..<present { _ = lifecycle.receive(.came) }
        if status == .ongoing { _ = lifecycle.receive(.joined) }
        if status == .ended { _ = lifecycle.receive(.deleted) }
        return lifecycle
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var kind: RoomKind
        var present: Int
        var status: RoomStatus
        var event: RoomLifecycle.Event
        var action: RoomLifecycle.Action
        var testDescription: String { "\(kind) \(status) with \(present): \(event)" }
        init(
            _ kind: RoomKind, _ present: Int, _ status: RoomStatus, _ event: RoomLifecycle.Event,
            _ action: RoomLifecycle.Action
        ) {
            self.kind = kind
            self.present = present
            self.status = status
            self.event = event
            self.action = action
        }
    }

    static let rows: [Row] = RoomKind.allKinds.flatMap { kind -> [Row] in
        [
            Row(kind, 0, .initiated, .came, .becomeOccupied),
            Row(kind, 1, .initiated, .came, .nothing),
            Row(kind, 0, .ongoing, .came, .becomeOccupied),
            Row(kind, 1, .initiated, .joined, .start),
            Row(kind, 2, .ongoing, .joined, .nothing),
            Row(kind, 0, .initiated, .deleted, .end(.ended, others: .roomEnded, reason: "room-ended")),
            Row(kind, 2, .ongoing, .deleted, .end(.ended, others: .roomEnded, reason: "room-ended")),
            Row(kind, 0, .initiated, .emptyDeadline, .end(.expired, others: .roomEnded, reason: "empty")),
            Row(kind, 0, .ongoing, .emptyDeadline, .end(.ended, others: .roomEnded, reason: "empty")),
            Row(kind, 1, .initiated, .emptyDeadline, .nothing),
            Row(kind, 1, .ongoing, .emptyDeadline, .nothing),
            Row(kind, 1, .initiated, .durationDeadline, .nothing),
            Row(kind, 2, .ongoing, .durationDeadline, .end(.ended, others: .roomEnded, reason: "max-duration")),
            Row(kind, 1, .initiated, .idleDeadline, .nothing),
            Row(kind, 2, .ongoing, .idleDeadline, .end(.ended, others: .idle, reason: "idle")),
            Row(kind, 1, .initiated, .aloneDeadline, .nothing),
            Row(kind, 1, .ongoing, .aloneDeadline, .end(.ended, others: .roomEnded, reason: "alone")),
            Row(kind, 1, .initiated, .drained, .end(.drained, others: .drained, reason: "drained")),
            Row(kind, 2, .ongoing, .drained, .end(.drained, others: .drained, reason: "drained")),
            Row(kind, 1, .initiated, .workerLost, .evacuate),
            Row(kind, 2, .ongoing, .workerLost, .end(.nodeLost, others: .nodeLost, reason: "node-lost")),
            Row(kind, 2, .initiated, .left(.hangup, heldSeat: false), .nothing),
            Row(kind, 1, .initiated, .left(.hangup, heldSeat: false), .becomeEmpty),
            Row(kind, 1, .initiated, .left(.failed, heldSeat: false), .becomeEmpty),
            Row(kind, 1, .initiated, .left(.nodeLost, heldSeat: false), .becomeEmpty),
            Row(
                kind, 1, .initiated, .left(.expired, heldSeat: false),
                .end(.expired, others: .expired, reason: "expired")),
            Row(
                kind, 1, .ongoing, .left(.expired, heldSeat: false),
                .end(.ended, others: .expired, reason: "expired")),
            Row(kind, 2, .initiated, .left(.expired, heldSeat: false), .nothing),
            Row(kind, 2, .ongoing, .left(.answeredElsewhere, heldSeat: true), .nothing),
        ]
    }

    @Test("a room answers an event as the table says", arguments: rows)
    func row(_ row: Row) {
        var lifecycle = Self.room(row.kind, present: row.present, status: row.status)
        #expect(lifecycle.receive(row.event) == row.action)
    }

    @Test(
        "the final leave of a joined participant ends a peer room with the outcome of its reason",
        arguments: [
            (LeaveReason.hangup, RoomOutcome.ended), (.peerLeft, .ended), (.kicked, .ended), (.lost, .lost),
            (.failed, .lost), (.drained, .drained), (.nodeLost, .nodeLost), (.roomEnded, .ended),
            (.declined, .ended), (.cancelled, .ended), (.idle, .ended), (.expired, .ended),
        ])
    func finalLeave(_ reason: LeaveReason, _ outcome: RoomOutcome) {
        var lifecycle = Self.room(.peer, present: 2, status: .ongoing)
        #expect(
            lifecycle.receive(.left(reason, heldSeat: true))
                == .end(outcome, others: .peerLeft, reason: reason.rawValue))
        #expect(lifecycle.outcome == outcome)
    }

    @Test("no leave ends a group while somebody is in", arguments: LeaveReason.allCases)
    func groupOutlivesItsMembers(_ reason: LeaveReason) {
        var lifecycle = Self.room(.group, present: 2, status: .ongoing)
        #expect(lifecycle.receive(.left(reason, heldSeat: true)) == .nothing)
        #expect(lifecycle.status == .ongoing)
    }

    @Test("after the end every event is answered by nothing, and the outcome stays", arguments: RoomKind.allKinds)
    func endedOnce(_ kind: RoomKind) {
        let events: [RoomLifecycle.Event] = [
            .came, .joined, .deleted, .emptyDeadline, .durationDeadline, .drained, .workerLost,
        ]
        for event in events + LeaveReason.allCases.map({ .left($0, heldSeat: true) }) {
            var lifecycle = Self.room(kind, present: 2, status: .ended)
            #expect(lifecycle.receive(event) == .nothing, "\(event)")
            #expect(lifecycle.outcome == .ended)
        }
    }

    @Test("status and outcome go together: an outcome exists exactly when the room has ended")
    func outcomeWithStatus() {
        var lifecycle = Self.room(.peer, present: 2, status: .ongoing)
        #expect(lifecycle.outcome == nil)
        _ = lifecycle.receive(.drained)
        #expect(lifecycle.status == .ended)
        #expect(lifecycle.outcome == .drained)
    }
}

extension RoomKind {
    static let allKinds: [RoomKind] = [.peer, .group]
}

@Suite("Participant lifecycle")
struct ParticipantLifecycleTests {
    enum Start: String, Sendable, CaseIterable {
        case connecting, connectingWanted, prepared, preparedWanted, joined, left

        var lifecycle: ParticipantLifecycle {
            let isWanted = self == .connectingWanted || self == .preparedWanted
            var lifecycle = ParticipantLifecycle(wantsJoin: isWanted, inheritsSeat: false)
            switch self {
            case .connecting, .connectingWanted: break
            case .prepared, .preparedWanted: _ = lifecycle.receive(.keysInstalled)
            case .joined: _ = lifecycle.receive(.gateOpened)
            case .left: lifecycle.leave(.hangup)
            }
            return lifecycle
        }
    }
    typealias Action = ParticipantLifecycle.Action
    typealias Event = ParticipantLifecycle.Event

    /// Columns: connecting, connecting and wanted, prepared, prepared and wanted, joined. `left` answers
    /// nothing to all.
    static let table: [(Event, [Action])] = [
        (.keysInstalled, [.becomePrepared, .becomePrepared, .nothing, .nothing, .nothing]),
        (
            .gateOpened,
            [
                .becomePreparedAndJoined, .becomePreparedAndJoined, .becomeJoined(opensGate: false),
                .becomeJoined(opensGate: false), .nothing,
            ]
        ),
        (
            .joinRequested,
            [.awaitKeys, .nothing, .becomeJoined(opensGate: true), .becomeJoined(opensGate: true), .nothing]
        ),
        (.leaveRequested, Array(repeating: .leave(.hangup, detail: nil), count: 5)),
        (.kicked, Array(repeating: .leave(.kicked, detail: nil), count: 5)),
        (.transportEnded(.closed), Array(repeating: .leave(.hangup, detail: nil), count: 5)),
        (.transportEnded(.lost), Array(repeating: .leave(.lost, detail: nil), count: 5)),
        (.transportEnded(.peerLeft), Array(repeating: .leave(.peerLeft, detail: nil), count: 5)),
        (.transportEnded(.fingerprintMismatch), Array(repeating: .leave(.failed, detail: "fingerprint"), count: 5)),
        (.transportEnded(.noSRTPProfile), Array(repeating: .leave(.failed, detail: "no-srtp-profile"), count: 5)),
        (.transportEnded(.handshakeFailed), Array(repeating: .leave(.failed, detail: "dtls"), count: 5)),
        (
            .deadline,
            [
                .leave(.failed, detail: "ice"), .leave(.failed, detail: "ice"), .leave(.expired, detail: nil),
                .leave(.expired, detail: nil), .nothing,
            ]
        ),
        (
            .transportMissing,
            [
                .leave(.failed, detail: "ice"), .leave(.failed, detail: "ice"), .leave(.lost, detail: nil),
                .leave(.lost, detail: nil), .leave(.lost, detail: nil),
            ]
        ),
        (.interrupted, [.nothing, .nothing, .becomeInterrupted, .becomeInterrupted, .becomeInterrupted]),
        (.recovered, Array(repeating: .nothing, count: 5)),
    ]

    @Test("a participant answers an event as the table says", arguments: 0..<15)
    func row(_ index: Int) {
        let (event, actions) = Self.table[index]
        for (start, expected) in zip(Start.allCases, actions + [.nothing]) {
            var lifecycle = start.lifecycle
            #expect(lifecycle.receive(event) == expected, "\(start) × \(event)")
        }
    }

    @Test("interrupted is told once, and recovered once after it", arguments: [Start.prepared, .joined])
    func interruption(_ start: Start) {
        var lifecycle = start.lifecycle
        #expect(lifecycle.receive(.interrupted) == .becomeInterrupted)
        #expect(lifecycle.receive(.interrupted) == .nothing)
        #expect(lifecycle.receive(.recovered) == .becomeRecovered)
        #expect(lifecycle.receive(.recovered) == .nothing)
    }

    @Test("only one that was joined, or took a joined one's place, holds a seat")
    func seats() {
        #expect(!Start.connectingWanted.lifecycle.holdsSeat)
        #expect(!Start.prepared.lifecycle.holdsSeat)
        #expect(Start.joined.lifecycle.holdsSeat)
        #expect(ParticipantLifecycle(wantsJoin: false, inheritsSeat: true).holdsSeat)
    }

    @Test("taking a joined one's place means wanting to join")
    func inheritedSeatWantsJoin() {
        #expect(ParticipantLifecycle(wantsJoin: false, inheritsSeat: true).claimsSeat)
    }

    @Test("a seat stays counted when its holder has left")
    func seatAfterLeaving() {
        var lifecycle = Start.joined.lifecycle
        lifecycle.leave(.lost)
        #expect(lifecycle.holdsSeat)
        #expect(!lifecycle.claimsSeat)
    }
}
