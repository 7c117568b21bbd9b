import RTPCore
import RelayCore
import Testing

/// The ring as a value, without a conductor: every event in every state of a callee.
@Suite("Ring: state machine")
struct RingTests {
    private static let start = Instant(nanoseconds: 1_000)

    private static func ring(_ callees: [String] = ["ben"]) -> Ring {
        var specification = RingSpecification(caller: "alice", callees: callees)
        specification.window = .seconds(45)
        return Ring(
            kind: callees.count == 1 ? .peer : .group, specification: specification, now: start, nowMs: 5_000)
    }

    private static let claim = Ring.Event.claimed("ben", device: "d", atMs: 1, joinUntil: start + .seconds(20))
    private static let events: [Ring.Event] = [
        .rang("ben"), claim, .declined("ben", .rejected), .rangOut(nil), .rangOut("ben"), .stopped, .gaveUp("ben"),
        .joined(["alice", "ben"]), .joinDeadline(start + .seconds(20)),
    ]

    @Test("a new ring rings nobody yet, for its window")
    func begin() {
        let ring = Self.ring()
        #expect(ring.stage == .ringing)
        #expect(ring.windowDeadline == Self.start + .seconds(45))
        #expect(ring.windowEndsAtMs == 50_000)
        #expect(ring.joinDeadline == nil)
    }

    @Test("what each event asks for while it rings")
    func whileRinging() {
        let expected: [[Ring.Effect]] = [
            [.tellRinging("ben")], [.tellAnswered("ben", device: "d")],
            [.endCallee("ben", .rejected), .end(.rejected)], [.endCallee("ben", .unreachable), .end(.unreachable)],
            [.endCallee("ben", .unreachable), .end(.unreachable)], [.endCallee("ben", .cancelled), .end(.cancelled)],
            [], [], [],
        ]
        for (event, effects) in zip(Self.events, expected) {
            var ring = Self.ring()
            #expect(ring.receive(event) == effects, "\(event)")
        }
    }

    @Test("after the claim only giving up, joining and the join's limit change anything")
    func afterClaim() {
        let expected: [[Ring.Effect]] = [
            [], [], [], [], [], [], [.endCallee("ben", .ended), .end(.ended)], [],
            [.endCallee("ben", .failed), .end(.failed)],
        ]
        for (event, effects) in zip(Self.events, expected) {
            var ring = Self.ring()
            _ = ring.receive(Self.claim)
            #expect(ring.windowDeadline == nil)
            #expect(ring.receive(event) == effects, "\(event)")
        }
    }

    @Test("once both are joined, or its ring is over, no event does anything", arguments: [false, true])
    func settled(isOver: Bool) {
        for event in Self.events {
            var ring = Self.ring()
            _ = ring.receive(isOver ? .declined("ben", .busy) : Self.claim)
            if !isOver { _ = ring.receive(.joined(["alice", "ben"])) }
            let before = ring
            #expect(ring.receive(event) == [], "\(event)")
            #expect(ring == before)
        }
    }

    @Test("in a peer room one alone is not joined; in a group the claimer is enough")
    func joinedAlone() {
        var peer = Self.ring()
        _ = peer.receive(Self.claim)
        _ = peer.receive(.joined(["ben"]))
        #expect(peer.joinDeadline != nil)
        var group = Self.ring(["ben", "cat"])
        _ = group.receive(Self.claim)
        _ = group.receive(.joined(["ben"]))
        #expect(group.joinDeadline == nil)
        #expect(group.stage == .engaged)
    }

    @Test("the join's limit is not there 1 ns before")
    func joinLimit() {
        var ring = Self.ring()
        _ = ring.receive(Self.claim)
        #expect(ring.receive(.joinDeadline(Self.start + .nanoseconds(19_999_999_999))) == [])
    }

    @Test("events of one who is not rung do nothing")
    func strangers() {
        var ring = Self.ring()
        for uid in ["alice", "eve"] {
            #expect(ring.receive(.rang(uid)) == [])
            #expect(ring.receive(.declined(uid, .busy)) == [])
            #expect(ring.receive(.claimed(uid, device: "d", atMs: 1, joinUntil: Self.start)) == [])
        }
        #expect(ring == Self.ring())
    }

    @Test("before the claim a room's lifecycle lets everybody leave", arguments: LeaveReason.allCases)
    func leavesBeforeClaim(_ reason: LeaveReason) {
        var room = RoomLifecycle(kind: .peer)
        _ = room.receive(.came)
        _ = room.receive(.came)
        #expect(room.receive(.left(reason, heldSeat: true, ring: .ringing)) == .nothing)
        #expect(room.receive(.left(reason, heldSeat: true, ring: .ringing)) == .becomeEmpty)
        #expect(room.status == .initiated)
    }

    @Test("a claim starts the room once")
    func claimStarts() {
        var room = RoomLifecycle(kind: .peer)
        #expect(room.receive(.claimed) == .start)
        #expect(room.receive(.claimed) == .nothing)
        #expect(room.receive(.concluded(.failed, others: .failed, reason: "failed")) != .nothing)
        #expect(room.receive(.concluded(.ended, others: .peerLeft, reason: "hangup")) == .nothing)
        #expect(room.outcome == .failed)
    }
}
