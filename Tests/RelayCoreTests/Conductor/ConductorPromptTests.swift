import RTPCore
import RelayCore
import Testing

/// What the server lets a room hear, by what is told and what workers are told.
@Suite("Conductor: prompts") struct ConductorPromptTests {
    private let worker = ConductorHarness.worker(0)
    private static let ringback = SoundName(.tone, "ringback")
    private static let beep = SoundName(.tone, "beep")

    private static func sound(_ byte: UInt8, count: Int = 3, byteCount: Int = 4) -> Sound {
        guard
            let sound = Sound(
                packets: Array(repeating: [0xF8] + [UInt8](repeating: byte, count: byteCount), count: count))
        else { preconditionFailure("a sound of legal packets") }
        return sound
    }

    private static let library: SoundLibrary = {
        var library = SoundLibrary()
        library[ringback] = SoundLibrary.Entry(sound(1), pause: .seconds(4))
        library[beep] = SoundLibrary.Entry(sound(2))
        library[SoundName(.file, "hello")] = SoundLibrary.Entry(sound(3, count: 300, byteCount: 500))
        return library
    }()

    private func make(workers: Int = 1) -> ConductorHarness { ConductorHarness(workers: workers, sounds: Self.library) }

    private func play(
        _ harness: ConductorHarness, _ specification: PromptSpecification, in room: RoomID
    ) throws -> PromptView {
        let reply = harness.request(ConductorHarness.server, .playPrompt(room, specification))
        guard case .prompt(let view) = reply else { throw Unexpected(reply: reply) }
        return view
    }
    private struct Unexpected: Error { var reply: ControlReply }

    private func problem(
        _ harness: ConductorHarness, _ specification: PromptSpecification, in room: RoomID
    ) -> Problem? {
        harness.problem(ConductorHarness.server, .playPrompt(room, specification))
    }

    private func prompts(_ harness: ConductorHarness, in room: RoomID) -> [PromptView] {
        harness.request(ConductorHarness.server, .room(room)).roomView?.prompts ?? []
    }

    private func finished(_ harness: ConductorHarness, _ listener: HarnessParticipant) throws {
        let order = try #require(harness.playing[listener.handle])
        harness.playing[listener.handle] = nil
        harness.news(.played(listener.handle, order.prompt, .finished, at: harness.now))
    }

    private func pair(_ harness: ConductorHarness) -> (RoomID, HarnessParticipant, HarnessParticipant) {
        let room = harness.createRoom("r")
        return (room, harness.joined("alice", in: room), harness.joined("ben", in: room))
    }

    // MARK: Who hears it

    @Test("everybody who is joined hears it, and it is over when the last one has heard it")
    func everybody() throws {
        let harness = make()
        let (room, alice, ben) = pair(harness)
        let prompt = try play(harness, PromptSpecification(Self.beep), in: room)
        #expect(harness.lines == ["prompt.started"])
        #expect(harness.lastTurn.events.first?.value("tone") == .string("beep"))
        #expect(prompt.listeners == [alice.id, ben.id] && prompts(harness, in: room).map(\.id) == [prompt.id])
        #expect(harness.playing[alice.handle]?.times == 1 && harness.playing[ben.handle] != nil)
        try finished(harness, alice)
        #expect(harness.lines.isEmpty && prompts(harness, in: room).first?.listeners == [ben.id])
        try finished(harness, ben)
        #expect(harness.lines == ["prompt.ended finished"])
        #expect(harness.lastTurn.events.first?.value("promptId") == .string(prompt.id.text))
        #expect(prompts(harness, in: room).isEmpty)
    }

    @Test("a worker gets each sound once, before the first order for it, in parts that fit the link")
    func soundsOnce() throws {
        let harness = make()
        let (room, _, _) = pair(harness)
        let hello = PromptSpecification(SoundName(.file, "hello"))
        _ = try play(harness, hello, in: room)
        let parts = harness.lastTurn.commands.compactMap { command -> ([[UInt8]], Bool)? in
            if case .sound(_, let packets, let isLast) = command.command { (packets, isLast) } else { nil }
        }
        #expect(parts.count == 4 && parts.map(\.1) == [false, false, false, true])
        #expect(parts.flatMap(\.0) == Self.library[hello.sound]?.sound.packets)
        for (packets, isLast) in parts {
            let message = LinkMessage.command(.sound(SoundID(1), packets: packets, isLast: isLast))
            #expect(message.encoded().count <= LinkFormat.messageByteCount)
        }
        _ = try play(harness, hello, in: room)
        #expect(!harness.lastTurn.commands.contains { if case .sound = $0.command { true } else { false } })
    }

    @Test("a caller who waits hears the ringback that names it, until the call is answered")
    func ringback() throws {
        let harness = make()
        let room = harness.call("c")
        let alice = harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        let view = try play(harness, PromptSpecification(Self.ringback, to: ["alice"], times: 0), in: room)
        #expect(view.listeners == [alice.id])
        #expect(harness.playing[alice.handle]?.times == 0 && harness.playing[alice.handle]?.pause == .seconds(4))
        #expect(harness.playing[ben.handle] == nil)
        harness.join(ben, in: room)
        #expect(harness.lines == ["call.answered ben", "prompt.ended answered", "participant.joined ben"])
        #expect(harness.playing[alice.handle] == nil)
        harness.join(alice, in: room)
        #expect(harness.playing.isEmpty && prompts(harness, in: room).isEmpty)
    }

    @Test("a prompt of after the answer goes on")
    func afterTheAnswer() throws {
        let harness = make()
        let (room, alice, _) = harness.talking()
        _ = try play(harness, PromptSpecification(Self.ringback, times: 0), in: room)
        harness.advance(.seconds(60))
        #expect(prompts(harness, in: room).count == 1 && harness.playing[alice.handle] != nil)
    }

    @Test("whoever is prepared hears only what names it")
    func preparedIsNotMeant() throws {
        let harness = make()
        let room = harness.createRoom("r")
        let alice = harness.joined("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        _ = try play(harness, PromptSpecification(Self.beep), in: room)
        #expect(harness.playing[alice.handle] != nil && harness.playing[ben.handle] == nil)
        _ = try play(harness, PromptSpecification(Self.beep, to: ["ben"]), in: room)
        #expect(harness.playing[ben.handle] != nil)
    }

    @Test("whoever comes later hears what loops, and nothing else", arguments: [true, false])
    func latecomer(loops: Bool) throws {
        let harness = make()
        let room = harness.createRoom("r", kind: .group)
        let alice = harness.joined("alice", in: room)
        let view = try play(harness, PromptSpecification(Self.beep, times: loops ? 0 : 1), in: room)
        let ben = harness.joined("ben", in: room)
        #expect((harness.playing[ben.handle] != nil) == loops)
        #expect(prompts(harness, in: room).first?.listeners == (loops ? [alice.id, ben.id] : view.listeners))
    }

    @Test("a loop that names somebody who is not there waits for that one")
    func waits() throws {
        let harness = make()
        let room = harness.call("c")
        let view = try play(harness, PromptSpecification(Self.ringback, to: ["alice"], times: 0), in: room)
        #expect(view.listeners.isEmpty)
        let alice = harness.prepared("alice", in: room)
        #expect(harness.playing[alice.handle]?.sound == Self.library[Self.ringback]?.sound.id)
    }

    @Test("the same device preparing anew hears on what loops")
    func preparedAnew() throws {
        let harness = make()
        let (room, _, _) = pair(harness)
        _ = try play(harness, PromptSpecification(Self.beep, to: ["ben"], times: 0), in: room)
        let again = harness.prepared("ben", in: room)
        #expect(harness.playing[again.handle] != nil)
        #expect(prompts(harness, in: room).first?.listeners == [again.id])
    }

    // MARK: How it ends

    @Test("a stop is carried out and told once; repeated, it is as good as the first time")
    func stop() throws {
        let harness = make()
        let (room, alice, ben) = pair(harness)
        let prompt = try play(harness, PromptSpecification(Self.beep, times: 0), in: room)
        #expect(harness.request(ConductorHarness.server, .stopPrompt(room, prompt.id)) == .done)
        #expect(harness.lines == ["prompt.ended stopped"])
        #expect(harness.playing[alice.handle] == nil && harness.playing[ben.handle] == nil)
        #expect(harness.request(ConductorHarness.server, .stopPrompt(room, prompt.id)) == .done)
        #expect(harness.lines.isEmpty)
        let unknown = try #require(PromptID("s_none"))
        #expect(harness.problem(ConductorHarness.server, .stopPrompt(room, unknown))?.code == "no-such-prompt")
    }

    @Test("the latest prompt is heard; one that nobody hears any more for it has ended")
    func replaced() throws {
        let harness = make()
        let (room, _, ben) = pair(harness)
        let first = try play(harness, PromptSpecification(Self.ringback, times: 0), in: room)
        let second = try play(harness, PromptSpecification(Self.beep, to: ["ben"]), in: room)
        #expect(harness.lines == ["prompt.started"] && prompts(harness, in: room).count == 2)
        #expect(harness.playing[ben.handle]?.sound == Self.library[Self.beep]?.sound.id)
        _ = try play(harness, PromptSpecification(Self.beep, to: ["alice"]), in: room)
        #expect(harness.lines == ["prompt.ended replaced", "prompt.started"])
        #expect(harness.lastTurn.events.first?.value("promptId") == .string(first.id.text))
        #expect(prompts(harness, in: room).first?.id == second.id)
    }

    @Test("when its listeners leave, what does not loop is over; what loops waits for the next")
    func left() throws {
        let harness = make()
        let room = harness.createRoom("g", kind: .group)
        let (alice, ben) = (harness.joined("alice", in: room), harness.joined("ben", in: room))
        _ = try play(harness, PromptSpecification(Self.beep, to: ["ben"]), in: room)
        _ = try play(harness, PromptSpecification(Self.ringback, to: ["alice"], times: 0), in: room)
        harness.leave(ben, in: room)
        #expect(harness.lines == ["participant.left ben hangup", "prompt.ended left"])
        harness.leave(alice, in: room)
        #expect(harness.lines == ["participant.left alice hangup"])
        harness.advance(.seconds(61))
        #expect(harness.lines == ["room.closed empty"])
    }

    @Test("the room's end ends what is played without a word of its own")
    func roomEnd() throws {
        let harness = make()
        let (room, _, _) = harness.talking()
        _ = try play(harness, PromptSpecification(Self.beep), in: room)
        harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil)).expectDone()
        #expect(
            harness.lastTurn.events.map(\.type) == [.callEnded, .participantLeft, .participantLeft, .roomClosed])
        #expect(prompts(harness, in: room).isEmpty)
        #expect(problem(harness, PromptSpecification(Self.beep), in: room)?.status == 410)
    }

    @Test("a prompt that its worker could not play to anybody has failed")
    func failed() throws {
        let harness = make()
        let (room, alice, ben) = pair(harness)
        _ = try play(harness, PromptSpecification(Self.beep), in: room)
        for listener in [alice, ben] {
            let order = try #require(harness.playing[listener.handle])
            harness.news(.played(listener.handle, order.prompt, .failed, at: harness.now))
        }
        #expect(harness.lines == ["prompt.ended failed"])
    }

    // MARK: What is refused

    @Test("other sounds can be named after the library was replaced, and a changed one goes to the worker anew")
    func replacedLibrary() throws {
        let harness = make()
        let (room, _, ben) = pair(harness)
        _ = try play(harness, PromptSpecification(Self.beep), in: room)
        try finished(harness, ben)
        var library = Self.library
        library[Self.beep] = SoundLibrary.Entry(Self.sound(9))
        library[Self.ringback] = nil
        harness.conductor.use(library)
        #expect(problem(harness, PromptSpecification(Self.ringback), in: room)?.code == "unknown-sound")
        _ = try play(harness, PromptSpecification(Self.beep), in: room)
        #expect(harness.playing[ben.handle]?.sound == Self.sound(9).id)
    }

    @Test("what cannot be played is refused by name, and nothing is left behind")
    func refusals() throws {
        let harness = make()
        let room = harness.createRoom("r")
        let none = try #require(problem(harness, PromptSpecification(SoundName(.tone, "none")), in: room))
        #expect(none.status == 422 && none.code == "unknown-sound" && none.detail.contains("beep, ringback"))
        #expect(none.members == [.init("field", .string("tone"))])
        let file = try #require(problem(harness, PromptSpecification(SoundName(.file, "beep")), in: room))
        #expect(file.detail.contains("known: hello") && file.members == [.init("field", .string("file"))])
        #expect(problem(harness, PromptSpecification(Self.beep), in: room)?.code == "nobody-listens")
        harness.prepared("ben", in: room)
        #expect(problem(harness, PromptSpecification(Self.beep), in: room)?.code == "nobody-listens")
        #expect(problem(harness, PromptSpecification(Self.beep, to: ["cat"]), in: room)?.code == "nobody-listens")
        let token = ConductorHarness.token("ben", room)
        #expect(harness.problem(token, .playPrompt(room, PromptSpecification(Self.beep)))?.status == 403)
        #expect(prompts(harness, in: room).isEmpty)
        for _ in 0..<16 { _ = try play(harness, PromptSpecification(Self.beep, to: ["cat"], times: 0), in: room) }
        let many = try #require(problem(harness, PromptSpecification(Self.beep, times: 0), in: room))
        #expect(many.status == 409 && many.code == "too-many-prompts" && many.detail.contains("limit is 16"))
    }

    @Test("a request that comes twice with a key is carried out once and answered as before")
    func idempotent() throws {
        let harness = make()
        let (room, _, _) = pair(harness)
        let request = ControlRequest.playPrompt(room, PromptSpecification(Self.beep))
        let key = IdempotencyKey(text: "k", digest: "d")
        let first = harness.request(ConductorHarness.server, request, key: key)
        #expect(
            harness.request(ConductorHarness.server, request, key: key)
                == .repeated(ConductorHarness.text(of: first)))
        #expect(harness.lines.isEmpty && prompts(harness, in: room).count == 1)
    }

    // MARK: Deaths

    @Test("control that comes back lets go on what is heard, sends what was lost, and stops what it does not know")
    func adoption() throws {
        let harness = make()
        let room = harness.createRoom("g", kind: .group)
        let people = ["alice", "ben", "cat"].map { harness.joined($0, in: room) }
        _ = try play(harness, PromptSpecification(Self.beep, to: ["alice", "ben"], times: 0), in: room)
        let order = try #require(harness.playing[people[0].handle])
        harness.restart()
        func snapshot(_ index: Int, _ prompt: PromptHandle?) -> TransportSnapshot {
            var snapshot = harness.snapshot(people[index], in: room, .joined)
            snapshot.prompt = prompt
            return snapshot
        }
        let turn = harness.connect(
            worker, transports: [snapshot(0, order.prompt), snapshot(1, nil), snapshot(2, PromptHandle(77))])
        let told = turn.commands.map(\.command).filter {
            switch $0 {
            case .play, .stopPlaying: true
            default: false
            }
        }
        #expect(told == [.play(people[1].handle, order), .stopPlaying(people[2].handle, PromptHandle(77))])
        #expect(harness.events.count { $0.type == .promptStarted } == 1)
    }

    @Test("what was heard to its end while control was away is over")
    func finishedMeanwhile() throws {
        let harness = make()
        let (room, alice, ben) = pair(harness)
        _ = try play(harness, PromptSpecification(Self.beep, to: ["ben"]), in: room)
        let order = try #require(harness.playing[ben.handle])
        harness.restart()
        harness.connect(
            worker,
            transports: [harness.snapshot(alice, in: room, .joined), harness.snapshot(ben, in: room, .joined)],
            news: [.played(ben.handle, order.prompt, .finished, at: harness.now)])
        #expect(harness.lines.contains("prompt.ended finished"))
        #expect(!harness.lastTurn.commands.contains { if case .play = $0.command { true } else { false } })
    }

    // MARK: The warning before the end

    @Test("a room with a warning tone lets everybody hear it a minute before its end")
    func warning() throws {
        let harness = make()
        let room = harness.createRoom("r") {
            $0.timeouts.maxDuration = .seconds(300)
            $0.timeouts.idle = nil
            $0.warningTone = "beep"
        }
        let (alice, ben) = (harness.joined("alice", in: room), harness.joined("ben", in: room))
        harness.advance(.seconds(239))
        #expect(harness.playing.isEmpty)
        harness.advance(.seconds(2))
        #expect(harness.playing[alice.handle] != nil && harness.playing[ben.handle] != nil)
        #expect(harness.events.suffix(2).map(\.line) == ["room.warning max-duration", "prompt.started"])
    }

    @Test("a room with a warning tone that is not known is not made")
    func unknownWarning() {
        let harness = make()
        var specification = RoomSpecification(id: RoomID("r"), kind: .peer, media: .audio)
        specification.warningTone = "none"
        let problem = harness.problem(ConductorHarness.server, .createRoom(specification))
        #expect(problem?.status == 422 && problem?.members == [.init("field", .string("warningTone"))])
    }
}

extension ControlReply {
    fileprivate func expectDone() { #expect(self == .done) }
}
