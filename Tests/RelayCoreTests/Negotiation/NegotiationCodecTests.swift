import RTPCore
import RelayCore
import Testing

@Suite("Negotiation: codecs and feedback")
struct NegotiationCodecTests {
    /// BASE whose video section has these codec lines for payload types 96 and 97.
    private static func video(_ lines: String...) -> Offer {
        var offer = Offer.base.removing(1, "a=rtpmap", "a=fmtp", "a=rtcp-fb")
        offer.media[1] += lines
        return offer
    }

    @Test("the answer has exactly Opus and the room's codec with its RTX, whatever else was offered")
    func exactly() throws {
        let negotiated = try Negotiated(try recordedSDP("chromium-plain"))
        #expect(negotiated.media(0).formats == ["111"])
        #expect(negotiated.media(1).formats == ["96", "97"])
        #expect(negotiated.lines.count { $0.hasPrefix("a=rtpmap:") } == 3)
    }

    @Test("RED is in no answer of a room without it")
    func noRED() throws {
        let negotiated = try Negotiated(try recordedSDP("chromium-plain"))
        #expect(!negotiated.text.lowercased().contains("red/"))
        #expect(negotiated.session.sections[0].redPayloadType == nil)
    }

    @Test("Opus is answered with in-band FEC and without DTX")
    func opusParameters() throws {
        let negotiated = try Negotiated(try recordedSDP("firefox-p2p-offer"))
        #expect(negotiated.lines.contains("a=fmtp:109 minptime=10;useinbandfec=1"))
        #expect(!negotiated.text.contains("usedtx"))
    }

    @Test("codec names are compared without case and repeated as offered")
    func nameCase() throws {
        let negotiated = try Negotiated(try recordedSDP("gst-sfu-offer"))
        #expect(negotiated.lines.contains("a=rtpmap:111 OPUS/48000/2"))
    }

    @Test("an offer without Opus is 422, naming the m-line")
    func noOpus() throws {
        let found = try #require(problem(Offer.base.replacing(0, "a=rtpmap", with: "a=rtpmap:111 PCMU/8000")))
        #expect(found.status == 422)
        #expect(found.code == "sdp-no-opus")
        #expect(found.detail.contains("m-line 0 (mid 0)"))
    }

    @Test(
        "Opus with one channel or another clock rate is not Opus",
        arguments: ["opus/48000", "opus/48000/1", "opus/16000/2"])
    func otherOpus(name: String) throws {
        #expect(
            problem(Offer.base.replacing(0, "a=rtpmap", with: "a=rtpmap:111 \(name)"))?.code == "sdp-no-opus")
    }

    @Test("a second audio section without Opus is refused alone")
    func secondAudioWithoutOpus() throws {
        var offer = Offer.base.group("0 1 2")
        offer.media.append(
            ["m=audio 9 UDP/TLS/RTP/SAVPF 0", "a=mid:2", "a=rtcp-mux", "a=rtpmap:0 PCMU/8000", "a=sendrecv"])
        #expect(try Negotiated(offer).answer.media.map(\.port) == [9, 9, 0])
    }

    @Test("without the room's video codec the m-line is refused and the call is one of audio")
    func videoUnsupported() throws {
        let negotiated = try Negotiated(Offer.base, .room(.av1))
        #expect(negotiated.session.videoUnsupported)
        #expect(negotiated.answer.media.map(\.port) == [9, 0])
        #expect(negotiated.answer.bundle?.mids == ["0"])
    }

    @Test("an offer without video, or one in an audio room, is not called unsupported")
    func notUnsupported() throws {
        #expect(try !Negotiated(Offer.base.keeping(0).group("0"), .room(.av1)).session.videoUnsupported)
        #expect(try !Negotiated(Offer.base, .room(media: .audio)).session.videoUnsupported)
    }

    @Test("an audio room accepts video as well, since its call may become a video call")
    func audioRoom() throws {
        let negotiated = try Negotiated(Offer.base, .room(media: .audio))
        #expect(negotiated.answer.media.map(\.port) == [9, 9])
        #expect(negotiated.session.sections.map(\.kind) == [.audio, .video])
        #expect(negotiated.session.sections.allSatisfy { $0.clientSends && $0.clientReceives })
    }

    @Test("an audio room refuses video that it could not serve, and takes the call")
    func audioRoomWithoutVideo() throws {
        let offer = Offer.base.replacing(1, "a=rtpmap:96", with: "a=rtpmap:96 VP8/8000")
        for policy in [NegotiationPolicy.room(.av1, media: .audio), .room(media: .audio)] {
            let negotiated = try Negotiated(policy.videoCodec == .av1 ? Offer.base : offer, policy)
            #expect(negotiated.answer.media.map(\.port) == [9, 0])
            #expect(negotiated.session.videoUnsupported)
        }
    }

    @Test(
        "H264 is served as constrained baseline with packetization mode 1, and as nothing else",
        arguments: [
            ("level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f", true),
            ("level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42E01F", true),
            ("packetization-mode=1;profile-level-id=42c01f", true),
            ("packetization-mode=1;profile-level-id=42001f", false),
            ("packetization-mode=0;profile-level-id=42e01f", false), ("profile-level-id=42e01f", false),
            ("packetization-mode=1", false), ("packetization-mode=1;profile-level-id=4d001f", false),
            ("packetization-mode=1;profile-level-id=640c1f", false),
            ("packetization-mode=1;profile-level-id=42e0", false),
            ("packetization-mode=1;profile-level-id=zzzzzz", false),
        ])
    func h264(parameters: String, isServed: Bool) throws {
        let negotiated = try Negotiated(
            Self.video("a=rtpmap:96 H264/90000", "a=fmtp:96 \(parameters)"), .room(.h264))
        #expect(negotiated.session.videoUnsupported == !isServed)
        #expect(negotiated.session.sections.contains { $0.codec == .h264 } == isServed)
    }

    @Test("H264 is answered as 42e01f, its level not above the offer's where levels may not differ")
    func h264Answer() throws {
        let asymmetric = try Negotiated(
            Self.video(
                "a=rtpmap:96 H264/90000",
                "a=fmtp:96 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42c00d"),
            .room(.h264))
        #expect(
            asymmetric.lines.contains(
                "a=fmtp:96 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"))
        let symmetric = try Negotiated(
            Self.video("a=rtpmap:96 H264/90000", "a=fmtp:96 packetization-mode=1;profile-level-id=42e00d"),
            .room(.h264))
        #expect(symmetric.lines.contains("a=fmtp:96 packetization-mode=1;profile-level-id=42e00d"))
    }

    @Test(
        "VP9 is served in profile 0, which is also what an absent profile means",
        arguments: [
            ("a=fmtp:96 profile-id=0", true), ("a=fmtp:96 max-fs=1", true), ("a=fmtp:96 profile-id=2", false),
        ])
    func vp9(line: String, isServed: Bool) throws {
        let negotiated = try Negotiated(Self.video("a=rtpmap:96 VP9/90000", line), .room(.vp9))
        #expect(negotiated.session.videoUnsupported == !isServed)
    }

    @Test("AV1 is served in the main profile, its level and tier repeated")
    func av1() throws {
        let main = try Negotiated(
            Self.video("a=rtpmap:96 AV1/90000", "a=fmtp:96 level-idx=5;profile=0;tier=0"), .room(.av1))
        #expect(main.lines.contains("a=fmtp:96 level-idx=5;profile=0;tier=0"))
        let bare = try Negotiated(Self.video("a=rtpmap:96 AV1/90000"), .room(.av1))
        #expect(!bare.session.videoUnsupported)
        #expect(!bare.text.contains("a=fmtp:96"))
        let high = try Negotiated(Self.video("a=rtpmap:96 AV1/90000", "a=fmtp:96 profile=1"), .room(.av1))
        #expect(high.session.videoUnsupported)
    }

    @Test("RTX is answered only for the chosen payload type")
    func retransmission() throws {
        let other = try Negotiated(
            Self.video("a=rtpmap:96 VP8/90000", "a=rtpmap:97 rtx/90000", "a=fmtp:97 apt=98"))
        #expect(other.session.sections[1].rtxPayloadType == nil)
        #expect(other.media(1).formats == ["96"])
        let own = try Negotiated(
            Self.video("a=rtpmap:96 VP8/90000", "a=rtpmap:97 RTX/90000", "a=fmtp:97 apt=96"))
        #expect(own.session.sections[1].rtxPayloadType == 97)
        #expect(own.lines.contains("a=fmtp:97 apt=96"))
    }

    @Test("feedback is what both know of the chosen payload type")
    func feedback() throws {
        let negotiated = try Negotiated(try recordedSDP("chromium-plain"))
        #expect(negotiated.session.sections[0].feedback == [.transportCC, .referenceTime])
        #expect(negotiated.session.sections[1].feedback == [.nack, .pli, .fir, .remb, .transportCC, .referenceTime])
        #expect(
            negotiated.media(1).codecs[0].feedback == [
                "nack", "nack pli", "ccm fir", "goog-remb", "transport-cc",
            ])
        #expect(negotiated.media(1).codecs[1].feedback.isEmpty)
    }

    @Test("reference times are answered where the offer asks for it, in the words that it uses")
    func referenceTimes() throws {
        let libwebrtc = try Negotiated(try recordedSDP("wrtc-p2p-offer"))
        for index in 0...1 {
            #expect(libwebrtc.session.sections[index].feedback.contains(.referenceTime))
            #expect(libwebrtc.media(index).receiverRoundTrip == "all")
            #expect(libwebrtc.media(index).codecs[0].feedback.contains("rrtr"))
        }
        let firefox = try Negotiated(try recordedSDP("firefox-p2p-offer"))
        #expect(!firefox.session.sections[0].feedback.contains(.referenceTime))
        #expect(!firefox.text.contains("rtcp-xr") && !firefox.text.contains("rrtr"))
    }

    @Test("feedback that was not offered is not answered, nor what we do not know")
    func feedbackIntersection() throws {
        let negotiated = try Negotiated(
            Self.video(
                "a=rtpmap:96 VP8/90000", "a=rtcp-fb:96 nack rpsi", "a=rtcp-fb:* ccm fir", "a=rtcp-fb:97 nack")
        )
        #expect(negotiated.session.sections[1].feedback == [.fir])
        #expect(negotiated.media(1).codecs[0].feedback == ["ccm fir"])
    }

    @Test("a payload type of 64…95 is not used while there is another, and 422 where there is none")
    func reservedPayloadTypes() throws {
        func offer(_ formats: String, _ maps: String...) -> Offer {
            var offer = Offer.base.replacing(0, "m=", with: "m=audio 9 UDP/TLS/RTP/SAVPF \(formats)")
                .removing(0, "a=rtpmap")
            offer.media[0] += maps
            return offer
        }
        let both = offer("72 111", "a=rtpmap:72 opus/48000/2", "a=rtpmap:111 opus/48000/2")
        #expect(try Negotiated(both).session.sections[0].payloadType == 111)
        for number in [64, 95] {
            let found = try #require(problem(offer("\(number)", "a=rtpmap:\(number) opus/48000/2")))
            #expect(found.status == 422)
            #expect(found.code == "sdp-payload-type")
            #expect(found.detail.contains("a=rtpmap:\(number)"))
        }
        for number in [63, 127] {
            #expect(problem(offer("\(number)", "a=rtpmap:\(number) opus/48000/2")) == nil)
        }
    }

    @Test("one payload type for two codecs of one bundle is 400")
    func payloadTypeConflict() throws {
        let offer = Offer.base.replacing(0, "m=", with: "m=audio 9 UDP/TLS/RTP/SAVPF 96")
            .replacing(0, "a=rtpmap", with: "a=rtpmap:96 opus/48000/2")
        let found = try #require(problem(offer))
        #expect(found.status == 400)
        #expect(found.code == "sdp-payload-type")
        #expect(found.detail.contains("m-line 1"))
    }
}
