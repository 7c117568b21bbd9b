import RTPCore
import Testing

@Suite("NTP time and sender clocks")
struct NTPTimeTests {
    @Test("the Unix epoch is 2,208,988,800 s after the NTP epoch")
    func epoch() {
        let epoch: UInt64 = 2_208_988_800 << 32
        #expect(NTPTime(unixNanoseconds: 0).rawValue == epoch)
        #expect(NTPTime(unixNanoseconds: 500_000_000).rawValue == epoch + 0x8000_0000)
    }

    @Test(
        "Unix time comes back to the nanosecond below",
        arguments: [0, 1, 999_999_999, 1_790_000_000_123_456_789])
    func unix(nanoseconds: Int64) {
        let back = NTPTime(unixNanoseconds: nanoseconds).unixNanoseconds
        #expect(back <= nanoseconds && nanoseconds - back <= 1)
    }

    @Test("the compact form is the middle 32 bits")
    func compact() {
        #expect(NTPTime(rawValue: 0x1122_3344_5566_7788).compact == 0x3344_5566)
    }

    @Test("intervals are signed and cross the era")
    func intervals() {
        let before = NTPTime(rawValue: UInt64.max - 0x7FFF_FFFF)
        let after = NTPTime(rawValue: 0x8000_0000)
        #expect(after.interval(since: before) == .seconds(1))
        #expect(before.interval(since: after) == .seconds(-1))
        let one = NTPTime(Instant(nanoseconds: 1_500_000_000))
        #expect(one.interval(since: NTPTime(Instant(nanoseconds: 250_000_000))) == .milliseconds(1_250))
    }

    @Test("rfc3550 6.4.1: the round trip of the example is 6.125 s")
    func roundTripExample() {
        let trip = NTPTime.roundTrip(
            arrival: NTPTime(rawValue: 0xB710_8000 << 16), lastSenderReport: 0xB705_2000,
            delaySinceLastSenderReport: 0x0005_4000)
        #expect(trip == .milliseconds(6_125))
    }

    @Test("a report that lies about its delay gives no round trip")
    func roundTripLies() {
        let arrival = NTPTime(rawValue: 100 << 32)
        let compact = arrival.compact
        let none = NTPTime.roundTrip(arrival: arrival, lastSenderReport: 0, delaySinceLastSenderReport: 0)
        let negative = NTPTime.roundTrip(
            arrival: arrival, lastSenderReport: compact - 10, delaySinceLastSenderReport: 11)
        let endless = NTPTime.roundTrip(
            arrival: arrival, lastSenderReport: compact - (61 << 16), delaySinceLastSenderReport: 0)
        #expect(none == nil && negative == nil && endless == nil)
    }

    @Test("units of 1/65536 s convert both ways and saturate")
    func compactUnits() {
        #expect(Interval.milliseconds(2_500).compactUnits == 163_840)
        #expect(Interval(compactUnits: 163_840) == .milliseconds(2_500))
        #expect(Interval.seconds(-1).compactUnits == 0)
        #expect(Interval.seconds(70_000).compactUnits == UInt32.max)
        #expect(Interval.seconds(65_535).compactUnits == 0xFFFF_0000)
    }

    @Test("T07: audio and video of one sender are reported at the same moment")
    func senderReports() {
        let reported = NTPTime(rawValue: 200 << 32)
        let now = NTPTime(Instant(nanoseconds: 200_700_000_000))
        let audio = SenderClock(ntp: reported, rtpTimestamp: 480_000, clockRate: 48_000)
        let video = SenderClock(ntp: reported, rtpTimestamp: 900_000, clockRate: 90_000)
        #expect(audio.rtpTimestamp(at: now) &+ 5_000 == 518_600)
        #expect(video.rtpTimestamp(at: now) &- 100_000 == 863_000)
    }

    @Test("a clock converts timestamps before and after its report, across the wrap")
    func clock() {
        let clock = SenderClock(
            ntp: NTPTime(rawValue: 50 << 32), rtpTimestamp: 0xFFFF_FF00, clockRate: 90_000)
        let later = clock.ntp(of: 0xFFFF_FF00 &+ 90_000)
        #expect(later.rawValue == 51 << 32)
        #expect(clock.ntp(of: 0xFFFF_FF00 &- 45_000).rawValue == 49 << 32 | 0x8000_0000)
        #expect(clock.rtpTimestamp(at: later) == 0xFFFF_FF00 &+ 90_000)
        #expect(clock.rtpTimestamp(at: NTPTime(rawValue: 40 << 32)) == 0xFFFF_FF00 &- 900_000)
    }

    @Test(
        "every timestamp survives the way to NTP time and back",
        arguments: [1, 8_000, 48_000, 90_000, 1 << 31])
    func clockRoundTrip(rate: UInt32) {
        var random = RandomSource.seeded(UInt64(rate))
        for _ in 0..<2_000 {
            let clock = SenderClock(
                ntp: NTPTime(rawValue: UInt64.random(in: 0...UInt64.max, using: &random)),
                rtpTimestamp: UInt32.random(in: 0...UInt32.max, using: &random), clockRate: rate)
            let timestamp = UInt32.random(in: 0...UInt32.max, using: &random)
            #expect(clock.rtpTimestamp(at: clock.ntp(of: timestamp)) == timestamp)
        }
    }
}
