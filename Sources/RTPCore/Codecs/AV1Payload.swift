/// The aggregation header of an AV1 RTP payload and the walk over its OBU elements (AOM's RTP Payload Format For AV1,
/// section 4.4).
///
///     |Z|Y| W |N|-|-|-|     Z: first element continues one; Y: last element is continued; N: a coded video sequence begins
///
/// Each element stands behind its size in LEB128, except the last one when W says how many there are (W = 1…3).
@frozen public struct AV1Payload: Sendable, Hashable {
    public var continuesElement: Bool
    public var isContinued: Bool
    /// W: 0 (each element has its size) or 1…3.
    public var announcedElementCount: Int
    /// N: the packet is the first of a coded video sequence, so it begins a key frame.
    public var startsKeyFrame: Bool
    /// How many elements the walk will give.
    public var elementCount: Int

    /// Reads the header and checks every element's size; nil when an element overruns, fewer elements are there than
    /// announced, or Z and N are both set. No element at all is accepted. Never traps, never allocates.
    public init?(_ payload: Span<UInt8>) {
        guard payload.count >= 1 else { return nil }
        continuesElement = payload[0] & 0x80 != 0
        isContinued = payload[0] & 0x40 != 0
        announcedElementCount = Int(payload[0] >> 4 & 0x03)
        startsKeyFrame = payload[0] & 0x08 != 0
        elementCount = 0
        guard !(continuesElement && startsKeyFrame) else { return nil }
        var cursor = AV1ElementCursor(announcedElementCount: announcedElementCount)
        while cursor.next(in: payload) != nil { elementCount += 1 }
        guard !cursor.isMalformed, elementCount >= announcedElementCount else { return nil }
    }

    /// Whether the payload begins a key frame; false for anything that cannot be read.
    public static func startsKeyFrame(_ payload: Span<UInt8>) -> Bool {
        AV1Payload(payload)?.startsKeyFrame ?? false
    }

    /// The OBU type of a whole or first-part element at `offset`: 0…15. An element that continues another has none.
    public static func obuType(_ payload: Span<UInt8>, at offset: Int) -> UInt8 {
        payload[offset] >> 3 & 0x0F
    }
}

/// Walks the OBU elements of an AV1 RTP payload.
public struct AV1ElementCursor: Sendable {
    private var offset = 1
    private var remaining: Int
    private let hasSizes: Bool
    /// A size was no LEB128 number of at most five bytes, or reached beyond the payload. Meaningful once `next` has
    /// returned nil.
    public private(set) var isMalformed = false

    public init(announcedElementCount: Int) {
        hasSizes = announcedElementCount == 0
        remaining = announcedElementCount
    }

    /// The next element's place, nil at the end or at the first malformed one.
    public mutating func next(in payload: Span<UInt8>) -> (offset: Int, byteCount: Int)? {
        guard !isMalformed, offset < payload.count, hasSizes || remaining > 0 else { return nil }
        remaining -= 1
        var byteCount = payload.count - offset
        if hasSizes || remaining > 0 {
            guard let size = readSize(payload), size <= payload.count - offset else {
                isMalformed = true
                return nil
            }
            byteCount = size
        }
        let start = offset
        offset += byteCount
        return (start, byteCount)
    }

    private mutating func readSize(_ payload: Span<UInt8>) -> Int? {
        var value = 0
        for shift in 0..<5 {
            guard offset < payload.count else { return nil }
            let byte = payload[offset]
            offset += 1
            value |= Int(byte & 0x7F) << (7 * shift)
            if byte & 0x80 == 0 { return value }
        }
        return nil
    }
}
