import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Sounds of the node's own: who hears them, and that nobody hears where they begin and end.
@Suite("Prompts") struct PromptTests {
    private static let tag: UInt32 = 0x70_70_70_70

    /// Packets of 20 ms that carry the stamps 0 ..< count.
    static func sound(_ count: Int, tag: UInt32 = tag) throws -> Sound {
        try #require(
            Sound(
                packets: (0..<count).map { number in
                    MediaStamp(sender: tag, number: UInt64(number)).stamped([0xF8, 1, 2, 3])
                }))
    }

    private func talking() throws -> (CallScene, CallScene.Participant, CallScene.Participant) {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        return (scene, a, b)
    }

    private func numbers(_ receiver: CallScene.Participant, slot: Int = 0, tag: UInt32 = tag) -> [UInt64] {
        (receiver.client.stream(.audio, slot: slot)?.stamps ?? []).filter { $0.sender == tag }.map(\.number)
    }

    private func ends(_ scene: CallScene, of participant: CallScene.Participant) -> [(PromptHandle, PromptEnd)] {
        scene.news(of: participant).compactMap { news in
            if case .played(_, let prompt, let end, _) = news { (prompt, end) } else { nil }
        }
    }

    /// Numbers without a hole, and time that neither stands still nor leaves the clock on the wall.
    private func expectSeamless(_ receiver: CallScene.Participant, slot: Int = 0) throws {
        let stream = try #require(receiver.client.stream(.audio, slot: slot))
        #expect(stream.missingCount == 0)
        let packets = stream.sorted
        for (earlier, later) in zip(packets, packets.dropFirst()) {
            let ticks = later.timestamp &- earlier.timestamp
            #expect(ticks >= 960 && ticks.isMultiple(of: 960), "\(ticks) ticks")
            let wait = (later.arrivedAt - earlier.arrivedAt).microseconds * 48 / 1_000
            #expect(abs(Int64(ticks) - wait) <= 960, "\(ticks) ticks in a time of \(wait)")
        }
        let (first, last) = (try #require(packets.first), try #require(packets.last))
        let passed = (last.arrivedAt - first.arrivedAt).microseconds * 48 / 1_000
        #expect(abs(Int64(last.timestamp &- first.timestamp) - passed) <= 1_920)
    }

    @Test("a prompt is heard in place of the other side, who goes on after it, all without a seam")
    func inPlaceOfTheOther() throws {
        let (scene, a, b) = try talking()
        let back = a.client.heard(.audio, from: b.client).count
        let prompt = scene.play(try Self.sound(50), to: b)
        #expect(scene.engine.snapshot().first { $0.participant == b.handle }?.prompt == prompt)
        scene.run(for: .milliseconds(900))
        #expect(ends(scene, of: b).isEmpty)
        scene.run(for: .milliseconds(1_100))
        #expect(numbers(b) == Array(0..<50))
        #expect(ends(scene, of: b).map(\.0) == [prompt] && ends(scene, of: b).map(\.1) == [.finished])
        #expect(scene.engine.snapshot().allSatisfy { $0.prompt == nil })
        let packets = try #require(b.client.stream(.audio)).sorted
        let first = try #require(packets.firstIndex { $0.stamp?.sender == Self.tag })
        #expect(packets[first..<first + 50].allSatisfy { $0.stamp?.sender == Self.tag }, "nobody is heard between")
        #expect(packets[first].marker && packets[first + 50].marker)
        #expect(packets[(first + 1)..<(first + 50)].allSatisfy { !$0.marker })
        #expect(packets[(first + 50)...].allSatisfy { $0.stamp?.sender == a.client.tag })
        #expect(packets.count >= first + 50 + 45)
        #expect(Set(packets.map(\.payloadType)).count == 1 && Set(packets.map(\.mid)).count == 1)
        try expectSeamless(b)
        #expect(a.client.heard(.audio, from: b.client).count >= back + 98, "the other direction never stops")
        #expect(numbers(a).isEmpty)
    }

    @Test("the picture and its clock go on while a prompt plays")
    func picture() throws {
        let (scene, _, b) = try talking()
        let shown = try #require(b.client.stream(.video)).decodablePictures.count
        scene.play(try Self.sound(100), to: b)
        scene.run(for: .seconds(2))
        #expect(try #require(b.client.stream(.video)).decodablePictures.count >= shown + 48)
    }

    @Test("a caller who waits hears its ringback and nothing else; whoever was not meant hears nothing")
    func waitingCaller() throws {
        let scene = try CallScene()
        let (caller, callee) = try scene.makePair(joined: false)
        let prompt = scene.play(try Self.sound(10), to: caller, times: 0, pause: .milliseconds(300))
        scene.run(for: .seconds(2))
        let heard = numbers(caller)
        #expect(heard.count == 40 && heard.allSatisfy { $0 < 10 })
        #expect(caller.client.stream(.audio)?.packetCount == heard.count, "nothing but the prompt")
        #expect((caller.client.stream(.video)?.packetCount ?? 0) == 0)
        #expect(callee.client.received.values.allSatisfy { $0.packetCount == 0 })
        scene.command(.stopPlaying(caller.handle, prompt))
        scene.join(caller)
        scene.join(callee)
        scene.run(for: .seconds(1))
        #expect(caller.client.heard(.audio, from: callee.client).count >= 45)
        #expect(numbers(caller).count <= heard.count + 1)
        #expect(numbers(callee).isEmpty)
        try expectSeamless(caller)
    }

    @Test("between two times the others are heard")
    func pauses() throws {
        let (scene, a, b) = try talking()
        scene.play(try Self.sound(5), to: b, times: 3, pause: .milliseconds(400))
        scene.run(for: .seconds(2))
        #expect(numbers(b) == Array(repeating: Array(0..<5), count: 3).flatMap { $0 })
        let packets = try #require(b.client.stream(.audio)).sorted
        let played = packets.indices.filter { packets[$0].stamp?.sender == Self.tag }
        let between = zip(played, played.dropFirst()).map { $1 - $0 - 1 }.filter { $0 > 0 }
        #expect(between.count == 2 && between.allSatisfy { (18...20).contains($0) }, "\(between)")
        #expect(ends(scene, of: b).count == 1)
        try expectSeamless(b)
        #expect(a.client.isConnected)
    }

    @Test("a prompt that is stopped is over at once and not told")
    func stopped() throws {
        let (scene, a, b) = try talking()
        let prompt = scene.play(try Self.sound(100), to: b)
        scene.run(for: .milliseconds(500))
        scene.command(.stopPlaying(b.handle, PromptHandle(prompt.value ^ 1)))
        scene.run(for: .milliseconds(100))
        #expect(numbers(b).count >= 29, "another prompt's stop is not this one's")
        scene.command(.stopPlaying(b.handle, prompt))
        scene.run(for: .milliseconds(20))
        let heard = numbers(b).count
        scene.run(for: .seconds(1))
        #expect(numbers(b).count == heard && ends(scene, of: b).isEmpty)
        #expect(try #require(b.client.stream(.audio)).sorted.suffix(40).allSatisfy { $0.stamp?.sender == a.client.tag })
        try expectSeamless(b)
    }

    @Test("the latest prompt is heard; the one before it ends without a word")
    func replaced() throws {
        let (scene, _, b) = try talking()
        let other: UInt32 = 0x71_71_71_71
        scene.play(try Self.sound(100), to: b)
        scene.run(for: .milliseconds(500))
        let second = scene.play(try Self.sound(20, tag: other), to: b)
        scene.run(for: .seconds(1))
        #expect(numbers(b).count < 30 && numbers(b, tag: other) == Array(0..<20))
        #expect(ends(scene, of: b).map(\.0) == [second])
        try expectSeamless(b)
    }

    @Test("who is on hold hears nothing; the prompt goes on in time meanwhile")
    func onHold() throws {
        let (scene, _, b) = try talking()
        scene.play(try Self.sound(100), to: b)
        scene.run(for: .milliseconds(400))
        scene.setGates(.held, of: b)
        scene.run(for: .milliseconds(20))
        let heard = numbers(b).count
        scene.run(for: .seconds(1))
        #expect(numbers(b).count == heard)
        scene.setGates([], of: b)
        scene.run(for: .seconds(1))
        let rest = numbers(b)[heard...]
        #expect((48...52).contains(Int(rest.first ?? 0) - heard), "a second has passed")
        #expect(rest.last == 99 && ends(scene, of: b).count == 1)
        try expectSeamless(b)
    }

    @Test("whoever is held by the other side may be played something, and hears it again after that")
    func heldOther() throws {
        let (scene, a, b) = try talking()
        scene.setGates(.held, of: a)
        let music = scene.play(try Self.sound(25), to: b, times: 0)
        scene.run(for: .seconds(2))
        #expect(numbers(b).count >= 98)
        #expect(a.client.stream(.audio).map { $0.stamps.contains { $0.sender == Self.tag } } == false)
        scene.setGates([], of: a)
        scene.command(.stopPlaying(b.handle, music))
        let before = b.client.heard(.audio, from: a.client).count
        scene.run(for: .seconds(1))
        #expect(b.client.heard(.audio, from: a.client).count >= before + 48)
        try expectSeamless(b)
    }

    @Test("in a group a free slot is used, and everybody is heard on")
    func groupWithFreeSlot() throws {
        let group = try GroupScene()
        let people = try (0..<2).map { _ in try group.add(slots: 2, level: 30) }
        group.scene.run(for: .seconds(1))
        let before = GroupTests.heard(people[0].client, from: people[1].client, slots: 2)
        group.scene.play(try Self.sound(50), to: people[0])
        group.scene.run(for: .seconds(1))
        #expect(GroupTests.heard(people[0].client, from: people[1].client, slots: 2) >= before + 49)
        #expect(numbers(people[0], slot: 1).count >= 49 && numbers(people[0]).isEmpty)
        #expect(numbers(people[1]).isEmpty && numbers(people[1], slot: 1).isEmpty)
    }

    @Test("in a group without a free slot the last one is, and gets back whoever was there")
    func groupWithoutFreeSlot() throws {
        let group = try GroupScene()
        let people = try (0..<3).map { _ in try group.add(slots: 2, level: 30) }
        group.scene.run(for: .seconds(1))
        group.scene.play(try Self.sound(50), to: people[0])
        group.scene.run(for: .milliseconds(900))
        #expect(numbers(people[0], slot: 1).count >= 44)
        #expect(group.recent(.audio, at: people[0], for: .milliseconds(800)).count == 1, "the other slot goes on")
        group.scene.run(for: .milliseconds(1_100))
        #expect(group.recent(.audio, at: people[0], for: .milliseconds(800)) == [1, 2])
        for slot in 0..<2 { try expectSeamless(people[0], slot: slot) }
    }

    @Test("a sound that is not here, and a client that hears no sound, are told at once")
    func failures() throws {
        let (scene, a, _) = try talking()
        let order = PromptOrder(prompt: PromptHandle(9), sound: SoundID(9), times: 1, pause: .zero)
        scene.command(.play(a.handle, order))
        #expect(ends(scene, of: a).map(\.1) == [.failed])
        let late = try scene.prepare(scene.makeClient(), in: scene.makeRoom())
        scene.play(try Self.sound(5), to: late)
        #expect(ends(scene, of: late).map(\.1) == [.failed], "without keys nothing can be sent")
    }

    @Test("whoever goes takes its prompt along, and the sound is there for the next one")
    func leaving() throws {
        let (scene, a, b) = try talking()
        scene.play(try Self.sound(200), to: b, times: 0)
        scene.run(for: .milliseconds(200))
        scene.remove(b)
        scene.run(for: .milliseconds(200))
        scene.play(try Self.sound(200), to: a)
        scene.run(for: .milliseconds(200))
        #expect(numbers(a).count >= 9)
    }

    @Test("sounds beyond what a worker keeps push out those that nobody hears, and never one that is heard")
    func store() throws {
        let (scene, a, b) = try talking()
        let heard = try Self.sound(3_000, tag: 1)
        let unheard = try Self.sound(5, tag: 2)
        scene.play(heard, to: b)
        scene.command(.sound(unheard.id, packets: unheard.packets, isLast: true))
        for number in 0..<300 {
            let sound = try Self.sound(5, tag: 100 + UInt32(number))
            scene.command(.sound(sound.id, packets: sound.packets, isLast: true))
        }
        scene.command(
            .play(a.handle, PromptOrder(prompt: PromptHandle(9), sound: unheard.id, times: 1, pause: .zero)))
        #expect(ends(scene, of: a).map(\.1) == [.failed])
        scene.run(for: .seconds(1))
        #expect(numbers(b, tag: 1).count >= 48)
    }

    @Test("a sound comes in parts, and one that is not what its name says is not kept")
    func parts() throws {
        let (scene, a, b) = try talking()
        let sound = try Self.sound(40)
        scene.command(.sound(sound.id, packets: Array(sound.packets[..<15]), isLast: false))
        scene.command(.sound(sound.id, packets: Array(sound.packets[15...]), isLast: true))
        let order = PromptOrder(prompt: PromptHandle(9), sound: sound.id, times: 1, pause: .zero)
        scene.play(try Self.sound(1, tag: 5), to: b)
        scene.command(.play(b.handle, order))
        let wrong = try Self.sound(7, tag: 7)
        scene.command(.sound(wrong.id, packets: Array(wrong.packets.dropLast()), isLast: true))
        scene.command(
            .play(a.handle, PromptOrder(prompt: PromptHandle(8), sound: wrong.id, times: 1, pause: .zero)))
        #expect(ends(scene, of: a).map(\.1) == [.failed])
        scene.run(for: .seconds(1))
        #expect(numbers(b) == Array(0..<40))
    }

    @Test("a worker that is late does not send what was missed in one go")
    func lateWorker() throws {
        let (scene, _, b) = try talking()
        scene.play(try Self.sound(100), to: b)
        scene.run(for: .milliseconds(200))
        let before = scene.engine.counters.packetsForwarded
        scene.engine.advance(to: scene.now + .seconds(1))
        #expect(scene.engine.counters.packetsForwarded <= before + 2)
    }
}
