import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Case R07: SSRCs are a participant's own affair.
@Suite("SSRCs") struct SourceTests {
    @Test("two clients with the same SSRCs hear each other")
    func sameSSRCs() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair {
            $0.audioSSRC = 286_331_153
            $0.videoSSRC = 858_993_459
        }
        scene.run(for: .seconds(2))
        for (sender, receiver) in [(a, b), (b, a)] {
            #expect(receiver.client.heard(.audio, from: sender.client).count >= 95)
            #expect((receiver.client.stream(.video)?.decodablePictures.count ?? 0) >= 45)
        }
        scene.act(a.client) { $0.requestKeyFrame() }
        let asked = (a.client.counters.pictureLossRequests, b.client.counters.pictureLossRequests)
        scene.run(for: .seconds(1))
        #expect(b.client.counters.pictureLossRequests + b.client.counters.fullIntraRequests > asked.1)
        #expect(a.client.counters.pictureLossRequests == asked.0)
    }

    @Test(
        "SSRCs that the offer does not name are bound by MID", arguments: [ClientDialect.chromium, .firefox, .aiortc])
    func unsignalled(dialect: ClientDialect) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair {
            $0.dialect = dialect
            $0.signalsSSRCs = false
        }
        scene.run(for: .seconds(2))
        #expect(b.client.heard(.audio, from: a.client).count >= 95)
        #expect((b.client.stream(.video)?.decodablePictures.count ?? 0) >= 45)
    }

    @Test("without names and MIDs the payload type decides")
    func byPayloadType() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair {
            $0.dialect = .gstreamer
            $0.signalsSSRCs = false
        }
        scene.run(for: .seconds(2))
        #expect(b.client.heard(.audio, from: a.client).count >= 95)
        #expect((b.client.stream(.video)?.decodablePictures.count ?? 0) >= 45)
    }

    @Test("an SSRC change in mid-call goes on under the same outgoing SSRC and numbers", arguments: MediaKind.allCases)
    func change(kind: MediaKind) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        a.client.changeSSRC(kind, to: 77)
        scene.run(for: .seconds(2))
        let stream = try #require(b.client.stream(kind))
        #expect(stream.missingCount == 0)
        let heard = b.client.heard(kind, from: a.client)
        #expect(heard == Array(heard[0]..<heard[0] + UInt64(heard.count)))
        let times = stream.sorted.map(\.timestamp)
        for (earlier, later) in zip(times, times.dropFirst()) {
            #expect(Int32(bitPattern: later &- earlier) >= 0, "time never goes back")
        }
    }

    @Test("a thousand new SSRCs a second stay within the bound and harm nobody")
    func flood() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        let (c, d) = try scene.makePair()
        scene.run(for: .seconds(1))
        let payloadType = try #require(a.client.sections.first).payloadType
        for number in 0..<1_000 {
            var packet: [UInt8] = [0x80, payloadType, 0x10, 0, 0, 0, 0, 1]
            packet += [0x55, 0x55, UInt8(number >> 8), UInt8(number & 0xFF), 1, 2, 3]
            scene.schedule(after: .milliseconds(Int64(number))) {
                scene.act(a.client) { $0.sendProtected(rtp: packet, headerByteCount: 12) }
            }
        }
        scene.run(for: .seconds(1))
        #expect(scene.engine.counters[.rtpSourceLimit] > 0)
        #expect(c.client.heard(.audio, from: d.client).count > 90)
        #expect(a.client.heard(.audio, from: b.client).count > 90)
    }

    @Test("a payload type that was not negotiated is dropped before it costs a key operation")
    func unknownPayloadType() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(1))
        let packet: [UInt8] = [0x80, 50, 0x10, 0, 0, 0, 0, 1, 9, 9, 9, 9, 1, 2, 3]
        for _ in 0..<10 { scene.act(a.client) { $0.sendProtected(rtp: packet, headerByteCount: 12) } }
        scene.run(for: .milliseconds(20))
        #expect(scene.engine.counters[.rtpUnknownPayloadType] == 10)
    }
}
