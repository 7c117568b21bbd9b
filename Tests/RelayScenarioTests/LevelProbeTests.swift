import COpus
import RTPCore
import RelayCore
import RelayTesting
import Testing

@Suite("Levels that senders do not tell") struct LevelProbeTests {
    /// Real Opus packets of 20 ms: a buzz like a voice's at this many dBov.
    private static func speech(
        decibels: Double, count: Int = 50, application: Int32 = OPUS_APPLICATION_VOIP
    ) -> [[UInt8]] {
        guard let encoder = opus_encoder_create(48_000, 1, application, nil) else { return [] }
        defer { opus_encoder_destroy(encoder) }
        // Halving the amplitude is 6 dB.
        var amplitude = 32_000.0
        var at = 0.0
        while at > decibels {
            amplitude *= 0.891_25
            at -= 1
        }
        var samples = [Int16](repeating: 0, count: 960)
        var packets: [[UInt8]] = []
        var position = 0
        for _ in 0..<count {
            for index in samples.indices {
                // A square wave of 150 Hz: its root mean square is its amplitude.
                samples[index] = Int16((position / 160).isMultiple(of: 2) ? amplitude : -amplitude)
                position += 1
            }
            var packet = [UInt8](repeating: 0, count: 1_000)
            let byteCount = opus_encode(encoder, samples, 960, &packet, 1_000)
            packets.append(Array(packet.prefix(Int(max(0, byteCount)))))
        }
        return packets
    }

    private static let silence = speech(decibels: -96)

    /// Nobody here says how loud it is.
    private func person(_ group: GroupScene, _ packets: [[UInt8]]) throws -> CallScene.Participant {
        let client = group.scene.makeClient {
            $0.dialect = .gstreamer
            $0.hasVideo = false
            $0.opusPackets = packets
        }
        return try group.scene.prepare(client, in: group.room, kind: .group, joins: true)
    }

    private func slot(_ scene: CallScene, of receiver: CallScene.Participant) -> ParticipantHandle? {
        scene.engine.snapshot().first { $0.participant == receiver.handle }?.slots.first?.sender
    }

    @Test("the one who speaks is heard, though nobody says how loud it is")
    func heard() throws {
        let group = try GroupScene()
        let listener = try person(group, Self.silence)
        _ = try person(group, Self.silence)
        let talker = try person(group, Self.speech(decibels: -20))
        group.scene.run(for: .seconds(2))
        #expect(slot(group.scene, of: listener) == talker.handle)
        #expect(group.scene.engine.snapshot().filter(\.isSpeaker).map(\.participant) == [talker.handle])
    }

    @Test("the louder of two has the floor, and its music counts as well")
    func louder() throws {
        let group = try GroupScene()
        let quiet = try person(group, Self.speech(decibels: -40))
        let loud = try person(group, Self.speech(decibels: -15, application: OPUS_APPLICATION_AUDIO))
        group.scene.run(for: .seconds(3))
        #expect(group.scene.engine.snapshot().filter(\.isSpeaker).map(\.participant) == [loud.handle])
        #expect(slot(group.scene, of: loud) == quiet.handle)
    }

    @Test("levels that were agreed on and do not come are heard after a second")
    func missing() throws {
        let group = try GroupScene()
        let listener = try group.add(slots: 1)
        _ = try group.add(slots: 1)
        let client = group.scene.makeClient {
            $0.opusPackets = Self.speech(decibels: -20)
            $0.tellsLevels = false
        }
        let talker = try group.scene.prepare(client, in: group.room, kind: .group, joins: true)
        group.scene.run(for: .seconds(4))
        #expect(
            group.scene.engine.snapshot().first { $0.participant == listener.handle }?.slots.first?.sender
                == talker.handle)
    }

    @Test("packets that are no Opus are silence, and harm nobody", arguments: [1, 2, 3] as [UInt64])
    func noise(seed: UInt64) throws {
        var random = RandomSource.seeded(seed)
        let junk = (0..<400).map { _ in
            (0..<Int.random(in: 1...300, using: &random)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        }
        let group = try GroupScene(seed: seed)
        let first = try person(group, junk)
        let second = try person(group, Self.silence)
        group.scene.run(for: .seconds(10))
        #expect(slot(group.scene, of: second) == first.handle)
    }
}
