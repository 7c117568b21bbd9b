import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Case D02: any datagram may be lost.
@Suite("DTLS under loss") struct HandshakeLossTests {
    struct Loss: CustomStringConvertible {
        var direction: HandshakeScene.Direction
        var number: Int
        var description: String { "\(direction) \(number)" }
        /// Every datagram of a handshake without loss: two of ours, and up to eight of a client that cuts at 256 bytes.
        static let all =
            (0..<2).map { Loss(direction: .toClient, number: $0) }
            + (0..<8).map { Loss(direction: .toRelay, number: $0) }
    }

    @Test("one lost datagram costs less than 3 s", arguments: Loss.all)
    func oneLost(loss: Loss) throws {
        let scene = try HandshakeScene(client: DTLSClient(datagramByteCount: 256))
        scene.loses = { direction, number, _ in direction == loss.direction && number == loss.number }
        let begin = scene.now
        scene.connect()
        #expect(scene.keysAgree)
        #expect(scene.now - begin < .seconds(3))
    }

    @Test("any two lost datagrams are made good within the budget", arguments: Loss.all)
    func twoLost(first: Loss) throws {
        let identity = DTLSClientIdentity()
        for second in Loss.all {
            let client = DTLSClient(identity: identity, datagramByteCount: 256)
            let scene = try HandshakeScene(client: client)
            scene.loses = { direction, number, _ in
                (direction == first.direction && number == first.number)
                    || (direction == second.direction && number == second.number)
            }
            let begin = scene.now
            scene.connect()
            #expect(scene.keysAgree, "with \(second)")
            #expect(scene.now - begin < .seconds(10), "with \(second)")
        }
    }

    @Test("a lost last flight is sent again when the client repeats its own", arguments: 1...3)
    func lastFlightLost(times: Int) throws {
        let scene = try HandshakeScene()
        var lost = 0
        scene.loses = { direction, _, bytes in
            // The last flight begins with ChangeCipherSpec.
            guard direction == .toClient, bytes[0] == 20, lost < times else { return false }
            lost += 1
            return true
        }
        scene.connect()
        #expect(lost == times)
        #expect(scene.keysAgree)
        #expect(scene.client.repeatCount == times)
    }

    @Test("keys are out before the lost last flight is repeated, and stay the same")
    func keysDoNotChange() throws {
        let scene = try HandshakeScene()
        var lost = 0
        scene.loses = { direction, _, bytes in
            guard direction == .toClient, bytes[0] == 20, lost == 0 else { return false }
            lost += 1
            return true
        }
        scene.start()
        scene.run(until: { scene.relayKeys != nil })
        let early = scene.relayKeys
        #expect(scene.client.state == .handshaking)
        scene.run(until: { scene.isUp })
        #expect(scene.relayKeys == early)
        #expect(scene.handshaker.counters.established == 1)
    }

    @Test("an unanswered flight is repeated after 200 ms, then doubling, until the ten seconds are over")
    func repeatsItsFlight() throws {
        let scene = try HandshakeScene()
        let body = postQuantumHelloBody(versions: [0xFEFD])
        let begin = scene.now
        scene.inject(helloRecord(body, 0..<body.count, number: 0))
        scene.loses = { _, _, _ in true }
        var times: [Interval] = []
        var seen = 1
        scene.run(until: {
            if let count = scene.sent[.toClient]?.count, count > seen {
                seen = count
                times.append(scene.now - begin)
            }
            return scene.end != nil
        })
        #expect(times.map(\.milliseconds) == [200, 600, 1_400, 3_000, 6_200])
        #expect(scene.end == .handshakeFailed)
        #expect(scene.now - begin == .seconds(10))
        #expect(scene.handshaker.counters.repeatedFlights == 5)
    }

    @Test("repeats are the very datagrams that were sent first")
    func repeatsAreIdentical() throws {
        let scene = try HandshakeScene()
        let body = postQuantumHelloBody(versions: [0xFEFD])
        scene.loses = { _, _, _ in true }
        scene.inject(helloRecord(body, 0..<body.count, number: 0))
        scene.run(for: .seconds(1))
        let sent = try #require(scene.sent[.toClient])
        #expect(sent.count == 3)
        #expect(Set(sent).count == 1)
    }

    @Test("duplicated and reordered datagrams do no harm")
    func duplicates() throws {
        let scene = try HandshakeScene(client: DTLSClient(datagramByteCount: 256))
        scene.start()
        var seen = 0
        scene.run(until: {
            // Everything the client has sent so far, backwards and once more.
            if let sent = scene.sent[.toRelay], sent.count > seen {
                seen = sent.count
                for datagram in sent.reversed() { scene.inject(datagram) }
            }
            return scene.isUp
        })
        #expect(scene.keysAgree)
    }
}
