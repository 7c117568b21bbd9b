import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Where ICE and DTLS meet in the engine.
@Suite("ICE and DTLS in the engine") struct HandshakePathTests {
    @Test("a host that never answers is sent at most three times what it sent")
    func amplification() throws {
        let scene = try CallScene()
        let client = scene.makeClient {
            $0.answersChecks = false
            $0.dialect = .libwebrtc
        }
        let a = try scene.prepare(client, in: scene.makeRoom())
        // It says one check and one hello; nothing reaches it, and it says no more.
        var bytesIn = 0
        var sentDTLS = 0
        scene.network.loses = { from, _, bytes in
            guard from == client.address else { return false }
            if bytes[0] >= 20, bytes[0] < 64 { sentDTLS += 1 }
            bytesIn += bytes.count
            return false
        }
        scene.run(until: { sentDTLS > 0 }, atMost: .seconds(1))
        client.vanish()
        var bytesOut = 0
        let address = client.address
        let before = scene.bytesOut
        scene.onTransmit = { bytes, to in if to == address { bytesOut += bytes.count } }
        scene.run(for: .seconds(60))
        #expect(bytesOut > 0)
        #expect(before + bytesOut <= 3 * bytesIn + 400, "\(before) and \(bytesOut) for \(bytesIn)")
        #expect(!scene.isPrepared(a))
    }

    @Test("a handshake survives loss of a third of everything", arguments: [UInt64(11), 12, 13, 14])
    func lossyHandshake(seed: UInt64) throws {
        let scene = try CallScene(seed: seed, quality: .init(loss: 0.3, delay: .milliseconds(20)))
        let a = try scene.prepare(scene.makeClient(), in: scene.makeRoom())
        #expect(scene.run(until: { scene.isPrepared(a) && a.client.isConnected }, atMost: .seconds(11)))
    }

    @Test("a controlled client is told its role conflict, authenticated, and connects when it mends it")
    func roleConflict() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(1))
        scene.act(a.client) {
            $0.sendCheck { check in
                check.controlled = check.controlling
                check.controlling = nil
            }
        }
        scene.run(for: .milliseconds(100))
        #expect(a.client.counters.checkErrors == [487: 1])
        #expect(scene.engine.counters[.stunRoleConflict] == 1)
    }

    @Test("credentials of before an ICE restart are good from the selected address only")
    func oldCredentials() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(1))
        let old = a.client.makeCheck()
        scene.command(
            .restartICE(
                a.handle, local: ICECredentials(ufrag: "newUfrag", password: "newPassword0123456789ab"),
                remote: a.client.localICE))
        let elsewhere = PeerAddress(ipv4: 0x0A02_0009, port: 9)
        scene.inject(old.bytes, from: elsewhere)
        scene.run(for: .milliseconds(50))
        #expect(scene.strays[elsewhere] == nil)
        let answered = scene.engine.counters.checksAnswered
        scene.inject(old.bytes, from: a.client.address)
        scene.run(for: .milliseconds(50))
        #expect(scene.engine.counters.checksAnswered == answered + 1)
        scene.run(for: .seconds(31))
        let later = scene.engine.counters.checksAnswered
        scene.inject(old.bytes, from: a.client.address)
        scene.run(for: .milliseconds(20))
        #expect(scene.engine.counters.checksAnswered == later, "after 30 s they are nobody's")
    }

    @Test("a client that comes again from the same port gets its own session, nothing crosses over")
    func sameAddress() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        a.client.vanish()
        let again = scene.makeClient()
        let old = a.client.address
        scene.move(a, to: PeerAddress(ipv4: 1, port: 1))
        again.address(is: old)
        scene.remove(a)
        let c = try scene.prepare(again, in: b.room, joins: true)
        scene.run(for: .seconds(3))
        #expect(scene.isJoined(c))
        #expect(b.client.heard(.audio, from: again).count > 100)
        #expect(again.heard(.audio, from: b.client).count > 100)
        #expect(again.counters.unopenedRTP <= 2, "at most what was under way")
    }

    @Test("two paths that alternate switch at most once a second")
    func flapping() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        let home = a.client.address
        let other = PeerAddress(ipv4: 0x0A02_0007, port: 7)
        for step in 0..<250 {
            scene.schedule(after: .milliseconds(Int64(20 * step))) {
                scene.move(a, to: step.isMultiple(of: 2) ? other : home)
            }
        }
        scene.run(for: .seconds(5))
        #expect((1...6).contains(scene.pathChanges(of: a)))
        #expect(b.client.heard(.audio, from: a.client).count >= 300, "and all it says is heard")
    }

    @Test("one transport over the limit is refused, the others stay")
    func tooManyTransports() throws {
        var configuration = EngineConfiguration()
        configuration.maxTransports = 2
        let scene = try CallScene(configuration: configuration)
        let (a, b) = try scene.makePair()
        let c = try scene.prepare(scene.makeClient(), in: scene.makeRoom())
        scene.run(for: .seconds(1))
        #expect(scene.end(of: c) == .handshakeFailed)
        #expect(scene.engine.transportCount == 2)
        #expect(b.client.heard(.audio, from: a.client).count > 40)
    }

    @Test("a prepared client is checked each five seconds, a joined one each second")
    func checkIntervals() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair(joined: false)
        scene.run(for: .seconds(1))
        let before = a.client.counters.relayChecks
        scene.run(for: .seconds(20))
        #expect((3...6).contains(a.client.counters.relayChecks - before))
        scene.join(a)
        scene.join(b)
        let joined = a.client.counters.relayChecks
        scene.run(for: .seconds(20))
        #expect((16...26).contains(a.client.counters.relayChecks - joined))
    }

    @Test("DTLS records of a known client beyond the rate are dropped and the call goes on")
    func recordFlood() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let record: [UInt8] = [23, 0xFE, 0xFD, 0, 1, 0, 0, 0, 0, 1, 0, 0, 4, 1, 2, 3, 4]
        for _ in 0..<1_000 { scene.inject(record, from: a.client.address) }
        scene.run(for: .seconds(1))
        #expect(scene.engine.counters[.dtlsRateLimited] > 500)
        #expect(scene.end(of: a) == nil)
        #expect(b.client.heard(.audio, from: a.client).count > 90)
    }
}
