/// The RTP header extensions that the relay knows, by URI. `rawValue` indexes `HeaderExtensionIDs`.
public enum HeaderExtensionKind: UInt8, CaseIterable, Sendable, Codable {
    case mid, rid, repairedRID, audioLevel, transportCC, absSendTime, videoOrientation, playoutDelay
    case dependencyDescriptor, absCaptureTime, videoContentType, colorSpace

    public var uri: String {
        switch self {
        case .mid: "urn:ietf:params:rtp-hdrext:sdes:mid"
        case .rid: "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id"
        case .repairedRID: "urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id"
        case .audioLevel: "urn:ietf:params:rtp-hdrext:ssrc-audio-level"
        case .transportCC: "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
        case .absSendTime: "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time"
        case .videoOrientation: "urn:3gpp:video-orientation"
        case .playoutDelay: "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"
        case .dependencyDescriptor:
            "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension"
        case .absCaptureTime: "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time"
        case .videoContentType: "http://www.webrtc.org/experiments/rtp-hdrext/video-content-type"
        case .colorSpace: "http://www.webrtc.org/experiments/rtp-hdrext/color-space"
        }
    }

    /// Whether an element is copied unchanged from sender to receiver (its value does not depend on the leg). The others
    /// are written by the relay for each leg (`mid`) or end at the relay.
    public var passesThrough: Bool {
        switch self {
        case .audioLevel, .videoOrientation, .playoutDelay, .dependencyDescriptor, .absCaptureTime,
            .videoContentType, .colorSpace:
            true
        case .mid, .rid, .repairedRID, .transportCC, .absSendTime: false
        }
    }
}

/// Which local id (1…255; 0: not negotiated) each known extension has on one m-line.
@frozen public struct HeaderExtensionIDs: Hashable, Sendable, Codable {
    @usableFromInline var ids: SIMD16<UInt8>

    @inlinable public init() { ids = SIMD16(repeating: 0) }
    @inlinable public subscript(kind: HeaderExtensionKind) -> UInt8 {
        get { ids[Int(kind.rawValue)] }
        set { ids[Int(kind.rawValue)] = newValue }
    }
}
