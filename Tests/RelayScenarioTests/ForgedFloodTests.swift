import RTPCore
import RelayCore
import RelayTesting
import Testing

/// T13, T56: packets in a client's own address that do not verify. Whoever can send them must not be able to use up what the
/// client may send.
@Suite("Forged floods") struct ForgedFloodTests {
    /// 10 packets each millisecond for 600 ms, from `address`; `make` gets a running number.
    private func flood(_ scene: CallScene, from address: PeerAddress, _ make: @escaping (Int) -> [UInt8]) {
        for millisecond in 0..<600 {
            scene.schedule(after: .milliseconds(Int64(millisecond))) {
                for k in 0..<10 { scene.inject(make(millisecond * 10 + k), from: address) }
            }
        }
    }

    private func forged(_ type: UInt8, number: Int, ssrc: UInt32) -> [UInt8] {
        var packet: [UInt8] = [0x80, type, UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF), 0, 0, 0, 1]
        packet += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: ssrc >> UInt32($0)) }
        return packet + Array(repeating: 0x5A, count: 60)
    }

    @Test("10,000 forged packets a second in a client's name cost it none of its own")
    func mediaFlood() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let type = try #require(a.client.sections.first { $0.kind == .audio }).payloadType
        let ssrc = try #require(a.client.sendingSSRC(.audio))
        let before = b.client.heard(.audio, from: a.client).count
        flood(scene, from: a.client.address) { forged(type, number: $0, ssrc: ssrc) }
        scene.run(for: .milliseconds(650))
        #expect(b.client.heard(.audio, from: a.client).count >= before + 31)
        let counters = scene.engine.counters
        #expect(counters[.rtpRateLimited] == 0)
        #expect(counters[.rtpAuthentication] + counters[.rtpReplayed] == 6_000)
        AttackTests.expectUnharmed(scene, a, b)
    }

    @Test("10,000 forged reports a second in a client's name cost it none of its packets")
    func reportFlood() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let before = b.client.heard(.audio, from: a.client).count
        flood(scene, from: a.client.address) { _ in [0x80, 201, 0, 1, 1, 2, 3, 4] + Array(repeating: 0xA5, count: 24) }
        scene.run(for: .milliseconds(650))
        #expect(b.client.heard(.audio, from: a.client).count >= before + 31)
        #expect(scene.engine.counters[.rtcpAuthentication] == 6_000)
        AttackTests.expectUnharmed(scene, a, b)
    }

    @Test("10,000 forged packets a second of SSRCs that nobody has do not keep a client's first packets out")
    func unknownSourceFlood() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.sendsAtOnce = false }
        scene.run(for: .seconds(1))
        let type = try #require(a.client.sections.first { $0.kind == .audio }).payloadType
        flood(scene, from: a.client.address) { forged(type, number: $0, ssrc: 0x5000_0000 + UInt32($0)) }
        scene.schedule(after: .milliseconds(200)) {
            scene.act(a.client) { $0.startMedia(now: scene.now) }
        }
        scene.run(for: .milliseconds(650))
        #expect(b.client.heard(.audio, from: a.client).count >= 18)
        #expect(scene.engine.counters[.rtpUnknownSourceRateLimited] > 5_000)
    }

    @Test(
        "10,000 forged checks a second with the right user name, from one host or from 200, do not keep a client's first check from a new address out",
        arguments: [1, 200])
    func checkFlood(hosts: UInt32) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let forged = TestCheck(
            transactionID: STUNTransactionID(high: 1, low: 2), receiverUfrag: a.session.localICE.ufrag,
            senderUfrag: a.session.remoteICE.ufrag, password: "not the password, not at all"
        ).bytes
        for millisecond in 0..<1_000 {
            scene.schedule(after: .milliseconds(Int64(millisecond))) {
                for k in 0..<10 {
                    let number = UInt32(millisecond * 10 + k)
                    let source = PeerAddress(ipv4: 0x0A66_0000 + number % hosts, port: UInt16(1_024 + number % 60_000))
                    scene.inject(forged, from: source)
                }
            }
        }
        scene.schedule(after: .milliseconds(500)) { scene.move(a, to: PathTests.elsewhere) }
        let before = a.client.counters.checksAnswered
        scene.run(for: .milliseconds(1_050))
        #expect(a.client.counters.checksAnswered > before)
        #expect(scene.pathChanges(of: a) == 1, "it is where it went")
        let counters = scene.engine.counters
        #expect(counters[.stunIntegrity] + counters[.stunRateLimited] == 10_000)
        AttackTests.expectUnharmed(scene, a, b)
    }

    @Test("checks that verify use up nobody's share: 500 clients behind one address connect in a second")
    func manyBehindOneAddress() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .milliseconds(500))
        for number in 0..<500 {
            let check = TestCheck(
                transactionID: STUNTransactionID(high: 7, low: UInt64(number)), receiverUfrag: a.session.localICE.ufrag,
                senderUfrag: a.session.remoteICE.ufrag, password: a.session.localICE.password)
            scene.schedule(after: .milliseconds(Int64(number))) {
                scene.inject(check.bytes, from: PeerAddress(ipv4: 0x0A77_0001, port: UInt16(2_000 + number)))
            }
        }
        scene.run(for: .seconds(1))
        #expect(scene.engine.counters[.stunRateLimited] == 0)
    }

    @Test("what an authentic client sends beyond its share is dropped, and others are not touched")
    func authenticFlood() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        let (c, d) = try scene.makePair()
        scene.run(for: .seconds(1))
        let type = try #require(a.client.sections.first { $0.kind == .audio }).payloadType
        let ssrc = try #require(a.client.sendingSSRC(.audio))
        a.client.stopMedia()
        let first = Int(a.client.nextSequence(.audio))
        let before = b.client.stream(.audio)?.packetCount ?? 0
        for millisecond in 0..<1_000 {
            scene.schedule(after: .milliseconds(Int64(millisecond))) {
                for k in 0..<8 {
                    let packet = forged(type, number: first + millisecond * 8 + k, ssrc: ssrc)
                    scene.act(a.client) { $0.sendProtected(rtp: packet, headerByteCount: 12) }
                }
            }
        }
        scene.run(for: .milliseconds(1_100))
        let passed = (b.client.stream(.audio)?.packetCount ?? 0) - before
        #expect(passed > 1_900 && passed < 4_200, "a second's share, and at most another one that was saved up")
        #expect(scene.engine.counters[.rtpRateLimited] >= 3_800)
        #expect(c.client.heard(.audio, from: d.client).count > 90)
    }
}
