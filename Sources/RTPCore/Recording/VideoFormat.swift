/// What pictures can be recorded.
public enum VideoFormat: UInt8, Sendable, CaseIterable {
    case vp8, vp9, h264, av1

    /// Of the Matroska codec registry.
    public var codecID: String {
        switch self {
        case .vp8: "V_VP8"
        case .vp9: "V_VP9"
        case .h264: "V_MPEG4/ISO/AVC"
        case .av1: "V_AV1"
        }
    }

    /// WebM knows all but H.264, which is written as Matroska.
    public var documentType: String { self == .h264 ? "matroska" : "webm" }
    public var fileExtension: String { self == .h264 ? "mkv" : "webm" }

    /// Whether a receiver can start with this payload.
    public func startsKeyFrame(_ payload: [UInt8]) -> Bool {
        switch self {
        case .vp8: VP8Descriptor.startsKeyFrame(payload.span)
        case .vp9: VP9Descriptor.startsKeyFrame(payload.span)
        case .h264: H264Payload.startsKeyFrame(payload.span)
        case .av1: AV1Payload.startsKeyFrame(payload.span)
        }
    }
}

/// A picture's size in pixels.
public struct PictureSize: Hashable, Sendable {
    public var width: Int
    public var height: Int
    public init(width: Int, height: Int) {
        self.width = width
        self.height = height
    }
}

/// One picture as a decoder takes it.
public struct VideoFrame: Hashable, Sendable {
    public var bytes: [UInt8]
    public var isKey: Bool
    /// Of its packets, 90 kHz.
    public var timestamp: UInt32
    public var arrival: Instant
    /// Of key frames.
    public var size: PictureSize?
    /// What Matroska keeps beside the pictures (H.264, AV1); of key frames.
    public var configuration: [UInt8]

    public init(
        bytes: [UInt8], isKey: Bool, timestamp: UInt32, arrival: Instant, size: PictureSize? = nil,
        configuration: [UInt8] = []
    ) {
        self.bytes = bytes
        self.isKey = isKey
        self.timestamp = timestamp
        self.arrival = arrival
        self.size = size
        self.configuration = configuration
    }
}
