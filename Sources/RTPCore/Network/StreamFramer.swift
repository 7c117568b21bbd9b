/// Finds the frames in the bytes of one TCP connection (RFC 4571 section 2, which RFC 6544 uses): each is a length of 16
/// bits, big-endian, and then as many bytes of one packet. Holds no bytes, only where in a frame the stream stands, so
/// that memory stays the caller's. Refuses a frame as soon as its length is in: one without bytes, or with more than the
/// relay takes. After a refusal the connection is of no use any more: nobody knows where the next frame begins.
public struct StreamFramer: Sendable {
    public enum Refusal: Error, Hashable, Sendable {
        case emptyFrame, oversizeFrame
    }

    /// Bytes of a frame's length field.
    public static let lengthByteCount = 2

    /// Bytes of one frame that lie together in the input.
    public struct Piece: Hashable, Sendable {
        /// Where in the input.
        public var range: Range<Int>
        /// Where in the frame.
        public var offset: Int
        /// The frame ends with it.
        public var isLast: Bool
        /// Bytes of the frame that are in now.
        public var frameByteCount: Int { offset + range.count }
    }

    /// Longest frame that is taken, bytes.
    public let limit: Int
    private var lengthBytesSeen = 0
    private var length = 0
    /// Bytes of the frame at hand that went before.
    private var count = 0

    /// - Precondition: `limit` is 1…65,535.
    public init(limit: Int) {
        precondition((1...65_535).contains(limit), "a frame limit of \(limit) bytes")
        self.limit = limit
    }

    /// A frame has begun and is not complete.
    public var isInsideFrame: Bool { lengthBytesSeen > 0 }

    /// The next bytes of a frame in `bytes`, from `start` on; nil when there are none, which is when all of `bytes` was read.
    /// A piece that is not the last of its frame ends where `bytes` end.
    public mutating func next(in bytes: Span<UInt8>, from start: Int) throws(Refusal) -> Piece? {
        var at = start
        while lengthBytesSeen < Self.lengthByteCount {
            guard at < bytes.count else { return nil }
            length = length << 8 | Int(bytes[at])
            lengthBytesSeen += 1
            at += 1
            guard lengthBytesSeen == Self.lengthByteCount else { continue }
            guard length > 0 else { throw .emptyFrame }
            guard length <= limit else { throw .oversizeFrame }
        }
        let taken = min(length - count, bytes.count - at)
        guard taken > 0 else { return nil }
        let piece = Piece(range: at..<at + taken, offset: count, isLast: count + taken == length)
        if piece.isLast {
            lengthBytesSeen = 0
            length = 0
            count = 0
        } else {
            count += taken
        }
        return piece
    }
}
