/// What one packet of a picture says of its layers, whatever the codec: read once for each packet of a track whose layers are
/// chosen. Where fields that a relay rewrites lie; offsets count from the payload's start, 0 means absent.
@frozen public struct PacketLayers: Sendable, Hashable {
    /// A picture begins with this packet.
    public var startsPicture = false
    public var startsKeyFrame = false
    /// 0…7; 0 where the packet does not say.
    public var temporalLayer: UInt8 = 0
    /// VP8: this picture refers to the base layer only. VP9: later pictures of higher layers refer to nothing of these
    /// layers from before this picture.
    public var isSwitchingPoint = false
    public var pictureID: UInt16 = 0
    public var pictureIDOffset = 0
    /// 0 (absent), 1 (7 bits) or 2 (15 bits).
    public var pictureIDByteCount = 0
    public var baseLayerIndex: UInt8 = 0
    public var baseLayerIndexOffset = 0
    /// The pictures' numbers close up over pictures that are left out. Not so with VP9, whose references count by them.
    public var closesPictureIDs = false

    public init() {}

    /// The layers of a VP8 payload; what cannot be read says nothing.
    public init(vp8 payload: Span<UInt8>) {
        guard let descriptor = VP8Descriptor(payload) else { return }
        startsPicture = descriptor.startsPartition && descriptor.partitionIndex == 0
        startsKeyFrame = descriptor.startsKeyFrame
        temporalLayer = descriptor.temporalLayer
        isSwitchingPoint = descriptor.isLayerSync
        pictureID = descriptor.pictureID
        pictureIDOffset = descriptor.pictureIDOffset
        pictureIDByteCount = descriptor.pictureIDByteCount
        baseLayerIndex = descriptor.baseLayerIndex
        baseLayerIndexOffset = descriptor.baseLayerIndexOffset
        closesPictureIDs = true
    }

    /// The layers of a VP9 payload; what cannot be read says nothing.
    public init(vp9 payload: Span<UInt8>) {
        guard let descriptor = VP9Descriptor(payload) else { return }
        startsPicture = descriptor.startsFrame && descriptor.spatialLayer == 0
        startsKeyFrame = descriptor.startsKeyFrame
        temporalLayer = descriptor.temporalLayer
        isSwitchingPoint = descriptor.isSwitchingPoint
        pictureID = descriptor.pictureID
        pictureIDOffset = descriptor.pictureIDOffset
        pictureIDByteCount = descriptor.pictureIDByteCount
        baseLayerIndex = descriptor.baseLayerIndex
        baseLayerIndexOffset = descriptor.baseLayerIndexOffset
    }

    /// The highest temporal layer that may be sent from this picture on, where `limit` was sent up to now and `wanted` is
    /// wished for: a lower one at once, a higher one where nothing refers to what was left out. Ask at a picture's first
    /// packet.
    @inlinable public func temporalLimit(after limit: UInt8, wanted: UInt8, codec: LayeredCodec) -> UInt8 {
        if wanted <= limit || startsKeyFrame { return wanted }
        switch codec {
        case .vp8: return isSwitchingPoint && temporalLayer == limit &+ 1 ? temporalLayer : limit
        case .vp9: return isSwitchingPoint && temporalLayer <= limit ? wanted : limit
        }
    }
}

/// Codecs whose payloads number their layers.
public enum LayeredCodec: UInt8, Sendable { case vp8, vp9 }

extension DependencyDescriptor {
    /// As `PacketLayers.temporalLimit`, by the descriptor: a higher limit where the frame is a switch to its decode target.
    public func temporalLimit(after limit: UInt8, wanted: UInt8, structure: DependencyStructure) -> UInt8 {
        if wanted <= limit || hasStructure { return wanted }
        var candidate = min(wanted, DependencyStructure.temporalLayerLimit - 1)
        while candidate > limit {
            if let target = structure.target(upToTemporal: candidate), indication(for: target) == .switching {
                return candidate
            }
            candidate -= 1
        }
        return limit
    }
}

/// Picture sizes in the first packet of a key frame.
public enum KeyFrameSize {
    /// Width and height of a VP8 key frame (RFC 6386 section 9.1); nil where the payload does not begin one or is cut short.
    public static func vp8(_ payload: Span<UInt8>) -> (width: Int, height: Int)? {
        guard let descriptor = VP8Descriptor(payload), descriptor.startsKeyFrame,
            payload.count >= descriptor.byteCount + 10
        else { return nil }
        let at = descriptor.byteCount
        guard payload.uint24(at: at + 3) == 0x9D012A else { return nil }
        let width = Int(payload[at + 6]) | Int(payload[at + 7] & 0x3F) << 8
        let height = Int(payload[at + 8]) | Int(payload[at + 9] & 0x3F) << 8
        return (width, height)
    }

    /// Width and height of the highest spatial layer that a VP9 descriptor's structure names.
    public static func vp9(_ payload: Span<UInt8>) -> (width: Int, height: Int)? {
        guard let descriptor = VP9Descriptor(payload) else { return nil }
        return descriptor.size(ofSpatialLayer: descriptor.spatialLayerCount - 1, in: payload)
    }
}
