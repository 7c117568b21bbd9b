/// One sender's wall clock on ours, so that its sender reports can be told to receivers in our time: a slot that goes over from
/// one sender to another then has one clock throughout, and what a receiver knows of it stays right until the next report.
///
/// Owns the difference of the two clocks: the least that a report showed (RFC 3550 says when it was made, its arrival adds the
/// delay of the way), let up by 500 ppm so that a clock that drifts is followed. All of one sender's streams are told by the same
/// difference, so sound and picture keep their distance. Plain data.
@frozen public struct ReportClock: Hashable, Sendable {
    /// Units of 2^-32 s a second: faster than any clock drifts, too slow to be seen.
    private static let drift: Int64 = (1 << 32) / 2_000
    /// A difference that grows by more is a clock that was set back.
    private static let step: Int64 = 2 << 32

    /// Ours minus theirs, modulo 2^64; nil before the first report.
    private var offset: UInt64?
    private var lastArrival = NTPTime(rawValue: 0)

    public init() {}

    /// A sender report said `ntp`, and came at `arrival` by our clock.
    public mutating func note(_ ntp: NTPTime, arrival: NTPTime) {
        let shown = arrival.rawValue &- ntp.rawValue
        defer { lastArrival = arrival }
        guard let offset else { return self.offset = shown }
        let more = Int64(bitPattern: shown &- offset)
        guard more > 0, more < Self.step else { return self.offset = shown }
        let seconds = Int64(clamping: (arrival.rawValue &- lastArrival.rawValue) >> 32)
        self.offset = offset &+ UInt64(min(more, max(0, min(seconds, 1 << 20)) * Self.drift))
    }

    /// A time that the sender told, by our clock.
    public func ours(_ ntp: NTPTime) -> NTPTime { NTPTime(rawValue: ntp.rawValue &+ (offset ?? 0)) }
}
