import RTPCore
import RelayCore
import Testing

@Suite("Conductor: leaving and ending")
struct ConductorEndingTests {
    /// Two joined users in a peer room.
    private func call(
        _ change: (inout RoomSpecification) -> Void = { _ in }
    ) -> (ConductorHarness, RoomID, HarnessParticipant, HarnessParticipant) {
        let harness = ConductorHarness()
        let room = harness.createRoom(nil, change)
        return (harness, room, harness.joined("alice", in: room), harness.joined("bob", in: room))
    }

    @Test("a hang-up ends a peer room for both: who left, the other as peer-left, room.closed")
    func hangUp() {
        let (harness, room, alice, bob) = call()
        harness.advance(.seconds(65))
        #expect(harness.leave(bob, in: room) == .done)
        #expect(
            harness.lines == [
                "participant.left bob hangup", "participant.left alice peer-left", "room.closed hangup",
            ])
        #expect(harness.lastTurn.events.last?.value("outcome") == .string("ended"))
        #expect(harness.lastTurn.commands.map(\.command) == [.remove(bob.handle), .remove(alice.handle)])
    }

    @Test("the duration counts from when both were joined to the end")
    func duration() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        harness.advance(.seconds(20))
        let bob = harness.joined("bob", in: room)
        harness.advance(.milliseconds(65_250))
        harness.leave(bob, in: room)
        #expect(harness.closing(room)?.value("durationMs") == .integer(65_250))
    }

    @Test("a room whose two were never joined together has no duration")
    func noDuration() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.advance(.seconds(20))
        harness.leave(alice, in: room)
        #expect(harness.closing(room)?.value("durationMs") == .integer(0))
    }

    @Test(
        "an ending transport of a joined participant ends the peer room",
        arguments: [
            (TransportEnd.closed, "hangup", RoomOutcome.ended), (.lost, "lost", .lost),
            (.peerLeft, "peer-left", .ended),
        ])
    func transportEnds(_ end: TransportEnd, _ reason: String, _ outcome: RoomOutcome) {
        let (harness, room, alice, bob) = call()
        harness.ended(bob, end)
        #expect(harness.leaveReason(bob) == reason)
        #expect(harness.leaveReason(alice) == "peer-left")
        #expect(harness.record(room)?.outcome == outcome)
        #expect(harness.lastTurn.commands.map(\.command) == [.remove(alice.handle)])
    }

    @Test(
        "a transport that fails before it is up leaves as failed with the detail, and the room stays",
        arguments: [
            (TransportEnd.fingerprintMismatch, "fingerprint"), (.noSRTPProfile, "no-srtp-profile"),
            (.handshakeFailed, "dtls"),
        ])
    func transportFails(_ end: TransportEnd, _ detail: String) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        harness.ended(alice, end)
        #expect(harness.lines == ["participant.left alice failed"])
        #expect(harness.lastTurn.events.first?.value("detail") == .string(detail))
        #expect(harness.record(room)?.status == .initiated)
    }

    @Test("a connecting participant whose keys do not come in 30 s leaves as failed: ice")
    func connectingExpires() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        harness.advance(.seconds(30))
        #expect(harness.leaveReason(alice) == "failed")
        #expect(harness.lastTurn.events.first?.value("detail") == .string("ice"))
        #expect(harness.lastTurn.commands.map(\.command) == [.remove(alice.handle)])
        #expect(harness.record(room)?.status == .initiated)
    }

    @Test("the last prepared participant to expire takes the room along as expired")
    func preparedExpires() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.prepared("alice", in: room)
        harness.advance(.seconds(300))
        #expect(harness.lines == ["participant.left alice expired", "room.closed expired"])
        #expect(harness.record(room)?.outcome == .expired)
    }

    @Test("a prepared participant that expires leaves the others alone")
    func preparedExpiresBesideOthers() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.prepared("alice", in: room)
        harness.advance(.seconds(10))
        let bob = harness.prepared("bob", in: room)
        harness.advance(.seconds(290))
        #expect(harness.lines == ["participant.left alice expired"])
        #expect(harness.state(bob, in: room) == .prepared)
    }

    @Test("a joined participant does not expire")
    func joinedDoesNotExpire() {
        let (harness, room, alice, _) = call { $0.timeouts.idle = nil }
        harness.advance(.seconds(3_000))
        #expect(harness.state(alice, in: room) == .joined)
    }

    @Test("the room's own times are used where it sets them")
    func ownTimeouts() {
        let harness = ConductorHarness()
        let room = harness.createRoom {
            $0.timeouts.prepared = .seconds(20)
            $0.timeouts.connecting = .seconds(5)
        }
        let alice = harness.prepared("alice", in: room)
        let bob = harness.prepare("bob", in: room)
        harness.advance(.seconds(5))
        #expect(harness.leaveReason(bob) == "failed")
        harness.advance(.seconds(15))
        #expect(harness.leaveReason(alice) == "expired")
    }

    @Test("a prepared participant who leaves does not end a peer room, even an ongoing one")
    func preparedLeaves() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        let bob = harness.prepared("bob", in: room)
        harness.leave(bob, in: room)
        #expect(harness.lines == ["participant.left bob hangup"])
        #expect(harness.record(room)?.status == .ongoing)
    }

    @Test("a kick leaves as kicked and ends a peer room as ended")
    func kick() {
        let (harness, room, alice, bob) = call()
        #expect(harness.request(ConductorHarness.server, .kick(room, alice.id)) == .done)
        #expect(harness.leaveReason(alice) == "kicked")
        #expect(harness.leaveReason(bob) == "peer-left")
        #expect(harness.record(room)?.outcome == .ended)
    }

    @Test("the server's leave of somebody's session is a kick")
    func serverLeaves() {
        let (harness, room, alice, _) = call()
        #expect(harness.request(ConductorHarness.server, .leave(room, alice.id)) == .done)
        #expect(harness.leaveReason(alice) == "kicked")
    }

    @Test("leaving twice is 200 both times and told once")
    func leaveTwice() {
        let (harness, room, alice, _) = call()
        #expect(harness.leave(alice, in: room) == .done)
        let count = harness.events.count
        #expect(harness.leave(alice, in: room) == .done)
        #expect(harness.request(ConductorHarness.server, .kick(room, alice.id)) == .done)
        #expect(harness.events.count == count)
    }

    @Test("the 64 latest who left are remembered by name, older ones are 404")
    func departedAreBounded() {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group)
        harness.prepared("host", in: room)
        let guests = (0..<65).map { index in
            let guest = harness.prepare("guest\(index)", in: room)
            harness.leave(guest, in: room)
            return guest
        }
        #expect(harness.leave(guests[1], in: room) == .done)
        #expect(harness.leave(guests[0], in: room).problem?.status == 404)
    }

    @Test("a group goes on when one leaves, and its others are not touched")
    func groupLeave() {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group)
        harness.joined("alice", in: room)
        let bob = harness.joined("bob", in: room)
        harness.leave(bob, in: room)
        #expect(harness.lines == ["participant.left bob hangup"])
        #expect(harness.record(room)?.status == .ongoing)
    }

    @Test("in a group the duration counts from the first joined")
    func groupDuration() {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group)
        harness.joined("alice", in: room)
        harness.advance(.seconds(30))
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        #expect(harness.closing(room)?.value("durationMs") == .integer(30_000))
    }

    @Test("a participant may look at its ended room for five minutes, the server longer")
    func lookAfterTheEnd() {
        let (harness, room, alice, _) = call()
        harness.leave(alice, in: room)
        let token = ConductorHarness.token("bob", room)
        harness.advance(.seconds(300))
        #expect(harness.request(token, .room(room)).roomView?.outcome == .ended)
        harness.advance(.seconds(1))
        #expect(harness.problem(token, .room(room))?.status == 404)
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.outcome == .ended)
    }

    @Test("an ended room's view has outcome, reason, end and nobody in it")
    func endedView() {
        let (harness, room, alice, _) = call()
        harness.ended(alice, .lost)
        let view = harness.request(ConductorHarness.server, .room(room)).roomView
        #expect(view?.status == .ended)
        #expect(view?.outcome == .lost)
        #expect(view?.reason == "lost")
        #expect(view?.endedAtMs == harness.wallClockMs)
        #expect(view?.participants == [])
    }
}
