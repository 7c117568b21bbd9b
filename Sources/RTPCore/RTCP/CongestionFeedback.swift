// Reader of congestion control feedback (RFC 8888 §3.1).
//
//  header, sender SSRC │ { SSRC, begin_seq, num_reports, num_reports × 16 bits, filled up } … │ timestamp

/// What is said about one packet.
@frozen public struct CongestionMetric: Hashable, Sendable {
    public let isReceived: Bool
    /// The two ECN bits of the packet.
    public let ecn: UInt8
    /// How long before the report's timestamp it came, in 1/1024 s; 0x1FFE: longer, 0x1FFF: unknown.
    public let arrivalTimeOffset: UInt16
}

/// The packets of one source in a feedback member.
@frozen public struct CongestionReport: Sendable {
    public let ssrc: UInt32
    /// The number of the first packet reported on; the following ones count on from it.
    public let firstSequence: UInt16
    public let metricCount: Int
    private let offset: Int

    init(ssrc: UInt32, firstSequence: UInt16, metricCount: Int, offset: Int) {
        self.ssrc = ssrc
        self.firstSequence = firstSequence
        self.metricCount = metricCount
        self.offset = offset
    }

    /// The metric at `index`, less than `metricCount`.
    public func metric(at index: Int, in bytes: Span<UInt8>) -> CongestionMetric {
        precondition(index >= 0 && index < metricCount, "a report has metricCount metrics")
        let bits = bytes.uint16(at: offset + index * 2)
        return CongestionMetric(
            isReceived: bits & 0x8000 != 0, ecn: UInt8(bits >> 13 & 3), arrivalTimeOffset: bits & 0x1FFF)
    }
}

/// Walks the sources of a congestion feedback member.
@frozen public struct CongestionFeedbackCursor: Sendable {
    private var offset: Int
    private let end: Int

    /// Walks nothing when the item is no congestion feedback.
    public init(_ item: RTCPItem) {
        offset = item.offset + 8
        end = item.kind == .congestionFeedback ? item.end - 4 : 0
    }

    private init(offset: Int, end: Int) {
        self.offset = offset
        self.end = end
    }

    public mutating func next(in bytes: Span<UInt8>) -> CongestionReport? {
        guard end - offset >= 8 else { return nil }
        let count = Int(bytes.uint16(at: offset + 6))
        // An odd count is filled up to a word.
        let byteCount = (count + 1) / 2 * 4
        guard byteCount <= end - offset - 8 else { return nil }
        defer { offset += 8 + byteCount }
        return CongestionReport(
            ssrc: bytes.uint32(at: offset), firstSequence: bytes.uint16(at: offset + 4), metricCount: count,
            offset: offset + 8)
    }

    static func isWellFormed(offset: Int, end: Int, in bytes: Span<UInt8>) -> Bool {
        var cursor = CongestionFeedbackCursor(offset: offset + 8, end: end - 4)
        while cursor.next(in: bytes) != nil {}
        return cursor.offset == cursor.end
    }
}

extension RTCPItem {
    /// When congestion feedback was made: middle 32 bits of the NTP time; nil in other members.
    public func congestionTimestamp(in bytes: Span<UInt8>) -> UInt32? {
        kind == .congestionFeedback ? bytes.uint32(at: end - 4) : nil
    }
}
