import Foundation
import RTPCore
import RelayCore
import Testing

/// What a recorded offer has for each room: payload type and RTX of the video codec, nil where it lacks the
/// codec.
struct RecordedOffer: Sendable, CustomTestStringConvertible {
    var name: String
    var opus: UInt8
    var video: [MediaCodec: [UInt8]]
    var testDescription: String { name }

    init(_ name: String, opus: UInt8, _ video: [MediaCodec: [UInt8]]) {
        self.name = name
        self.opus = opus
        self.video = video
    }

    private static let chromium: [MediaCodec: [UInt8]] = [
        .vp8: [96, 97], .h264: [108, 109], .vp9: [98, 99], .av1: [45, 46],
    ]
    private static let firefox: [MediaCodec: [UInt8]] = [
        .vp8: [120, 124], .vp9: [121, 125], .av1: [99, 100],
    ]
    private static let wrtc: [MediaCodec: [UInt8]] = [.vp8: [96, 97], .vp9: [98, 99], .av1: [39, 40]]

    static let all = [
        RecordedOffer("aiortc-p2p-offer", opus: 96, [.vp8: [97, 98], .h264: [101, 102]]),
        RecordedOffer("chromium-h264", opus: 111, [.h264: [108, 109]]),
        RecordedOffer("chromium-loopback-h264", opus: 111, [.h264: [108, 109]]),
        RecordedOffer("chromium-loopback-plain", opus: 111, chromium),
        RecordedOffer("chromium-loopback-recvonly-nogum", opus: 111, chromium),
        RecordedOffer("chromium-loopback-simulcast", opus: 111, chromium),
        RecordedOffer("chromium-loopback-svc-L3T3-vp9", opus: 111, [.vp9: [98, 99]]),
        RecordedOffer("chromium-p2p-offer", opus: 111, chromium),
        RecordedOffer("chromium-plain", opus: 111, chromium),
        RecordedOffer("chromium-recvonly-nogum", opus: 111, chromium),
        RecordedOffer("chromium-simulcast", opus: 111, chromium),
        RecordedOffer("chromium-svc-L3T3-vp9", opus: 111, [.vp9: [98, 99]]),
        RecordedOffer("firefox-p2p-offer", opus: 109, firefox),
        RecordedOffer("firefox-simulcast", opus: 109, firefox),
        RecordedOffer("gst-p2p-offer", opus: 111, [.vp8: [96]]),
        RecordedOffer("gst-sfu-offer", opus: 111, [.vp8: [96]]),
        RecordedOffer("libdatachannel-sfu-offer", opus: 111, [.vp8: [96]]),
        RecordedOffer("wrtc-p2p-offer", opus: 111, wrtc),
        RecordedOffer("wrtc-simulcast", opus: 111, wrtc),
    ]
}

@Suite("Negotiation: offers of real clients")
struct NegotiationFixtureTests {
    @Test(
        "a recorded offer is answered with the room's codec and its RTX, or as an audio call",
        arguments: RecordedOffer.all, [MediaCodec.vp8, .h264, .vp9, .av1])
    func codecs(offer: RecordedOffer, codec: MediaCodec) throws {
        let negotiated = try Negotiated(try recordedSDP(offer.name), .room(codec))
        let session = negotiated.session
        #expect(session.sections[0].kind == .audio)
        #expect(session.sections[0].payloadType == offer.opus)
        guard let expected = offer.video[codec] else {
            #expect(session.videoUnsupported)
            #expect(session.sections.count == 1)
            #expect(negotiated.media(1).port == 0)
            return
        }
        #expect(!session.videoUnsupported)
        try #require(session.sections.count == 2)
        #expect(session.sections[1].payloadType == expected[0])
        #expect(session.sections[1].rtxPayloadType == (expected.count > 1 ? expected[1] : nil))
        #expect(negotiated.media(1).formats == expected.map { String($0) })
    }
}
