import RTPCore
import RelayCore
import Testing

/// CALLS.md, "Races: who wins": every row in both orders.
@Suite("Ring: races")
struct RingRaceTests {
    let harness = ConductorHarness()

    @Test("a cancel after the claim is a hang-up")
    func claimThenCancel() {
        let room = harness.call()
        harness.answer("ben", in: room)
        #expect(harness.end(.cancelled, "alice", in: room).roomView?.outcome == .ended)
    }

    @Test("a claim after the cancel is 410 cancelled")
    func cancelThenClaim() {
        let room = harness.call()
        harness.end(.cancelled, "alice", in: room)
        let problem = harness.answer("ben", in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.code == "cancelled")
        #expect(problem?.members.first?.value == .string("cancelled"))
    }

    @Test("a claim 1 ms before the window's end wins; the timer does nothing")
    func claimThenWindow() {
        let room = harness.call()
        harness.advance(.milliseconds(44_999))
        #expect(harness.answer("ben", in: room).problem == nil)
        harness.advance(.milliseconds(10))
        #expect(harness.status(room) == .ongoing)
    }

    @Test("a claim at the window's end is 410 unanswered, however late the timer is decided", arguments: [0, 1, 400])
    func windowThenClaim(_ lateMs: Int64) {
        let room = harness.call()
        harness.ringing("ben", in: room)
        harness.move(to: harness.now + .milliseconds(45_000 + lateMs))
        let problem = harness.answer("ben", in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.code == "unanswered")
    }

    @Test("of two devices that claim the first wins, by answer or by join", arguments: [false, true])
    func twoClaims(byJoin: Bool) {
        let room = harness.call()
        let phone = harness.prepared("ben", in: room)
        let laptop = harness.prepared("ben", in: room, device: "laptop")
        if byJoin { harness.join(phone, in: room) } else { harness.answer("ben", in: room) }
        #expect(harness.leaveReason(laptop) == "answered-elsewhere")
        for takeover in [false, true] {
            let problem = harness.join(laptop, in: room, takeover: takeover).problem
            #expect(problem?.status == 409)
            #expect(problem?.code == "answered-elsewhere")
        }
        let late = harness.answer("ben", in: room, device: "laptop").problem
        #expect(late?.status == 409)
        #expect(late?.code == "answered-elsewhere")
        let offer = conductorOffer(ufrag: harness.nextUfrag())
        let token = ConductorHarness.token("ben", room, device: "laptop")
        let prepare = ControlRequest.prepare(room, state: .joined, offer: offer)
        #expect(harness.problem(token, prepare)?.code == "answered-elsewhere")
        #expect(harness.ringing("ben", in: room, device: "laptop").problem?.code == "answered-elsewhere")
    }

    @Test("answering again on the same device is as good as once")
    func answerTwice() {
        let room = harness.call()
        harness.answer("ben", in: room)
        #expect(harness.answer("ben", in: room).roomView?.ring?.claimer == ClaimerView(uid: "ben", device: "phone"))
        #expect(harness.events.count { $0.type == .callAnswered } == 1)
    }

    @Test("a device's decline after another's claim is 200 and changes nothing", arguments: [EndScope.user, .device])
    func claimThenDecline(_ scope: EndScope) {
        let room = harness.call()
        harness.answer("ben", in: room)
        #expect(harness.end(.rejected, "ben", in: room, device: "laptop", scope: scope).roomView?.status == .ongoing)
    }

    @Test("a join after the own decline is 410 rejected")
    func declineThenJoin() {
        let room = harness.call()
        let ben = harness.prepared("ben", in: room)
        harness.end(.rejected, "ben", in: room)
        let problem = harness.join(ben, in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.code == "rejected")
    }

    @Test("a join after the own device's decline is 410 rejected, while the user's others ring on")
    func deviceDeclineThenJoin() {
        let room = harness.call()
        let ben = harness.prepared("ben", in: room)
        harness.end(.rejected, "ben", in: room, scope: .device)
        let problem = harness.join(ben, in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.code == "rejected")
        #expect(harness.status(room) == .initiated)
    }

    @Test("a decline by a device that was never there reaches the caller")
    func declineWithoutSession() {
        let room = harness.call()
        harness.prepared("alice", in: room)
        harness.end(.rejected, "ben", in: room)
        #expect(harness.lines.first == "call.ended rejected")
    }

    @Test("of two who call each other the second is 409 glare with the first room")
    func glare() {
        let room = harness.call()
        let problem = Self.refusal(harness, caller: "ben", callee: "alice")
        #expect(problem?.status == 409)
        #expect(problem?.code == "glare")
        #expect(problem?.members.first?.value == .string(room.text))
    }

    @Test("after the first room's claim there is no glare, but a call that both are in")
    func noGlareAfterClaim() {
        let room = harness.call()
        harness.answer("ben", in: room)
        #expect(Self.refusal(harness, caller: "ben", callee: "alice")?.code == "session-already-active")
    }

    @Test("calling oneself is 400, before anything else")
    func callingSelf() {
        harness.call()
        let problem = Self.refusal(harness, caller: "alice", callee: "alice")
        #expect(problem?.status == 400)
        #expect(problem?.code == "calling-self")
    }

    @Test("a caller in a ring makes no other one, unless parallel calls are allowed")
    func alreadyActive() {
        let room = harness.call()
        let problem = Self.refusal(harness, caller: "alice", callee: "cat")
        #expect(problem?.code == "session-already-active")
        #expect(problem?.members.first?.value == .string(room.text))
        harness.call(from: "alice", to: "cat") { $0.allowParallel = true }
    }

    @Test("being rung does not keep from calling")
    func beingRung() {
        harness.call()
        #expect(Self.refusal(harness, caller: "ben", callee: "cat") == nil)
    }

    @Test("after the end of the call its users call again")
    func againAfterEnd() {
        let room = harness.talking().room
        #expect(Self.refusal(harness, caller: "ben", callee: "cat")?.code == "session-already-active")
        harness.end(.ended, "ben", in: room)
        #expect(Self.refusal(harness, caller: "ben", callee: "alice") == nil)
    }

    @Test("a joined user's join elsewhere is 409 and claims nothing")
    func alreadyJoined() {
        _ = harness.talking()
        let second = harness.call(from: "cat", to: "ben")
        let ben = harness.prepared("ben", in: second)
        #expect(harness.join(ben, in: second).problem?.code == "already-joined")
        #expect(harness.status(second) == .initiated)
    }

    @Test("End & Accept ends the other call and claims this one in one decision")
    func endAndAccept() {
        let first = harness.talking()
        let second = harness.call(from: "cat", to: "ben")
        let ben = harness.prepared("ben", in: second)
        harness.join(ben, in: second, endOthers: true)
        #expect(
            harness.lines == [
                "call.ended hangup", "participant.left alice peer-left", "participant.left ben hangup",
                "room.closed hangup", "call.answered ben", "participant.joined ben",
            ])
        #expect(harness.outcome(of: first.room) == "ended")
    }

    @Test("End & Accept cancels the call that the user was making")
    func endAndAcceptWhileCalling() {
        let own = harness.call(from: "ben", to: "dan")
        let room = harness.call(from: "cat", to: "ben")
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room, endOthers: true)
        #expect(harness.outcome(of: own) == "cancelled")
        #expect(harness.status(room) == .ongoing)
    }

    @Test("a takeover moves the call to the other device, and the call goes on")
    func takeover() {
        let call = harness.talking()
        let laptop = harness.prepared("ben", in: call.room, device: "laptop")
        #expect(harness.join(laptop, in: call.room).problem?.code == "answered-elsewhere")
        #expect(harness.join(laptop, in: call.room, takeover: true).problem == nil)
        #expect(harness.leaveReason(call.ben) == "answered-elsewhere")
        #expect(harness.status(call.room) == .ongoing)
        harness.end(.ended, "ben", in: call.room, device: "laptop")
        #expect(harness.outcome(of: call.room) == "ended")
    }

    @Test("of two who leave at once one ends the call, and both are answered 200")
    func bothLeave() {
        let call = harness.talking()
        #expect(harness.leave(call.alice, in: call.room) == .done)
        #expect(harness.leave(call.ben, in: call.room) == .done)
        #expect(harness.end(.ended, "ben", in: call.room).roomView?.outcome == .ended)
        #expect(harness.outcome(of: call.room) == "ended")
    }

    static func refusal(_ harness: ConductorHarness, caller: String, callee: String) -> Problem? {
        var specification = RoomSpecification(id: nil, kind: .peer, media: .audio)
        specification.ring = RingSpecification(caller: caller, callees: [callee])
        return harness.problem(ConductorHarness.server, .createRoom(specification))
    }
}
