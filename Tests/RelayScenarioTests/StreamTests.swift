import RTPCore
import RelayCore
import RelayTesting
import Testing

/// What a forwarded stream looks like to its receiver, and what the sender hears back.
@Suite("Forwarded streams") struct StreamTests {
    @Test("outgoing numbers start in 1024…32767 and have no gap")
    func numbers() throws {
        let scene = try CallScene()
        let (_, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        for kind in MediaKind.allCases {
            let stream = try #require(b.client.stream(kind))
            let first = try #require(stream.lowestSequence)
            #expect((1_024...32_767).contains(first))
            #expect(stream.missingCount == 0)
            #expect(stream.duplicateCount == 0)
        }
    }

    @Test("media arrives on the SSRC that the answer announced, never on the sender's own")
    func announcedSSRC() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let announced = Set(b.client.sections.compactMap(\.relaySSRC))
        let arrived = Set(b.client.received.values.filter { $0.packetCount > 0 }.map(\.ssrc))
        #expect(arrived == announced)
        #expect(!arrived.contains(try #require(a.client.sendingSSRC(.audio))))
        #expect(Set(a.client.sections.compactMap(\.relaySSRC)).isDisjoint(with: announced))
    }

    @Test("distances between timestamps are the sender's")
    func timestamps() throws {
        let scene = try CallScene()
        let (_, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let audio = try #require(b.client.stream(.audio)).sorted.map(\.timestamp)
        for (earlier, later) in zip(audio, audio.dropFirst()) { #expect(later &- earlier == 960) }
        let video = Set(try #require(b.client.stream(.video)).sorted.map(\.timestamp)).sorted()
        for (earlier, later) in zip(video, video.dropFirst()) { #expect(later - earlier == 3_600) }
    }

    @Test("a frame's last packet keeps its marker")
    func marker() throws {
        let scene = try CallScene()
        let (_, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let packets = try #require(b.client.stream(.video)).sorted
        for (index, packet) in packets.dropLast().enumerated() {
            #expect(packet.marker == (packets[index + 1].timestamp != packet.timestamp))
        }
    }

    @Test("the audio level passes under the receiver's own id, hop-by-hop elements do not pass")
    func extensions() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient { $0.dialect = .chromium }, in: room, joins: true)
        let b = try scene.prepare(scene.makeClient { $0.dialect = .aiortc }, in: room, joins: true)
        scene.run(for: .seconds(1))
        let packets = try #require(b.client.stream(.audio)).packets
        #expect(packets.count > 30)
        for packet in packets {
            #expect(packet.extensions[2] == [0x80 | 30])
            #expect(Set(packet.extensions.keys) == [1, 2])
        }
        let back = try #require(a.client.stream(.audio)).packets
        #expect(back.allSatisfy { $0.extensions[1] == [0x80 | 30] })
        // The transport-wide numbers are the relay's own, of this leg.
        let numbers = back.compactMap { $0.extensions[3] }.map { Int($0[0]) << 8 | Int($0[1]) }
        #expect(numbers.count > 30 && numbers == numbers.sorted() && Set(numbers).count == numbers.count)
        #expect(numbers.last.map { $0 < 400 } == true)
    }

    @Test("each sender with transport-cc hears about all its packets, others hear nothing of the kind")
    func transportCC() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient { $0.dialect = .chromium }, in: room, joins: true)
        let b = try scene.prepare(scene.makeClient { $0.dialect = .aiortc }, in: room, joins: true)
        scene.run(for: .seconds(3))
        #expect(a.client.counters.transportFeedbacks >= 30)
        let sent = Int(a.client.transportNumber)
        #expect(a.client.acknowledged.count >= sent - 30, "of \(sent)")
        #expect(b.client.counters.transportFeedbacks == 0)
    }

    @Test(
        "transport-cc feedback leaves together with media to the same client, and no later than 60 ms after what it tells of"
    )
    func feedbackRides() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair { $0.dialect = .chromium }
        scene.run(for: .seconds(1))
        let address = a.client.address
        var media: Set<Int64> = []
        var feedback: [Int64] = []
        scene.onTransmit = { [scene] bytes, to in
            guard to == address, bytes[0] >> 6 == 2 else { return }
            if bytes[1] == 205, bytes[0] & 31 == 15 { feedback.append(scene.now.nanoseconds) }
            if !(192...223).contains(bytes[1]) { media.insert(scene.now.nanoseconds) }
        }
        scene.run(for: .seconds(5))
        scene.onTransmit = nil
        #expect((60...130).contains(feedback.count), "\(feedback.count)")
        #expect(feedback.count { media.contains($0) } * 10 >= feedback.count * 9)
        // The first packet behind a feedback comes within 20 ms; the wheel's slots are 5 ms.
        for (earlier, later) in zip(feedback, feedback.dropFirst()) { #expect(later - earlier <= 85_000_000) }
    }

    @Test("feedback leaves in its time where no media goes to its client")
    func feedbackAlone() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.dialect = .chromium }
        scene.run(for: .seconds(1))
        scene.act(b.client) {
            $0.mute(.audio, true); $0.mute(.video, true)
        }
        scene.run(for: .milliseconds(200))
        let before = a.client.counters.transportFeedbacks
        scene.run(for: .seconds(3))
        #expect(a.client.counters.transportFeedbacks - before >= 30)
    }

    @Test("sender and receiver reports come each second on both legs")
    func reports() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(5))
        for client in [a.client, b.client] {
            #expect(client.counters.senderReports >= 6, "audio and video, five seconds")
            let blocks = client.lastReceiverBlocks
            #expect(!blocks.isEmpty)
            let own = Set(MediaKind.allCases.compactMap { client.sendingSSRC($0) })
            #expect(blocks.allSatisfy { own.contains($0.ssrc) && $0.fractionLost == 0 && $0.cumulativeLost == 0 })
        }
    }

    @Test("statistics of both joined sides are told each two seconds")
    func statistics() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(10))
        let told = scene.news(of: a).compactMap { news -> TransportStatistics? in
            if case .statistics(_, let statistics, _) = news { statistics } else { nil }
        }
        #expect((4...6).contains(told.count))
        let last = try #require(told.last)
        #expect(last.packetsReceived > 700 && last.packetsSent > 700 && last.packetsLost == 0)
        #expect((19_000...21_000).contains(last.roundTripMicroseconds), "two delays of 10 ms")
    }

    @Test("the sender's rollover over 65535 is invisible to the receiver")
    func senderRollover() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = scene.makeClient { $0.sendsAtOnce = false }
        let first = try scene.prepare(a, in: room, joins: true)
        let second = try scene.prepare(scene.makeClient(), in: room, joins: true)
        scene.run(until: { scene.isJoined(first) && scene.isJoined(second) && a.isConnected })
        a.setNextSequence(.audio, 65_500)
        scene.act(a) { $0.startMedia(now: scene.now) }
        scene.run(for: .seconds(2))
        let heard = second.client.heard(.audio, from: a)
        #expect(heard.count > 90)
        #expect(heard == Array(0..<UInt64(heard.count)))
    }

    @Test("a sender that restarts its numbers goes on without a break for the receiver")
    func senderRestart() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        a.client.changeSSRC(.audio, to: 77)
        scene.run(for: .seconds(1))
        let stream = try #require(b.client.stream(.audio))
        #expect(stream.missingCount == 0)
        let heard = b.client.heard(.audio, from: a.client)
        #expect(heard == Array(heard[0]..<heard[0] + UInt64(heard.count)))
        #expect(heard.count > 90)
    }
}
