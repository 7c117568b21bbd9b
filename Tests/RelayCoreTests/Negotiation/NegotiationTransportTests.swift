import RTPCore
import RelayCore
import Testing

@Suite("Negotiation: fingerprints, DTLS role and ICE (cases S06 to S08, T34, T36)")
struct NegotiationTransportTests {
    private static func certificate(_ byte: UInt8, _ algorithm: FingerprintAlgorithm = .sha256)
        -> CertificateFingerprint
    {
        let counts: [FingerprintAlgorithm: Int] = [.sha256: 32, .sha384: 48, .sha512: 64]
        return CertificateFingerprint(
            algorithm: algorithm, bytes: Array(repeating: byte, count: counts[algorithm] ?? 0))
    }
    /// BASE with these fingerprint lines in both sections.
    private static func offer(_ lines: String...) -> Offer {
        var offer = Offer.base.removingEverywhere("a=fingerprint")
        for section in offer.media.indices { offer.media[section] += lines }
        return offer
    }

    // MARK: S06

    @Test(
        "S06: hash name and hex are read without case",
        arguments: [
            "a=fingerprint:SHA-256 " + fingerprintText(0xA1),
            "a=fingerprint:sha-256 " + fingerprintText(0xA1).lowercased(),
        ])
    func fingerprintCase(line: String) throws {
        #expect(try Negotiated(Self.offer(line)).session.fingerprints == [Self.certificate(0xA1)])
    }

    @Test("S06: sha-384 and sha-512 are served")
    func longerHashes() throws {
        let sha384 = "a=fingerprint:sha-384 " + fingerprintText(0xB2, count: 48)
        let sha512 = "a=fingerprint:sha-512 " + fingerprintText(0xC3, count: 64)
        #expect(try Negotiated(Self.offer(sha384)).session.fingerprints == [Self.certificate(0xB2, .sha384)])
        #expect(try Negotiated(Self.offer(sha512)).session.fingerprints == [Self.certificate(0xC3, .sha512)])
        #expect(
            try Negotiated(Self.offer(sha512, sha384)).session.fingerprints == [
                Self.certificate(0xB2, .sha384)
            ])
    }

    @Test("S06: sha-1 or md5 alone is refused")
    func weakHashes() throws {
        for line in ["sha-1 " + fingerprintText(1, count: 20), "md5 " + fingerprintText(1, count: 16)] {
            let found = try #require(problem(Self.offer("a=fingerprint:" + line)))
            #expect(found.status == 400)
            #expect(found.code == "sdp-weak-fingerprint")
            #expect(found.detail.hasPrefix("m-line 0 (mid 0)"))
        }
    }

    @Test("S06: a weak hash beside a good one is passed over")
    func weakBesideGood() throws {
        let offer = Self.offer(
            "a=fingerprint:sha-1 " + fingerprintText(1, count: 20),
            "a=fingerprint:sha-256 " + fingerprintText(0xA1))
        #expect(try Negotiated(offer).session.fingerprints == [Self.certificate(0xA1)])
    }

    @Test(
        "S06: a wrong byte count, bad hex or an empty value is 400 at the offer",
        arguments: [fingerprintText(0xA1, count: 31), fingerprintText(0xA1, count: 31) + ":XY", ""])
    func badFingerprint(value: String) throws {
        let found = try #require(problem(Self.offer("a=fingerprint:sha-256 " + value)))
        #expect(found.status == 400)
        #expect(found.code == "sdp-malformed")
        #expect(found.detail.contains("a=fingerprint"))
    }

    @Test("S06: our own fingerprint is lower-case sha-256 and upper-case hex with colons, in every section")
    func ownFingerprint() throws {
        let negotiated = try Negotiated(Offer.base)
        #expect(negotiated.lines.count { $0 == "a=fingerprint:sha-256 " + fingerprintText(0xBE) } == 2)
    }

    // MARK: S07

    @Test("S07a: a section's own fingerprint hides that of the session level")
    func mediaOverSession() throws {
        let offer = Offer.base.addingToSession("a=fingerprint:sha-256 " + fingerprintText(0xEE))
        #expect(try Negotiated(offer).session.fingerprints == [Self.certificate(0xA1)])
    }

    @Test("S07b: of two lines of one hash function either may match")
    func twoLines() throws {
        let offer = Self.offer(
            "a=fingerprint:sha-256 " + fingerprintText(0xEE), "a=fingerprint:sha-256 " + fingerprintText(0xA1)
        )
        #expect(
            try Negotiated(offer).session.fingerprints == [Self.certificate(0xEE), Self.certificate(0xA1)])
    }

    @Test("S07c: of several hash functions sha-256 is chosen, wherever it stands")
    func algorithmRule() throws {
        let offer = Self.offer(
            "a=fingerprint:sha-512 " + fingerprintText(0x51, count: 64),
            "a=fingerprint:sha-256 " + fingerprintText(0xA1))
        #expect(try Negotiated(offer).session.fingerprints == [Self.certificate(0xA1)])
    }

    @Test("S07d: a fingerprint only at session level counts")
    func sessionLevel() throws {
        let offer = Self.offer().addingToSession("a=fingerprint:sha-256 " + fingerprintText(0xD1))
        #expect(try Negotiated(offer).session.fingerprints == [Self.certificate(0xD1)])
    }

    @Test("S07e: another fingerprint in a bundled section is refused, naming that section")
    func conflict() throws {
        let offer = Offer.base.replacing(
            1, "a=fingerprint", with: "a=fingerprint:sha-256 " + fingerprintText(0xA2))
        let found = try #require(problem(offer))
        #expect(found.status == 400)
        #expect(found.code == "sdp-fingerprint-conflict")
        #expect(found.detail.contains("m-line 1 (mid 1)"))
    }

    @Test("S07e: another fingerprint is refused also where the room refuses that section")
    func conflictInRefusedSection() throws {
        let offer = Offer.base.replacing(
            1, "a=fingerprint", with: "a=fingerprint:sha-256 " + fingerprintText(0xA2))
        #expect(problem(offer, .room(.av1))?.code == "sdp-fingerprint-conflict")
    }

    @Test("S07f, T34: an offer without a fingerprint is 400")
    func noFingerprint() throws {
        let found = try #require(problem(Self.offer()))
        #expect(found.status == 400)
        #expect(found.code == "sdp-no-fingerprint")
        #expect(found.detail.contains("a=fingerprint"))
    }

    @Test("eight fingerprints of one function are served, nine are 413")
    func fingerprintCount() throws {
        var offer = Offer.base.removingEverywhere("a=fingerprint")
        for byte in UInt8(1)...8 {
            offer = offer.addingToSession("a=fingerprint:sha-256 " + fingerprintText(byte))
        }
        #expect(try Negotiated(offer).session.fingerprints.count == 8)
        let found = try #require(
            problem(offer.addingToSession("a=fingerprint:sha-256 " + fingerprintText(9))))
        #expect(found.status == 413)
        #expect(found.detail.contains("limit 8"))
    }

    // MARK: S08

    @Test("S08: actpass and active are answered passive", arguments: ["actpass", "active", "ACTPASS"])
    func activeRoles(role: String) throws {
        let offer = Offer.base.replacing(0, "a=setup", with: "a=setup:\(role)").replacing(
            1, "a=setup", with: "a=setup:\(role)")
        let negotiated = try Negotiated(offer)
        #expect(negotiated.answer.media.map(\.transport.setup) == [.passive, .passive])
    }

    @Test(
        "S08: passive and holdconn are 422: we are always the DTLS server",
        arguments: ["passive", "holdconn"])
    func passiveRoles(role: String) throws {
        let found = try #require(problem(Offer.base.replacing(0, "a=setup", with: "a=setup:\(role)")))
        #expect(found.status == 422)
        #expect(found.code == "sdp-setup")
        #expect(found.detail.contains("m-line 0 (mid 0)"))
        #expect(found.detail.contains("a=setup:\(role)"))
    }

    @Test("S08: passive in a section that is not the tag is 422 too")
    func passiveElsewhere() throws {
        let found = try #require(problem(Offer.base.replacing(1, "a=setup", with: "a=setup:passive")))
        #expect(found.status == 422)
        #expect(found.detail.contains("m-line 1 (mid 1)"))
    }

    @Test("S08: an offer without a=setup is 422")
    func noSetup() throws {
        let found = try #require(problem(Offer.base.removingEverywhere("a=setup")))
        #expect(found.status == 422)
        #expect(found.code == "sdp-setup")
    }

    @Test("S08: a=setup at session level counts")
    func sessionSetup() throws {
        let offer = Offer.base.removingEverywhere("a=setup")
        #expect(problem(offer.addingToSession("a=setup:actpass")) == nil)
        #expect(problem(offer.addingToSession("a=setup:passive"))?.status == 422)
    }

    // MARK: T36, protection

    @Test(
        "T36: a protocol other than UDP/TLS/RTP/SAVPF is 400, naming the m-line",
        arguments: ["RTP/AVP", "RTP/AVPF", "RTP/SAVP", "RTP/SAVPF", "UDP/TLS/RTP/SAVP", "udp/tls/rtp/savpf"])
    func protocols(name: String) throws {
        let found = try #require(problem(Offer.base.replacing(1, "m=", with: "m=video 9 \(name) 96 97")))
        #expect(found.status == 400)
        #expect(found.code == "sdp-not-dtls-srtp")
        #expect(found.detail.hasPrefix("m-line 1 (mid 1) at line 20"))
    }

    @Test("T36: SDES keys are 400, also beside a fingerprint")
    func crypto() throws {
        let line = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj"
        let found = try #require(problem(Offer.base.adding(0, line)))
        #expect(found.status == 400)
        #expect(found.code == "sdp-sdes")
        #expect(!found.detail.contains("d0Rm"))
    }

    @Test("a plain m-line that the offerer itself refuses is no fault")
    func refusedPlain() throws {
        let offer = Offer.base.replacing(1, "m=", with: "m=video 0 RTP/AVP 96").group("0")
        #expect(try Negotiated(offer).answer.media.map(\.port) == [9, 0])
    }

    @Test("the TCP form of the protocol is served and repeated")
    func tcpProtocol() throws {
        let offer = Offer.base.replacing(0, "m=", with: "m=audio 9 TCP/DTLS/RTP/SAVPF 111")
        #expect(try Negotiated(offer).media(0).transportProtocol == "TCP/DTLS/RTP/SAVPF")
    }

    @Test("a section without rtcp-mux is 406", arguments: [0, 1])
    func noMux(section: Int) throws {
        let found = try #require(problem(Offer.base.removing(section, "a=rtcp-mux")))
        #expect(found.status == 406)
        #expect(found.code == "sdp-no-rtcp-mux")
        #expect(found.detail.contains("m-line \(section)"))
    }

    @Test("a section that is refused anyway needs no rtcp-mux")
    func noMuxWhereRefused() {
        #expect(problem(Offer.base.removing(1, "a=rtcp-mux"), .room(media: .audio)) == nil)
    }

    @Test("rtcp-mux is always answered, rtcp-rsize where it was offered")
    func muxAnswered() throws {
        let negotiated = try Negotiated(Offer.base.adding(1, "a=rtcp-rsize"))
        #expect(negotiated.answer.media.map(\.hasRTCPMux) == [true, true])
        #expect(negotiated.answer.media.map(\.hasReducedSizeRTCP) == [false, true])
    }

    // MARK: ICE

    @Test("the client's credentials are those of the tagged section")
    func remoteCredentials() throws {
        let session = try Negotiated(Offer.base).session
        #expect(session.remoteICE == ICECredentials(ufrag: "cliU", password: "clientPassword0123456789"))
    }

    @Test("credentials at session level count where a section has none")
    func sessionCredentials() throws {
        let offer = Offer.base.removingEverywhere("a=ice-")
            .addingToSession("a=ice-ufrag:sess", "a=ice-pwd:sessionPassword123456789")
        #expect(try Negotiated(offer).session.remoteICE.ufrag == "sess")
    }

    @Test(
        "an offer without a user fragment or without a password is 400",
        arguments: ["a=ice-ufrag", "a=ice-pwd"])
    func noCredentials(attribute: String) throws {
        let found = try #require(problem(Offer.base.removingEverywhere(attribute)))
        #expect(found.status == 400)
        #expect(found.code == "sdp-no-ice")
    }

    @Test("an ICE-lite client is 422: somebody has to check")
    func liteClient() throws {
        let found = try #require(problem(Offer.base.addingToSession("a=ice-lite")))
        #expect(found.status == 422)
        #expect(found.code == "sdp-ice-lite")
    }

    @Test("our credentials have 8 and 24 ice-chars, the same in every section")
    func ownCredentials() throws {
        let negotiated = try Negotiated(Offer.base)
        let local = negotiated.session.localICE
        #expect(local.ufrag.utf8.count == 8)
        #expect(local.password.utf8.count == 24)
        #expect(negotiated.answer.media.map(\.transport.iceUfrag) == [local.ufrag, local.ufrag])
        #expect(negotiated.answer.media.map(\.transport.icePassword) == [local.password, local.password])
    }

    @Test("credentials differ from one answer to the next, and one seed repeats an answer")
    func freshCredentials() throws {
        let first = try Negotiated(Offer.base, seed: 1)
        let second = try Negotiated(Offer.base, seed: 2)
        #expect(first.session.localICE.ufrag != second.session.localICE.ufrag)
        #expect(first.session.localICE.password != second.session.localICE.password)
        #expect(try Negotiated(Offer.base, seed: 1).session == first.session)
    }

    @Test("drawn credentials use the whole alphabet evenly and never come twice")
    func alphabet() {
        var random = RandomSource.seeded(7)
        var counts = [Int](repeating: 0, count: 256)
        var passwords: Set<String> = []
        for _ in 0..<10_000 {
            let password = ICECredentials.drawn(&random).password
            for byte in password.utf8 { counts[Int(byte)] += 1 }
            passwords.insert(password)
        }
        #expect(passwords.count == 10_000)
        let used = counts.filter { $0 > 0 }
        #expect(used.count == 64)
        // 63 degrees of freedom: 103.4 is passed by one draw in a thousand.
        var sum = 0.0
        for count in used {
            let distance = Double(count) - 3_750
            sum += distance * distance / 3_750
        }
        #expect(sum < 103.4)
    }

    @Test("passive TCP candidates stand below all UDP ones, with foundations of their own")
    func streamCandidates() throws {
        let addresses = ["192.0.2.10", "2001:db8::10"]
        let endpoint = WorkerEndpoint(
            candidates: addresses.map { .init(address: $0, port: 40_000) }
                + addresses.map { .init(address: $0, port: 443, isStream: true) },
            fingerprint: [UInt8](repeating: 1, count: 32))
        var random = RandomSource.seeded(1)
        let session = try Negotiator.negotiate(
            offer: Offer.base.bytes, policy: .room(), endpoint: endpoint, random: &random)
        let text = String(decoding: session.answer, as: UTF8.self)
        #expect(text.contains("a=candidate:3 1 tcp 1520434687 192.0.2.10 443 typ host tcptype passive\r\n"))
        let candidates = try SessionDescription(parsing: session.answer).media[0].candidates
        #expect(candidates.map(\.isStream) == [false, false, true, true])
        #expect(candidates.map(\.port) == [40_000, 40_000, 443, 443])
        let priorities = candidates.map(\.priority)
        #expect(priorities == priorities.sorted(by: >) && Set(priorities).count == 4)
        #expect(Set(candidates.map(\.foundation)).count == 4)
    }

    @Test("the answer is ICE-lite, with one falling host candidate for each address in the tagged section")
    func candidates() throws {
        let negotiated = try Negotiated(Offer.base)
        #expect(negotiated.answer.isICELite)
        let candidates = negotiated.media(0).candidates
        #expect(candidates.map(\.address) == ["192.0.2.10", "2001:db8::10"])
        #expect(candidates.map(\.port) == [40_000, 40_000])
        #expect(candidates.map(\.component) == [1, 1])
        #expect(candidates[0].priority == 2_130_706_431)
        #expect(candidates[0].priority > candidates[1].priority)
        #expect(negotiated.media(0).hasEndOfCandidates)
        #expect(negotiated.media(1).candidates.isEmpty)
        #expect(!negotiated.text.contains("a=ice-options"))
    }
}
