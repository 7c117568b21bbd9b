import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Addresses: who may introduce one, how a client moves, what silence means.
@Suite("Paths and liveness") struct PathTests {
    static let elsewhere = PeerAddress(ipv4: 0x0A02_0001, port: 7_000)
    static let beyond = PeerAddress(ipv4: 0x0A02_0002, port: 7_002)

    @Test("checks of the relay are answered and give the round trip")
    func relayChecks() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(10))
        #expect((9...14).contains(a.client.counters.relayChecks))
        #expect(a.client.counters.unauthenticRelayChecks == 0)
        #expect(a.client.mappedAddress == a.client.address)
    }

    @Test("media from an address without a check goes nowhere")
    func unknownAddress() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        var copies: [[UInt8]] = []
        scene.network.loses = { source, _, bytes in
            if source == a.client.address, bytes[0] & 0xC0 == 0x80 {
                copies.append(bytes)
                return true
            }
            return false
        }
        scene.run(for: .seconds(1))
        scene.network.loses = nil
        let count = b.client.stream(.audio)?.packetCount
        a.client.stopMedia()
        for bytes in copies { scene.inject(bytes, from: Self.elsewhere) }
        scene.run(for: .seconds(1))
        #expect(copies.count > 50)
        #expect(b.client.stream(.audio)?.packetCount == count)
        #expect(scene.strays[Self.elsewhere] == nil)
    }

    @Test("a client that moves is heard at once and hears again after one round trip")
    func moves() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(3))
        scene.move(a, to: Self.elsewhere)
        let moved = scene.now
        scene.run(for: .seconds(3))
        #expect(scene.pathChanges(of: a) == 1)
        #expect(scene.end(of: a) == nil)
        let heard = b.client.heard(.audio, from: a.client)
        #expect(heard == Array(heard[0]..<heard[0] + UInt64(heard.count)), "nothing of what it said is lost")
        let arrivals = try #require(a.client.stream(.audio)).packets.map(\.arrivedAt).sorted()
        let first = try #require(arrivals.first { $0 >= moved + .milliseconds(5) })
        #expect(first - moved <= .milliseconds(500))
        for (earlier, later) in zip(arrivals, arrivals.dropFirst()) {
            #expect(later - earlier <= .milliseconds(500))
        }
    }

    @Test("a client that never nominates again is followed over a rebinding once its old address is silent")
    func rebinding() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.nominatesOnce = true }
        scene.run(for: .seconds(3))
        let old = a.client.address
        scene.network.loses = { _, to, _ in to == old }
        scene.move(a, to: Self.elsewhere)
        scene.run(for: .seconds(2))
        #expect(scene.pathChanges(of: a) == 0, "the old address has its time")
        scene.run(for: .milliseconds(2_500))
        #expect(scene.pathChanges(of: a) == 1)
        let heard = a.client.heard(.audio, from: b.client).count
        scene.run(for: .seconds(1))
        #expect(a.client.heard(.audio, from: b.client).count >= heard + 45)
        #expect(scene.interruptions(of: a) == 0)
    }

    @Test("two addresses of a client that are both heard leave the selected one alone without a nomination")
    func twoAddresses() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair { $0.nominatesOnce = true }
        scene.run(for: .seconds(1))
        let home = a.client.address
        for step in 0..<40 {
            scene.schedule(after: .milliseconds(Int64(500 * step))) {
                scene.move(a, to: step % 2 == 0 ? Self.elsewhere : home)
            }
        }
        scene.run(for: .seconds(20))
        #expect(scene.pathChanges(of: a) == 0)
    }

    @Test("keys, numbers and SSRCs stay over a move")
    func moveKeepsStreams() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        scene.move(b, to: Self.elsewhere)
        scene.run(for: .seconds(3))
        let stream = try #require(b.client.stream(.video))
        #expect(stream.missingCount == 0, "what was lost meanwhile was repaired")
        #expect(b.client.counters.unopenedRTP == 0)
        #expect(a.client.counters.unopenedRTP == 0)
    }

    @Test("a check in a stranger's name does not aim media at the stranger")
    func victim() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        let before = b.client.sentCount(.audio)
        var check = a.client.makeCheck()
        check.nominates = true
        scene.inject(check.bytes, from: Self.elsewhere)
        scene.run(for: .seconds(5))
        let stray = scene.strays[Self.elsewhere] ?? []
        #expect(stray.allSatisfy { $0[0] < 4 }, "only STUN")
        #expect(stray.count <= 8)
        #expect(stray.reduce(0) { $0 + $1.count } <= 3 * check.bytes.count)
        #expect(scene.pathChanges(of: a) == 0)
        let heard = a.client.heard(.audio, from: b.client)
        #expect(heard.count(where: { $0 >= before }) >= 240, "and the client goes on hearing")
    }

    @Test("a flood of checks from many ports leaves the selected path alone")
    func manyPorts() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        for port in 0..<2_000 {
            let address = PeerAddress(ipv4: 0x0A02_0002, port: UInt16(10_000 + port))
            scene.inject(a.client.makeCheck().bytes, from: address)
        }
        scene.run(for: .seconds(3))
        #expect(scene.pathChanges(of: a) == 0)
        let arrivals = try #require(a.client.stream(.audio)).packets.map(\.arrivedAt)
        for (earlier, later) in zip(arrivals, arrivals.dropFirst()) {
            #expect(later - earlier <= .milliseconds(200))
        }
        #expect(b.client.heard(.audio, from: a.client).count > 150)
    }

    @Test("wrong passwords, names and missing parts get no answer and no state", arguments: 0..<6)
    func badChecks(which: Int) throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(1))
        var check = a.client.makeCheck()
        switch which {
        case 0: check.password += "x"
        case 1: check.receiverUfrag += "x"
        case 2: check.senderUfrag += "x"
        case 3: check.hasIntegrity = false
        case 4: check.receiverUfrag = ""
        default: check.hasFingerprint = false
        }
        let dropped = scene.engine.counters.dropped
        for _ in 0..<10 { scene.inject(check.bytes, from: Self.elsewhere) }
        scene.run(for: .seconds(1))
        #expect(scene.strays[Self.elsewhere] == nil)
        #expect(scene.engine.counters.dropped - dropped >= 10)
        #expect(scene.pathChanges(of: a) == 0)
    }

    @Test("a silent client is interrupted after 5 s, recovers when it comes back, and its call goes on")
    func interruption() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        let silent = VirtualNetwork.Quality(loss: 1)
        scene.network.setQuality(silent, from: a.client.address, to: CallScene.relayAddress)
        let since = scene.now
        #expect(scene.run(until: { scene.interruptions(of: a) == 1 }, atMost: .seconds(10)))
        #expect((4_900...6_100).contains((scene.now - since).milliseconds))
        scene.run(for: .seconds(4))
        #expect(scene.recoveries(of: a) == 0)
        scene.network.setQuality(nil, from: a.client.address, to: CallScene.relayAddress)
        scene.run(for: .seconds(2))
        #expect(scene.recoveries(of: a) == 1)
        #expect(scene.end(of: a) == nil)
        let count = b.client.heard(.audio, from: a.client).count
        scene.run(for: .seconds(1))
        #expect(b.client.heard(.audio, from: a.client).count >= count + 45)
    }

    @Test("after 30 s of silence it is lost, told once, and nothing is sent to it any more")
    func lost() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(2))
        let address = a.client.address
        scene.network.setQuality(.init(loss: 1), from: address, to: CallScene.relayAddress)
        let since = scene.now
        #expect(scene.run(until: { scene.end(of: a) != nil }, atMost: .seconds(40)))
        #expect(scene.end(of: a) == .lost)
        #expect((29_900...31_500).contains((scene.now - since).milliseconds))
        var late = 0
        scene.onTransmit = { _, to in if to == address { late += 1 } }
        scene.run(for: .seconds(5))
        #expect(late == 0)
        let ends = scene.news(of: a).filter { if case .ended = $0 { true } else { false } }
        #expect(ends.count == 1)
    }

    @Test("a prepared client has 15 s before it counts as interrupted")
    func preparedInterruption() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair(joined: false) { $0.sendsAtOnce = false }
        scene.run(for: .seconds(2))
        scene.network.setQuality(.init(loss: 1), from: a.client.address, to: CallScene.relayAddress)
        scene.run(for: .seconds(13))
        #expect(scene.interruptions(of: a) == 0)
        scene.run(for: .seconds(8))
        #expect(scene.interruptions(of: a) == 1)
    }

    @Test("a client that only listens stays alive by its answers to checks")
    func listensOnly() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair { $0.sendsAtOnce = false }
        scene.run(for: .seconds(60))
        #expect(scene.interruptions(of: a) == 0)
        #expect(scene.end(of: a) == nil)
    }

    @Test("an ICE restart to a new address keeps keys and gate")
    func iceRestart() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        scene.restartICE(a, to: Self.elsewhere)
        scene.run(for: .seconds(2))
        let count = a.client.heard(.audio, from: b.client).count
        let back = b.client.heard(.audio, from: a.client).count
        scene.run(for: .seconds(1))
        #expect(a.client.heard(.audio, from: b.client).count >= count + 45)
        #expect(b.client.heard(.audio, from: a.client).count >= back + 45)
        #expect(scene.handshaker.counters.established == 2, "no new handshake")
    }

    @Test("whoever comes back after a silence sees a fresh picture at once; between living paths nobody needs one")
    func pictureAfterMove() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        let before = b.client.counters.pictureLossRequests
        let here = a.client.address
        scene.network.setQuality(.init(loss: 1), from: here, to: CallScene.relayAddress)
        scene.network.setQuality(.init(loss: 1), from: CallScene.relayAddress, to: here)
        scene.run(for: .milliseconds(800))
        scene.restartICE(a, to: Self.elsewhere)
        #expect(scene.run(until: { scene.pathChanges(of: a) == 1 }, atMost: .seconds(2)))
        scene.run(for: .milliseconds(100))
        #expect(b.client.counters.pictureLossRequests > before)
        scene.run(for: .seconds(3))
        let after = b.client.counters.pictureLossRequests
        scene.restartICE(a, to: Self.beyond)
        #expect(scene.run(until: { scene.pathChanges(of: a) == 2 }, atMost: .seconds(4)))
        scene.run(for: .milliseconds(100))
        #expect(b.client.counters.pictureLossRequests == after)
    }

    @Test("a check of one participant in another's name does not take that one's address")
    func addressTheft() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        let (thief, _) = try scene.makePair()
        scene.run(for: .seconds(1))
        for step in 0..<30 {
            scene.schedule(after: .milliseconds(Int64(100 * step))) {
                scene.inject(thief.client.makeCheck().bytes, from: a.client.address)
            }
        }
        let before = (a.client.heard(.audio, from: b.client).count, b.client.heard(.audio, from: a.client).count)
        scene.run(for: .seconds(3))
        #expect(scene.engine.counters[.stunAddressInUse] == 30)
        #expect(a.client.heard(.audio, from: b.client).count >= before.0 + 145)
        #expect(b.client.heard(.audio, from: a.client).count >= before.1 + 145)
        #expect(scene.pathChanges(of: thief) == 0)
    }

    @Test("an address whose owner fell silent may be another client's next one")
    func addressReuse() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        let (c, d) = try scene.makePair()
        scene.run(for: .seconds(1))
        let address = a.client.address
        a.client.vanish()
        scene.move(a, to: Self.elsewhere)
        scene.run(for: .seconds(7))
        scene.move(c, to: address)
        scene.run(for: .seconds(2))
        #expect(scene.pathChanges(of: c) == 1)
        let heard = d.client.heard(.audio, from: c.client).count
        scene.run(for: .seconds(1))
        #expect(d.client.heard(.audio, from: c.client).count >= heard + 45)
    }
}
