// Reader of extended reports (RFC 3611): the walk over the blocks, and the two that measure the round trip of
// a receiver.

/// One block of an extended report.
@frozen public struct ExtendedReportBlock: Sendable {
    /// 4: receiver reference time; 5: delay since it.
    public let blockType: UInt8
    /// Of the block's contents, behind its four header bytes.
    public let offset: Int
    /// Of the contents: a multiple of 4.
    public let byteCount: Int

    /// The receiver's time of an RRTR block (RFC 3611 §4.4); nil in other blocks.
    public func receiverReferenceTime(in bytes: Span<UInt8>) -> NTPTime? {
        guard blockType == 4, byteCount >= 8 else { return nil }
        return NTPTime(rawValue: bytes.uint64(at: offset))
    }

    /// The entry at `index` of a DLRR block (RFC 3611 §4.5); nil when there is none or in other blocks.
    public func delay(at index: Int, in bytes: Span<UInt8>) -> ReceiverReferenceDelay? {
        guard blockType == 5, index >= 0, index < byteCount / 12 else { return nil }
        let start = offset + index * 12
        return ReceiverReferenceDelay(
            ssrc: bytes.uint32(at: start), lastReference: bytes.uint32(at: start + 4),
            delay: bytes.uint32(at: start + 8))
    }
}

/// One entry of a DLRR block: the answer to a receiver reference time.
@frozen public struct ReceiverReferenceDelay: Hashable, Sendable {
    /// The receiver that is answered.
    public var ssrc: UInt32
    /// Middle 32 bits of its last reference time.
    public var lastReference: UInt32
    /// The time since that came, in 1/65536 s.
    public var delay: UInt32

    public init(ssrc: UInt32, lastReference: UInt32, delay: UInt32) {
        self.ssrc = ssrc
        self.lastReference = lastReference
        self.delay = delay
    }
}

/// Walks the blocks of an extended report; unknown ones are handed out as well.
@frozen public struct ExtendedReportCursor: Sendable {
    private var offset: Int
    private let end: Int

    /// Walks nothing when the item is no extended report.
    public init(_ item: RTCPItem) {
        offset = item.offset + 8
        end = item.kind == .extendedReport ? item.end : 0
    }

    private init(offset: Int, end: Int) {
        self.offset = offset
        self.end = end
    }

    public mutating func next(in bytes: Span<UInt8>) -> ExtendedReportBlock? {
        guard end - offset >= 4 else { return nil }
        let byteCount = Int(bytes.uint16(at: offset + 2)) * 4
        guard byteCount <= end - offset - 4 else { return nil }
        defer { offset += 4 + byteCount }
        return ExtendedReportBlock(blockType: bytes[offset], offset: offset + 4, byteCount: byteCount)
    }

    static func isWellFormed(offset: Int, end: Int, in bytes: Span<UInt8>) -> Bool {
        guard end - offset >= 8 else { return false }
        var cursor = ExtendedReportCursor(offset: offset + 8, end: end)
        while cursor.next(in: bytes) != nil {}
        return cursor.offset == end
    }
}
