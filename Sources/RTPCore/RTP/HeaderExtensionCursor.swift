/// Walks the elements of an RTP header extension block in both forms of RFC 8285, without allocation: offsets only.
///
///     one-byte form (profile 0xBEDE):    |  ID   | L-1 | L bytes …     ID 1…14, L 1…16
///     two-byte form (profile 0x100x):    |   ID    |   L    | L bytes … ID 1…255, L 0…255
///
/// Padding (a zero byte) is skipped. ID 15 of the one-byte form, and its ID 0 with a length, end the walk: the elements
/// before stand (section 4.2). An element that overruns the block ends it too and sets `isMalformed`: such a packet is
/// dropped. A block of another profile has no elements for us.
@frozen public struct HeaderExtensionCursor: Sendable {
    @usableFromInline var offset: Int
    @usableFromInline var end: Int
    @usableFromInline let isTwoByte: Bool
    /// Whether an element reached beyond the block. Meaningful once `next` has returned nil.
    public private(set) var isMalformed = false

    /// Starts at the first element of the packet that `header` was read from.
    @inlinable public init(_ header: RTPHeader) {
        isTwoByte = header.extensionProfile & 0xFFF0 == 0x1000
        offset = header.extensionOffset
        let isKnown = isTwoByte || header.extensionProfile == 0xBEDE
        end = isKnown ? header.extensionOffset + header.extensionByteCount : header.extensionOffset
    }

    /// The next element, or nil at the end. `bytes` is the packet that the header was read from, or a longer prefix of
    /// it than the header; after nil every further call returns nil.
    @inlinable public mutating func next(in bytes: Span<UInt8>) -> (id: UInt8, offset: Int, byteCount: Int)? {
        guard end <= bytes.count else { return stop(malformed: true) }
        while offset < end {
            let first = bytes[offset]
            if first == 0 {
                offset += 1
                continue
            }
            return isTwoByte ? nextTwoByte(id: first, in: bytes) : nextOneByte(first)
        }
        return nil
    }

    @inlinable mutating func nextOneByte(_ first: UInt8) -> (id: UInt8, offset: Int, byteCount: Int)? {
        let id = first >> 4
        guard id != 15, id != 0 else { return stop(malformed: false) }
        let byteCount = Int(first & 0x0F) + 1
        let body = offset + 1
        guard byteCount <= end - body else { return stop(malformed: true) }
        offset = body + byteCount
        return (id, body, byteCount)
    }

    @inlinable mutating func nextTwoByte(
        id: UInt8, in bytes: Span<UInt8>
    ) -> (id: UInt8, offset: Int, byteCount: Int)? {
        let body = offset + 2
        guard body <= end else { return stop(malformed: true) }
        let byteCount = Int(bytes[offset + 1])
        guard byteCount <= end - body else { return stop(malformed: true) }
        offset = body + byteCount
        return (id, body, byteCount)
    }

    @usableFromInline mutating func stop(malformed: Bool) -> (id: UInt8, offset: Int, byteCount: Int)? {
        isMalformed = isMalformed || malformed
        end = offset
        return nil
    }
}
