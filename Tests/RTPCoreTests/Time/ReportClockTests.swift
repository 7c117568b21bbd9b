import RTPCore
import Testing

@Suite("A sender's clock on ours") struct ReportClockTests {
    private static let start = NTPTime(unixNanoseconds: 1_700_000_000_000_000_000)

    private static func at(_ milliseconds: Int64) -> NTPTime {
        NTPTime(unixNanoseconds: start.unixNanoseconds + milliseconds * 1_000_000)
    }

    /// Notes a report each second of a clock that is `ahead` ms and whose reports take `delays` ms; what it then makes of the
    /// time when the last was made, in ms after that.
    private static func lateness(ahead: [Int64], delays: [Int64]) -> Int64 {
        var clock = ReportClock()
        var result: Int64 = 0
        for (second, (ahead, delay)) in zip(ahead, delays).enumerated() {
            let made = Int64(second) * 1_000
            clock.note(at(made + ahead), arrival: at(made + delay))
            result = clock.ours(at(made + ahead)).interval(since: at(made)).microseconds / 1_000
        }
        return result
    }

    @Test(
        "a time is told as if it had taken the shortest way seen, whatever the sender's clock says",
        arguments: [Int64(0), 5_000, -7_000, 3_600_000, -86_400_000])
    func shortestWay(ahead: Int64) {
        let found = Self.lateness(ahead: [ahead, ahead, ahead], delays: [50, 20, 90])
        #expect((20...21).contains(found))
    }

    @Test("a clock that is set is followed with its next report", arguments: [Int64(3_600_000), -3_600_000])
    func set(step: Int64) {
        #expect((19...20).contains(Self.lateness(ahead: [0, 0, step], delays: [20, 20, 20])))
    }

    @Test("a clock that drifts is followed")
    func drift() {
        let count = 600
        // 100 ppm slow: 60 ms in ten minutes.
        let ahead = (0..<count).map { -Int64($0) / 10 }
        let found = Self.lateness(ahead: ahead, delays: Array(repeating: 20, count: count))
        #expect((19...21).contains(found))
    }

    @Test("without a report a time is what it was, and no report traps", arguments: [UInt64(0), 1, .max, 1 << 63])
    func extremes(raw: UInt64) {
        var clock = ReportClock()
        #expect(clock.ours(NTPTime(rawValue: raw)).rawValue == raw)
        for other in [UInt64(0), .max, 1 << 63, raw] {
            clock.note(NTPTime(rawValue: raw), arrival: NTPTime(rawValue: other))
            clock.note(NTPTime(rawValue: other), arrival: NTPTime(rawValue: raw))
            _ = clock.ours(NTPTime(rawValue: other))
        }
    }
}
