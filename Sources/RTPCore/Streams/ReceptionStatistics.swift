// What a receiver reports about one source (RFC 3550 §6.4.1, A.3, A.8). Owns the counts of one source;
// refuses to write packets: it makes the values of a report block.

/// Loss, jitter and the last sender report of one incoming source. Plain memory, usable in slabs.
///
/// Only packets that were authenticated and are new (no replays, no retransmissions) are to be counted.
@frozen public struct ReceptionStatistics: Sendable {
    private var lowest: UInt64 = 0
    private var highest: UInt64 = 0
    /// Packets received since the beginning.
    public private(set) var receivedCount: UInt64 = 0
    private var priorExpected: UInt64 = 0
    private var priorReceived: UInt64 = 0
    /// Arrival minus timestamp of the last packet, in ticks.
    private var transit: UInt32 = 0
    /// The jitter times 16, as A.8 keeps it.
    private var scaledJitter: UInt64 = 0
    private var lastReport: UInt32 = 0
    private var lastReportArrival = Instant(nanoseconds: 0)

    public init() {}

    /// Counts one packet.
    ///
    /// - Parameters:
    ///   - extendedSequence: the packet's number extended by its rollovers, as SRTP's index.
    ///   - arrival: not negative.
    ///   - clockRate: ticks a second of the packet's payload type; 0 when unknown: the jitter then stays.
    public mutating func received(
        extendedSequence: UInt64, rtpTimestamp: UInt32, arrival: Instant, clockRate: UInt32
    ) {
        let isFirst = receivedCount == 0
        if isFirst {
            lowest = extendedSequence
            highest = extendedSequence
        } else if extendedSequence > highest {
            highest = extendedSequence
        } else if extendedSequence < lowest {
            // Reordered at the very beginning: expected from here on.
            lowest = extendedSequence
        }
        receivedCount &+= 1
        guard clockRate > 0 else { return }
        let newTransit = Self.ticks(of: arrival, clockRate: clockRate) &- rtpTimestamp
        defer { transit = newTransit }
        guard !isFirst else { return }
        let difference = UInt64(TimestampArithmetic.distance(from: transit, to: newTransit).magnitude)
        // J += (|D| - J) / 16 in fixed point (A.8). J ≤ 16 × 2^31 holds.
        scaledJitter = scaledJitter + difference - ((scaledJitter + 8) >> 4)
    }

    /// A sender report of this source arrived. `compactNTP`: the middle 32 bits of its NTP time.
    public mutating func receivedSenderReport(compactNTP: UInt32, at arrival: Instant) {
        lastReport = compactNTP
        lastReportArrival = arrival
    }

    /// Packets that should have come by now.
    public var expectedCount: UInt64 { receivedCount == 0 ? 0 : highest - lowest + 1 }

    /// Packets lost since the beginning; negative when duplicates outnumber losses. Held to the 24 bits of a
    /// report.
    public var cumulativeLost: Int32 {
        let lost = Int64(truncatingIfNeeded: expectedCount &- receivedCount)
        return Int32(max(-0x80_0000, min(0x7F_FFFF, lost)))
    }

    /// The interarrival jitter in ticks.
    public var jitter: UInt32 { UInt32(truncatingIfNeeded: scaledJitter >> 4) }

    /// The highest number received, with the lower 16 bits of its rollovers above it.
    public var extendedHighest: UInt32 { UInt32(truncatingIfNeeded: highest) }

    /// The values of a report block, and the beginning of the next interval: `fractionLost` is of the time
    /// since the last call. Nil when nothing was ever received.
    public mutating func makeReportBlock(ssrc: UInt32, now: Instant) -> ReportBlock? {
        guard receivedCount > 0 else { return nil }
        let expected = expectedCount &- priorExpected
        let received = receivedCount &- priorReceived
        priorExpected = expectedCount
        priorReceived = receivedCount
        let fraction = expected > received ? min(255, ((expected - received) << 8) / expected) : 0
        let delay = lastReport == 0 ? 0 : (now - lastReportArrival).compactUnits
        return ReportBlock(
            ssrc: ssrc, fractionLost: UInt8(fraction), cumulativeLost: cumulativeLost,
            extendedHighest: extendedHighest, jitter: jitter, lastSenderReport: lastReport,
            delaySinceLastSenderReport: delay)
    }

    /// An instant in ticks of a media clock, modulo 2^32.
    static func ticks(of instant: Instant, clockRate: UInt32) -> UInt32 {
        let nanoseconds = UInt64(bitPattern: instant.nanoseconds)
        let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        // rest × clockRate < 10^9 × 2^32 fits 64 bits.
        return UInt32(
            truncatingIfNeeded: seconds &* UInt64(clockRate) &+ rest * UInt64(clockRate) / 1_000_000_000)
    }
}
