/// The header of one RTP packet (RFC 3550 section 5.1) as plain numbers and offsets into the packet.
///
///      0                   1                   2                   3
///     |V=2|P|X|  CC   |M|     PT      |       sequence number         |
///     |                           timestamp                           |
///     |                             SSRC                              |
///     |                       CSRC × CC, then, with X:                |
///     |      extension profile        |   extension length in words   |
///     |                        extension elements                     |
///
/// It reads what SRTP leaves in the clear, so it works before decryption. It does not look at padding (encrypted; see
/// `paddingByteCount`) nor into the extension block (see `HeaderExtensionCursor`).
@frozen public struct RTPHeader: Sendable, Hashable {
    /// Byte count of the fixed part: a packet has at least this many bytes.
    @inlinable public static var fixedByteCount: Int { 12 }

    public var marker: Bool
    /// 0…127.
    public var payloadType: UInt8
    public var sequenceNumber: UInt16
    public var timestamp: UInt32
    public var ssrc: UInt32
    /// 0…15. The CSRCs stand from offset 12 on, four bytes each.
    public var csrcCount: Int
    /// The P bit. The number of padding bytes stands in the last byte of the decrypted packet.
    public var hasPadding: Bool
    /// The 16 bits that say how the extension block is to be read; 0 without an extension.
    public var extensionProfile: UInt16
    /// Where the elements begin, behind profile and length; 0 without an extension.
    public var extensionOffset: Int
    /// Byte count of the elements, a multiple of four; 0 without an extension and for an empty one.
    public var extensionByteCount: Int
    /// Where the payload begins. Never beyond the packet's end.
    public var headerByteCount: Int

    /// Reads the header; nil when the version is not 2 or the header does not fit into `bytes`. An empty payload is no
    /// fault (Opus DTX, probes). Never traps, never allocates.
    @inlinable public init?(_ bytes: Span<UInt8>) {
        guard bytes.count >= 12 else { return nil }
        let first = bytes[0]
        let second = bytes[1]
        guard first & 0xC0 == 0x80 else { return nil }
        csrcCount = Int(first & 0x0F)
        hasPadding = first & 0x20 != 0
        marker = second & 0x80 != 0
        payloadType = second & 0x7F
        sequenceNumber = bytes.uint16(at: 2)
        timestamp = bytes.uint32(at: 4)
        ssrc = bytes.uint32(at: 8)
        var end = 12 + 4 * csrcCount
        if first & 0x10 != 0 {
            guard bytes.count >= end + 4 else { return nil }
            extensionProfile = bytes.uint16(at: end)
            extensionByteCount = 4 * Int(bytes.uint16(at: end + 2))
            extensionOffset = end + 4
            end = extensionOffset + extensionByteCount
        } else {
            extensionProfile = 0
            extensionByteCount = 0
            extensionOffset = 0
        }
        guard bytes.count >= end else { return nil }
        headerByteCount = end
    }

    /// The header of a packet of one's own making: without extension, padding and CSRCs.
    public init(
        marker: Bool, payloadType: UInt8 = 0, sequenceNumber: UInt16 = 0, timestamp: UInt32, ssrc: UInt32 = 0
    ) {
        self.marker = marker
        self.payloadType = payloadType
        self.sequenceNumber = sequenceNumber
        self.timestamp = timestamp
        self.ssrc = ssrc
        csrcCount = 0
        hasPadding = false
        extensionProfile = 0
        extensionOffset = 0
        extensionByteCount = 0
        headerByteCount = Self.fixedByteCount
    }

    /// Whether the X bit is set, even for an empty block.
    @inlinable public var hasExtension: Bool { extensionOffset != 0 }

    /// How many bytes at the end of a decrypted packet are padding (RFC 3550 section 5.1); ask only when `hasPadding`.
    /// - Parameters:
    ///   - bytes: the whole packet without authentication tag.
    ///   - payloadOffset: where the payload begins: `headerByteCount`.
    /// - Returns: 1…255; nil when there is no payload to hold the count, it is 0, or larger than the payload: drop such a
    ///   packet. It may equal the payload: a packet of nothing but padding (a probe).
    @inlinable public static func paddingByteCount(_ bytes: Span<UInt8>, payloadOffset: Int) -> Int? {
        guard payloadOffset >= 0, bytes.count > payloadOffset else { return nil }
        let padding = Int(bytes[bytes.count - 1])
        guard padding > 0, padding <= bytes.count - payloadOffset else { return nil }
        return padding
    }

    /// The contributing source at `index`, 0 ..< `csrcCount`, of the packet that this header was read from.
    @inlinable public func csrc(at index: Int, in bytes: Span<UInt8>) -> UInt32 {
        precondition(index >= 0 && index < csrcCount, "a packet has as many CSRCs as its header says")
        return bytes.uint32(at: 12 + 4 * index)
    }
}
