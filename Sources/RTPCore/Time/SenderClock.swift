/// What a sender report says about one source's clock: which RTP timestamp belongs to which NTP time.
/// Converts between the two, for switches and for the relay's own reports. Plain data.
@frozen public struct SenderClock: Hashable, Sendable {
    public var ntp: NTPTime
    public var rtpTimestamp: UInt32
    /// Ticks a second; 1…2^31.
    public var clockRate: UInt32

    public init(ntp: NTPTime, rtpTimestamp: UInt32, clockRate: UInt32) {
        precondition(clockRate > 0 && clockRate <= 1 << 31, "a clock ticks at 1 to 2^31 ticks a second")
        self.ntp = ntp
        self.rtpTimestamp = rtpTimestamp
        self.clockRate = clockRate
    }

    /// The NTP time of an RTP timestamp within half the timestamp's circle (6 h at 90 kHz) of the report.
    public func ntp(of timestamp: UInt32) -> NTPTime {
        let ticks = Int64(TimestampArithmetic.distance(from: rtpTimestamp, to: timestamp))
        // |ticks| ≤ 2^31 and 2^32 units a second: the product fits 64 bits with its sign.
        return NTPTime(rawValue: ntp.rawValue &+ UInt64(bitPattern: (ticks << 32) / Int64(clockRate)))
    }

    /// The RTP timestamp at an NTP time, modulo 2^32, rounded to the nearest tick.
    public func rtpTimestamp(at time: NTPTime) -> UInt32 {
        let difference = Int64(bitPattern: time.rawValue &- ntp.rawValue)
        let seconds = UInt32(truncatingIfNeeded: difference >> 32)
        let fraction = UInt64(difference & 0xFFFF_FFFF)
        let ticks = UInt32(truncatingIfNeeded: (fraction * UInt64(clockRate) + (1 << 31)) >> 32)
        return rtpTimestamp &+ seconds &* clockRate &+ ticks
    }

    /// How many ticks of this clock `timestamp` lies after the moment that `other` calls `otherTimestamp`;
    /// the elapsed time for `TimestampMap.rebase` when a subscription switches between two sources of one
    /// participant.
    public func ticks(to timestamp: UInt32, since otherTimestamp: UInt32, of other: SenderClock) -> Int64 {
        let before = other.ntp(of: otherTimestamp)
        let reference = rtpTimestamp(at: before)
        return Int64(TimestampArithmetic.distance(from: reference, to: timestamp))
    }
}
