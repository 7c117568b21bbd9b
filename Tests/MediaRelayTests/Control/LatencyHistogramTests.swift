import MediaRelay
import RTPCore
import RelayCore
import Testing

@Suite struct LatencyHistogramTests {
    @Test("a duration counts in the first bucket whose bound it does not exceed")
    func buckets() {
        let histogram = LatencyHistogram()
        histogram.record(.microseconds(100))
        histogram.record(.microseconds(100) + .nanoseconds(1))
        histogram.record(.milliseconds(2))
        let snapshot = histogram.snapshot
        #expect(snapshot.counts[0] == 1)
        #expect(snapshot.counts[1] == 1)
        #expect(LatencyHistogram.bounds.firstIndex(of: 2_000).map { snapshot.counts[$0] } == 1)
        #expect(snapshot.count == 3)
        #expect(snapshot.sum == .nanoseconds(2_200_001))
    }

    @Test("what takes longer than a second counts last, what lies below zero first")
    func ends() {
        let histogram = LatencyHistogram()
        histogram.record(.seconds(1) + .nanoseconds(1))
        histogram.record(.nanoseconds(-5))
        let snapshot = histogram.snapshot
        #expect(snapshot.counts.last == 1)
        #expect(snapshot.counts.first == 1)
        #expect(snapshot.sum == .seconds(1) + .nanoseconds(1))
    }

    @Test("bounds ascend")
    func bounds() {
        let bounds = LatencyHistogram.bounds
        #expect(zip(bounds, bounds.dropFirst()).allSatisfy { $0 < $1 })
        #expect(bounds.last == 1_000_000)
    }

    @Test("a gate is timed once, from the request that opened it")
    func gate() {
        var watch = GateWatch()
        let start = Instant(nanoseconds: 5)
        watch.note(ParticipantHandle(7), askedAt: start)
        #expect(watch.opened(ParticipantHandle(8), at: start) == nil)
        #expect(watch.opened(ParticipantHandle(7), at: start + .microseconds(300)) == .microseconds(300))
        #expect(watch.opened(ParticipantHandle(7), at: start + .seconds(1)) == nil)
    }

    @Test("gates that never open are forgotten when there are too many of them")
    func bound() {
        var watch = GateWatch()
        let start = Instant(nanoseconds: 5)
        for number in 1...UInt64(GateWatch.limit) + 1 { watch.note(ParticipantHandle(number), askedAt: start) }
        #expect(watch.opened(ParticipantHandle(1), at: start) == nil)
        #expect(watch.opened(ParticipantHandle(UInt64(GateWatch.limit) + 1), at: start) == .zero)
    }
}
