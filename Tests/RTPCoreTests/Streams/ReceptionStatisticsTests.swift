import RTPCore
import Testing

@Suite("Reception statistics")
struct ReceptionStatisticsTests {
    static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    /// Sends packets of 20 ms at 48 kHz that arrive on time.
    static func receive(_ statistics: inout ReceptionStatistics, _ sequences: [UInt64]) {
        for sequence in sequences {
            statistics.received(
                extendedSequence: sequence, rtpTimestamp: UInt32(truncatingIfNeeded: sequence * 960),
                arrival: at(Int64(sequence) * 20), clockRate: 48_000)
        }
    }

    static func report(_ statistics: inout ReceptionStatistics, ssrc: UInt32, at time: Int64) -> ReportBlock? {
        statistics.makeReportBlock(ssrc: ssrc, now: at(time))
    }

    @Test("a source that never sent has no report")
    func nothing() {
        var statistics = ReceptionStatistics()
        let block = statistics.makeReportBlock(ssrc: 1, now: Self.at(0))
        #expect(block == nil)
    }

    @Test("rfc3550 A.3: fraction lost is of the interval, cumulative loss of the whole time")
    func loss() throws {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, Array(100..<200).filter { $0 % 4 != 1 })
        let first = try #require(Self.report(&statistics, ssrc: 5, at: 4_000))
        #expect(first.ssrc == 5)
        #expect(first.fractionLost == 64)
        #expect(first.cumulativeLost == 25)
        #expect(first.extendedHighest == 199)
        Self.receive(&statistics, Array(200..<300))
        let second = try #require(Self.report(&statistics, ssrc: 5, at: 6_000))
        #expect(second.fractionLost == 0)
        #expect(second.cumulativeLost == 25)
    }

    @Test("an interval without packets loses nothing")
    func emptyInterval() throws {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, [1, 2, 3])
        _ = statistics.makeReportBlock(ssrc: 1, now: Self.at(100))
        let block = try #require(Self.report(&statistics, ssrc: 1, at: 200))
        #expect(block.fractionLost == 0)
        #expect(block.cumulativeLost == 0)
    }

    @Test("duplicates make the cumulative loss negative and the fraction 0")
    func duplicates() throws {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, [1, 2, 2, 2, 3])
        let block = try #require(Self.report(&statistics, ssrc: 1, at: 100))
        #expect(block.cumulativeLost == -2)
        #expect(block.fractionLost == 0)
    }

    @Test("a packet that comes before the first one's number is expected, not a negative loss")
    func earlier() {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, [11, 10, 12])
        #expect(statistics.cumulativeLost == 0)
        #expect(statistics.expectedCount == 3)
    }

    @Test("cumulative loss stops at the 24 bits of a report")
    func clamp() {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, [1, 100_000_000])
        #expect(statistics.cumulativeLost == 0x7F_FFFF)
    }

    @Test("the extended highest number carries the rollovers in its upper half")
    func extendedHighest() {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, [65_535, 65_536, 65_537])
        #expect(statistics.extendedHighest == 0x0001_0001)
    }

    @Test("packets that arrive as they were sent have no jitter")
    func steady() {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, Array(1...500))
        #expect(statistics.jitter == 0)
    }

    @Test("rfc3550 A.8: a constant difference of 5 ms draws the jitter to 5 ms")
    func jitter() {
        var statistics = ReceptionStatistics()
        for index in UInt64(0)..<400 {
            let late: Int64 = index % 2 == 0 ? 0 : 5
            statistics.received(
                extendedSequence: index, rtpTimestamp: UInt32(index) * 960,
                arrival: Self.at(Int64(index) * 20 + late), clockRate: 48_000)
        }
        #expect((238...241).contains(statistics.jitter))
    }

    @Test("rfc3550 A.8: the first difference counts a sixteenth")
    func firstJitter() {
        var statistics = ReceptionStatistics()
        statistics.received(extendedSequence: 1, rtpTimestamp: 0, arrival: Self.at(0), clockRate: 48_000)
        statistics.received(extendedSequence: 2, rtpTimestamp: 960, arrival: Self.at(40), clockRate: 48_000)
        #expect(statistics.jitter == 60)
    }

    @Test("timestamps that lie do not overflow the jitter")
    func wildTimestamps() {
        var statistics = ReceptionStatistics()
        var random = RandomSource.seeded(3)
        for index in UInt64(0)..<10_000 {
            statistics.received(
                extendedSequence: index, rtpTimestamp: UInt32.random(in: 0...UInt32.max, using: &random),
                arrival: Instant(nanoseconds: Int64.random(in: 0...Int64.max, using: &random)),
                clockRate: UInt32.max)
        }
        #expect(statistics.jitter <= 1 << 31)
    }

    @Test("a report tells the last sender report and the time since in 1/65536 s")
    func senderReport() throws {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, [1])
        statistics.receivedSenderReport(compactNTP: 0x1234_5678, at: Self.at(1_000))
        let block = try #require(Self.report(&statistics, ssrc: 1, at: 3_500))
        #expect(block.lastSenderReport == 0x1234_5678)
        #expect(block.delaySinceLastSenderReport == 163_840)
    }

    @Test("a report without a sender report has neither its time nor a delay")
    func noSenderReport() throws {
        var statistics = ReceptionStatistics()
        Self.receive(&statistics, [1])
        let block = try #require(Self.report(&statistics, ssrc: 1, at: 3_500))
        #expect(block.lastSenderReport == 0)
        #expect(block.delaySinceLastSenderReport == 0)
    }
}
