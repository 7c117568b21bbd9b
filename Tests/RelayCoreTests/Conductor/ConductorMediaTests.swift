import Foundation
import RTPCore
import RelayCore
import Testing

/// CALLS.md, "Media within a call": own mute and hold, the server's mute and rights.
@Suite("Conductor: mute, hold and rights")
struct ConductorMediaTests {
    private let worker = ConductorHarness.worker(0)

    private func patch(
        _ harness: ConductorHarness, _ participant: HarnessParticipant, in room: RoomID, _ change: MediaChange
    ) -> ParticipantView? {
        let token = ConductorHarness.token(participant.uid, room, device: participant.device)
        guard case .participant(let view) = harness.request(token, .changeMedia(room, participant.id, change)) else {
            return nil
        }
        return view
    }

    private func serverPatch(
        _ harness: ConductorHarness, _ participant: HarnessParticipant, in room: RoomID, _ change: ServerMediaChange
    ) -> ParticipantView? {
        let request = ControlRequest.changeMediaByServer(room, participant.id, change)
        guard case .participant(let view) = harness.request(ConductorHarness.server, request) else { return nil }
        return view
    }

    private func commands(_ harness: ConductorHarness) -> [WorkerCommand] { harness.lastTurn.commands.map(\.command) }

    @Test("own mute is told to the others and to the worker in the same turn, and shows in the view")
    func ownMute() throws {
        let harness = ConductorHarness()
        let (room, alice, _) = harness.talking()
        let view = try #require(patch(harness, alice, in: room, MediaChange(audio: .muted)))
        #expect(view.media.state(of: .audio) == .muted && view.media.state(of: .video) == .on && !view.media.isHeld)
        #expect(commands(harness) == [.gates(alice.handle, .ownAudio)])
        let event = try #require(harness.lastTurn.events.first)
        #expect(harness.lastTurn.events.count == 1)
        #expect(event.type == .participantChanged && event.uid == "alice" && event.participantID == alice.id)
        #expect(event.value("audio") == .string("muted") && event.value("video") == .string("on"))
        #expect(event.value("held") == .bool(false) && event.value("by") == .string("self"))
        let seen = harness.request(ConductorHarness.token("ben", room), .room(room)).roomView
        #expect(seen?.participants.first { $0.uid == "alice" }?.media.state(of: .audio) == .muted)
    }

    @Test("what changes nothing is answered, and told to nobody")
    func noChange() {
        let harness = ConductorHarness()
        let (room, alice, _) = harness.talking()
        for change in [MediaChange(), MediaChange(audio: .on, video: .on, isHeld: false)] {
            #expect(patch(harness, alice, in: room, change) != nil)
            #expect(harness.lastTurn.events.isEmpty && harness.lastTurn.commands.isEmpty)
            #expect(harness.lastTurn.changedRooms.isEmpty)
        }
        #expect(patch(harness, alice, in: room, MediaChange(video: .muted)) != nil)
        #expect(harness.lastTurn.events.count == 1)
        #expect(patch(harness, alice, in: room, MediaChange(video: .muted)) != nil)
        #expect(harness.lastTurn.events.isEmpty)
    }

    @Test("a fields that is not named stays as it was")
    func subset() {
        let harness = ConductorHarness()
        let (room, alice, _) = harness.talking()
        #expect(patch(harness, alice, in: room, MediaChange(audio: .muted)) != nil)
        #expect(patch(harness, alice, in: room, MediaChange(isHeld: true)) != nil)
        #expect(commands(harness) == [.gates(alice.handle, [.ownAudio, .held])])
        #expect(harness.record(room)?.participants.first { $0.id == alice.id }?.isHeld == true)
        #expect(patch(harness, alice, in: room, MediaChange(isHeld: false)) != nil)
        #expect(commands(harness) == [.gates(alice.handle, .ownAudio)])
    }

    @Test("mute and hold are possible from the first answer on, and the gate is shut before it opens")
    func beforeTheJoin() throws {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        #expect(patch(harness, alice, in: room, MediaChange(video: .muted)) != nil)
        #expect(commands(harness) == [.gates(alice.handle, .ownVideo)])
        harness.news(.prepared(alice.handle, at: harness.now))
        #expect(patch(harness, alice, in: room, MediaChange(audio: .muted)) != nil)
        harness.join(alice, in: room)
        #expect(harness.gates[alice.handle] == [.ownAudio, .ownVideo])
    }

    @Test("nobody changes another's media, nor that of one who left or of a room that ended")
    func authority() {
        let harness = ConductorHarness()
        let (room, alice, ben) = harness.talking()
        let request = ControlRequest.changeMedia(room, alice.id, MediaChange(audio: .muted))
        #expect(harness.problem(ConductorHarness.token("ben", room), request)?.status == 404)
        #expect(harness.problem(ConductorHarness.token("alice", room, device: "other"), request)?.status == 404)
        let byServer = ControlRequest.changeMediaByServer(room, alice.id, ServerMediaChange(audio: .muted))
        #expect(harness.problem(ConductorHarness.token("alice", room), byServer)?.status == 403)
        harness.leave(ben, in: room)
        #expect(harness.problem(ConductorHarness.token("alice", room), request)?.status == 410)
        #expect(harness.problem(ConductorHarness.server, byServer)?.status == 410)
    }

    @Test("a client does not undo the server's mute, and the server does not undo the client's")
    func serverMute() throws {
        let harness = ConductorHarness()
        let (room, alice, _) = harness.talking()
        var view = try #require(serverPatch(harness, alice, in: room, ServerMediaChange(audio: .muted)))
        #expect(view.media.mutedByServer == [.audio])
        #expect(commands(harness) == [.gates(alice.handle, .serverAudio)])
        #expect(harness.lastTurn.events.first?.value("by") == .string("server"))
        view = try #require(patch(harness, alice, in: room, MediaChange(audio: .on)))
        #expect(view.media.state(of: .audio) == .muted, "it says so")
        #expect(harness.lastTurn.events.isEmpty && harness.lastTurn.commands.isEmpty)
        view = try #require(patch(harness, alice, in: room, MediaChange(audio: .muted)))
        #expect(harness.gates[alice.handle] == [.ownAudio, .serverAudio])
        #expect(harness.lastTurn.events.isEmpty, "it was muted before")
        view = try #require(serverPatch(harness, alice, in: room, ServerMediaChange(audio: .on)))
        #expect(view.media.state(of: .audio) == .muted && view.media.mutedByServer == [])
        #expect(harness.gates[alice.handle] == .ownAudio)
    }

    @Test("rights that the server takes away shut the gates; a right to end is heeded at the end")
    func grants() throws {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group)
        let people = ["ada", "ben", "cat"].map { harness.joined($0, in: room) }
        let view = try #require(
            serverPatch(harness, people[0], in: room, ServerMediaChange(publish: [.audio], subscribe: false)))
        #expect(view.media.state(of: .video) == .muted && view.media.mutedByServer == [.video])
        #expect(view.media.grants == harness.record(room)?.participants[0].view.media.grants)
        #expect(view.media.grants?.publish == [.audio] && view.media.grants?.subscribe == false)
        #expect(harness.gates[people[0].handle] == [.serverVideo, .receiving])
        #expect(serverPatch(harness, people[0], in: room, ServerMediaChange(publish: [.audio, .video])) != nil)
        #expect(harness.gates[people[0].handle] == .receiving)
        #expect(serverPatch(harness, people[1], in: room, ServerMediaChange(end: true)) != nil)
        #expect(harness.lastTurn.commands.isEmpty && harness.lastTurn.events.count == 1)
        harness.end(.ended, "ada", in: room)
        #expect(harness.status(room) == .ongoing, "without the right one only leaves")
        harness.end(.ended, "ben", in: room)
        #expect(harness.status(room) == .ended)
    }

    @Test("the same device preparing anew goes on muted; another device of the user takes over the server's mute only")
    func successors() throws {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group)
        let alice = harness.joined("alice", in: room)
        harness.joined("ben", in: room)
        #expect(patch(harness, alice, in: room, MediaChange(video: .muted, isHeld: true)) != nil)
        #expect(serverPatch(harness, alice, in: room, ServerMediaChange(audio: .muted)) != nil)
        let again = harness.prepare("alice", in: room)
        #expect(
            harness.lines == [
                "participant.replaced alice", "participant.connecting alice", "participant.changed alice",
            ])
        #expect(harness.gates[again.handle] == [.serverAudio, .ownVideo, .held], "shut from its creation on")
        let tablet = harness.prepare("alice", in: room, device: "tablet")
        #expect(harness.gates[tablet.handle] == .serverAudio)
        #expect(harness.lastTurn.events.last?.value("by") == .string("server"))
        let cat = harness.prepare("cat", in: room)
        #expect(harness.lines == ["participant.connecting cat"])
        #expect(harness.gates[cat.handle] == [])
    }

    @Test("after a restart of control the worker is told what the journal says, where it holds another thing")
    func adoption() {
        let harness = ConductorHarness()
        let (room, alice, ben) = harness.talking()
        #expect(patch(harness, alice, in: room, MediaChange(audio: .muted, isHeld: true)) != nil)
        harness.restart()
        // Alice's mute never reached the worker; Ben's was never stored.
        harness.connect(
            worker,
            transports: [
                harness.snapshot(alice, in: room, .joined, gates: []),
                harness.snapshot(ben, in: room, .joined, gates: .ownVideo),
            ])
        let told = commands(harness).filter { if case .gates = $0 { true } else { false } }
        #expect(told == [.gates(alice.handle, [.ownAudio, .held]), .gates(ben.handle, [])])
        harness.restart()
        harness.connect(
            worker,
            transports: [harness.snapshot(alice, in: room, .joined), harness.snapshot(ben, in: room, .joined)])
        #expect(commands(harness) == [.adopted], "it agrees")
    }

    @Test("what is muted while the worker is away is told when it is back, before the join")
    func whileAway() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        harness.decide(.workerDetached(worker))
        #expect(patch(harness, alice, in: room, MediaChange(audio: .muted)) != nil)
        #expect(harness.lastTurn.commands.isEmpty && harness.lastTurn.events.count == 1)
        harness.join(alice, in: room)
        harness.connect(worker, transports: [harness.snapshot(alice, in: room, .prepared)])
        #expect(commands(harness) == [.gates(alice.handle, .ownAudio), .join(alice.handle), .adopted])
    }

    @Test("a record from before mute and hold is read as everything on")
    func oldRecord() throws {
        let harness = ConductorHarness()
        let (room, alice, _) = harness.talking()
        let plain = try #require(harness.record(room))
        let sessions = try JSONEncoder().encode(plain.participants.map(\.session))
        let text = String(decoding: try JSONEncoder().encode(plain) + sessions, as: UTF8.self)
        for word in ["otherMedia", "otherGates", "otherCallMedia", "otherKeepsKeyFrame"] {
            #expect(!text.contains(word), "a room without any of it is written as before")
        }
        #expect(patch(harness, alice, in: room, MediaChange(isHeld: true)) != nil)
        let changed = try #require(harness.record(room))
        let read = try throughJSON(changed)
        #expect(read == changed && read.participants.contains { $0.isHeld })
    }

    @Test("only a ring's caller may ask for its early key frame, and its transport is told")
    func earlyKeyFrame() throws {
        let harness = ConductorHarness()
        let room = harness.call()
        func prepare(_ uid: String, in room: RoomID) -> ControlReply {
            let offer = conductorOffer(ufrag: harness.nextUfrag())
            return harness.request(
                ConductorHarness.token(uid, room), .prepare(room, state: .prepared, offer: offer, earlyKeyFrame: true))
        }
        #expect(prepare("ben", in: room).problem?.status == 400)
        let ringless = harness.createRoom()
        #expect(prepare("alice", in: ringless).problem?.status == 400)
        guard case .prepared = prepare("alice", in: room),
            case .create(let transport)? = commands(harness).first
        else {
            Issue.record("the caller is refused")
            return
        }
        #expect(transport.keepsKeyFrame)
        harness.prepare("ben", in: room)
        guard case .create(let other)? = commands(harness).first else { return }
        #expect(!other.keepsKeyFrame)
    }
}
