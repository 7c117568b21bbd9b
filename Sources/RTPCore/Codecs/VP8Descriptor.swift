/// The descriptor in front of a VP8 RTP payload (RFC 7741 section 4.2), with the places of the fields that a relay may
/// have to rewrite. Offsets count from the payload's start; 0 means absent, since byte 0 is always the first octet.
///
///      0 1 2 3 4 5 6 7
///     |X|R|N|S|R| PID |
///     |I|L|T|K|  RSV  |   with X
///     |M| PictureID   |   with I, 7 bits, or 15 with M
///     |   TL0PICIDX   |   with L
///     |TID|Y| KEYIDX  |   with T or K
@frozen public struct VP8Descriptor: Sendable, Hashable {
    /// N: no other frame refers to this one.
    public var isNonReference: Bool
    /// S: the payload begins a partition.
    public var startsPartition: Bool
    /// PID, 0…7.
    public var partitionIndex: UInt8
    /// 0…32767; 0 when absent.
    public var pictureID: UInt16
    public var pictureIDOffset: Int
    /// 0 (absent), 1 (7 bits) or 2 (15 bits).
    public var pictureIDByteCount: Int
    /// TL0PICIDX; 0 when absent.
    public var baseLayerIndex: UInt8
    public var baseLayerIndexOffset: Int
    public var hasTemporalLayer: Bool
    /// TID, 0…3; 0 when absent.
    public var temporalLayer: UInt8
    /// Y: the frame depends on the base layer only. False when absent.
    public var isLayerSync: Bool
    public var hasKeyIndex: Bool
    /// KEYIDX, 0…31; 0 when absent.
    public var keyIndex: UInt8
    /// The octet with TID, Y and KEYIDX; 0 when it is absent.
    public var layerOffset: Int
    /// Byte count of the whole descriptor: where VP8 data begins.
    public var byteCount: Int
    /// The payload begins a key frame: first partition, and the P bit of the frame tag is 0.
    public var startsKeyFrame: Bool

    /// Reads the descriptor; nil when it is cut short. It may stand alone, without VP8 data. Never traps.
    public init?(_ payload: Span<UInt8>) {
        guard payload.count >= 1 else { return nil }
        let first = payload[0]
        isNonReference = first & 0x20 != 0
        startsPartition = first & 0x10 != 0
        partitionIndex = first & 0x07
        (pictureID, pictureIDOffset, pictureIDByteCount) = (0, 0, 0)
        (baseLayerIndex, baseLayerIndexOffset) = (0, 0)
        (hasTemporalLayer, temporalLayer, isLayerSync) = (false, 0, false)
        (hasKeyIndex, keyIndex, layerOffset) = (false, 0, 0)
        startsKeyFrame = false
        byteCount = 1
        if first & 0x80 != 0 {
            guard readExtension(payload) else { return nil }
        }
        if startsPartition, partitionIndex == 0, byteCount < payload.count {
            startsKeyFrame = payload[byteCount] & 0x01 == 0
        }
    }

    /// Whether the payload begins a key frame; false for anything that cannot be read.
    public static func startsKeyFrame(_ payload: Span<UInt8>) -> Bool {
        VP8Descriptor(payload)?.startsKeyFrame ?? false
    }

    private mutating func readExtension(_ payload: Span<UInt8>) -> Bool {
        guard payload.count >= 2 else { return false }
        let flags = payload[1]
        var offset = 2
        if flags & 0x80 != 0 {
            guard offset < payload.count else { return false }
            pictureIDOffset = offset
            pictureIDByteCount = payload[offset] & 0x80 != 0 ? 2 : 1
            guard offset + pictureIDByteCount <= payload.count else { return false }
            pictureID =
                pictureIDByteCount == 2 ? payload.uint16(at: offset) & 0x7FFF : UInt16(payload[offset])
            offset += pictureIDByteCount
        }
        if flags & 0x40 != 0 {
            guard offset < payload.count else { return false }
            baseLayerIndexOffset = offset
            baseLayerIndex = payload[offset]
            offset += 1
        }
        if flags & 0x30 != 0 {
            guard offset < payload.count else { return false }
            layerOffset = offset
            hasTemporalLayer = flags & 0x20 != 0
            hasKeyIndex = flags & 0x10 != 0
            if hasTemporalLayer {
                temporalLayer = payload[offset] >> 6
                isLayerSync = payload[offset] & 0x20 != 0
            }
            keyIndex = hasKeyIndex ? payload[offset] & 0x1F : 0
            offset += 1
        }
        byteCount = offset
        return true
    }
}
