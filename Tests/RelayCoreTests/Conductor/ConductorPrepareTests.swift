import RTPCore
import RelayCore
import Testing

@Suite("Conductor: preparing")
struct ConductorPrepareTests {
    @Test("a prepare makes a transport on the worker, tells participant.connecting and gives the answer")
    func prepareMakesATransport() throws {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let participant = harness.prepare("alice", in: room)
        #expect(harness.lines == ["participant.connecting alice"])
        guard case .create(let transport) = harness.lastTurn.commands.first?.command else {
            Issue.record("no create command")
            return
        }
        #expect(transport.participant == participant.handle)
        #expect(transport.room == harness.record(room)?.handle)
        #expect(transport.isPeerRoom)
        #expect(!transport.joinsWhenReady)
        guard case .prepared(_, let answer, let etag, let isNew) = harness.lastTurn.replies.first?.reply else {
            Issue.record("no answer")
            return
        }
        #expect(String(decoding: answer, as: UTF8.self).contains("a=setup:passive"))
        #expect(etag == "1")
        #expect(isNew)
    }

    @Test("without a state a participant of a ringless room is joined as soon as keys are in")
    func joinedIsTheDefault() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let participant = harness.prepare("alice", in: room, state: nil)
        #expect(harness.record(room)?.participants.first?.transport.joinsWhenReady == true)
        harness.news(.prepared(participant.handle, at: harness.now))
        #expect(harness.lines == ["participant.prepared alice"])
        harness.news(.joined(participant.handle, at: harness.now))
        #expect(harness.lines == ["participant.joined alice"])
    }

    @Test("news that the gate is open tells prepared first when that was not told")
    func gateOpenedTellsBoth() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let participant = harness.prepare("alice", in: room, state: .joined)
        harness.news(.joined(participant.handle, at: harness.now))
        #expect(harness.lines == ["participant.prepared alice", "participant.joined alice"])
    }

    @Test("the identical offer gets the same session and answer, with no second transport")
    func identicalOffer() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let participant = harness.prepare("alice", in: room, ufrag: "same")
        guard case .prepared(_, let answer, _, _) = harness.lastTurn.replies.first?.reply else { return }
        let again = harness.request(
            ConductorHarness.token("alice", room),
            .prepare(room, state: .prepared, offer: conductorOffer(ufrag: "same")))
        #expect(again == .prepared(participant.id, answer: answer, etag: "1", isNew: false))
        #expect(harness.lastTurn.commands.isEmpty)
        #expect(harness.lastTurn.events.isEmpty)
    }

    @Test("the same ufrag with another certificate is another offer and replaces")
    func anotherCertificateReplaces() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.prepare("alice", in: room, ufrag: "same")
        let reply = harness.request(
            ConductorHarness.token("alice", room),
            .prepare(room, state: .prepared, offer: conductorOffer(ufrag: "same", fingerprintByte: "CD")))
        guard case .prepared(_, _, _, true) = reply else {
            Issue.record("\(reply)")
            return
        }
        #expect(harness.lines == ["participant.replaced alice", "participant.connecting alice"])
    }

    @Test("another offer of the same device replaces the session: made first, then removed, never left")
    func replacement() throws {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let old = harness.prepare("alice", in: room)
        let new = harness.prepare("alice", in: room)
        #expect(harness.lines == ["participant.replaced alice", "participant.connecting alice"])
        #expect(harness.lastTurn.events.first?.participantID == old.id)
        #expect(harness.lastTurn.events.first?.value("by") == .string(new.id.text))
        let commands = harness.lastTurn.commands.map(\.command)
        #expect(commands.count == 2)
        #expect(commands.last == .remove(old.handle))
        #expect(harness.record(room)?.participants.map(\.id) == [new.id])
    }

    @Test("a replacement of a prepared session stays unjoined whatever the default is")
    func replacementOfPrepared() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.prepared("alice", in: room)
        let new = harness.prepare("alice", in: room, state: nil)
        harness.news(.prepared(new.handle, at: harness.now))
        #expect(harness.state(new, in: room) == .prepared)
        #expect(harness.record(room)?.participants.first?.lifecycle.claimsSeat == false)
    }

    @Test("a replacement of a joined session is joined when its keys are in, and the peer room goes on")
    func replacementOfJoined() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        harness.joined("bob", in: room)
        let new = harness.prepare("alice", in: room, state: .prepared)
        #expect(harness.record(room)?.status == .ongoing)
        #expect(harness.record(room)?.participants.first?.transport.joinsWhenReady == true)
        harness.news(.prepared(new.handle, at: harness.now))
        harness.news(.joined(new.handle, at: harness.now))
        #expect(harness.state(new, in: room) == .joined)
        #expect(harness.record(room)?.participants.map(\.uid) == ["alice", "bob"])
    }

    @Test("a replacement that took a joined one's place and fails ends the peer room as lost")
    func failedReplacementEndsTheRoom() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        let bob = harness.joined("bob", in: room)
        harness.prepare("alice", in: room)
        harness.advance(.seconds(30))
        #expect(harness.record(room)?.outcome == .lost)
        #expect(harness.leaveReason(bob) == "peer-left")
    }

    @Test("an offer that cannot be served changes nothing")
    func badOfferChangesNothing() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let before = harness.record(room)
        let problem = harness.problem(
            ConductorHarness.token("alice", room), .prepare(room, state: nil, offer: Array("v=0\r\n".utf8)))
        #expect([400, 406, 422].contains(problem?.status))
        #expect(harness.record(room) == before)
        #expect(harness.lastTurn.commands.isEmpty && harness.lastTurn.events.isEmpty)
    }

    @Test("a bad second offer leaves the session that is there alone")
    func badReplacementOffer() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        _ = harness.problem(
            ConductorHarness.token("alice", room), .prepare(room, state: nil, offer: Array("rubbish".utf8)))
        #expect(harness.state(alice, in: room) == .joined)
    }

    @Test("an offer without the room's video codec is an audio call, and the view says so")
    func videoUnsupported() {
        let harness = ConductorHarness()
        let room = harness.createRoom(nil) { $0.videoCodec = .av1 }
        harness.prepare("alice", in: room)
        let view = harness.request(ConductorHarness.server, .room(room)).roomView
        #expect(view?.participants.first?.videoUnsupported == true)
        #expect(view?.participants.first?.sends == [.audio])
    }

    @Test("a room goes to the worker with the fewest transports and stays there")
    func leastLoadedWorker() {
        let harness = ConductorHarness(workers: 2)
        let first = harness.createRoom()
        let second = harness.createRoom()
        harness.prepare("alice", in: first)
        harness.prepare("carol", in: second)
        harness.prepare("bob", in: first)
        #expect(harness.record(first)?.worker?.index == 0)
        #expect(harness.record(second)?.worker?.index == 1)
        #expect(harness.held[ConductorHarness.worker(0)]?.count == 2)
    }

    @Test("without a connected worker a prepare is 503 with Retry-After")
    func noWorker() {
        let harness = ConductorHarness(workers: 0)
        let room = harness.createRoom()
        let problem = harness.problem(
            ConductorHarness.token("alice", room), .prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd")))
        #expect(problem?.status == 503)
        #expect(problem?.code == "overloaded")
        #expect(problem?.retryAfterSeconds != nil)
    }

    @Test("a detached worker gets nobody new until its next hello")
    func detachedWorker() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.decide(.workerDetached(ConductorHarness.worker(0)))
        let request = ControlRequest.prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd"))
        #expect(harness.problem(ConductorHarness.token("alice", room), request)?.status == 503)
        harness.connect(ConductorHarness.worker(0))
        #expect(harness.problem(ConductorHarness.token("alice", room), request) == nil)
    }

    @Test("a peer room takes two users: a third is 409 room-full")
    func peerRoomIsFull() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.prepare("alice", in: room)
        harness.prepare("bob", in: room)
        let problem = harness.problem(
            ConductorHarness.token("carol", room), .prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd")))
        #expect(problem?.status == 409)
        #expect(problem?.code == "room-full")
    }

    @Test("several devices of one user may be prepared in a peer room")
    func severalDevices() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        for device in ["phone", "laptop", "watch"] { harness.prepare("bob", in: room, device: device) }
        harness.prepare("alice", in: room)
        #expect(harness.record(room)?.participants.count == 4)
    }

    @Test("when a user is gone from a peer room, another may take the place")
    func placeBecomesFree() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.prepare("alice", in: room)
        let bob = harness.prepare("bob", in: room)
        harness.leave(bob, in: room)
        harness.prepare("carol", in: room)
        #expect(harness.record(room)?.participants.map(\.uid) == ["alice", "carol"])
    }

    @Test("a group is full at its maxParticipants, and the problem names count and limit")
    func groupIsFull() {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group) { $0.maxParticipants = 3 }
        for uid in ["a", "b", "c"] { harness.prepare(uid, in: room) }
        let problem = harness.problem(
            ConductorHarness.token("d", room), .prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd")))
        #expect(problem?.code == "room-full")
        #expect(problem?.detail.contains("3") == true)
    }

    @Test("a full room still lets its own participants prepare anew")
    func replacementInAFullRoom() {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group) { $0.maxParticipants = 1 }
        harness.prepare("alice", in: room)
        harness.prepare("alice", in: room)
        #expect(harness.record(room)?.participants.count == 1)
    }

    @Test("a user has at most five sessions that are not joined: the sixth is 429 naming the limit")
    func preparedLimit() {
        let harness = ConductorHarness()
        for _ in 0..<5 { harness.prepare("alice", in: harness.createRoom()) }
        let sixth = harness.createRoom()
        let problem = harness.problem(
            ConductorHarness.token("alice", sixth),
            .prepare(sixth, state: .prepared, offer: conductorOffer(ufrag: "abcd")))
        #expect(problem?.status == 429)
        #expect(problem?.detail.contains("5") == true)
        #expect(problem?.retryAfterSeconds != nil)
    }

    @Test("a worker with no room left is 503, a replacement there is not")
    func workerIsFull() {
        var configuration = ConductorConfiguration()
        configuration.transportsPerWorker = 1
        let harness = ConductorHarness(configuration)
        let room = harness.createRoom()
        harness.prepare("alice", in: room)
        let problem = harness.problem(
            ConductorHarness.token("bob", room), .prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd")))
        #expect(problem?.status == 503)
        harness.prepare("alice", in: room)
    }

    @Test("a prepare straight to joined is 409 while the user is joined elsewhere")
    func joinedElsewhere() {
        let harness = ConductorHarness()
        let first = harness.createRoom()
        let second = harness.createRoom()
        harness.joined("alice", in: first)
        let problem = harness.problem(
            ConductorHarness.token("alice", second), .prepare(second, state: nil, offer: conductorOffer(ufrag: "abcd")))
        #expect(problem?.code == "already-joined")
        #expect(problem?.members.contains(JSONValue.Field("roomId", .string(first.text))) == true)
        harness.prepare("alice", in: second, state: .prepared)
    }
}
