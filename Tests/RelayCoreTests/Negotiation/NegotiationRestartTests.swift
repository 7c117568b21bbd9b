import RTPCore
import RelayCore
import Testing

@Suite("Negotiation: the identical offer, and ICE restarts")
struct NegotiationRestartTests {
    @Test("an offer has the same identity in every room and with either line ending")
    func sameIdentity() throws {
        for name in ["chromium-plain", "firefox-p2p-offer", "aiortc-p2p-offer", "gst-p2p-offer"] {
            let bytes = try recordedSDP(name)
            let identity = try OfferIdentity(offer: bytes)
            #expect(try OfferIdentity(offer: bytes.filter { $0 != 0x0D }) == identity)
            #expect(try Negotiated(bytes, .room(.vp8)).session.identity == identity)
            #expect(try Negotiated(bytes, .room(media: .audio)).session.identity == identity)
        }
    }

    @Test("another user fragment or another certificate is another offer")
    func otherIdentity() throws {
        let identity = try OfferIdentity(offer: Offer.base.bytes)
        #expect(identity.remoteUfrag == "cliU")
        let ufrag = Offer.base.replacing(0, "a=ice-ufrag", with: "a=ice-ufrag:cliV")
        #expect(try OfferIdentity(offer: ufrag.bytes) != identity)
        let line = "a=fingerprint:sha-256 " + fingerprintText(0xA2)
        let certificate = Offer.base.replacing(0, "a=fingerprint", with: line).replacing(
            1, "a=fingerprint", with: line)
        #expect(try OfferIdentity(offer: certificate.bytes) != identity)
    }

    @Test("the identity of an offer that could not be served is the offer's problem")
    func noIdentity() {
        #expect(throws: Problem.self) { try OfferIdentity(offer: []) }
        #expect(throws: Problem.self) {
            try OfferIdentity(offer: Offer.base.removingEverywhere("a=fingerprint").bytes)
        }
    }

    // MARK: Restart

    private static let request = [
        "a=ice-options:trickle ice2", "a=group:BUNDLE 0 1", "m=audio 9 UDP/TLS/RTP/SAVPF 111", "a=mid:0",
        "a=ice-ufrag:ysXw", "a=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k",
        "a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0",
        "a=end-of-candidates",
    ]

    private static func restart(_ lines: [String], seed: UInt64 = 9) throws(Problem) -> ICERestart {
        let session: NegotiatedSession
        do {
            session = try Negotiated(Offer.base).session
        } catch {
            throw Problem(status: 500, code: "test", detail: "BASE is not served")
        }
        var random = RandomSource.seeded(seed)
        return try Negotiator.restart(
            fragment: Array(lines.map { $0 + "\r\n" }.joined().utf8), fingerprints: session.fingerprints,
            sections: session.sections, endpoint: testEndpoint, random: &random)
    }
    private static func restartProblem(_ lines: [String]) -> Problem? {
        do {
            _ = try restart(lines)
            return nil
        } catch {
            return error
        }
    }

    @Test("a restart takes the client's new credentials and draws ours anew")
    func restart() throws {
        let first = try Self.restart(Self.request)
        #expect(first.remoteICE == ICECredentials(ufrag: "ysXw", password: "vw5LmwG4y/e6dPP/zAP9Gp5k"))
        #expect(first.localICE.ufrag.utf8.count == 8)
        #expect(first.localICE.password.utf8.count == 24)
        #expect(try Self.restart(Self.request, seed: 10).localICE != first.localICE)
    }

    @Test("the answering fragment has our credentials, every candidate and the request's m-line")
    func fragment() throws {
        let restart = try Self.restart(Self.request)
        let text = String(decoding: restart.fragment, as: UTF8.self)
        let expected = [
            "a=group:BUNDLE 0 1", "a=ice-lite", "m=audio 9 UDP/TLS/RTP/SAVPF 111", "a=mid:0",
            "a=ice-ufrag:\(restart.localICE.ufrag)", "a=ice-pwd:\(restart.localICE.password)",
            "a=candidate:1 1 udp 2130706431 192.0.2.10 40000 typ host",
            "a=candidate:2 1 udp 2130706175 2001:db8::10 40000 typ host", "a=end-of-candidates",
        ]
        #expect(text == expected.map { $0 + "\r\n" }.joined())
    }

    @Test("a fragment without an m-line is answered under the session's first section")
    func withoutMediaLine() throws {
        let restart = try Self.restart(["a=ice-ufrag:ysXw", "a=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k"])
        let answer = try TrickleFragment(parsing: restart.fragment)
        #expect(answer.content.media.map(\.kind) == ["audio"])
        #expect(answer.content.media.map(\.mid) == ["0"])
        #expect(answer.iceUfrag == restart.localICE.ufrag)
    }

    @Test("a restart without credentials is 400")
    func withoutCredentials() throws {
        let found = try #require(Self.restartProblem(["a=ice-ufrag:ysXw"]))
        #expect(found.status == 400)
        #expect(found.code == "sdp-no-ice")
    }

    @Test("a restart that names the session's certificate is served")
    func sameCertificate() {
        #expect(Self.restartProblem(Self.request + ["a=fingerprint:sha-256 " + fingerprintText(0xA1)]) == nil)
    }

    @Test("a restart that names another certificate is 422")
    func otherCertificate() throws {
        let lines = [
            "a=fingerprint:sha-256 " + fingerprintText(0xA2),
            "a=fingerprint:sha-512 " + fingerprintText(0xA1, count: 64),
        ]
        for line in lines {
            let found = try #require(Self.restartProblem(Self.request + [line]))
            #expect(found.status == 422)
            #expect(found.code == "sdp-fingerprint-changed")
        }
        let both = ["a=fingerprint:sha-256 " + fingerprintText(0xA1), lines[0]]
        #expect(Self.restartProblem(Self.request + both)?.status == 422)
    }

    @Test("a malformed fragment is 400 by line and attribute, one over a limit 413")
    func malformed() throws {
        let found = try #require(Self.restartProblem(["a=ice-ufrag:x"]))
        #expect(found.status == 400)
        #expect(found.detail.hasPrefix("line 1, a=ice-ufrag"))
        #expect(Self.restartProblem(Array(repeating: "a=x", count: 257))?.status == 413)
    }
}
