import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Bad input from strangers and from authenticated clients: dropped, counted, the call unharmed.
@Suite("Bad input") struct AttackTests {
    static let attacker = PeerAddress(ipv4: 0x0A02_0042, port: 6_666)

    /// What must hold after any attack on a call of `a` and `b`.
    static func expectUnharmed(_ scene: CallScene, _ a: CallScene.Participant, _ b: CallScene.Participant) {
        let before = (
            a.client.heard(.audio, from: b.client).count, b.client.heard(.audio, from: a.client).count
        )
        scene.run(for: .seconds(1))
        #expect(scene.end(of: a) == nil && scene.end(of: b) == nil)
        #expect(a.client.heard(.audio, from: b.client).count >= before.0 + 45)
        #expect(b.client.heard(.audio, from: a.client).count >= before.1 + 45)
        #expect(scene.strays[attacker] == nil, "a stranger is never answered")
    }

    @Test("every STUN vector from a stranger is dropped without an answer")
    func stunVectors() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let rows = VectorFile("stun").rows()
        let dropped = scene.engine.counters.dropped
        for row in rows { scene.inject(row.bytes, from: Self.attacker) }
        scene.run(for: .milliseconds(20))
        #expect(scene.engine.counters.dropped - dropped >= UInt64(rows.count))
        Self.expectUnharmed(scene, a, b)
    }

    @Test("every DTLS vector from a stranger is dropped before it reaches OpenSSL")
    func dtlsVectors() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        let rows = VectorFile("dtls").rows().filter { !$0.name.hasPrefix("use-srtp") }
        for row in rows { scene.inject(row.bytes, from: Self.attacker) }
        scene.run(for: .milliseconds(20))
        #expect(scene.engine.counters[.dtlsUnknownAddress] == UInt64(rows.count))
        #expect(scene.handshaker.counters.refusedRecords == 0)
        Self.expectUnharmed(scene, a, b)
    }

    @Test("a spray of ClientHellos from elsewhere does not slow a handshake", arguments: [UInt64(1), 2, 3])
    func helloRace(seed: UInt64) throws {
        let scene = try CallScene(seed: seed)
        let race = try #require(VectorFile("dtls").rows().first { $0.name == "clienthello-null-cipher-race" })
        let begin = scene.now
        for millisecond in 0..<200 {
            scene.schedule(after: .milliseconds(Int64(millisecond))) {
                scene.inject(race.bytes, from: Self.attacker)
            }
        }
        let a = try scene.prepare(scene.makeClient(), in: scene.makeRoom())
        #expect(scene.run(until: { scene.isPrepared(a) }))
        #expect(scene.now - begin <= .milliseconds(60))
        scene.run(for: .seconds(1))
        #expect(scene.engine.counters[.dtlsUnknownAddress] == 200)
    }

    @Test("every dropped SRTP vector, from a stranger and from the client's own address, is dropped")
    func srtpVectors() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let rows = VectorFile("srtp_packets").rows("drop")
        let forwarded = b.client.stream(.audio)?.packetCount ?? 0
        for row in rows {
            scene.inject(row.bytes, from: Self.attacker)
            scene.inject(row.bytes, from: a.client.address)
        }
        scene.run(for: .milliseconds(40))
        #expect(rows.count >= 60)
        #expect((b.client.stream(.audio)?.packetCount ?? 0) <= forwarded + 4)
        Self.expectUnharmed(scene, a, b)
    }

    @Test("malformed RTP that is authentic is dropped and counted", arguments: VectorFile("rtp_packets").rows("drop"))
    func protectedRTP(row: VectorRow) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .milliseconds(500))
        let dropped = scene.engine.counters.dropped
        scene.inject(row.bytes, from: a.client.address)
        if row.bytes.count >= 12 {
            // Once with its header taken at its word where it fits, once with the fixed part only.
            let parsed = RTPHeader(row.bytes.span)
            let count = parsed?.headerByteCount ?? 12
            scene.act(a.client) { $0.sendProtected(rtp: row.bytes, headerByteCount: count) }
            var own = row.bytes
            own[1] = own[1] & 0x80 | a.client.sections[0].payloadType
            scene.act(a.client) { $0.sendProtected(rtp: own, headerByteCount: count) }
        }
        scene.run(for: .milliseconds(20))
        #expect(scene.engine.counters.dropped > dropped)
        Self.expectUnharmed(scene, a, b)
    }

    @Test(
        "malformed RTCP that is authentic harms nobody",
        arguments: [
            "rtcp_packets", "rtcp_twcc", "rtcp_ccfb",
        ])
    func protectedRTCP(file: String) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let rows = VectorFile(file).rows("drop")
        for row in rows {
            scene.inject(row.bytes, from: a.client.address)
            scene.act(a.client) { $0.sendProtected(rtcp: row.bytes) }
        }
        scene.run(for: .milliseconds(40))
        #expect(!rows.isEmpty)
        Self.expectUnharmed(scene, a, b)
    }

    @Test("a framing error in authentic RTCP is counted")
    func framingError() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(1))
        let good = TestRTCP.goodbye([1]).bytes
        scene.act(a.client) { $0.sendProtected(rtcp: good + [0x80, 201, 0, 200]) }
        scene.run(for: .milliseconds(20))
        #expect(scene.engine.counters[.rtcpMalformed] == 1)
    }

    @Test(
        "payloads that no depacketiser takes are forwarded unchanged, as no key frames",
        arguments: [
            "vp8", "h264", "opus",
        ])
    func unparsablePayloads(file: String) throws {
        let scene = try CallScene()
        let isAudio = file == "opus"
        let (a, b) = try scene.makePair { $0.videoCodec = file == "h264" ? .h264 : .vp8 }
        scene.run(for: .seconds(1))
        let section = try #require(a.client.sections.first { $0.kind == (isAudio ? .audio : .video) })
        let ssrc = try #require(a.client.sendingSSRC(section.kind))
        a.client.stopMedia()
        scene.run(for: .milliseconds(100))
        let before = b.client.stream(section.kind)?.packetCount ?? 0
        let payloads = VectorFile(file).rows("unparsable").map(\.bytes).filter { !$0.isEmpty }
        let next = a.client.nextSequence(section.kind)
        for (offset, payload) in payloads.enumerated() {
            let number = UInt16(truncatingIfNeeded: next + UInt64(offset))
            var packet: [UInt8] = [0x80, section.payloadType, UInt8(number >> 8), UInt8(number & 0xFF), 0, 0, 0, 1]
            packet += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: ssrc >> UInt32($0)) }
            scene.act(a.client) { $0.sendProtected(rtp: packet + payload, headerByteCount: 12) }
        }
        scene.run(for: .milliseconds(100))
        let stream = try #require(b.client.stream(section.kind))
        #expect(stream.packetCount == before + payloads.count)
        #expect(stream.sorted.suffix(payloads.count).map(\.payload) == payloads)
    }

    @Test("every packet sent a second time is a replay and is not forwarded again")
    func replay() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let replayed = scene.engine.counters[.rtpReplayed]
        var captured: [[UInt8]] = []
        scene.network.loses = { from, _, bytes in
            if from == a.client.address { captured.append(bytes) }
            return false
        }
        scene.run(for: .seconds(1))
        scene.network.loses = nil
        for bytes in captured where bytes[0] & 0xC0 == 0x80 { scene.inject(bytes, from: a.client.address) }
        scene.run(for: .milliseconds(20))
        let media = captured.count { $0[0] & 0xC0 == 0x80 && !(192...223).contains($0[1]) }
        let control = captured.count { $0[0] & 0xC0 == 0x80 && (192...223).contains($0[1]) }
        #expect(media > 90 && control > 0)
        #expect(scene.engine.counters[.rtpReplayed] - replayed == UInt64(media))
        #expect(scene.engine.counters[.rtcpReplayed] == UInt64(control))
        let heard = b.client.heard(.audio, from: a.client)
        #expect(Set(heard).count == heard.count)
        Self.expectUnharmed(scene, a, b)
    }

    @Test("a captured packet with any one bit changed is refused")
    func tampering() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        var captured: [UInt8] = []
        scene.network.loses = { from, _, bytes in
            guard from == a.client.address, bytes[0] & 0xC0 == 0x80, bytes.count < 200, captured.isEmpty else {
                return false
            }
            captured = bytes
            return true
        }
        scene.run(for: .milliseconds(100))
        scene.network.loses = nil
        for bit in 0..<captured.count * 8 {
            var damaged = captured
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            scene.inject(damaged, from: a.client.address)
            if bit % 64 == 63 { scene.run(for: .milliseconds(50)) }
        }
        scene.run(for: .seconds(1))
        let heard = b.client.heard(.audio, from: a.client)
        #expect(heard.count > 50)
        #expect(b.client.received.values.allSatisfy { stream in stream.packets.allSatisfy { $0.stamp != nil } })
        Self.expectUnharmed(scene, a, b)
    }

    @Test("junk of every first byte and length up to 64 is dropped from anywhere")
    func junk() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        var random = RandomSource.seeded(99)
        let dropped = scene.engine.counters.dropped
        var count: UInt64 = 0
        for first in UInt8(0)...255 {
            for length in stride(from: 1, through: 64, by: 7) {
                var bytes = (0..<length).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                bytes[0] = first
                scene.inject(bytes, from: Self.attacker)
                count += 1
            }
        }
        scene.run(for: .milliseconds(20))
        #expect(scene.engine.counters.dropped - dropped >= count)
        Self.expectUnharmed(scene, a, b)
    }

    @Test("feedback about SSRCs that are not ours moves nobody")
    func foreignFeedback() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        let asked = a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests
        let foreign = try #require(a.client.sendingSSRC(.video))
        scene.act(b.client) {
            $0.sendRTCP([
                .pictureLoss(sender: 1, media: foreign), .nack(sender: 1, media: foreign, numbers: [1, 2, 3]),
                .fullIntra(sender: 1, requests: [.init(ssrc: foreign, number: 1)]), .goodbye([foreign]),
            ])
        }
        scene.run(for: .seconds(1))
        #expect(a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests == asked)
        #expect(scene.engine.counters[.rtcpForeignSSRC] >= 3)
        Self.expectUnharmed(scene, a, b)
    }

    @Test("a NACK storm is answered within its budget")
    func nackStorm() throws {
        let scene = try CallScene()
        let (_, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        let stream = try #require(b.client.stream(.video))
        let highest = UInt16(truncatingIfNeeded: try #require(stream.highestSequence))
        let numbers = (0..<16).map { highest &- 16 &+ UInt16($0) }
        let repaired = scene.engine.counters.packetsRepaired
        for _ in 0..<200 {
            scene.act(b.client) { $0.sendRTCP([.nack(sender: 1, media: stream.ssrc, numbers: numbers)]) }
        }
        scene.run(for: .milliseconds(500))
        #expect(scene.engine.counters.packetsRepaired - repaired <= 16 * 7)
        #expect(scene.engine.counters[.nackBudget] > 2_000)
    }
}
