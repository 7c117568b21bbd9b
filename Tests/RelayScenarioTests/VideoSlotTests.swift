import RTPCore
import RelayCore
import RelayTesting
import Testing

@Suite("Who is seen in a group") struct VideoSlotTests {
    /// Lets one speak and the others be silent.
    private func speaks(_ speaker: Int?, _ group: GroupScene, for time: Interval) {
        for (k, person) in group.people.enumerated() { person.client.audioLevel = k == speaker ? 30 : 127 }
        group.scene.run(for: time)
    }

    /// Every picture after the first was whole and referred to what had come; none is late by more than `gap`.
    private func expectSmooth(_ stream: ReceivedStream, gap: Interval, _ comment: Comment) {
        let pictures = stream.decodablePictures
        let frames = stream.sorted.count(where: \.marker)
        #expect(pictures.count >= frames - 1, comment)
        for (earlier, later) in zip(pictures, pictures.dropFirst()) {
            #expect(later.completeAt - earlier.completeAt <= gap, comment)
            #expect(Int32(bitPattern: later.timestamp &- earlier.timestamp) > 0, comment)
        }
    }

    /// Wherever the sender changes in a slot, a key frame begins.
    private func expectCleanSwitches(_ stream: ReceivedStream) -> Int {
        var switches = 0
        let packets = stream.sorted
        for (earlier, later) in zip(packets, packets.dropFirst())
        where earlier.stamp?.sender != later.stamp?.sender {
            switches += 1
            #expect(later.payload[0] == 0x90 && later.payload[4] & 1 == 0, "a switch amid a picture or to a delta")
            #expect(earlier.marker, "the old picture was cut")
        }
        return switches
    }

    @Test("the picture follows the speaker, at a key frame, without a stop, though that is 300 ms away")
    func followsSpeaker() throws {
        let group = try GroupScene(quality: VirtualNetwork.Quality(delay: .milliseconds(150)))
        for _ in 0..<4 { try group.add(slots: 1) }
        group.scene.run(for: .seconds(4))
        for speaker in [1, 2, 3, 1, 2] {
            speaks(speaker, group, for: .seconds(5))
            #expect(group.recent(.video, at: group.people[0]) == [speaker])
        }
        let stream = try #require(group.people[0].client.stream(.video))
        #expect(expectCleanSwitches(stream) >= 4)
        expectSmooth(stream, gap: .milliseconds(100), "of slot 0")
        #expect(stream.missingCount == 0)
    }

    @Test("the speaker sees who spoke before")
    func speakerSees() throws {
        let group = try GroupScene()
        for _ in 0..<4 { try group.add(slots: 1) }
        speaks(2, group, for: .seconds(4))
        speaks(3, group, for: .seconds(4))
        #expect(group.recent(.video, at: group.people[3]) == [2])
        #expect(group.recent(.video, at: group.people[0]) == [3])
    }

    @Test("with two slots the last two who spoke are seen, and neither moves while they take turns")
    func lastActive() throws {
        let group = try GroupScene()
        for _ in 0..<5 { try group.add(slots: 2) }
        for speaker in [3, 4, 3, 4, 3] { speaks(speaker, group, for: .seconds(4)) }
        #expect(group.recent(.video, at: group.people[0]) == [3, 4])
        let senders = try (0..<2).map {
            Set(try #require(group.people[0].client.stream(.video, slot: $0)).stamps.suffix(500).map(\.sender))
        }
        #expect(senders.allSatisfy { $0.count == 1 })
    }

    @Test("a pinned one is seen whoever speaks, and the speaker on what is left")
    func pinned() throws {
        let group = try GroupScene()
        for _ in 0..<5 { try group.add(slots: 2) }
        speaks(1, group, for: .seconds(3))
        group.pin(group.people[4], at: group.people[0])
        group.scene.run(for: .seconds(1))
        #expect(group.people[0].client.heard(.video, from: group.people[4].client, slot: 0).count > 20)
        speaks(2, group, for: .seconds(5))
        speaks(3, group, for: .seconds(5))
        #expect(group.recent(.video, at: group.people[0]) == [3, 4])
        group.pin(nil, at: group.people[0])
        speaks(2, group, for: .seconds(5))
        #expect(group.recent(.video, at: group.people[0]) == [2, 3])
        for slot in 0..<2 {
            let stream = try #require(group.people[0].client.stream(.video, slot: slot))
            _ = expectCleanSwitches(stream)
            expectSmooth(stream, gap: .milliseconds(150), "of slot \(slot)")
        }
    }

    @Test("a pin waits for one who is not there yet, and lets go of one who leaves")
    func pinWaits() throws {
        let group = try GroupScene()
        for _ in 0..<3 { try group.add(slots: 1) }
        let late = try group.add(slots: 1, joins: false)
        speaks(1, group, for: .seconds(2))
        group.pin(late, at: group.people[0])
        speaks(1, group, for: .seconds(2))
        #expect(group.recent(.video, at: group.people[0]) == [1])
        group.scene.join(late)
        speaks(1, group, for: .seconds(2))
        #expect(group.recent(.video, at: group.people[0]) == [3])
        group.scene.leave(late)
        speaks(1, group, for: .seconds(2))
        #expect(group.recent(.video, at: group.people[0]) == [1])
    }

    @Test("a camera that is off does not take a slot from one that is on, though its user speaks")
    func cameraOff() throws {
        let group = try GroupScene()
        for _ in 0..<4 { try group.add(slots: 1) }
        speaks(1, group, for: .seconds(3))
        group.scene.setGates(.ownVideo, of: group.people[2])
        speaks(2, group, for: .seconds(5))
        #expect(group.recent(.audio, at: group.people[0]) == [2])
        #expect(group.recent(.video, at: group.people[0]) == [1])
        group.scene.setGates([], of: group.people[2])
        speaks(2, group, for: .seconds(3))
        #expect(group.recent(.video, at: group.people[0]) == [2])
    }

    @Test("one from whom nothing comes any more gives its slot to the others after 5 s, long before it counts as lost")
    func vanishes() throws {
        let group = try GroupScene()
        for _ in 0..<4 { try group.add(slots: 1) }
        speaks(1, group, for: .seconds(3))
        group.people[1].client.vanish()
        speaks(nil, group, for: .seconds(4))
        #expect(group.recent(.video, at: group.people[0], count: 1).isEmpty)
        speaks(nil, group, for: .seconds(3))
        #expect(group.recent(.video, at: group.people[0]) == [2])
        #expect(group.scene.end(of: group.people[1]) == nil)
    }

    @Test("whoever pins twenty times a second is told four times a second who is seen, and at last what is so")
    func tellingIsBounded() throws {
        let group = try GroupScene()
        for _ in 0..<4 { try group.add(slots: 1) }
        speaks(1, group, for: .seconds(3))
        let before = group.slotNews(of: group.people[0]).count
        for step in 0..<100 {
            group.pin(group.people[1 + step % 3], at: group.people[0])
            group.scene.run(for: .milliseconds(50))
        }
        #expect(group.slotNews(of: group.people[0]).count - before <= 24)
        group.scene.run(for: .seconds(2))
        let snapshot = group.scene.engine.snapshot().first { $0.participant == group.people[0].handle }
        #expect(group.slotNews(of: group.people[0]).last == snapshot?.slots)
        #expect(snapshot?.slots.last?.sender == group.people[1].handle)
    }

    @Test("who leaves while a slot waits for its key frame, or shows it, leaves no trace")
    func leavesWhileAwaited() throws {
        for leaver in [1, 2] {
            let group = try GroupScene()
            for _ in 0..<4 { try group.add(slots: 1) }
            speaks(1, group, for: .seconds(3))
            group.pin(group.people[2], at: group.people[0])
            group.scene.leave(group.people[leaver])
            speaks(nil, group, for: .seconds(3))
            let shown = group.recent(.video, at: group.people[0])
            #expect(shown == [leaver == 1 ? 2 : 1])
            _ = expectCleanSwitches(try #require(group.people[0].client.stream(.video)))
        }
    }

    @Test(
        "on a lossy network every slot still shows only pictures that can be decoded", arguments: [1, 2, 3] as [UInt64])
    func lossy(seed: UInt64) throws {
        var quality = VirtualNetwork.Quality.perfect
        quality.loss = 0.03
        let group = try GroupScene(seed: seed, quality: quality)
        for _ in 0..<4 { try group.add(slots: 1) }
        for speaker in [1, 2, 3, 1] { speaks(speaker, group, for: .seconds(5)) }
        for person in group.people {
            let stream = try #require(person.client.stream(.video))
            #expect(stream.decodablePictures.count > 350, "\(stream.decodablePictures.count)")
        }
    }
}
