import MediaRelay
import RTPCore
import RelayCore
import Testing

@Suite struct HistogramTests {
    @Test("a duration counts in the first bucket whose bound it does not exceed")
    func buckets() {
        let histogram = Histogram(bounds: Histogram.fineSeconds)
        histogram.record(.microseconds(100))
        histogram.record(.microseconds(100) + .nanoseconds(1))
        histogram.record(.milliseconds(2))
        let snapshot = histogram.snapshot
        #expect(snapshot.counts[0] == 1)
        #expect(snapshot.counts[1] == 1)
        #expect(snapshot.bounds.firstIndex(of: 0.002).map { snapshot.counts[$0] } == 1)
        #expect(snapshot.count == 3)
        #expect(abs(snapshot.sum - 0.002_200_001) < 1e-12)
    }

    @Test("what takes longer than the last bound counts last, what lies below zero first")
    func ends() {
        let histogram = Histogram(bounds: Histogram.fineSeconds)
        histogram.record(.seconds(1) + .nanoseconds(1))
        histogram.record(.nanoseconds(-5))
        let snapshot = histogram.snapshot
        #expect(snapshot.counts.last == 1)
        #expect(snapshot.counts.first == 1)
    }

    @Test("bounds are what they are written as, so that Prometheus finds the same series after every start")
    func bounds() {
        let bounds = Histogram.fineSeconds
        #expect(zip(bounds, bounds.dropFirst()).allSatisfy { $0 < $1 })
        #expect(bounds.first == 0.0001 && bounds.last == 1 && bounds.contains(0.0315))
        // None of them is the neighbour of the number that is meant.
        #expect(bounds.allSatisfy { "\($0)".count <= 8 }, "\(bounds)")
    }

    @Test("a leg's ten seconds count in each direction in which something went")
    func legs() {
        let measures = NodeMeasures()
        var row = LegSeries.Row()
        row.packetsReceived = 98
        row.packetsLost = 2
        row.jitterMicroseconds = 30_000
        row.roundTripMicroseconds = 40_000
        measures.record(.leg(row))
        let loss = measures.up.loss.snapshot
        #expect(loss.count == 1 && loss.sum == 0.02)
        #expect(loss.bounds.firstIndex(of: 0.02).map { loss.counts[$0] } == 1)
        #expect(measures.up.jitter.snapshot.sum == 0.03)
        #expect(measures.down.loss.snapshot.count == 0 && measures.down.jitter.snapshot.count == 0)
        #expect(measures.roundTrip.snapshot.sum == 0.04)
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
