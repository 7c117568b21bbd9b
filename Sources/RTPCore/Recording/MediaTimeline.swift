/// Where the packets of one recorded track stand in its file: ticks of the RTP clock since the first one, over wraps, changes of source
/// and clocks that leap, and what wall-clock time that first one has by the sender's reports. Plain data.
public struct MediaTimeline: Sendable {
    /// Timestamps may differ from arrivals by so much before they are not believed, in seconds.
    private static let longestSurprise: Int64 = 3

    public let clockRate: UInt32
    private var last: (timestamp: UInt32, ticks: Int64, arrival: Instant)?
    private var clock: SenderClock?
    /// Another source begins: its timestamps have nothing to do with those before.
    private var isFresh = false
    /// The sender's wall-clock time of tick 0, by its first report of what is recorded, and by its latest.
    public private(set) var start: NTPTime?
    public private(set) var latestStart: NTPTime?
    /// When tick 0 would have come, by the packet that came soonest.
    public private(set) var startArrival: Instant?

    public init(clockRate: UInt32) { self.clockRate = clockRate }

    /// The source changes: what comes next is aligned by the reports of both, or else by its arrival.
    /// - Parameter clock: the new source's latest report.
    public mutating func change(to clock: SenderClock?) {
        isFresh = last != nil
        let before = self.clock
        self.clock = clock
        guard isFresh, let last, let before, let clock else { return }
        // The last packet, as the new source would have stamped it.
        let timestamp = clock.rtpTimestamp(at: before.ntp(of: last.timestamp))
        self.last = (timestamp, last.ticks, last.arrival)
        isFresh = false
    }

    /// A sender report of the source that is recorded.
    public mutating func note(_ clock: SenderClock) {
        self.clock = clock
        guard let last, !isFresh else { return }
        anchor(clock, at: last)
    }

    /// Ticks behind the first packet, never negative and never less than for the one before. Packets come in order.
    public mutating func ticks(of timestamp: UInt32, arrival: Instant) -> Int64 {
        guard let last else {
            self.last = (timestamp, 0, arrival)
            startArrival = arrival
            if let clock { anchor(clock, at: (timestamp, 0, arrival)) }
            return 0
        }
        let said = Int64(Int32(bitPattern: timestamp &- last.timestamp))
        let seen = ticks(in: arrival - last.arrival)
        let isBelieved = !isFresh && abs(said - seen) <= Self.longestSurprise * Int64(clockRate)
        let ticks = last.ticks + max(0, isBelieved ? said : seen)
        isFresh = false
        self.last = (timestamp, ticks, arrival)
        let begin = arrival - interval(of: ticks)
        startArrival = startArrival.map { min($0, begin) } ?? begin
        if start == nil, let clock { anchor(clock, at: (timestamp, ticks, arrival)) }
        return ticks
    }

    public func interval(of ticks: Int64) -> Interval {
        let (seconds, rest) = ticks.quotientAndRemainder(dividingBy: Int64(clockRate))
        return .nanoseconds(seconds * 1_000_000_000 + rest * 1_000_000_000 / Int64(clockRate))
    }

    private func ticks(in interval: Interval) -> Int64 {
        let (seconds, rest) = interval.nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return seconds * Int64(clockRate) + rest * Int64(clockRate) / 1_000_000_000
    }

    private mutating func anchor(_ clock: SenderClock, at packet: (timestamp: UInt32, ticks: Int64, arrival: Instant)) {
        let elapsed = NTPTime(nanoseconds: interval(of: packet.ticks).nanoseconds)
        let time = NTPTime(rawValue: clock.ntp(of: packet.timestamp).rawValue &- elapsed.rawValue)
        if start == nil { start = time }
        latestStart = time
    }
}

extension NTPTime {
    /// A span of time in NTP units, not negative.
    fileprivate init(nanoseconds: Int64) { self.init(Instant(nanoseconds: nanoseconds)) }
}
