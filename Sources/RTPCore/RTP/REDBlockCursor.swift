/// One block of a redundant audio payload.
@frozen public struct REDBlock: Sendable, Hashable {
    /// 0…127.
    public var payloadType: UInt8
    /// How much older the block is than the packet, in timestamp units: 0…16383; 0 for the primary block.
    public var timestampOffset: UInt32
    /// Where its bytes begin in the payload.
    public var offset: Int
    public var byteCount: Int
    /// The last block: the new audio of this packet.
    public var isPrimary: Bool
}

/// Walks the blocks of a RED payload (RFC 2198 section 3), oldest first, the primary last.
///
///     |1|   block PT  |  timestamp offset (14)    |   block length (10)   |   once a redundant block
///     |0|   block PT  |                                                       primary: the rest
///
/// The header list is checked as a whole first, so a payload whose blocks do not fit gives none of them. Their sequence
/// numbers are not in the format.
public struct REDBlockCursor: Sendable {
    private var headerOffset = 0
    private var bodyOffset: Int

    /// Nil when the list of headers does not end or the blocks overrun the payload. `payload` is the RTP payload without
    /// padding. Never traps, never allocates.
    public init?(_ payload: Span<UInt8>) {
        var offset = 0
        var redundantByteCount = 0
        while offset < payload.count, payload[offset] & 0x80 != 0 {
            guard payload.count - offset >= 4 else { return nil }
            redundantByteCount += Int(payload.uint16(at: offset + 2) & 0x3FF)
            offset += 4
        }
        guard offset < payload.count, redundantByteCount <= payload.count - offset - 1 else { return nil }
        bodyOffset = offset + 1
    }

    /// The next block; nil after the primary. `payload` is the one given to `init`.
    public mutating func next(in payload: Span<UInt8>) -> REDBlock? {
        guard headerOffset >= 0 else { return nil }
        let payloadType = payload[headerOffset] & 0x7F
        if payload[headerOffset] & 0x80 == 0 {
            headerOffset = -1
            return REDBlock(
                payloadType: payloadType, timestampOffset: 0, offset: bodyOffset,
                byteCount: payload.count - bodyOffset, isPrimary: true)
        }
        let fields = payload.uint24(at: headerOffset + 1)
        let byteCount = Int(fields & 0x3FF)
        let block = REDBlock(
            payloadType: payloadType, timestampOffset: fields >> 10, offset: bodyOffset, byteCount: byteCount,
            isPrimary: false)
        headerOffset += 4
        bodyOffset += byteCount
        return block
    }
}
