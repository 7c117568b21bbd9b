import RTPCore
import RelayCore
import Testing

@Suite("Negotiation: RED")
struct NegotiationRedundancyTests {
    private static var policy: NegotiationPolicy {
        var policy = NegotiationPolicy.room()
        policy.red = true
        return policy
    }
    /// BASE whose audio section offers RED like this besides Opus.
    private static func offer(_ map: String = "red/48000/2", _ parameters: String? = "111/111") -> Offer {
        let offer = Offer.base.replacing(0, "m=audio", with: "m=audio 9 UDP/TLS/RTP/SAVPF 111 63")
            .adding(0, "a=rtpmap:63 \(map)")
        return parameters.map { offer.adding(0, "a=fmtp:63 \($0)") } ?? offer
    }

    @Test(
        "in a room with RED real clients' offers are answered with it, first, and the video's RED with nothing",
        arguments: ["chromium-plain", "wrtc-p2p-offer"])
    func recorded(name: String) throws {
        let negotiated = try Negotiated(try recordedSDP(name), Self.policy)
        #expect(negotiated.media(0).formats == ["63", "111"])
        #expect(negotiated.lines.contains("a=rtpmap:63 red/48000/2"))
        #expect(negotiated.lines.contains("a=fmtp:63 111/111"))
        #expect(negotiated.session.sections[0].payloadType == 111)
        #expect(negotiated.session.sections[0].redPayloadType == 63)
        #expect(negotiated.session.sections[1].redPayloadType == nil)
        #expect(negotiated.lines.count { $0.contains(" red/") } == 1)
    }

    @Test(
        "who does not offer RED is answered without it",
        arguments: ["firefox-p2p-offer", "gst-p2p-offer", "aiortc-p2p-offer"])
    func without(name: String) throws {
        let negotiated = try Negotiated(try recordedSDP(name), Self.policy)
        #expect(negotiated.session.sections[0].redPayloadType == nil)
        #expect(!negotiated.text.lowercased().contains("red/"))
    }

    @Test(
        "RED of another rate, of something else than the Opus that was chosen, or without a word of what is no RED of ours",
        arguments: [
            ("red/8000", "111/111"), ("red/48000", "111/111"), ("red/48000/2", "0/0"), ("red/48000/2", "111/0"),
            ("red/48000/2", nil), ("red/48000/2", ""), ("redder/48000/2", "111/111"),
        ] as [(String, String?)])
    func others(map: String, parameters: String?) throws {
        let negotiated = try Negotiated(Self.offer(map, parameters), Self.policy)
        #expect(negotiated.session.sections[0].redPayloadType == nil)
        #expect(negotiated.media(0).formats == ["111"])
    }

    @Test("RED on a payload type that collides with RTCP is left out of the answer")
    func reserved() throws {
        let offer = Offer.base.replacing(0, "m=audio", with: "m=audio 9 UDP/TLS/RTP/SAVPF 111 72")
            .adding(0, "a=rtpmap:72 red/48000/2", "a=fmtp:72 111/111")
        #expect(try Negotiated(offer, Self.policy).session.sections[0].redPayloadType == nil)
    }

    @Test("one payload type that is RED on one m-line and something else on another is refused")
    func conflict() throws {
        let offer = Self.offer().replacing(1, "a=rtpmap:96", with: "a=rtpmap:63 VP8/90000")
            .replacing(1, "m=video", with: "m=video 9 UDP/TLS/RTP/SAVPF 63 97").replacing(1, "a=rtcp-fb")
            .replacing(1, "a=fmtp:97", with: "a=fmtp:97 apt=63")
        #expect(problem(offer, Self.policy)?.code == "sdp-payload-type")
    }
}
