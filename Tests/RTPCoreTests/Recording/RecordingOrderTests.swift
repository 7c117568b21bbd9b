import RTPCore
import Testing

@Suite("Order and time of what is recorded") struct RecordingOrderTests {
    private func packet(_ index: UInt64, at ms: Int64 = 0) -> RecordedPacket {
        RecordedPacket(
            index: index, timestamp: UInt32(index * 960), marker: false, arrival: Instant(nanoseconds: ms * 1_000_000),
            payload: [UInt8(truncatingIfNeeded: index)])
    }

    private func instant(_ ms: Int64) -> Instant { Instant(nanoseconds: ms * 1_000_000) }

    private func drain(_ buffer: inout ReorderBuffer, _ now: Instant) -> [String] {
        var found: [String] = []
        while let step = buffer.step(now: now) {
            switch step {
            case .packet(let packet): found.append("\(packet.index)")
            case .gap(let count): found.append("gap \(count)")
            }
        }
        return found
    }

    @Test("packets come out in order; a repair is waited for, and no longer than patience")
    func order() {
        var buffer = ReorderBuffer(patience: .seconds(1))
        for index: UInt64 in [10, 11, 14, 13] { buffer.insert(packet(index)) }
        #expect(drain(&buffer, instant(0)) == ["10", "11"])
        #expect(buffer.deadline == instant(1_000))
        buffer.insert(packet(12))
        #expect(drain(&buffer, instant(900)) == ["12", "13", "14"])
        #expect(buffer.deadline == .distantFuture)
        buffer.insert(packet(17))
        #expect(drain(&buffer, instant(2_000)).isEmpty)
        #expect(drain(&buffer, instant(3_000)) == ["gap 2", "17"])
        buffer.insert(packet(15))
        buffer.insert(packet(17))
        #expect(drain(&buffer, instant(4_000)).isEmpty && buffer.lateCount == 2)
    }

    @Test("what waits is bounded: a flood behind a hole ends the waiting")
    func bounded() {
        var buffer = ReorderBuffer(patience: .seconds(1_000_000))
        buffer.insert(packet(0))
        for index: UInt64 in 2..<2_100 { buffer.insert(packet(index)) }
        let found = drain(&buffer, instant(0))
        #expect(found.prefix(3) == ["0", "gap 1", "2"] && found.count == 2_100)
    }

    @Test("at the end nothing is waited for")
    func end() {
        var buffer = ReorderBuffer(patience: .seconds(1))
        for index: UInt64 in [5, 7] { buffer.insert(packet(index)) }
        var steps: [ReorderBuffer.Step] = []
        while let step = buffer.drain() { steps.append(step) }
        #expect(steps.count == 3 && steps[1] == .gap(1))
    }

    // MARK: Time

    @Test("ticks count on over the wrap of timestamps, and through silence")
    func wrap() {
        var timeline = MediaTimeline(clockRate: 48_000)
        #expect(timeline.ticks(of: .max - 959, arrival: instant(0)) == 0)
        #expect(timeline.ticks(of: 0, arrival: instant(20)) == 960)
        #expect(timeline.ticks(of: 480_000, arrival: instant(10_020)) == 480_960)
    }

    @Test("a timestamp that leaps is not believed: the time that passed is taken")
    func leap() {
        var timeline = MediaTimeline(clockRate: 90_000)
        _ = timeline.ticks(of: 1_000, arrival: instant(0))
        #expect(timeline.ticks(of: 1_000 &+ 2_000_000_000, arrival: instant(40)) == 3_600)
        #expect(timeline.ticks(of: 1_000 &+ 2_000_003_000, arrival: instant(80)) == 6_600, "and from there it goes on")
        #expect(timeline.ticks(of: 500, arrival: instant(80)) == 6_600, "never back")
    }

    @Test("another source goes on by both sources' reports, or by its arrival")
    func change() {
        let begun = NTPTime(rawValue: 1_000 << 32)
        var timeline = MediaTimeline(clockRate: 90_000)
        timeline.note(SenderClock(ntp: begun, rtpTimestamp: 5_000, clockRate: 90_000))
        _ = timeline.ticks(of: 5_000, arrival: instant(0))
        #expect(timeline.start == begun)
        // Half a second later, by the sender's clock; it comes 80 ms late.
        timeline.change(
            to: SenderClock(
                ntp: NTPTime(rawValue: 1_000 << 32 + 1 << 31), rtpTimestamp: 700_000, clockRate: 90_000))
        #expect(timeline.ticks(of: 700_000, arrival: instant(580)) == 45_000)
        timeline.change(to: nil)
        #expect(timeline.ticks(of: 42, arrival: instant(680)) == 45_000 + 9_000)
        #expect(timeline.start == begun && timeline.startArrival == instant(0))
    }

    @Test("the beginning's wall-clock time is that of the first packet, whenever the report comes")
    func anchor() throws {
        var timeline = MediaTimeline(clockRate: 48_000)
        _ = timeline.ticks(of: 10_000, arrival: instant(0))
        _ = timeline.ticks(of: 10_000 + 96_000, arrival: instant(2_000))
        timeline.note(
            SenderClock(ntp: NTPTime(rawValue: 500 << 32), rtpTimestamp: 10_000 + 48_000, clockRate: 48_000))
        let start = try #require(timeline.start)
        #expect(abs(start.interval(since: NTPTime(rawValue: 499 << 32)).microseconds) < 10)
    }
}
