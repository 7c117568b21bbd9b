import COpus
import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Silence is no loss: senders that pause, are muted or say nothing for a while, by what receivers and reports make of it.
@Suite("Silence, mute and discontinuous sending") struct SilenceTests {
    private func talking() throws -> (CallScene, CallScene.Participant, CallScene.Participant) {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        return (scene, a, b)
    }

    /// One packet each 400 ms, as Opus sends when nobody speaks, for `count` times.
    private func pause(_ scene: CallScene, _ sender: CallScene.Participant, count: Int) {
        for _ in 0..<count {
            sender.client.mute(.audio, true)
            scene.run(for: .milliseconds(380))
            sender.client.mute(.audio, false)
            scene.run(for: .milliseconds(20))
        }
    }

    private func statistics(_ scene: CallScene, of participant: CallScene.Participant) throws -> TransportStatistics {
        let told = scene.news(of: participant).compactMap { news -> TransportStatistics? in
            if case .statistics(_, let statistics, _) = news { statistics } else { nil }
        }
        return try #require(told.last)
    }

    /// Nobody was told of any loss, and nobody was asked for anything again.
    private func expectNoLoss(
        _ scene: CallScene, from sender: CallScene.Participant, to receiver: CallScene.Participant
    )
        throws
    {
        let ssrc = try #require(sender.client.sendingSSRC(.audio))
        if let block = sender.client.lastReceiverBlocks.first(where: { $0.ssrc == ssrc }) {
            #expect(block.fractionLost == 0 && block.cumulativeLost == 0)
        }
        #expect(sender.client.counters.nackedPackets == 0)
        #expect(try statistics(scene, of: sender).packetsLost == 0)
        #expect(try statistics(scene, of: receiver).remotePacketsLost == 0)
        #expect(try #require(receiver.client.stream(.audio)).missingCount == 0)
    }

    @Test("gaps of 400 ms are passed on as they are: no loss, no request, no jump of time, nobody interrupted")
    func discontinuous() throws {
        let (scene, a, b) = try talking()
        pause(scene, a, count: 20)
        scene.run(for: .seconds(3))
        try expectNoLoss(scene, from: a, to: b)
        let heard = b.client.heard(.audio, from: a.client)
        let first = try #require(heard.first)
        #expect(heard == Array(first..<first + UInt64(heard.count)), "every packet that was sent, once")
        #expect(first + UInt64(heard.count) + 1 >= a.client.sentCount(.audio))
        let packets = try #require(b.client.stream(.audio)).sorted
        for (earlier, later) in zip(packets, packets.dropFirst()) {
            let wait = (later.arrivedAt - earlier.arrivedAt).microseconds * 48 / 1_000
            #expect(Int64(later.timestamp &- earlier.timestamp) == wait)
        }
        #expect(packets.dropFirst().allSatisfy { !$0.marker }, "the relay marks nothing of its own in a stream")
        #expect(scene.interruptions(of: a) == 0 && scene.interruptions(of: b) == 0)
        #expect(try statistics(scene, of: a).jitterMicroseconds < 1_000)
    }

    @Test("a mute of the server's is silence, not loss, and what comes after it goes on")
    func serverMute() throws {
        let (scene, a, b) = try talking()
        scene.setGates(.serverAudio, of: a)
        scene.run(for: .seconds(5))
        let heard = b.client.heard(.audio, from: a.client).count
        try expectNoLoss(scene, from: a, to: b)
        scene.setGates([], of: a)
        scene.run(for: .seconds(4))
        try expectNoLoss(scene, from: a, to: b)
        #expect(b.client.heard(.audio, from: a.client).count >= heard + 195)
        let packets = try #require(b.client.stream(.audio)).sorted
        let resumed = try #require(
            packets.indices.dropFirst().first { packets[$0].arrivedAt - packets[$0 - 1].arrivedAt > .seconds(1) })
        #expect(packets[resumed].marker, "a new spurt begins")
        let ticks = Int64(packets[resumed].timestamp &- packets[resumed - 1].timestamp)
        let wait = (packets[resumed].arrivedAt - packets[resumed - 1].arrivedAt).microseconds * 48 / 1_000
        #expect(abs(ticks - wait) <= 480 && ticks.isMultiple(of: 960), "\(ticks) ticks in \(wait)")
    }

    @Test("a client that is muted for ten minutes comes back in time")
    func longMute() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.hasVideo = false }
        scene.run(for: .seconds(1))
        for client in [a.client, b.client] { client.mute(.audio, true) }
        scene.run(for: .seconds(600))
        for client in [a.client, b.client] { client.mute(.audio, false) }
        scene.run(for: .seconds(3))
        try expectNoLoss(scene, from: a, to: b)
        let times = try #require(b.client.stream(.audio)).sorted.map(\.timestamp)
        let pauses = zip(times, times.dropFirst()).map { $1 &- $0 }.filter { $0 != 960 }
        #expect(pauses.count == 1 && abs(Int64(pauses.first ?? 0) - 600 * 48_000) <= 960, "\(pauses)")
    }

    @Test("a packet lost on the way to the relay leaves its place free, so that the next one's FEC can fill it")
    func placeForFEC() throws {
        let packets = try Self.opus(count: 100)
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.opusPackets = packets }
        scene.run(for: .seconds(1))
        let before = try #require(b.client.stream(.audio)).packetCount
        var isLost = false
        scene.network.loses = { source, target, bytes in
            guard !isLost, source == a.client.address, bytes.count < 300, bytes[0] & 0xC0 == 0x80,
                !(192...223).contains(bytes[1])
            else { return false }
            isLost = true
            return true
        }
        scene.run(for: .seconds(1))
        let stream = try #require(b.client.stream(.audio))
        #expect(isLost && stream.missingCount == 1 && stream.packetCount >= before + 48)
        #expect(stream.packets.allSatisfy { packets.contains($0.payload) }, "every byte is as it was sent")
        let hole = try #require(
            zip(stream.sorted, stream.sorted.dropFirst()).first { $1.sequence == $0.sequence + 2 })
        #expect(hole.1.timestamp &- hole.0.timestamp == 1_920)
        #expect(a.client.counters.nackedPackets == 0, "sound is not asked for again")
    }

    /// Real packets of 20 ms.
    private static func opus(count: Int) throws -> [[UInt8]] {
        let encoder = try #require(opus_encoder_create(48_000, 1, OPUS_APPLICATION_VOIP, nil))
        defer { opus_encoder_destroy(encoder) }
        var position = 0
        return (0..<count).map { _ in
            let samples = (0..<960).map { _ -> Int16 in
                position += 1
                return (position / (150 + position / 400 % 40)).isMultiple(of: 2) ? 5_000 : -5_000
            }
            var packet = [UInt8](repeating: 0, count: 200)
            let byteCount = opus_encode(encoder, samples, 960, &packet, 200)
            return Array(packet.prefix(Int(max(0, byteCount))))
        }
    }
}
