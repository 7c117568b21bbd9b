import RTPCore
import RelayCore
import RelayTesting
import Testing

@Suite("Group rooms") struct GroupTests {
    static func makeClient(_ scene: CallScene, others: Int) -> SimulatedClient {
        scene.makeClient {
            $0.extraAudioSlots = others - 1
            $0.extraVideoSlots = others - 1
        }
    }

    /// Whom a client hears on any of its slots, with how many packets.
    static func heard(_ receiver: SimulatedClient, from sender: SimulatedClient, slots: Int) -> Int {
        (0..<slots).map { receiver.heard(.audio, from: sender, slot: $0).count }.max() ?? 0
    }

    @Test("three people each hear and see the two others, each on one slot")
    func three() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let people = try (0..<3).map { _ in
            try scene.prepare(Self.makeClient(scene, others: 2), in: room, kind: .group, joins: true)
        }
        scene.run(for: .seconds(3))
        for receiver in people {
            for sender in people where sender !== receiver {
                #expect(Self.heard(receiver.client, from: sender.client, slots: 2) >= 130)
            }
            for slot in 0..<2 {
                let stream = try #require(receiver.client.stream(.video, slot: slot))
                #expect(Set(stream.stamps.map(\.sender)).count == 1, "a slot carries one track")
                #expect(stream.decodablePictures.count >= 60)
            }
        }
    }

    @Test("somebody who comes later hears and sees all, and all hear and see them")
    func latecomer() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(Self.makeClient(scene, others: 2), in: room, kind: .group, joins: true)
        let b = try scene.prepare(Self.makeClient(scene, others: 2), in: room, kind: .group, joins: true)
        scene.run(for: .seconds(2))
        let late = try scene.prepare(Self.makeClient(scene, others: 2), in: room, kind: .group, joins: true)
        scene.run(for: .seconds(2))
        for other in [a, b] {
            #expect(Self.heard(late.client, from: other.client, slots: 2) >= 80)
            #expect(Self.heard(other.client, from: late.client, slots: 2) >= 80)
        }
        for slot in 0..<2 {
            #expect(late.client.stream(.video, slot: slot)?.decodablePictures.first?.isKey == true)
        }
    }

    @Test("whoever leaves frees its slot for the next one")
    func slotIsFreed() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(Self.makeClient(scene, others: 1), in: room, kind: .group, joins: true)
        let b = try scene.prepare(Self.makeClient(scene, others: 1), in: room, kind: .group, joins: true)
        scene.run(for: .seconds(1))
        scene.leave(b)
        scene.run(for: .seconds(1))
        let c = try scene.prepare(Self.makeClient(scene, others: 1), in: room, kind: .group, joins: true)
        scene.run(for: .seconds(2))
        #expect(Self.heard(a.client, from: c.client, slots: 1) >= 80)
        let stream = try #require(a.client.stream(.audio))
        #expect(stream.missingCount == 0, "the slot's numbers go on")
        let times = stream.sorted.map(\.timestamp)
        for (earlier, later) in zip(times, times.dropFirst()) {
            #expect(Int32(bitPattern: later &- earlier) > 0)
        }
    }

    @Test("without a free slot a newcomer is not forwarded, and gets one when somebody leaves")
    func noFreeSlot() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let people = try (0..<3).map { _ in
            try scene.prepare(Self.makeClient(scene, others: 1), in: room, kind: .group, joins: true)
        }
        scene.run(for: .seconds(2))
        let (a, b, c) = (people[0], people[1], people[2])
        let before = Self.heard(a.client, from: c.client, slots: 1) + Self.heard(a.client, from: b.client, slots: 1)
        #expect(before >= 80)
        let heardIsB = Self.heard(a.client, from: b.client, slots: 1) > 0
        scene.leave(heardIsB ? b : c)
        let other = heardIsB ? c : b
        scene.run(for: .seconds(3))
        #expect(Self.heard(a.client, from: other.client, slots: 1) >= 80)
    }
}
