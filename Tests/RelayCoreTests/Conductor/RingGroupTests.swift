import RTPCore
import RelayCore
import Testing

@Suite("Ring: groups")
struct RingGroupTests {
    let harness = ConductorHarness()

    @Test("a decline ends only that callee's ring")
    func decline() {
        let room = harness.groupCall()
        let ben = harness.prepared("ben", in: room)
        harness.end(.rejected, "ben", in: room)
        #expect(harness.lines == ["callee.ended ben", "participant.left ben declined"])
        #expect(harness.status(room) == .initiated)
        #expect(harness.join(ben, in: room).problem?.status == 410)
        #expect(harness.answer("ben", in: room).problem?.code == "rejected")
        #expect(harness.answer("cat", in: room).problem == nil)
    }

    @Test(
        "with nobody's claim the outcome is the first true of unanswered, rejected, busy, unreachable",
        arguments: [
            ([EndStatus.rejected, nil, nil], "unanswered"), ([.rejected, .busy, .busy], "rejected"),
            ([.busy, .busy, .busy], "busy"),
        ] as [([EndStatus?], String)])
    func outcomes(_ says: [EndStatus?], _ outcome: String) {
        let users = ["ben", "cat", "dan"]
        let room = harness.groupCall(to: users)
        for (uid, status) in zip(users, says) {
            if let status { harness.end(status, uid, in: room) } else { harness.ringing(uid, in: room) }
        }
        harness.advance(.seconds(45))
        #expect(harness.outcome(of: room) == outcome)
        #expect(harness.calleeOutcomes(of: room).count == 3)
    }

    @Test(
        "a busy callee outweighs one who was never reached, and nobody reached is unreachable",
        arguments: [true, false])
    func unreached(isBusy: Bool) {
        let room = harness.groupCall()
        if isBusy { harness.end(.busy, "ben", in: room) }
        harness.advance(.seconds(45))
        #expect(harness.outcome(of: room) == (isBusy ? "busy" : "unreachable"))
    }

    @Test("the others ring on after a claim until their window ends, and the call goes on")
    func windowAfterClaim() {
        let room = harness.groupCall()
        let alice = harness.prepared("alice", in: room)
        harness.join(alice, in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.advance(.milliseconds(44_999))
        #expect(harness.calleeOutcomes(of: room) == [])
        harness.advance(.milliseconds(1))
        #expect(harness.calleeOutcomes(of: room) == ["cat unreachable"])
        #expect(harness.status(room) == .ongoing)
        #expect(harness.answer("cat", in: room).problem?.code == "unanswered")
    }

    @Test("the caller's cancel before any claim ends the call, the rings before it")
    func cancel() {
        let room = harness.groupCall()
        harness.prepared("alice", in: room)
        harness.end(.cancelled, "alice", in: room)
        #expect(
            harness.lines == [
                "callee.ended ben", "callee.ended cat", "call.ended cancelled", "participant.left alice cancelled",
                "room.closed cancelled",
            ])
        #expect(harness.calleeOutcomes(of: room) == ["ben cancelled", "cat cancelled"])
    }

    @Test("the caller's cancel after a claim stops the remaining rings and is a leave", arguments: [0, 1, 2])
    func cancelAfterClaim(_ way: Int) {
        let room = harness.groupCall()
        let alice = harness.prepared("alice", in: room)
        harness.join(alice, in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        switch way {
        case 0: harness.end(.cancelled, "alice", in: room)
        case 1: harness.leave(alice, in: room)
        default: harness.ended(alice, .closed)
        }
        #expect(harness.lines == ["callee.ended cat", "participant.left alice hangup"])
        #expect(harness.status(room) == .ongoing)
        harness.leave(ben, in: room)
        #expect(harness.lines == ["call.ended empty", "participant.left ben hangup", "room.closed empty"])
        #expect(harness.outcome(of: room) == "ended")
    }

    @Test("a claimer who does not join in 20 s is out, and the others' call goes on")
    func joinLimit() {
        let room = harness.groupCall()
        let alice = harness.prepared("alice", in: room)
        harness.join(alice, in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        let cat = harness.prepared("cat", in: room)
        harness.answer("cat", in: room)
        harness.advance(.milliseconds(19_999))
        #expect(harness.calleeOutcomes(of: room) == [])
        harness.advance(.milliseconds(1))
        #expect(harness.calleeOutcomes(of: room) == ["cat failed"])
        #expect(harness.leaveReason(cat) == "failed")
        #expect(harness.status(room) == .ongoing)
    }

    @Test("claims that never came to a join are a failed call")
    func allFailed() {
        let room = harness.groupCall()
        harness.answer("ben", in: room)
        harness.end(.rejected, "cat", in: room)
        harness.advance(.seconds(20))
        #expect(harness.outcome(of: room) == "failed")
    }

    @Test("an answered group whose members all leave lives while somebody is rung, and ends with the last ring")
    func emptyWhileRinging() {
        let room = harness.groupCall()
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.leave(ben, in: room)
        #expect(harness.status(room) == .ongoing)
        harness.advance(.seconds(45))
        #expect(harness.outcome(of: room) == "ended")
        #expect(harness.lines == ["callee.ended cat", "call.ended empty", "room.closed empty"])
    }

    @Test("an end only makes the user leave, unless its token grants end", arguments: [false, true])
    func grant(isGranted: Bool) {
        let room = harness.groupCall()
        let alice = harness.prepared("alice", in: room)
        harness.join(alice, in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        var grants = Grants.standard
        grants.end = isGranted
        let token = Principal.participant(
            ParticipantIdentity(uid: "ben", device: "phone", room: room, grants: grants))
        _ = harness.request(token, .end(room, .ended, uid: nil, scope: .user))
        #expect(harness.leaveReason(ben) == "hangup")
        #expect(harness.outcome(of: room) == (isGranted ? "ended" : nil))
        if isGranted { #expect(harness.leaveReason(alice) == "peer-left") }
    }

    @Test("who was not rung comes in once the call is answered, not before")
    func guests() {
        let room = harness.groupCall()
        let prepare = ControlRequest.prepare(room, state: .prepared, offer: conductorOffer(ufrag: "abcd1"))
        #expect(harness.problem(ConductorHarness.token("eve", room), prepare)?.status == 403)
        harness.answer("ben", in: room)
        let eve = harness.prepared("eve", in: room)
        #expect(harness.join(eve, in: room).problem == nil)
        harness.end(.ended, "eve", in: room)
        #expect(harness.leaveReason(eve) == "hangup")
    }

    @Test("one who left an answered group comes back with another device")
    func comeBack() {
        let room = harness.groupCall()
        let alice = harness.prepared("alice", in: room)
        harness.join(alice, in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.leave(ben, in: room)
        let laptop = harness.prepared("ben", in: room, device: "laptop")
        #expect(harness.join(laptop, in: room).problem == nil)
        #expect(harness.events.count { $0.type == .callAnswered } == 1)
    }

    @Test("a refusing group is busy for the one who is joined elsewhere and rings the others")
    func ifBusy() {
        _ = harness.talking()
        let room = harness.groupCall(from: "cat", to: ["ben", "dan"]) { $0.ifBusy = .refuse }
        #expect(harness.lines == ["room.created", "call.initiated cat", "callee.ended ben"])
        #expect(harness.answer("dan", in: room).problem == nil)
    }

    @Test("a group that ends while somebody is rung tells that ring's end before the call's")
    func deleted() {
        let room = harness.groupCall()
        harness.answer("ben", in: room)
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        #expect(harness.lines.suffix(3) == ["callee.ended cat", "call.ended room-ended", "room.closed room-ended"])
    }

    @Test("the first of several claimers is the claimer")
    func firstClaimer() {
        let room = harness.groupCall()
        harness.answer("cat", in: room)
        harness.answer("ben", in: room)
        #expect(harness.record(room)?.ring?.claimer == ClaimerView(uid: "cat", device: "phone"))
    }

    @Test("the server that speaks for one whose ring is over changes nothing")
    func serverTooLate() {
        let room = harness.groupCall()
        harness.answer("cat", in: room)
        harness.end(.rejected, "ben", in: room)
        #expect(harness.serverEnd(.cancelled, "ben", in: room).problem?.status == 403)
        let count = harness.events.count
        harness.serverEnd(.ended, "ben", in: room)
        #expect(harness.events.count == count)
        #expect(harness.status(room) == .ongoing)
    }

    @Test("a group's ring and its outcomes survive a restart")
    func restart() {
        let room = harness.groupCall()
        harness.end(.rejected, "ben", in: room)
        harness.restart()
        #expect(harness.answer("ben", in: room).problem?.code == "rejected")
        harness.end(.busy, "cat", in: room)
        #expect(harness.outcome(of: room) == "rejected")
    }

    @Test("a callee that goes over to another call leaves those ringing who are still rung")
    func goesOver() {
        let room = harness.groupCall()
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        let other = harness.call(from: "dan", to: "ben")
        harness.join(harness.prepared("ben", in: other), in: other, endOthers: true)
        #expect(harness.leaveReason(ben) == "hangup")
        #expect(harness.status(room) == .ongoing)
        #expect(harness.record(room)?.ring?.callee("cat")?.outcome == nil)
        harness.advance(.seconds(45))
        #expect(harness.calleeOutcomes(of: room) == ["cat unreachable"])
    }
}
