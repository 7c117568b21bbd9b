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
        let audio = try #require(lateness(.audio, at: b.client)).microseconds
        let video = try #require(lateness(.video, at: b.client)).microseconds
        #expect(abs(audio - video) <= 1_000, "microseconds between the tracks")
        #expect((-11_000 ... -9_000).contains(audio), "the one-way delay of 10 ms from the relay, by its clock")
    }

    /// When the last packet of a kind passed the relay, by the clock of the slot's last sender report, against when it arrived;
    /// and whose it is.
    private func lateness(_ kind: MediaKind, at client: SimulatedClient) -> (microseconds: Int64, sender: Int)? {
        guard let stream = client.stream(kind), let report = client.senderReports[stream.ssrc],
            let packet = stream.sorted.last, let stamp = packet.stamp
        else { return nil }
        let rate = Int64(kind == .audio ? 48_000 : 90_000)
        let ticks = Int64(Int32(bitPattern: packet.timestamp &- report.rtp))
        let clock = report.ntp.interval(since: NTPTime(packet.arrivedAt)).microseconds
        return (clock + ticks * 1_000_000 / rate, Int(stamp.sender))
    }

    @Test("sound and picture of whom a slot changes to are within 20 ms of each other, whatever his clock says")
    func lipSyncOverSwitch() throws {
        let group = try GroupScene(quality: VirtualNetwork.Quality(delay: .milliseconds(40), jitter: .milliseconds(5)))
        for offset: Int64 in [0, 3_000, 9_000] { try group.add(slots: 1, clockOffset: .milliseconds(offset)) }
        var compared = 0
        var worst: Int64 = 0
        for speaker in [1, 2, 1, 2, 1] {
            for (k, person) in group.people.enumerated() { person.client.audioLevel = k == speaker ? 30 : 127 }
            for _ in 0..<60 {
                group.scene.run(for: .milliseconds(50))
                guard let audio = lateness(.audio, at: group.people[0].client),
                    let video = lateness(.video, at: group.people[0].client), audio.sender == video.sender
                else { continue }
                compared += 1
                worst = max(worst, abs(audio.microseconds - video.microseconds))
            }
        }
        #expect(compared > 150)
        #expect(worst <= 20_000, "\(worst) µs")
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
