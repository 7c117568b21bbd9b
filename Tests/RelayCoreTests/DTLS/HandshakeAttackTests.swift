import RTPCore
import RelayCore
import RelayTesting
import Testing

/// T30, T32, T37: what somebody can send from the client's own address.
@Suite("DTLS: hostile datagrams") struct HandshakeAttackTests {
    /// The vectors that are datagrams; the others are bodies of an extension.
    static let hostile = VectorFile("dtls").rows().filter { !$0.name.hasPrefix("use-srtp") }

    @Test("there are sixteen of them")
    func allThere() { #expect(Self.hostile.count == 16) }

    @Test("one before the hello does not keep the client from connecting", arguments: hostile)
    func before(row: VectorRow) throws {
        let scene = try HandshakeScene()
        scene.inject(row.bytes)
        scene.connect()
        #expect(scene.keysAgree)
        #expect(scene.end == nil)
    }

    @Test("one while our first flight is on its way does not either", arguments: hostile)
    func betweenHelloAndAnswer(row: VectorRow) throws {
        let scene = try HandshakeScene()
        scene.start()
        scene.run(until: { scene.sent[.toClient]?.isEmpty == false })
        scene.inject(row.bytes)
        scene.run(until: { scene.isUp || scene.end != nil })
        #expect(scene.keysAgree)
    }

    @Test("one between the parts of the client's second flight does not either", arguments: hostile)
    func betweenCertificateAndFinished(row: VectorRow) throws {
        let scene = try HandshakeScene(client: DTLSClient(datagramByteCount: 256))
        scene.start()
        var injected = false
        scene.run(until: {
            if !injected, scene.sent[.toClient]?.isEmpty == false, (scene.sent[.toRelay]?.count ?? 0) > 3 {
                let second = scene.sent[.toRelay]?[2] ?? []
                scene.inject(second)
                scene.inject(row.bytes)
                injected = true
            }
            return scene.isUp || scene.end != nil
        })
        #expect(injected)
        #expect(scene.keysAgree)
    }

    @Test("one after the handshake changes nothing and is not answered", arguments: hostile)
    func afterwards(row: VectorRow) throws {
        let scene = try HandshakeScene()
        scene.connect()
        let count = scene.sent[.toClient]?.count
        scene.inject(row.bytes)
        #expect(scene.end == nil)
        #expect(scene.sent[.toClient]?.count == count)
        scene.client.close()
        scene.collect()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .closed, "the next good record is still understood")
    }

    @Test("all of them one after the other, while the client is connecting, do not stop it")
    func allTogether() throws {
        let scene = try HandshakeScene()
        scene.start()
        scene.run(until: { scene.sent[.toClient]?.isEmpty == false })
        for row in Self.hostile { scene.inject(row.bytes) }
        scene.run(until: { scene.isUp || scene.end != nil })
        #expect(scene.keysAgree)
    }

    @Test("a hello without a common cipher gets no plaintext alert that the real client would believe")
    func noAlertForForgery() throws {
        let scene = try HandshakeScene()
        let race = try #require(Self.hostile.first { $0.name == "clienthello-null-cipher-race" })
        scene.inject(race.bytes)
        #expect(scene.sent[.toClient]?.isEmpty == true)
    }

    @Test("four poisoned objects are replaced, the fifth connects")
    func poisonedFourTimes() throws {
        let scene = try HandshakeScene()
        let race = try #require(Self.hostile.first { $0.name == "clienthello-null-cipher-race" })
        for _ in 0..<4 { scene.inject(race.bytes) }
        scene.connect()
        #expect(scene.keysAgree)
        #expect(scene.handshaker.counters.restarted == 4)
    }

    @Test("five poisoned objects are the end, told as no common ground")
    func poisonedFiveTimes() throws {
        let scene = try HandshakeScene()
        let race = try #require(Self.hostile.first { $0.name == "clienthello-null-cipher-race" })
        for _ in 0..<5 { scene.inject(race.bytes) }
        #expect(scene.end == .noSRTPProfile)
        #expect(scene.handshaker.counters.failed == 1)
        #expect(scene.handshaker.count == 0)
    }

    @Test("a forged hello that we could serve gives way to the client's own")
    func forgedGoodHello() throws {
        let scene = try HandshakeScene()
        let body = postQuantumHelloBody(versions: [0xFEFD])
        // Its answer never reaches the client, who is not even listening yet.
        scene.loses = { direction, number, _ in direction == .toClient && number == 0 }
        scene.inject(helloRecord(body, 0..<body.count, number: 0))
        #expect(scene.handshaker.inFlightCount == 1)
        scene.connect()
        #expect(scene.keysAgree)
        #expect(scene.handshaker.inFlightCount == 0)
    }

    @Test("a forged hello after the client's certificate does not undo the handshake")
    func forgedHelloTooLate() throws {
        let scene = try HandshakeScene(client: DTLSClient(datagramByteCount: 256))
        scene.start()
        let body = postQuantumHelloBody(versions: [0xFEFD])
        var injected = false
        scene.run(until: {
            if !injected, scene.sent[.toClient]?.isEmpty == false, (scene.sent[.toRelay]?.count ?? 0) > 3 {
                scene.inject(scene.sent[.toRelay]?[2] ?? [])
                scene.inject(helloRecord(body, 0..<body.count, number: 77))
                injected = true
            }
            return scene.isUp || scene.end != nil
        })
        #expect(injected)
        #expect(scene.keysAgree)
    }

    @Test("a plaintext fatal alert ends nothing while the client goes on")
    func alertIsOnlyAHint() throws {
        let scene = try HandshakeScene(client: DTLSClient(datagramByteCount: 256))
        scene.loses = { direction, number, _ in direction == .toRelay && number == 4 }
        scene.start()
        scene.run(until: { scene.sent[.toClient]?.isEmpty == false })
        scene.inject([21, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40])
        scene.run(until: { scene.isUp || scene.end != nil })
        #expect(scene.keysAgree)
    }

    @Test("after a plaintext fatal alert a silent client is given up in 3 s, not 10")
    func alertShortensTheWait() throws {
        let scene = try HandshakeScene()
        scene.loses = { direction, _, _ in direction == .toClient }
        let body = postQuantumHelloBody(versions: [0xFEFD])
        scene.inject(helloRecord(body, 0..<body.count, number: 0))
        let begin = scene.now
        scene.inject([21, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40])
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .handshakeFailed)
        #expect(scene.now - begin == .seconds(3))
    }

    @Test("every single flipped bit of the client's Finished is survived")
    func flippedFinished() throws {
        let identity = DTLSClientIdentity()
        for byte in stride(from: 0, to: 61, by: 3) {
            let scene = try HandshakeScene(client: DTLSClient(identity: identity))
            scene.start()
            scene.loses = { direction, number, bytes in
                guard direction == .toRelay, number == 1 else { return false }
                var damaged = bytes
                damaged[bytes.count - 1 - byte] ^= 0x10
                scene.inject(damaged)
                return true
            }
            scene.run(until: { scene.isUp || scene.end != nil })
            #expect(scene.keysAgree, "byte \(byte) from the end")
        }
    }
}
