import RTPCore
import RelayCore
import Testing

@Suite("Conductor: joining")
struct ConductorJoinTests {
    @Test("a prepared participant is joined in the deciding turn: command, event and answer")
    func joinPrepared() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        let reply = harness.join(alice, in: room)
        #expect(reply.joinedView?.participants.first?.state == .joined)
        #expect(harness.lines == ["participant.joined alice"])
        #expect(harness.lastTurn.commands.map(\.command) == [.join(alice.handle)])
        #expect(harness.lastTurn.changedRooms == [room])
    }

    @Test("the room is ongoing from its first joined participant")
    func ongoing() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        #expect(harness.record(room)?.status == .initiated)
        harness.join(alice, in: room)
        #expect(harness.record(room)?.status == .ongoing)
        #expect(harness.record(room)?.startedAtMs == harness.wallClockMs)
    }

    @Test("a join while connecting is accepted, and told only when the gate is open")
    func joinConnecting() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        let reply = harness.join(alice, in: room)
        #expect(reply.joinedView?.participants.first?.state == .connecting)
        #expect(harness.lines == [])
        #expect(harness.lastTurn.commands.map(\.command) == [.join(alice.handle)])
        harness.news(.prepared(alice.handle, at: harness.now))
        harness.news(.joined(alice.handle, at: harness.now))
        #expect(harness.lines == ["participant.joined alice"])
    }

    @Test("the worker's news of a join that was told already says nothing")
    func joinedNewsAfterJoin() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.news(.joined(alice.handle, at: harness.now))
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.lastTurn.changedRooms.isEmpty)
    }

    @Test("joining again is 200 with the same view and changes nothing")
    func joinTwice() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let again = harness.join(alice, in: room)
        #expect(again.joinedView?.participants.first?.state == .joined)
        #expect(harness.lastTurn.events.isEmpty && harness.lastTurn.commands.isEmpty)
    }

    @Test("joining a session that left is 410 saying why")
    func joinAfterLeaving() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        harness.leave(alice, in: room)
        let problem = harness.join(alice, in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.members == [JSONValue.Field("reason", .string("hangup"))])
    }

    @Test("joining in an ended room is 410 with the outcome")
    func joinEndedRoom() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let bob = harness.prepared("bob", in: room)
        harness.leave(alice, in: room)
        let problem = harness.join(bob, in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.code == "ended")
        #expect(problem?.members == [JSONValue.Field("outcome", .string("ended"))])
    }

    @Test("a user who is joined in another room gets 409 already-joined naming it")
    func alreadyJoined() {
        let harness = ConductorHarness()
        let first = harness.createRoom()
        let second = harness.createRoom()
        harness.joined("alice", in: first)
        let alice = harness.prepared("alice", in: second)
        let problem = harness.join(alice, in: second).problem
        #expect(problem?.status == 409)
        #expect(problem?.code == "already-joined")
        #expect(problem?.members.first == JSONValue.Field("roomId", .string(first.text)))
        #expect(harness.state(alice, in: second) == .prepared)
    }

    @Test("a user who is on the way into another room counts as joined there")
    func alreadyOnTheWay() {
        let harness = ConductorHarness()
        let first = harness.createRoom()
        let second = harness.createRoom()
        harness.prepare("alice", in: first, state: .joined)
        let alice = harness.prepared("alice", in: second)
        #expect(harness.join(alice, in: second).problem?.code == "already-joined")
    }

    @Test("join with end=others leaves the other room and joins in one decision")
    func endOthers() {
        let harness = ConductorHarness()
        let first = harness.createRoom()
        let second = harness.createRoom()
        harness.joined("alice", in: first)
        harness.joined("bob", in: first)
        let alice = harness.prepared("alice", in: second)
        harness.join(alice, in: second, endOthers: true)
        #expect(
            harness.lines == [
                "participant.left alice hangup", "participant.left bob peer-left", "room.closed hangup",
                "participant.joined alice",
            ])
        #expect(harness.record(first)?.outcome == .ended)
        #expect(harness.lastTurn.changedRooms == [first, second])
    }

    @Test("end=others does not move a call between devices of one room")
    func endOthersIsNoTakeover() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room, device: "phone")
        let laptop = harness.prepared("alice", in: room, device: "laptop")
        #expect(harness.join(laptop, in: room, endOthers: true).problem?.code == "already-joined")
    }

    @Test("a room with allowParallel may be joined beside another, whichever came first")
    func allowParallel() {
        for parallelFirst in [true, false] {
            let harness = ConductorHarness()
            let first = harness.createRoom { $0.allowParallel = parallelFirst }
            let second = harness.createRoom { $0.allowParallel = !parallelFirst }
            harness.joined("alice", in: first)
            harness.joined("alice", in: second)
            #expect(harness.record(first)?.status == .ongoing)
        }
    }

    @Test("a second device without takeover is 409 naming the joined one")
    func secondDevice() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let phone = harness.joined("alice", in: room, device: "phone")
        let laptop = harness.prepared("alice", in: room, device: "laptop")
        let problem = harness.join(laptop, in: room).problem
        #expect(problem?.code == "already-joined")
        #expect(problem?.members.contains(JSONValue.Field("device", .string("phone"))) == true)
        #expect(problem?.members.contains(JSONValue.Field("participantId", .string(phone.id.text))) == true)
    }

    @Test("a takeover moves the call: the old device leaves, then the new one is joined, and the room goes on")
    func takeover() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let phone = harness.joined("alice", in: room, device: "phone")
        harness.joined("bob", in: room)
        let laptop = harness.prepared("alice", in: room, device: "laptop")
        harness.join(laptop, in: room, takeover: true)
        #expect(harness.lines == ["participant.left alice answered-elsewhere", "participant.joined alice"])
        #expect(harness.lastTurn.events.first?.participantID == phone.id)
        #expect(harness.lastTurn.commands.map(\.command) == [.remove(phone.handle), .join(laptop.handle)])
        #expect(harness.record(room)?.status == .ongoing)
    }

    @Test("a takeover by a device still connecting keeps the old one until the new one's keys are in")
    func takeoverWhileConnecting() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let phone = harness.joined("alice", in: room, device: "phone")
        harness.joined("bob", in: room)
        let laptop = harness.prepare("alice", in: room, device: "laptop")
        harness.join(laptop, in: room, takeover: true)
        #expect(harness.state(phone, in: room) == .joined)
        #expect(harness.lastTurn.commands.isEmpty)
        harness.news(.prepared(laptop.handle, at: harness.now))
        #expect(
            harness.lines == [
                "participant.prepared alice", "participant.left alice answered-elsewhere",
                "participant.joined alice",
            ])
        #expect(harness.lastTurn.commands.map(\.command) == [.remove(phone.handle), .join(laptop.handle)])
    }

    @Test("a takeover that does not come up leaves the call where it was")
    func failedTakeover() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let phone = harness.joined("alice", in: room, device: "phone")
        harness.joined("bob", in: room)
        let laptop = harness.prepare("alice", in: room, device: "laptop")
        harness.join(laptop, in: room, takeover: true)
        harness.ended(laptop, .handshakeFailed)
        #expect(harness.record(room)?.status == .ongoing)
        #expect(harness.state(phone, in: room) == .joined)
    }

    @Test("the old device may hang up while the new one is on its way: the room goes on")
    func oldDeviceLeavesDuringTakeover() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let phone = harness.joined("alice", in: room, device: "phone")
        harness.joined("bob", in: room)
        let laptop = harness.prepare("alice", in: room, device: "laptop")
        harness.join(laptop, in: room, takeover: true)
        harness.leave(phone, in: room)
        #expect(harness.record(room)?.status == .ongoing)
        harness.news(.prepared(laptop.handle, at: harness.now))
        #expect(harness.state(laptop, in: room) == .joined)
        #expect(harness.lastTurn.commands.map(\.command) == [.join(laptop.handle)])
    }

    @Test("when the old device has hung up and the new one fails, the peer room ends")
    func oldDeviceLeftAndTakeoverFails() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let phone = harness.joined("alice", in: room, device: "phone")
        harness.joined("bob", in: room)
        let laptop = harness.prepare("alice", in: room, device: "laptop")
        harness.join(laptop, in: room, takeover: true)
        harness.leave(phone, in: room)
        harness.ended(laptop, .handshakeFailed)
        #expect(harness.record(room)?.outcome == .lost)
    }

    @Test("a device on its way in by takeover may prepare anew without asking again")
    func takeoverThenReplacement() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room, device: "phone")
        let laptop = harness.prepare("alice", in: room, device: "laptop")
        harness.join(laptop, in: room, takeover: true)
        let again = harness.prepare("alice", in: room, device: "laptop", state: nil)
        harness.news(.prepared(again.handle, at: harness.now))
        #expect(harness.state(again, in: room) == .joined)
        #expect(harness.record(room)?.participants.map(\.device) == ["laptop"])
    }

    @Test("a takeover over a device that is itself on its way sends that one away at once")
    func takeoverOfConnecting() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let phone = harness.prepare("alice", in: room, device: "phone", state: .joined)
        let laptop = harness.prepared("alice", in: room, device: "laptop")
        harness.join(laptop, in: room, takeover: true)
        #expect(harness.leaveReason(phone) == "answered-elsewhere")
        #expect(harness.state(laptop, in: room) == .joined)
    }

    @Test("prepared devices of a joined user stay until they expire")
    func preparedDevicesStay() {
        let harness = ConductorHarness()
        let room = harness.createRoom { $0.timeouts.idle = nil }
        let laptop = harness.prepared("alice", in: room, device: "laptop")
        harness.joined("alice", in: room, device: "phone")
        #expect(harness.state(laptop, in: room) == .prepared)
        harness.advance(.seconds(300))
        #expect(harness.leaveReason(laptop) == "expired")
        #expect(harness.record(room)?.status == .ongoing)
    }

    @Test("the server may join a participant")
    func serverJoins() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        let reply = harness.request(
            ConductorHarness.server, .join(room, alice.id, endOthers: false, takeover: false))
        #expect(reply.joinedView != nil)
        #expect(harness.state(alice, in: room) == .joined)
    }
}
