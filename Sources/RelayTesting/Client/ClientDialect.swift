import RTPCore
import RelayCore

/// How a kind of client writes its offer and shakes hands: what CLIENTS.md measured, reduced to what a relay can tell apart.
public enum ClientDialect: String, Sendable, CaseIterable {
    /// Media-level credentials, payload types 111 and 96, MID as extension 4, a hello in two datagrams.
    case chromium
    /// Session-level fingerprint, payload types 109 and 120, MID as extension 3, direction suffixes on extensions.
    case firefox
    /// libwebrtc without a browser: as Chromium, with a small hello.
    case libwebrtc
    /// No extension, no RTX, long mids, bundle-only video, counter-mode SRTP only, 256-byte DTLS datagrams.
    case gstreamer
    /// Payload type 96 for Opus, three fingerprints, few extensions.
    case aiortc

    struct Codec {
        var payloadType: UInt8
        var rtxPayloadType: UInt8?
    }

    var opus: UInt8 {
        switch self {
        case .chromium, .libwebrtc, .gstreamer: 111
        case .firefox: 109
        case .aiortc: 96
        }
    }

    /// Redundant sound.
    static let red: UInt8 = 63

    func video(_ codec: MediaCodec) -> Codec {
        switch (self, codec) {
        case (.chromium, .h264), (.libwebrtc, .h264): Codec(payloadType: 102, rtxPayloadType: 103)
        case (.chromium, _), (.libwebrtc, _): Codec(payloadType: 96, rtxPayloadType: 97)
        case (.firefox, .h264): Codec(payloadType: 126, rtxPayloadType: 127)
        case (.firefox, _): Codec(payloadType: 120, rtxPayloadType: 124)
        case (.aiortc, .h264): Codec(payloadType: 99, rtxPayloadType: 100)
        case (.aiortc, _): Codec(payloadType: 97, rtxPayloadType: 98)
        case (.gstreamer, _): Codec(payloadType: 97, rtxPayloadType: nil)
        }
    }

    func extensions(_ kind: MediaKind) -> [(id: Int, suffix: String, kind: HeaderExtensionKind)] {
        switch (self, kind) {
        case (.chromium, .audio), (.libwebrtc, .audio):
            [(1, "", .audioLevel), (2, "", .absSendTime), (3, "", .transportCC), (4, "", .mid)]
        case (.chromium, .video), (.libwebrtc, .video):
            [
                (2, "", .absSendTime), (13, "", .videoOrientation), (3, "", .transportCC), (5, "", .playoutDelay),
                (4, "", .mid), (10, "", .rid), (11, "", .repairedRID), (12, "", .dependencyDescriptor),
            ]
        case (.firefox, .audio): [(1, "", .audioLevel), (3, "", .mid)]
        case (.firefox, .video):
            [(3, "", .mid), (4, "", .absSendTime), (6, "/recvonly", .playoutDelay), (7, "", .transportCC)]
        case (.aiortc, .audio): [(1, "", .mid), (2, "", .audioLevel)]
        case (.aiortc, .video): [(1, "", .mid), (3, "", .absSendTime)]
        case (.gstreamer, _): []
        }
    }

    var hasTransportCC: Bool { self == .chromium || self == .libwebrtc || self == .firefox }
    var datagramByteCount: Int { self == .gstreamer ? 256 : 1200 }
    func mid(_ index: Int, _ kind: MediaKind) -> String {
        self == .gstreamer ? (kind == .audio ? "audio\(index)" : "video\(index)") : String(index)
    }

    /// A key pair of the kind that it uses, and its wishes.
    public func makeIdentity() -> DTLSClientIdentity {
        var options = DTLSClientIdentity.Options()
        switch self {
        case .chromium:
            options.srtpProfiles = "SRTP_AES128_CM_SHA1_80:SRTP_AEAD_AES_256_GCM:SRTP_AEAD_AES_128_GCM"
            options.helloPadding = 1_216
        case .firefox:
            options.srtpProfiles =
                "SRTP_AEAD_AES_128_GCM:SRTP_AEAD_AES_256_GCM:SRTP_AES128_CM_SHA1_80:SRTP_AES128_CM_SHA1_32"
            options.helloPadding = 1_216
        case .libwebrtc:
            options.srtpProfiles = "SRTP_AES128_CM_SHA1_80:SRTP_AEAD_AES_256_GCM:SRTP_AEAD_AES_128_GCM"
        case .gstreamer:
            options.srtpProfiles = "SRTP_AES128_CM_SHA1_80"
        case .aiortc:
            options.srtpProfiles = "SRTP_AEAD_AES_256_GCM:SRTP_AEAD_AES_128_GCM:SRTP_AES128_CM_SHA1_80"
        }
        return DTLSClientIdentity(options)
    }
}
