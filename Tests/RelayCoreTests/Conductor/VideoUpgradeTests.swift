import RTPCore
import RelayCore
import Testing

/// CALLS.md, "Media within a call": an audio call becomes a video call.
@Suite("Conductor: from audio to video")
struct VideoUpgradeTests {
    private func call(_ harness: ConductorHarness) -> (room: RoomID, alice: HarnessParticipant, ben: HarnessParticipant)
    {
        let room = harness.createRoom {
            $0.ring = RingSpecification(caller: "alice", callees: ["ben"])
            $0.media = .audio
        }
        let alice = harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.join(alice, in: room)
        return (room, alice, ben)
    }

    private func group(_ harness: ConductorHarness, _ users: [String]) -> (room: RoomID, people: [HarnessParticipant]) {
        let room = harness.createRoom(kind: .group) { $0.media = .audio }
        return (room, users.map { harness.joined($0, in: room) })
    }

    @discardableResult
    private func say(_ word: VideoWord, _ uid: String, in room: RoomID, _ harness: ConductorHarness) -> ControlReply {
        harness.request(ConductorHarness.token(uid, room), .video(room, word, uid: nil))
    }

    private func media(_ room: RoomID, _ harness: ConductorHarness) -> RoomMedia? {
        harness.record(room)?.callMedia.media
    }

    @Test("in an audio call video is negotiated and shut from the creation of the transport on")
    func shutAtFirst() {
        let harness = ConductorHarness()
        let (room, alice, ben) = call(harness)
        #expect(harness.gates[alice.handle] == .videoClosed && harness.gates[ben.handle] == .videoClosed)
        #expect(harness.record(room)?.participants[0].view.sends == [.audio, .video])
    }

    @Test("one asks, the other accepts: the gates open for both in the deciding turn, and each step is told once")
    func accepted() throws {
        let harness = ConductorHarness()
        let (room, alice, ben) = call(harness)
        let asked = try #require(say(.request, "alice", in: room, harness).roomView)
        #expect(asked.callMedia.media == .audio && asked.callMedia.request?.uid == "alice")
        #expect(harness.lines == ["media.requested alice"] && harness.lastTurn.commands.isEmpty)
        #expect(harness.lastTurn.events.first?.participantID == alice.id)
        let view = try #require(say(.accept, "ben", in: room, harness).roomView)
        #expect(view.callMedia.media == .video && view.callMedia.request == nil)
        #expect(view.specification.media == .audio, "what it was made as stays")
        #expect(harness.lines == ["media.changed ben accepted"])
        #expect(harness.lastTurn.events.first?.value("video") == .bool(true))
        #expect(harness.lastTurn.commands.map(\.command) == [.gates(alice.handle, []), .gates(ben.handle, [])])
    }

    @Test("a decline leaves an audio call, and the next request is a new one")
    func declined() {
        let harness = ConductorHarness()
        let (room, _, _) = call(harness)
        say(.request, "alice", in: room, harness)
        #expect(say(.decline, "ben", in: room, harness).roomView != nil)
        #expect(harness.lines == ["media.changed ben declined"])
        #expect(harness.lastTurn.events.first?.value("video") == .bool(false))
        #expect(harness.lastTurn.commands.isEmpty && media(room, harness) == .audio)
        say(.request, "ben", in: room, harness)
        #expect(harness.lines == ["media.requested ben"])
        say(.accept, "alice", in: room, harness)
        #expect(media(room, harness) == .video)
    }

    @Test("a request that crosses the other side's is an acceptance")
    func crossing() {
        let harness = ConductorHarness()
        let (room, _, _) = call(harness)
        say(.request, "alice", in: room, harness)
        say(.request, "ben", in: room, harness)
        #expect(harness.lines == ["media.changed ben accepted"])
        #expect(media(room, harness) == .video)
    }

    @Test("what is said twice, or too late, gets a definite answer and changes nothing")
    func repeated() {
        let harness = ConductorHarness()
        let (room, _, _) = call(harness)
        #expect(say(.accept, "ben", in: room, harness).problem?.code == "no-request")
        #expect(say(.decline, "ben", in: room, harness).roomView != nil, "it is an audio call, as wished")
        say(.request, "alice", in: room, harness)
        #expect(say(.request, "alice", in: room, harness).roomView != nil)
        #expect(harness.lastTurn.events.isEmpty)
        #expect(say(.accept, "alice", in: room, harness).problem?.code == "no-request", "not one's own")
        say(.accept, "ben", in: room, harness)
        for (word, uid) in [(VideoWord.accept, "ben"), (.accept, "alice"), (.request, "alice"), (.request, "ben")] {
            #expect(say(word, uid, in: room, harness).roomView?.callMedia.media == .video)
            #expect(harness.lastTurn.events.isEmpty && harness.lastTurn.commands.isEmpty)
        }
        #expect(say(.decline, "ben", in: room, harness).problem?.code == "no-request")
        #expect(media(room, harness) == .video)
    }

    @Test("whoever asked may take it back")
    func withdrawn() {
        let harness = ConductorHarness()
        let (room, _, _) = call(harness)
        say(.request, "alice", in: room, harness)
        say(.decline, "alice", in: room, harness)
        #expect(harness.lines == ["media.changed alice withdrawn"])
        #expect(say(.accept, "ben", in: room, harness).problem?.code == "no-request")
    }

    @Test("only who is joined has a say; the server has one in a joined user's name")
    func authority() {
        let harness = ConductorHarness()
        let room = harness.createRoom { $0.media = .audio }
        harness.prepared("alice", in: room)
        #expect(say(.request, "alice", in: room, harness).problem?.status == 403)
        #expect(say(.request, "mallory", in: room, harness).problem?.status == 403)
        let (call, _, _) = call(harness)
        let asked = ControlRequest.video(call, .request, uid: "alice")
        #expect(harness.problem(ConductorHarness.server, .video(call, .request, uid: nil))?.status == 400)
        #expect(harness.problem(ConductorHarness.server, .video(call, .request, uid: "cat"))?.status == 403)
        #expect(harness.request(ConductorHarness.server, asked).roomView?.callMedia.request?.uid == "alice")
        #expect(
            harness.problem(ConductorHarness.token("ben", call, device: "tablet"), .video(call, .accept, uid: nil))?
                .status == 403)
        harness.request(ConductorHarness.server, .video(call, .accept, uid: "ben")).expectVideo()
        harness.serverEnd(.ended, "alice", in: call)
        #expect(say(.request, "alice", in: call, harness).problem?.status == 410)
    }

    @Test("in a group a request ends with its asker's leave, and an ended room tells no such thing")
    func askerLeaves() {
        let harness = ConductorHarness()
        let (room, people) = group(harness, ["ada", "ben", "cat"])
        say(.request, "ada", in: room, harness)
        harness.leave(people[0], in: room)
        #expect(harness.lines == ["media.changed ada withdrawn", "participant.left ada hangup"])
        #expect(say(.accept, "ben", in: room, harness).problem?.code == "no-request")
        let (peer, alice, _) = call(harness)
        say(.request, "alice", in: peer, harness)
        harness.leave(alice, in: peer)
        #expect(!harness.events.contains { $0.type == .mediaChanged && $0.roomID == peer })
    }

    @Test("a request outlives its asker's device when the same user goes on")
    func askerMoves() {
        let harness = ConductorHarness()
        let (room, _) = group(harness, ["ada", "ben"])
        say(.request, "ada", in: room, harness)
        let again = harness.prepare("ada", in: room)
        #expect(!harness.lines.contains("media.changed ada withdrawn"))
        harness.news(.prepared(again.handle, at: harness.now))
        harness.news(.joined(again.handle, at: harness.now))
        let tablet = harness.prepared("ada", in: room, device: "tablet")
        harness.join(tablet, in: room, takeover: true)
        #expect(harness.record(room)?.callMedia.request?.uid == "ada")
        say(.accept, "ben", in: room, harness)
        #expect(media(room, harness) == .video)
    }

    @Test("in a group one acceptance is enough, and it takes everybody's decline to decline")
    func groups() {
        let harness = ConductorHarness()
        let (room, people) = group(harness, ["ada", "ben", "cat"])
        say(.request, "ada", in: room, harness)
        say(.decline, "ben", in: room, harness)
        #expect(harness.lastTurn.events.isEmpty)
        say(.decline, "ben", in: room, harness)
        #expect(harness.lastTurn.events.isEmpty)
        say(.decline, "cat", in: room, harness)
        #expect(harness.lines == ["media.changed cat declined"])
        say(.request, "ada", in: room, harness)
        say(.decline, "ben", in: room, harness)
        harness.leave(people[2], in: room)
        #expect(harness.lines == ["media.changed cat declined", "participant.left cat hangup"])
        say(.request, "ben", in: room, harness)
        let late = harness.joined("dan", in: room)
        #expect(harness.gates[late.handle] == .videoClosed)
        say(.accept, "dan", in: room, harness)
        #expect(harness.lastTurn.commands.count == 3 && media(room, harness) == .video)
        let later = harness.prepared("eve", in: room)
        #expect(harness.gates[later.handle] == [], "who comes now comes to a video call")
    }

    @Test("what the call has become survives a restart of control")
    func restart() {
        let harness = ConductorHarness()
        let (room, alice, ben) = call(harness)
        say(.request, "alice", in: room, harness)
        harness.restart()
        harness.connect(
            ConductorHarness.worker(0),
            transports: [harness.snapshot(alice, in: room, .joined), harness.snapshot(ben, in: room, .joined)])
        #expect(harness.lastTurn.commands.map(\.command) == [.adopted])
        say(.accept, "ben", in: room, harness)
        harness.restart()
        // The worker died with the turn's commands unread: it is told again.
        harness.connect(
            ConductorHarness.worker(0),
            transports: [
                harness.snapshot(alice, in: room, .joined, gates: .videoClosed),
                harness.snapshot(ben, in: room, .joined, gates: .videoClosed),
            ])
        #expect(harness.gates[alice.handle] == [] && harness.gates[ben.handle] == [])
        #expect(media(room, harness) == .video)
    }

    @Test("a video room is a video call from the start")
    func videoRoom() {
        let harness = ConductorHarness()
        let (room, alice, _) = harness.talking()
        #expect(harness.gates[alice.handle] == [])
        #expect(say(.request, "alice", in: room, harness).roomView?.callMedia.media == .video)
        #expect(harness.lastTurn.events.isEmpty)
    }
}

extension ControlReply {
    fileprivate func expectVideo() { #expect(roomView?.callMedia.media == .video) }
}
