/// A 64-bit NTP timestamp (RFC 3550 §4): seconds since 1 January 1900 in the upper half, fractions of 2^-32 s
/// in the lower. Wraps in 2036; differences are taken modulo 2^64.
@frozen public struct NTPTime: Hashable, Sendable {
    public var rawValue: UInt64

    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Seconds between the NTP epoch (1900) and the Unix epoch (1970): 70 years with 17 leap days.
    public static let unixEpochSeconds: UInt64 = 2_208_988_800

    /// From nanoseconds since 1970, not negative.
    public init(unixNanoseconds: Int64) {
        precondition(unixNanoseconds >= 0, "times before 1970 do not occur")
        let offset = NTPTime(nanosecondsSinceEpoch: UInt64(unixNanoseconds))
        self.init(rawValue: offset.rawValue &+ (Self.unixEpochSeconds << 32))
    }

    /// From a monotonic instant taken as the time since the NTP epoch: receivers only compare the times of
    /// one sender (RFC 3550 §6.4.1 allows any clock that measures elapsed time). Negative instants count as
    /// 0.
    public init(_ instant: Instant) {
        self.init(nanosecondsSinceEpoch: UInt64(max(0, instant.nanoseconds)))
    }

    private init(nanosecondsSinceEpoch nanoseconds: UInt64) {
        let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        self.init(rawValue: seconds << 32 | (rest << 32) / 1_000_000_000)
    }

    /// Nanoseconds since 1970 for times up to 2036 (NTP era 0), rounded down; negative before 1970.
    public var unixNanoseconds: Int64 {
        let seconds = Int64(rawValue >> 32) - Int64(Self.unixEpochSeconds)
        return seconds * 1_000_000_000 + Int64(((rawValue & 0xFFFF_FFFF) * 1_000_000_000) >> 32)
    }

    /// The middle 32 bits, in 1/65536 s: what report blocks carry as LSR.
    @inlinable public var compact: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 16) }

    /// The time from `earlier` to this one, negative when it is later; differences wrap at ±2^31 s.
    public func interval(since earlier: NTPTime) -> Interval {
        let difference = Int64(bitPattern: rawValue &- earlier.rawValue)
        let seconds = difference >> 32
        let fraction = difference & 0xFFFF_FFFF
        return Interval(nanoseconds: seconds * 1_000_000_000 + (fraction * 1_000_000_000) >> 32)
    }

    /// The round trip that a report block tells (RFC 3550 §6.4.1): arrival − LSR − DLSR.
    ///
    /// - Parameter arrival: when the report came, by the clock that stamped the sender reports.
    /// - Returns: nil without a sender report (LSR 0), or when the numbers give a negative time or more than
    ///   60 s, which no living path has. Precise to 15 µs.
    public static func roundTrip(
        arrival: NTPTime, lastSenderReport: UInt32, delaySinceLastSenderReport: UInt32
    ) -> Interval? {
        guard lastSenderReport != 0 else { return nil }
        let units = Int32(bitPattern: arrival.compact &- lastSenderReport &- delaySinceLastSenderReport)
        guard units >= 0, units <= 60 << 16 else { return nil }
        return Interval(compactUnits: UInt32(units))
    }
}

extension Interval {
    /// From units of 1/65536 s, as LSR, DLSR and XR blocks carry them.
    @inlinable public init(compactUnits: UInt32) {
        self.init(nanoseconds: (Int64(compactUnits) * 1_000_000_000) >> 16)
    }
    /// In units of 1/65536 s, rounded down; 0 for negative times, the greatest number for more than 18 h.
    public var compactUnits: UInt32 {
        guard nanoseconds > 0 else { return 0 }
        let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        guard seconds <= 0xFFFF else { return UInt32.max }
        return UInt32((seconds << 16) + (rest << 16) / 1_000_000_000)
    }
}
