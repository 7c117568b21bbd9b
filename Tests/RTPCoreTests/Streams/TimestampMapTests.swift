import RTPCore
import Testing

@Suite("Timestamp map")
struct TimestampMapTests {
    @Test("timestamps keep their distances, also over the wrap")
    func offset() {
        var map = TimestampMap()
        map.start(source: 0xFFFF_FFF0, output: 1_000)
        #expect(map.map(0xFFFF_FFF0) == 1_000)
        #expect(map.map(0x10) == 1_032)
        #expect(map.lastSource == 0x10)
    }

    @Test("a late packet does not move the newest timestamp back")
    func late() {
        var map = TimestampMap()
        map.start(source: 0, output: 500)
        _ = map.map(3_000)
        #expect(map.map(1_000) == 1_500)
        #expect(map.lastOutput == 3_500)
    }

    @Test("a switch moves time forward by what has passed")
    func rebase() {
        var map = TimestampMap()
        map.start(source: 400_000, output: 450_000)
        map.rebase(source: 7_000_000, elapsed: 3_600)
        #expect(map.map(7_000_000) == 453_600)
        #expect(map.map(7_003_000) == 456_600)
    }

    @Test(
        "a switch never lets time stand still, go back or leap hours",
        arguments: [0, -3_000, Int64.min, 1 << 31])
    func rebaseForward(elapsed: Int64) {
        var map = TimestampMap()
        map.start(source: 10, output: 0xFFFF_FFFF)
        map.rebase(source: 99, elapsed: elapsed)
        #expect(map.map(99) == 0)
    }

    @Test("R05: the elapsed time of a switch comes from the sender's reports, not from arrival")
    func switchByReports() {
        let report = NTPTime(rawValue: 100 << 32)
        let low = SenderClock(ntp: report, rtpTimestamp: 400_000, clockRate: 90_000)
        let high = SenderClock(ntp: report, rtpTimestamp: 6_950_000, clockRate: 90_000)
        var map = TimestampMap()
        map.start(source: 446_400, output: 450_000)
        map.rebase(source: 7_000_000, elapsed: high.ticks(to: 7_000_000, since: map.lastSource, of: low))
        #expect(map.map(7_000_000) == 453_600)
    }
}
