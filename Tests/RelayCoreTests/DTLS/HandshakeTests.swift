import RTPCore
import RelayCore
import RelayTesting
import Testing

@Suite("DTLS handshake") struct HandshakeTests {
    @Test("comes up in two round trips and both sides hold the same keys")
    func comesUp() throws {
        let scene = try HandshakeScene()
        let begin = scene.now
        scene.connect()
        #expect(scene.isUp)
        #expect(scene.keysAgree)
        #expect(scene.now - begin == .milliseconds(40))
        #expect(scene.handshaker.counters.established == 1)
        #expect(scene.handshaker.inFlightCount == 0)
    }

    @Test(
        "takes GCM when the client offers it, wherever in its list",
        arguments: [
            "SRTP_AES128_CM_SHA1_80:SRTP_AEAD_AES_256_GCM:SRTP_AEAD_AES_128_GCM",
            "SRTP_AEAD_AES_128_GCM:SRTP_AEAD_AES_256_GCM:SRTP_AES128_CM_SHA1_80:SRTP_AES128_CM_SHA1_32",
        ])
    func prefersGCM(profiles: String) throws {
        let scene = try HandshakeScene(client: client { $0.srtpProfiles = profiles })
        scene.connect()
        #expect(scene.relayKeys?.profile == .aeadAES128GCM)
        #expect(scene.relayKeys?.sendSalt.count == 12)
        #expect(scene.keysAgree)
    }

    @Test("takes counter mode with HMAC when that is all the client has")
    func fallsBackToCounterMode() throws {
        let scene = try HandshakeScene(client: client { $0.srtpProfiles = "SRTP_AES128_CM_SHA1_80" })
        scene.connect()
        #expect(scene.relayKeys?.profile == .aes128CMSHA1_80)
        #expect(scene.relayKeys?.sendSalt.count == 14)
        #expect(scene.keysAgree)
    }

    @Test("the client sees the certificate whose fingerprint we announce")
    func announcesItsOwnCertificate() throws {
        let scene = try HandshakeScene()
        scene.connect()
        let announced = CertificateFingerprint(algorithm: .sha256, bytes: scene.identity.fingerprint)
        #expect(scene.identity.fingerprint.count == 32)
        #expect(scene.client.serverMatches(announced))
        var other = announced
        other.bytes[31] ^= 1
        #expect(!scene.client.serverMatches(other))
    }

    @Test("two identities never share a certificate, two clients of one never share keys")
    func keysAreFresh() throws {
        let first = try HandshakeScene()
        let second = try HandshakeScene()
        first.connect()
        second.connect()
        #expect(first.identity.fingerprint != second.identity.fingerprint)
        #expect(first.relayKeys?.sendKey != second.relayKeys?.sendKey)
    }

    @Test("a client that cuts everything at 256 bytes connects")
    func smallDatagrams() throws {
        let scene = try HandshakeScene(client: DTLSClient(datagramByteCount: 256))
        scene.connect()
        #expect(scene.isUp)
        #expect(scene.sent[.toRelay]?.allSatisfy { $0.count <= 256 } == true)
        #expect((scene.sent[.toRelay]?.count ?? 0) >= 4)
    }

    @Test("sends no datagram over 1,200 bytes")
    func boundsItsDatagrams() throws {
        let scene = try HandshakeScene()
        scene.loses = { direction, number, _ in direction == .toClient && number == 0 }
        scene.connect()
        #expect(scene.isUp)
        #expect(scene.sent[.toClient]?.allSatisfy { !$0.isEmpty && $0.count <= 1200 } == true)
    }

    @Test("makes no SSL object before the first hello")
    func nothingBeforeTheHello() throws {
        let scene = try HandshakeScene()
        #expect(scene.handshaker.count == 1)
        #expect(scene.handshaker.inFlightCount == 0)
        #expect(scene.handshaker.deadline == .distantFuture)
        scene.inject([20, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
        #expect(scene.handshaker.inFlightCount == 0)
        #expect(scene.handshaker.counters.droppedWithoutHello == 1)
        scene.start()
        scene.run(until: { scene.handshaker.inFlightCount == 1 })
        #expect(scene.handshaker.inFlightCount == 1)
    }

    @Test("begins nothing for a participant nobody told it about")
    func unknownParticipant() throws {
        let scene = try HandshakeScene()
        scene.start()
        let hello = try #require(scene.sent[.toRelay]?.first)
        scene.handshaker.receive(.records(ParticipantHandle(99), hello), now: scene.now)
        #expect(scene.handshaker.takeResults().isEmpty)
        #expect(scene.handshaker.counters.droppedUnknownParticipant == 1)
    }

    @Test("beginning the same participant again disturbs nothing")
    func secondBegin() throws {
        let scene = try HandshakeScene()
        scene.start()
        scene.run(for: .milliseconds(15))
        scene.handshaker.receive(.begin(scene.handle, fingerprints: []), now: scene.now)
        scene.run(until: { scene.isUp })
        #expect(scene.keysAgree)
    }

    @Test("many clients at once each get their own keys")
    func manyAtOnce() throws {
        let handshaker = Handshaker(identity: try DTLSIdentity())
        let identity = DTLSClientIdentity()
        let clients = (1...20).map { _ in DTLSClient(identity: identity) }
        var keys: [UInt64: SRTPKeys] = [:]
        let now = Instant(nanoseconds: 0)
        for (index, client) in clients.enumerated() {
            handshaker.receive(
                .begin(ParticipantHandle(UInt64(index)), fingerprints: [identity.fingerprint()]), now: now)
            client.start(now: now)
        }
        for _ in 0..<6 {
            for (index, client) in clients.enumerated() {
                for datagram in client.takeDatagrams() {
                    handshaker.receive(.records(ParticipantHandle(UInt64(index)), datagram), now: now)
                }
            }
            for result in handshaker.takeResults() {
                switch result {
                case .datagram(let handle, let bytes): clients[Int(handle.value)].receive(bytes, now: now)
                case .established(let handle, let made): keys[handle.value] = made
                case .ended: break
                }
            }
        }
        #expect(Set(keys.values.map(\.sendKey)).count == 20)
        for (index, client) in clients.enumerated() {
            #expect(client.keys?.receiveKey == keys[UInt64(index)]?.sendKey)
        }
    }
}

/// A client with changed wishes.
func client(_ change: (inout DTLSClientIdentity.Options) -> Void) -> DTLSClient {
    var options = DTLSClientIdentity.Options()
    change(&options)
    return DTLSClient(identity: DTLSClientIdentity(options))
}
