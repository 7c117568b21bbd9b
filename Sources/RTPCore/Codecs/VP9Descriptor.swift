/// The descriptor in front of a VP9 RTP payload (RFC 9628 section 4.2), with the places of the fields that a relay may
/// have to rewrite. Offsets count from the payload's start; 0 means absent, since byte 0 is always the first octet.
///
///      0 1 2 3 4 5 6 7
///     |I|P|L|F|B|E|V|Z|
///     |M| PICTURE ID  |   with I, 7 bits, or 15 with M
///     | TID |U| SID |D|   with L
///     |   TL0PICIDX   |   with L and not F
///     | P_DIFF      |N|   with P and F, up to three times
///     | scalability structure |   with V
@frozen public struct VP9Descriptor: Sendable, Hashable {
    /// P: the frame refers to earlier pictures.
    public var isInterPicturePredicted: Bool
    /// F: references are named by P_DIFF.
    public var isFlexibleMode: Bool
    /// B: the payload begins a layer frame.
    public var startsFrame: Bool
    /// E: the payload ends a layer frame.
    public var endsFrame: Bool
    /// Z: no other spatial layer's frame refers to this one.
    public var isNotReferenceForUpperLayers: Bool
    /// 0…32767; 0 when absent.
    public var pictureID: UInt16
    public var pictureIDOffset: Int
    /// 0 (absent), 1 (7 bits) or 2 (15 bits).
    public var pictureIDByteCount: Int
    /// L: the four fields that follow are there; otherwise they are 0.
    public var hasLayers: Bool
    /// 0…7.
    public var temporalLayer: UInt8
    /// U: from here on a receiver may move up to this temporal layer.
    public var isSwitchingPoint: Bool
    /// 0…7.
    public var spatialLayer: UInt8
    /// D: the frame depends on the spatial layer below.
    public var isInterLayerPredicted: Bool
    /// TL0PICIDX; 0 when absent.
    public var baseLayerIndex: UInt8
    public var baseLayerIndexOffset: Int
    /// 0…3: how many P_DIFF there are.
    public var referenceCount: Int
    /// The first P_DIFF, 0…127 pictures back, then the others.
    public var references: SIMD4<UInt8>
    /// V: where the scalability structure begins; 0 when absent.
    public var scalabilityOffset: Int
    /// 1…8; 0 without a scalability structure.
    public var spatialLayerCount: Int
    /// Where the sizes begin, four bytes a spatial layer; 0 when there are none.
    public var sizesOffset: Int
    /// 0…255: how many pictures the picture group has.
    public var pictureGroupCount: Int
    /// Byte count of the whole descriptor: where VP9 data begins.
    public var byteCount: Int

    /// Reads the descriptor; nil when it is cut short or has more than three references. Never traps.
    public init?(_ payload: Span<UInt8>) {
        guard payload.count >= 1 else { return nil }
        let flags = payload[0]
        isInterPicturePredicted = flags & 0x40 != 0
        hasLayers = flags & 0x20 != 0
        isFlexibleMode = flags & 0x10 != 0
        startsFrame = flags & 0x08 != 0
        endsFrame = flags & 0x04 != 0
        isNotReferenceForUpperLayers = flags & 0x01 != 0
        (pictureID, pictureIDOffset, pictureIDByteCount) = (0, 0, 0)
        (temporalLayer, isSwitchingPoint, spatialLayer, isInterLayerPredicted) = (0, false, 0, false)
        (baseLayerIndex, baseLayerIndexOffset) = (0, 0)
        (referenceCount, references) = (0, .zero)
        (scalabilityOffset, spatialLayerCount, sizesOffset, pictureGroupCount) = (0, 0, 0, 0)
        byteCount = 1
        if flags & 0x80 != 0 {
            guard readPictureID(payload) else { return nil }
        }
        if hasLayers {
            guard readLayers(payload) else { return nil }
        }
        if isFlexibleMode, isInterPicturePredicted {
            guard readReferences(payload) else { return nil }
        }
        if flags & 0x02 != 0 {
            guard readScalability(payload) else { return nil }
        }
    }

    /// The payload begins a key frame: not predicted from earlier pictures, start of a frame, lowest spatial layer.
    @inlinable public var startsKeyFrame: Bool {
        !isInterPicturePredicted && startsFrame && spatialLayer == 0
    }

    /// Whether the payload begins a key frame; false for anything that cannot be read.
    public static func startsKeyFrame(_ payload: Span<UInt8>) -> Bool {
        VP9Descriptor(payload)?.startsKeyFrame ?? false
    }

    /// Width and height in pixels of one spatial layer; nil when the descriptor has no sizes or fewer layers.
    public func size(ofSpatialLayer layer: Int, in payload: Span<UInt8>) -> (width: Int, height: Int)? {
        guard sizesOffset > 0, layer >= 0, layer < spatialLayerCount else { return nil }
        let offset = sizesOffset + 4 * layer
        return (Int(payload.uint16(at: offset)), Int(payload.uint16(at: offset + 2)))
    }

    private mutating func readPictureID(_ payload: Span<UInt8>) -> Bool {
        guard byteCount < payload.count else { return false }
        pictureIDOffset = byteCount
        pictureIDByteCount = payload[byteCount] & 0x80 != 0 ? 2 : 1
        guard byteCount + pictureIDByteCount <= payload.count else { return false }
        pictureID =
            pictureIDByteCount == 2 ? payload.uint16(at: byteCount) & 0x7FFF : UInt16(payload[byteCount])
        byteCount += pictureIDByteCount
        return true
    }

    private mutating func readLayers(_ payload: Span<UInt8>) -> Bool {
        guard byteCount < payload.count else { return false }
        let layers = payload[byteCount]
        temporalLayer = layers >> 5
        isSwitchingPoint = layers & 0x10 != 0
        spatialLayer = layers >> 1 & 0x07
        isInterLayerPredicted = layers & 0x01 != 0
        byteCount += 1
        guard !isFlexibleMode else { return true }
        guard byteCount < payload.count else { return false }
        baseLayerIndexOffset = byteCount
        baseLayerIndex = payload[byteCount]
        byteCount += 1
        return true
    }

    private mutating func readReferences(_ payload: Span<UInt8>) -> Bool {
        var isContinued = true
        while isContinued {
            guard referenceCount < 3, byteCount < payload.count else { return false }
            references[referenceCount] = payload[byteCount] >> 1
            isContinued = payload[byteCount] & 0x01 != 0
            referenceCount += 1
            byteCount += 1
        }
        return true
    }

    /// RFC 9628 section 4.2.1: `N_S (3) | Y | G | -`, sizes with Y, then with G the picture group, whose entries name
    /// `R` references each: `TID (3) | U | R (2) | -`.
    private mutating func readScalability(_ payload: Span<UInt8>) -> Bool {
        guard byteCount < payload.count else { return false }
        scalabilityOffset = byteCount
        let flags = payload[byteCount]
        spatialLayerCount = Int(flags >> 5) + 1
        byteCount += 1
        if flags & 0x10 != 0 {
            guard payload.count - byteCount >= 4 * spatialLayerCount else { return false }
            sizesOffset = byteCount
            byteCount += 4 * spatialLayerCount
        }
        guard flags & 0x08 != 0 else { return true }
        guard byteCount < payload.count else { return false }
        pictureGroupCount = Int(payload[byteCount])
        byteCount += 1
        for _ in 0..<pictureGroupCount {
            guard byteCount < payload.count else { return false }
            byteCount += 1 + Int(payload[byteCount] >> 2 & 0x03)
        }
        return byteCount <= payload.count
    }
}
