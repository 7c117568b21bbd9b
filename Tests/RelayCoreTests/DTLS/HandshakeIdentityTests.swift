import RTPCore
import RelayCore
import RelayTesting
import Testing

/// T34–T36, S06, S07: who the client is and what it may use.
@Suite("DTLS: certificates and profiles") struct HandshakeIdentityTests {
    @Test(
        "a fingerprint of each allowed hash is checked",
        arguments: [
            FingerprintAlgorithm.sha256, .sha384, .sha512,
        ])
    func hashes(algorithm: FingerprintAlgorithm) throws {
        let client = DTLSClient()
        let scene = try HandshakeScene(client: client, fingerprints: [client.identity.fingerprint(algorithm)])
        scene.connect()
        #expect(scene.keysAgree)
    }

    @Test("any one of several fingerprints may match")
    func oneOfSeveral() throws {
        let client = DTLSClient()
        let other = DTLSClientIdentity().fingerprint()
        let scene = try HandshakeScene(client: client, fingerprints: [other, client.identity.fingerprint()])
        scene.connect()
        #expect(scene.keysAgree)
    }

    @Test("one wrong bit anywhere gives no key and ends as fingerprint mismatch", arguments: [0, 100, 255])
    func oneBit(bit: Int) throws {
        let client = DTLSClient()
        var wrong = client.identity.fingerprint()
        wrong.bytes[bit / 8] ^= 1 << UInt8(bit % 8)
        let scene = try HandshakeScene(client: client, fingerprints: [wrong])
        scene.start()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .fingerprintMismatch)
        #expect(scene.relayKeys == nil)
        #expect(scene.handshaker.counters.established == 0)
        scene.run(for: .seconds(1))
        #expect(client.state == .closed, "the client is told, encrypted")
    }

    @Test("a fingerprint cut short never matches", arguments: [0, 1, 31])
    func shortFingerprint(count: Int) throws {
        let client = DTLSClient()
        var short = client.identity.fingerprint()
        short.bytes = Array(short.bytes.prefix(count))
        let scene = try HandshakeScene(client: client, fingerprints: [short])
        scene.start()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .fingerprintMismatch)
    }

    @Test("without any fingerprint nobody gets in")
    func noFingerprint() throws {
        let scene = try HandshakeScene(fingerprints: [])
        scene.start()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .fingerprintMismatch)
    }

    @Test("a client without a certificate is not let in")
    func noCertificate() throws {
        let scene = try HandshakeScene(client: client { $0.sendsCertificate = false })
        scene.start()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .handshakeFailed)
        #expect(scene.relayKeys == nil)
    }

    @Test("somebody else's certificate without its key is not let in")
    func stolenCertificate() throws {
        let victim = DTLSClientIdentity()
        var options = DTLSClientIdentity.Options()
        options.forgesKey = true
        let thief = DTLSClient(identity: DTLSClientIdentity(options, certificate: victim.certificate))
        #expect(thief.identity.fingerprint() == victim.fingerprint())
        let scene = try HandshakeScene(client: thief)
        scene.start()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .handshakeFailed)
        #expect(scene.relayKeys == nil)
    }

    @Test(
        "no common SRTP profile ends the association though the handshake succeeded",
        arguments: [
            nil, "SRTP_AEAD_AES_256_GCM", "SRTP_AES128_CM_SHA1_32",
        ])
    func noProfile(profiles: String?) throws {
        let scene = try HandshakeScene(client: client { $0.srtpProfiles = profiles })
        scene.start()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .noSRTPProfile)
        #expect(scene.relayKeys == nil)
    }

    @Test("a client without our cipher suite ends as no common ground, within the budget")
    func noCipher() throws {
        let scene = try HandshakeScene(client: client { $0.ciphers = "ECDHE-ECDSA-AES256-SHA" })
        let begin = scene.now
        scene.start()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .noSRTPProfile)
        #expect(scene.now - begin <= .seconds(10))
        #expect(scene.handshaker.inFlightCount == 0)
    }
}
