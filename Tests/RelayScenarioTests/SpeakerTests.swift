import RTPCore
import RelayCore
import RelayTesting
import Testing

/// A group room in virtual time whose members say how loud they are.
final class GroupScene {
    let scene: CallScene
    let room: RoomHandle
    private(set) var people: [CallScene.Participant] = []

    init(seed: UInt64 = 1, quality: VirtualNetwork.Quality = .perfect) throws {
        scene = try CallScene(seed: seed, quality: quality)
        room = scene.makeRoom()
    }

    /// Somebody with as many slots of each kind comes in; silent at first unless `level` says more.
    @discardableResult
    func add(
        slots: Int, level: UInt8 = 127, joins: Bool = true, clockOffset: Interval = .zero
    ) throws -> CallScene.Participant {
        let client = scene.makeClient {
            $0.clockOffset = clockOffset
            $0.extraAudioSlots = slots - 1
            $0.extraVideoSlots = slots - 1
        }
        client.audioLevel = level
        let participant = try scene.prepare(client, in: room, kind: .group, joins: joins)
        people.append(participant)
        return participant
    }

    /// Everybody whom `receiver` got at least `count` packets of a kind from in the last `time`.
    func recent(
        _ kind: MediaKind, at receiver: CallScene.Participant, for time: Interval = .seconds(1), count: Int = 20
    ) -> Set<Int> {
        let since = scene.now - time
        var packets: [UInt32: Int] = [:]
        for stream in streams(kind, of: receiver) {
            for packet in stream.packets.reversed() {
                guard packet.arrivedAt >= since else { break }
                if let stamp = packet.stamp { packets[stamp.sender, default: 0] += 1 }
            }
        }
        return Set(people.indices.filter { packets[people[$0].client.tag, default: 0] >= count })
    }

    func streams(_ kind: MediaKind, of receiver: CallScene.Participant) -> [ReceivedStream] {
        (0..<64).compactMap { receiver.client.stream(kind, slot: $0) }
    }

    func slotNews(of receiver: CallScene.Participant) -> [[SlotOccupant]] {
        scene.news(of: receiver).compactMap { if case .slots(_, let slots, _) = $0 { slots } else { nil } }
    }

    /// Who became the speaker, in order.
    var speakers: [Int] {
        scene.news.compactMap { news in
            guard case .speaker(let handle, _) = news else { return nil }
            return people.firstIndex { $0.handle == handle }
        }
    }

    func pin(_ pinned: CallScene.Participant?, at receiver: CallScene.Participant, videoSlot: Int = 0) {
        let sections = receiver.session.sections.indices.filter {
            receiver.session.sections[$0].kind == .video && receiver.session.sections[$0].clientReceives
        }
        let wishes = pinned.map { [SlotWish(section: UInt8(sections[videoSlot]), pinned: $0.handle)] } ?? []
        scene.command(.slots(receiver.handle, wishes))
    }
}

@Suite("Who is heard in a group") struct SpeakerTests {
    @Test("of six, the two who speak are heard on the two slots of everybody else")
    func loudest() throws {
        let group = try GroupScene()
        for level: UInt8 in [127, 25, 127, 127, 35, 127] { try group.add(slots: 2, level: level) }
        group.scene.run(for: .seconds(4))
        for (k, person) in group.people.enumerated() where k != 1 && k != 4 {
            #expect(group.recent(.audio, at: person) == [1, 4], "of \(k)")
        }
        #expect(group.recent(.audio, at: group.people[1]).contains(4))
        #expect(group.recent(.audio, at: group.people[4]).contains(1))
        #expect(group.speakers == [1])
    }

    @Test("nobody hears itself, whatever the number of its slots")
    func notItself() throws {
        let group = try GroupScene()
        for (slots, level): (Int, UInt8) in [(1, 20), (2, 30), (3, 40), (5, 50)] {
            try group.add(slots: slots, level: level)
        }
        group.scene.run(for: .seconds(3))
        for (k, person) in group.people.enumerated() {
            #expect(!group.recent(.audio, at: person, count: 1).contains(k))
            #expect(!group.recent(.video, at: person, count: 1).contains(k))
        }
        #expect(group.recent(.audio, at: group.people[0]) == [1])
        #expect(group.recent(.audio, at: group.people[1]) == [0, 2])
        #expect(group.recent(.audio, at: group.people[3]) == [0, 1, 2])
    }

    @Test("a silent one who begins to speak is heard within 250 ms, and has the floor within 1.5 s")
    func begins() throws {
        let group = try GroupScene()
        for _ in 0..<6 { try group.add(slots: 2) }
        group.scene.run(for: .seconds(3))
        let receiver = group.people[0]
        let newcomer = try #require((1..<6).first { !group.recent(.audio, at: receiver).contains($0) })
        let start = group.scene.now
        group.people[newcomer].client.audioLevel = 30
        group.scene.run(for: .seconds(2))
        let tag = group.people[newcomer].client.tag
        let first = group.streams(.audio, of: receiver).flatMap(\.packets)
            .filter { $0.stamp?.sender == tag && $0.arrivedAt > start }.map(\.arrivedAt).min()
        #expect(try #require(first) - start <= .milliseconds(250))
        #expect(group.speakers == [newcomer])
    }

    @Test("a slot stays one stream through every change: numbers without a gap, time never back")
    func oneStream() throws {
        let group = try GroupScene()
        for _ in 0..<5 { try group.add(slots: 1) }
        group.scene.run(for: .seconds(1))
        for turn in 0..<8 {
            for (k, person) in group.people.enumerated() { person.client.audioLevel = k == turn % 5 ? 30 : 127 }
            group.scene.run(for: .seconds(4))
        }
        for person in group.people {
            let stream = try #require(person.client.stream(.audio))
            #expect(Set(stream.stamps.map(\.sender)).count == 4, "everybody else was heard")
            #expect(stream.missingCount == 0)
            for (earlier, later) in zip(stream.sorted, stream.sorted.dropFirst()) {
                let step = Int32(bitPattern: later.timestamp &- earlier.timestamp)
                #expect(step > 0 && step <= 48_000 / 2, "a step of \(step)")
            }
            #expect(person.client.counters.unknownSSRC == 0)
        }
    }

    @Test("C03 a slot fed by one at 9000, by another at 120, and by the first again has numbers that go on")
    func c03SourceSwitch() throws {
        let group = try GroupScene()
        for _ in 0..<3 { try group.add(slots: 1) }
        group.people[1].client.setNextSequence(.audio, 9_000)
        group.people[2].client.setNextSequence(.audio, 120)
        for speaker in [1, 2, 1] {
            for (k, person) in group.people.enumerated() { person.client.audioLevel = k == speaker ? 30 : 127 }
            group.scene.run(for: .seconds(4))
        }
        let receiver = group.people[0].client
        let stream = try #require(receiver.stream(.audio))
        let senders = stream.stamps.map(\.sender)
        let changes = zip(senders, senders.dropFirst()).count { $0 != $1 }
        #expect(changes >= 2 && stream.missingCount == 0)
        #expect(receiver.counters.replayedRTP == 0 && receiver.counters.unopenedRTP == 0)
    }

    @Test("C03 a newcomer in the slot of one who left goes on with its SSRC and numbers")
    func c03Newcomer() throws {
        let group = try GroupScene()
        let receiver = try group.add(slots: 1)
        let first = try group.add(slots: 1, level: 30)
        group.scene.run(for: .seconds(2))
        group.scene.leave(first)
        let second = try group.add(slots: 1, level: 30)
        second.client.setNextSequence(.audio, 1)
        group.scene.run(for: .seconds(3))
        for kind in MediaKind.allCases {
            let stream = try #require(receiver.client.stream(kind))
            #expect(Set(stream.stamps.map(\.sender)) == [first.client.tag, second.client.tag])
            #expect(stream.missingCount == 0)
        }
        #expect(receiver.client.counters.unknownSSRC == 0 && receiver.client.counters.replayedRTP == 0)
    }

    @Test("three who talk at once and by turns do not flap on two slots")
    func noFlapping() throws {
        let group = try GroupScene()
        for _ in 0..<4 { try group.add(slots: 2) }
        group.scene.run(for: .seconds(1))
        let receiver = group.people[3]
        let before = group.slotNews(of: receiver).count
        for step in 0..<80 {
            for k in 0..<3 { group.people[k].client.audioLevel = step % 3 == k ? 28 : 45 }
            group.scene.run(for: .milliseconds(250))
        }
        #expect(group.slotNews(of: receiver).count - before <= 3)
        #expect(group.speakers.count <= 3)
    }

    @Test("one who is muted is not heard and keeps nobody from a slot")
    func muted() throws {
        let group = try GroupScene()
        for level: UInt8 in [127, 20, 40] { try group.add(slots: 1, level: level) }
        group.scene.run(for: .seconds(2))
        #expect(group.recent(.audio, at: group.people[0]) == [1])
        group.scene.setGates(.ownAudio, of: group.people[1])
        group.scene.run(for: .seconds(4))
        #expect(group.recent(.audio, at: group.people[0]) == [2])
        #expect(group.speakers.last == 2)
    }

    @Test("one who never says what is voice is heard by its levels alone")
    func noVoiceBit() throws {
        let group = try GroupScene()
        for _ in 0..<3 { try group.add(slots: 1) }
        let client = group.scene.makeClient { $0.marksVoice = false }
        let talker = try group.scene.prepare(client, in: group.room, kind: .group, joins: true)
        group.scene.run(for: .seconds(3))
        #expect(group.people[0].client.heard(.audio, from: client).count > 80)
        #expect(group.scene.engine.snapshot().filter(\.isSpeaker).map(\.participant) == [talker.handle])
    }

    @Test("without levels everybody has the slots in the order of joining")
    func noLevels() throws {
        let group = try GroupScene()
        let clients = (0..<3).map { _ in
            group.scene.makeClient {
                $0.dialect = .gstreamer
                $0.hasVideo = false
            }
        }
        let people = try clients.map { try group.scene.prepare($0, in: group.room, kind: .group, joins: true) }
        group.scene.run(for: .seconds(2))
        #expect(people[0].client.heard(.audio, from: clients[1]).count > 80)
        #expect(people[2].client.heard(.audio, from: clients[0]).count > 80)
    }

    @Test("a peer room tells of no slots and no speaker")
    func peer() throws {
        let scene = try CallScene()
        _ = try scene.makePair()
        scene.run(for: .seconds(2))
        for news in scene.news {
            switch news {
            case .slots, .speaker: Issue.record("\(news)")
            default: break
            }
        }
        #expect(scene.engine.snapshot().allSatisfy { $0.slots.isEmpty && !$0.isSpeaker })
    }

    @Test("the news name who is in which slot, and the hello's snapshot says the same")
    func told() throws {
        let group = try GroupScene()
        for level: UInt8 in [127, 30, 127, 127] { try group.add(slots: 2, level: level) }
        group.scene.run(for: .seconds(3))
        group.scene.leave(group.people[2])
        group.scene.run(for: .seconds(3))
        for snapshot in group.scene.engine.snapshot() {
            let person = try #require(group.people.first { $0.handle == snapshot.participant })
            #expect(group.slotNews(of: person).last == snapshot.slots)
            #expect(snapshot.isSpeaker == (person === group.people[1]))
            for slot in snapshot.slots {
                let sender = try #require(group.people.firstIndex { $0.handle == slot.sender })
                let section = person.session.sections[Int(slot.section)]
                let stream = try #require(person.client.received[section.sendSSRC])
                #expect(stream.packets.last?.stamp?.sender == group.people[sender].client.tag)
            }
            #expect(snapshot.slots.count == 4)
        }
    }
}
