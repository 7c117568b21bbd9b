// Readers of sender and receiver reports (RFC 3550 §6.4). Profile-specific extensions behind the blocks are
// skipped.

/// The sender's part of an SR.
@frozen public struct SenderReport: Hashable, Sendable {
    public var ssrc: UInt32
    /// When it was sent, by the sender's clock.
    public var ntp: NTPTime
    /// The same moment on the media clock.
    public var rtpTimestamp: UInt32
    /// Packets sent since the beginning, modulo 2^32.
    public var packetCount: UInt32
    /// Payload bytes sent since the beginning, modulo 2^32.
    public var octetCount: UInt32

    public init(ssrc: UInt32, ntp: NTPTime, rtpTimestamp: UInt32, packetCount: UInt32, octetCount: UInt32) {
        self.ssrc = ssrc
        self.ntp = ntp
        self.rtpTimestamp = rtpTimestamp
        self.packetCount = packetCount
        self.octetCount = octetCount
    }

    /// Nil when the item is no sender report.
    public init?(_ item: RTCPItem, in bytes: Span<UInt8>) {
        guard item.kind == .senderReport else { return nil }
        let body = item.bodyOffset
        self.init(
            ssrc: bytes.uint32(at: body), ntp: NTPTime(rawValue: bytes.uint64(at: body + 4)),
            rtpTimestamp: bytes.uint32(at: body + 12), packetCount: bytes.uint32(at: body + 16),
            octetCount: bytes.uint32(at: body + 20))
    }
}

extension RTCPItem {
    /// How many report blocks the member has, 0…31; 0 when it is no report.
    @inlinable public var reportBlockCount: Int {
        kind == .senderReport || kind == .receiverReport ? Int(format) : 0
    }
}

extension ReportBlock {
    /// The block at `index` of a sender or receiver report; nil when there is none.
    public init?(at index: Int, of item: RTCPItem, in bytes: Span<UInt8>) {
        guard index >= 0, index < item.reportBlockCount else { return nil }
        let start = item.bodyOffset + (item.kind == .senderReport ? 24 : 4) + index * Self.byteCount
        let lost = bytes.uint24(at: start + 5)
        self.init(
            ssrc: bytes.uint32(at: start), fractionLost: bytes[start + 4],
            // Sign-extended from 24 bits.
            cumulativeLost: Int32(bitPattern: lost << 8) >> 8,
            extendedHighest: bytes.uint32(at: start + 8), jitter: bytes.uint32(at: start + 12),
            lastSenderReport: bytes.uint32(at: start + 16),
            delaySinceLastSenderReport: bytes.uint32(at: start + 20))
    }
}
