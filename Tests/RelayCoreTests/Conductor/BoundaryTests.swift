import RTPCore
import RelayCore
import Testing

/// CALLS.md, "Timers": what ends each of them comes 1 ms before its time, at its time, 1 ms after. At its time is too late:
/// a timer that is due is decided before the input that comes with it, however late anybody looks.
@Suite("Timers at their boundaries")
struct TimerBoundaryTests {
    let harness = ConductorHarness()
    static let offsets: [Int64] = [-1, 0, 1]

    private func wait(_ interval: Interval, _ offsetMs: Int64) {
        harness.move(to: harness.now + interval + .milliseconds(offsetMs))
    }

    @Test("ring window × claim", arguments: offsets)
    func window(_ offsetMs: Int64) {
        let room = harness.call()
        harness.ringing("ben", in: room)
        wait(.seconds(45), offsetMs)
        #expect(harness.answer("ben", in: room).problem?.code == (offsetMs < 0 ? nil : "unanswered"))
        #expect(harness.outcome(of: room) == (offsetMs < 0 ? nil : "unanswered"))
    }

    @Test("ring window × first sign of a device: unreachable or unanswered", arguments: offsets)
    func reached(_ offsetMs: Int64) {
        let room = harness.call()
        wait(.seconds(45), offsetMs)
        #expect(harness.ringing("ben", in: room).problem?.code == (offsetMs < 0 ? nil : "unanswered"))
        harness.advance(.milliseconds(1))
        #expect(harness.outcome(of: room) == (offsetMs < 0 ? "unanswered" : "unreachable"))
    }

    @Test("join after the claim × both joined", arguments: offsets)
    func joinAfterClaim(_ offsetMs: Int64) {
        let room = harness.call()
        let alice = harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        wait(.seconds(20), offsetMs)
        #expect(harness.join(alice, in: room).problem?.status == (offsetMs < 0 ? nil : 410))
        harness.advance(.seconds(1))
        #expect(harness.outcome(of: room) == (offsetMs < 0 ? nil : "failed"))
    }

    @Test("prepared expiry × join", arguments: offsets)
    func preparedExpiry(_ offsetMs: Int64) {
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        wait(.seconds(300), offsetMs)
        #expect(harness.join(alice, in: room).problem?.code == (offsetMs < 0 ? nil : "expired"))
        #expect(harness.record(room)?.outcome == (offsetMs < 0 ? nil : .expired))
    }

    @Test("connecting expiry × keys", arguments: offsets)
    func connectingExpiry(_ offsetMs: Int64) {
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        wait(.seconds(30), offsetMs)
        harness.news(.prepared(alice.handle, at: harness.now))
        #expect(harness.state(alice, in: room) == (offsetMs < 0 ? .prepared : nil))
        #expect(harness.leaveReason(alice) == (offsetMs < 0 ? nil : "failed"))
    }

    @Test("alone × another joins", arguments: offsets)
    func alone(_ offsetMs: Int64) {
        let room = harness.createRoom(kind: .group) { $0.timeouts.alone = .seconds(100) }
        harness.joined("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        wait(.seconds(100), offsetMs)
        #expect(harness.join(ben, in: room).problem?.code == (offsetMs < 0 ? nil : "ended"))
        #expect(harness.closing(room)?.reason == (offsetMs < 0 ? nil : "alone"))
    }

    @Test("idle × media", arguments: offsets)
    func idle(_ offsetMs: Int64) {
        let (room, alice, _) = harness.talking()
        wait(.seconds(180), offsetMs)
        harness.news(.media(alice.handle, .audio, at: harness.now))
        #expect(harness.closing(room)?.reason == (offsetMs < 0 ? nil : "idle"))
    }

    @Test("idle's warning × media: it is told 60 s before the end and not before", arguments: offsets)
    func idleWarning(_ offsetMs: Int64) {
        let (room, alice, _) = harness.talking()
        wait(.seconds(120), offsetMs)
        harness.news(.media(alice.handle, .audio, at: harness.now))
        #expect(harness.events.contains { $0.type == .roomWarning && $0.roomID == room } == (offsetMs >= 0))
    }

    @Test("empty room × prepare", arguments: offsets)
    func emptyRoom(_ offsetMs: Int64) {
        let room = harness.createRoom()
        wait(.seconds(60), offsetMs)
        let prepare = ControlRequest.prepare(room, state: nil, offer: conductorOffer(ufrag: "late"))
        let problem = harness.problem(ConductorHarness.token("alice", room), prepare)
        #expect(problem?.code == (offsetMs < 0 ? nil : "expired"))
    }

    @Test("max duration × hang-up: the reason says which", arguments: offsets)
    func maxDuration(_ offsetMs: Int64) {
        let room = harness.createRoom { $0.timeouts.maxDuration = .seconds(100) }
        let alice = harness.joined("alice", in: room)
        harness.joined("ben", in: room)
        wait(.seconds(100), offsetMs)
        #expect(harness.leave(alice, in: room) == .done)
        #expect(harness.closing(room)?.reason == (offsetMs < 0 ? "hangup" : "max-duration"))
    }
}

/// CALLS.md, "Races: who wins": the second crosses the first 1 ms earlier, in the same instant, 1 ms later.
@Suite("Races at their boundaries")
struct RaceBoundaryTests {
    let harness = ConductorHarness()
    static let offsets: [Int64] = [-1, 0, 1]

    /// Both, `offsetMs` apart; in the same instant in this order.
    private func cross(_ offsetMs: Int64, _ one: () -> Void, _ other: () -> Void) {
        let (first, second) = offsetMs < 0 ? (other, one) : (one, other)
        first()
        harness.advance(.milliseconds(abs(offsetMs)))
        second()
    }

    @Test("claim × cancel: the first to arrive", arguments: offsets)
    func cancel(_ offsetMs: Int64) {
        let room = harness.call()
        var claim: ControlReply?
        var cancel: ControlReply?
        cross(
            offsetMs, { claim = harness.answer("ben", in: room) },
            { cancel = harness.end(.cancelled, "alice", in: room) })
        #expect(claim?.problem?.code == (offsetMs < 0 ? "cancelled" : nil))
        #expect(cancel?.roomView?.outcome == (offsetMs < 0 ? .cancelled : .ended))
        #expect(harness.outcome(of: room) == (offsetMs < 0 ? "cancelled" : "ended"))
    }

    @Test("two devices claim: the first", arguments: offsets)
    func twoClaims(_ offsetMs: Int64) {
        let room = harness.call()
        var replies: [String: ControlReply] = [:]
        cross(
            offsetMs, { replies["phone"] = harness.answer("ben", in: room) },
            { replies["laptop"] = harness.answer("ben", in: room, device: "laptop") })
        let loser = offsetMs < 0 ? "phone" : "laptop"
        #expect(replies[loser]?.problem?.status == 409)
        #expect(replies[loser]?.problem?.code == "answered-elsewhere")
        #expect(replies.values.count { $0.problem == nil } == 1)
        #expect(harness.events.count { $0.type == .callAnswered } == 1)
    }

    @Test("a device declines, another claims: the claim, or the decline where it was first", arguments: offsets)
    func declineAndClaim(_ offsetMs: Int64) {
        let room = harness.call()
        var decline: ControlReply?
        var claim: ControlReply?
        cross(
            offsetMs, { claim = harness.answer("ben", in: room) },
            { decline = harness.end(.rejected, "ben", in: room, device: "laptop") })
        #expect(decline?.roomView?.outcome == (offsetMs < 0 ? .rejected : nil))
        #expect(claim?.problem?.code == (offsetMs < 0 ? "rejected" : nil))
        #expect(harness.status(room) == (offsetMs < 0 ? .ended : .ongoing))
    }

    @Test("join × the own decline: the first", arguments: offsets)
    func joinAndDecline(_ offsetMs: Int64) {
        let room = harness.call()
        let ben = harness.prepared("ben", in: room)
        var join: ControlReply?
        cross(offsetMs, { join = harness.join(ben, in: room) }, { harness.end(.rejected, "ben", in: room) })
        #expect(join?.problem?.code == (offsetMs < 0 ? "rejected" : nil))
        #expect(harness.outcome(of: room) == (offsetMs < 0 ? "rejected" : "ended"))
    }

    @Test("glare: the room created first", arguments: offsets)
    func glare(_ offsetMs: Int64) {
        var problems: [String: Problem] = [:]
        func create(_ caller: String, _ callee: String) {
            var specification = RoomSpecification(id: RoomID("of-\(caller)"), kind: .peer, media: .video)
            specification.ring = RingSpecification(caller: caller, callees: [callee])
            problems[caller] = harness.problem(ConductorHarness.server, .createRoom(specification))
        }
        cross(offsetMs, { create("alice", "ben") }, { create("ben", "alice") })
        let (winner, loser) = offsetMs < 0 ? ("ben", "alice") : ("alice", "ben")
        #expect(problems[winner] == nil)
        #expect(problems[loser]?.code == "glare")
        #expect(problems[loser]?.members == [JSONValue.Field("roomId", .string("of-\(winner)"))])
    }

    @Test("one user joins two rooms: the first, the other is 409", arguments: offsets)
    func twoRooms(_ offsetMs: Int64) {
        let (one, other) = (harness.createRoom(), harness.createRoom())
        let (here, there) = (harness.prepared("alice", in: one), harness.prepared("alice", in: other))
        var replies: [ControlReply?] = [nil, nil]
        cross(offsetMs, { replies[0] = harness.join(here, in: one) }, { replies[1] = harness.join(there, in: other) })
        let codes = replies.map { $0?.problem?.code }
        #expect(codes == (offsetMs < 0 ? ["already-joined", nil] : [nil, "already-joined"]))
    }

    @Test("End & Accept × the other side's hang-up: the old call ends once, the new one goes on", arguments: offsets)
    func endAndAccept(_ offsetMs: Int64) {
        let (old, alice, _) = harness.talking()
        let room = harness.call(from: "cat", to: "ben")
        let ben = harness.prepared("ben", in: room)
        cross(offsetMs, { harness.join(ben, in: room, endOthers: true) }, { harness.leave(alice, in: old) })
        #expect(harness.outcome(of: old) == "ended")
        #expect(harness.events.count { $0.type == .participantLeft && $0.roomID == old } == 2)
        #expect(harness.state(ben, in: room) == .joined)
    }

    @Test("a takeover × the old device's leave: where that is first, the call is over", arguments: offsets)
    func takeover(_ offsetMs: Int64) {
        let (room, _, ben) = harness.talking()
        let laptop = harness.prepared("ben", in: room, device: "laptop")
        var reply: ControlReply?
        cross(
            offsetMs, { reply = harness.join(laptop, in: room, takeover: true) }, { harness.leave(ben, in: room) })
        #expect(reply?.problem?.status == (offsetMs < 0 ? 410 : nil))
        #expect(harness.outcome(of: room) == (offsetMs < 0 ? "ended" : nil))
        #expect(harness.state(laptop, in: room) == (offsetMs < 0 ? nil : .joined))
    }

    @Test("a caller's second ring × the end of its first: 409 as long as that rings", arguments: offsets)
    func secondRing(_ offsetMs: Int64) {
        let room = harness.call()
        var second = RoomSpecification(id: nil, kind: .peer, media: .video)
        second.ring = RingSpecification(caller: "alice", callees: ["cat"])
        var problem: Problem?
        cross(
            offsetMs, { problem = harness.problem(ConductorHarness.server, .createRoom(second)) },
            { harness.end(.cancelled, "alice", in: room) })
        #expect(problem?.code == (offsetMs < 0 ? nil : "session-already-active"))
    }

    @Test("both leave within a millisecond: ended, once, and both get 200", arguments: offsets)
    func bothLeave(_ offsetMs: Int64) {
        let (room, alice, ben) = harness.talking()
        var replies: [ControlReply] = []
        cross(
            offsetMs, { replies.append(harness.leave(alice, in: room)) },
            { replies.append(harness.leave(ben, in: room)) })
        #expect(replies == [.done, .done])
        #expect(harness.outcome(of: room) == "ended")
        #expect(harness.leaveReason(alice) == (offsetMs < 0 ? "peer-left" : "hangup"))
    }
}
