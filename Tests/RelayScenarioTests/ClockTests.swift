import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Clocks, gaps and probes: what must not disturb a stream.
@Suite("Clocks, gaps and probes") struct ClockTests {
    @Test("sender reports put both tracks of a participant on one clock")
    func lipSync() throws {
        let scene = try CallScene()
        let (_, b) = try scene.makePair()
        scene.run(for: .seconds(5))
        var offsets: [MediaKind: Int64] = [:]
        for kind in MediaKind.allCases {
            let stream = try #require(b.client.stream(kind))
            let report = try #require(b.client.senderReports[stream.ssrc])
            let packet = try #require(stream.sorted.last)
            let rate = Int64(kind == .audio ? 48_000 : 90_000)
            // When the report's clock says that this packet was taken, against when it arrived.
            let ticks = Int64(Int32(bitPattern: packet.timestamp &- report.rtp))
            let taken = report.ntp.interval(since: NTPTime(packet.arrivedAt)).microseconds + ticks * 1_000_000 / rate
            offsets[kind] = taken
        }
        let audio = try #require(offsets[.audio])
        let video = try #require(offsets[.video])
        #expect(abs(audio - video) <= 1_000, "microseconds between the tracks")
        #expect((-21_000 ... -19_000).contains(audio), "two one-way delays of 10 ms, in the sender's clock")
    }

    @Test("a sender report counts the packets that were sent to that receiver")
    func reportCounts() throws {
        let scene = try CallScene()
        let (_, b) = try scene.makePair()
        scene.run(for: .seconds(4))
        for kind in MediaKind.allCases {
            let stream = try #require(b.client.stream(kind))
            let report = try #require(b.client.senderReports[stream.ssrc])
            #expect(Int(report.packetCount) <= stream.packetCount)
            #expect(Int(report.packetCount) + 80 >= stream.packetCount)
        }
    }

    @Test(
        "padding probes, on RTX or on the media's own SSRC, are not forwarded and leave no gap",
        arguments: [true, false])
    func probes(onRTX: Bool) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        for round in 0..<20 {
            scene.schedule(after: .milliseconds(Int64(7 + 50 * round))) {
                scene.act(a.client) { $0.sendProbes(.video, count: 4, onRTX: onRTX, now: scene.now) }
            }
        }
        scene.run(for: .seconds(2))
        #expect(scene.engine.counters[.rtpPaddingOnly] == 80)
        let stream = try #require(b.client.stream(.video))
        #expect(stream.missingCount == 0)
        #expect(stream.packets.allSatisfy { !$0.payload.isEmpty && $0.stamp != nil })
        #expect(stream.decodablePictures.count >= 70)
        #expect(a.client.counters.nackedPackets == 0)
    }

    @Test("silence of half a second between audio packets is no loss and no interruption")
    func discontinuousTransmission() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair {
            $0.audioInterval = .milliseconds(500)
            $0.hasVideo = false
        }
        scene.run(for: .seconds(20))
        #expect(scene.interruptions(of: a) == 0)
        let heard = b.client.heard(.audio, from: a.client)
        #expect(heard.count >= 38)
        #expect(heard == Array(heard[0]..<heard[0] + UInt64(heard.count)))
    }

    @Test("a stream that comes back after a long mute is heard again at once")
    func longMute() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        a.client.mute(.audio, true)
        scene.run(for: .seconds(120))
        let before = b.client.heard(.audio, from: a.client).count
        a.client.mute(.audio, false)
        scene.run(for: .seconds(1))
        #expect(b.client.heard(.audio, from: a.client).count >= before + 48)
        let times = try #require(b.client.stream(.audio)).sorted.map(\.timestamp)
        let last = times.suffix(40)
        for (earlier, later) in zip(last, last.dropFirst()) { #expect(later &- earlier == 960) }
    }

    @Test("a jump in the sender's numbers is followed", arguments: [100, 2_000, 20_000, 40_000, 90_000])
    func jump(by count: UInt64) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let next = a.client.nextSequence(.audio) + count
        a.client.setNextIndex(.audio, next)
        scene.run(for: .seconds(3))
        let heard = b.client.heard(.audio, from: a.client)
        #expect(heard.last.map { $0 + 5 >= a.client.sentCount(.audio) } == true, "the newest are heard")
        #expect(heard.count >= 150)
    }

    @Test("lost packets count in the statistics and in the reports that the sender gets")
    func lossStatistics() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.hasVideo = false }
        scene.run(for: .seconds(2))
        scene.network.setQuality(.init(loss: 0.2), from: a.client.address, to: CallScene.relayAddress)
        scene.network.setQuality(.init(loss: 0.2), from: CallScene.relayAddress, to: b.client.address)
        scene.run(for: .seconds(10))
        let block = try #require(a.client.lastReceiverBlocks.first)
        #expect((15...100).contains(block.fractionLost))
        #expect((60...140).contains(block.cumulativeLost))
        var lost: UInt64 = 0
        for case .statistics(a.handle, let statistics, _) in scene.news { lost = statistics.packetsLost }
        #expect((60...140).contains(lost))
        var remote: UInt8 = 0
        for case .statistics(b.handle, let statistics, _) in scene.news {
            remote = max(remote, statistics.remoteFractionLost)
        }
        #expect(remote > 20)
    }
}
