// Readers of SDES chunks and BYE (RFC 3550 §6.5, §6.6). Of an SDES chunk only the CNAME is told; other items
// are skipped.

/// One chunk of an SDES member.
@frozen public struct SDESChunk: Hashable, Sendable {
    public let ssrc: UInt32
    /// Where the first CNAME's text lies in the datagram; empty at 0 when the chunk has none.
    public let cname: Range<Int>
}

/// Walks the chunks of an SDES member.
@frozen public struct SDESCursor: Sendable {
    private var offset: Int
    private let end: Int
    private var remaining: Int

    /// Walks nothing when the item is no source description.
    public init(_ item: RTCPItem) {
        offset = item.bodyOffset
        end = item.end
        remaining = item.kind == .sourceDescription ? Int(item.format) : 0
    }

    private init(offset: Int, end: Int, chunkCount: Int) {
        self.offset = offset
        self.end = end
        remaining = chunkCount
    }

    /// The next chunk; nil behind the last one.
    public mutating func next(in bytes: Span<UInt8>) -> SDESChunk? {
        guard remaining > 0, let chunk = readChunk(in: bytes) else { return nil }
        remaining -= 1
        return chunk
    }

    private mutating func readChunk(in bytes: Span<UInt8>) -> SDESChunk? {
        guard end - offset >= 4 else { return nil }
        let start = offset
        let ssrc = bytes.uint32(at: start)
        var cname: Range<Int>?
        var position = start + 4
        while position < end, bytes[position] != 0 {
            guard position + 2 <= end else { return nil }
            let text = position + 2..<position + 2 + Int(bytes[position + 1])
            guard text.upperBound <= end else { return nil }
            if bytes[position] == 1 && cname == nil { cname = text }
            position = text.upperBound
        }
        // At least one zero byte ends the items; more fill up to the next word of the chunk.
        guard position < end else { return nil }
        let next = start + (position - start) / 4 * 4 + 4
        guard next <= end else { return nil }
        offset = next
        return SDESChunk(ssrc: ssrc, cname: cname ?? 0..<0)
    }

    static func isWellFormed(offset: Int, end: Int, chunkCount: Int, in bytes: Span<UInt8>) -> Bool {
        var cursor = SDESCursor(offset: offset, end: end, chunkCount: chunkCount)
        while cursor.remaining > 0 {
            if cursor.next(in: bytes) == nil { return false }
        }
        return true
    }
}

/// A BYE member: the sources that end and why.
@frozen public struct Goodbye: Sendable {
    /// 0…31.
    public let ssrcCount: Int
    /// Where the reason's text lies in the datagram; empty when there is none.
    public let reason: Range<Int>
    private let offset: Int

    /// Nil when the item is no BYE.
    public init?(_ item: RTCPItem, in bytes: Span<UInt8>) {
        guard item.kind == .goodbye else { return nil }
        ssrcCount = Int(item.format)
        offset = item.bodyOffset
        let text = offset + ssrcCount * 4
        reason = text < item.end ? text + 1..<text + 1 + Int(bytes[text]) : text..<text
    }

    /// The source at `index`, less than `ssrcCount`.
    public func ssrc(at index: Int, in bytes: Span<UInt8>) -> UInt32 {
        precondition(index >= 0 && index < ssrcCount, "a BYE names ssrcCount sources")
        return bytes.uint32(at: offset + index * 4)
    }
}
