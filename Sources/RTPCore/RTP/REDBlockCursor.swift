// Redundant audio (RFC 2198): the walk over a payload's blocks, and the writer of the list in front of them.

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

/// Writes the headers of a RED payload (RFC 2198 section 3): one for each earlier block, oldest first, then the primary's. The
/// blocks themselves follow in the same order, without anything between them.
public enum REDWriter {
    /// What 14 bits say: how much older than the packet a block may be, in timestamp units.
    @inlinable public static var longestOffset: UInt32 { 0x3FFF }
    /// What 10 bits say: bytes of an earlier block.
    @inlinable public static var longestBlock: Int { 0x3FF }
    @inlinable public static var headerByteCount: Int { 4 }
    @inlinable public static var primaryHeaderByteCount: Int { 1 }

    /// Whether an earlier block can be said in a header at all. An empty one is of no use, and one as new as the packet
    /// none either.
    @inlinable public static func canWrite(timestampOffset: UInt32, byteCount: Int) -> Bool {
        timestampOffset > 0 && timestampOffset <= longestOffset && byteCount > 0 && byteCount <= longestBlock
    }

    /// Appends the header of an earlier block; false, with nothing written, where it can not be said or does not fit.
    public static func appendBlock(
        to output: inout OutputSpan<UInt8>, payloadType: UInt8, timestampOffset: UInt32, byteCount: Int
    ) -> Bool {
        guard canWrite(timestampOffset: timestampOffset, byteCount: byteCount),
            output.freeCapacity >= headerByteCount
        else { return false }
        output.appendBigEndian(
            UInt32(0x8000_0000) | UInt32(payloadType & 0x7F) << 24 | timestampOffset << 10 | UInt32(byteCount))
        return true
    }

    /// Appends the header of the primary, which ends the list; false where it does not fit.
    public static func appendPrimary(to output: inout OutputSpan<UInt8>, payloadType: UInt8) -> Bool {
        guard output.freeCapacity >= primaryHeaderByteCount else { return false }
        output.append(payloadType & 0x7F)
        return true
    }
}
