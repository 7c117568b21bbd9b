import RTPCore
import RelayTesting
import Testing

@Suite("Transport feedback recorder")
struct TransportFeedbackRecorderTests {
    static let vectors = VectorFile("rtcp_twcc")

    /// Whether a recorder can have made the row: something was received, and nothing before its epoch.
    static func isReproducible(_ row: VectorRow) -> Bool {
        let arrivals = row["decoded"]["packets"].array?.compactMap { $0[1].integer } ?? []
        return !arrivals.isEmpty && arrivals.allSatisfy { $0 >= 0 }
    }

    static func microseconds(_ count: Int64) -> Instant { Instant(nanoseconds: count * 1_000) }

    static func with<T>(_ body: (inout TransportFeedbackRecorder) throws -> T) rethrows -> T {
        var recorder = TransportFeedbackRecorder.create()
        defer { recorder.destroy() }
        return try body(&recorder)
    }

    /// One feedback packet as the reader sees it.
    struct Feedback: Equatable {
        var base: Int
        var count: UInt8
        /// Arrival in microseconds by number, nil when lost.
        var packets: [PacketStatus]
        var byteCount: Int

        var received: [Int] { packets.filter { $0.arrival != nil }.map { Int($0.sequence) } }
        var lost: [Int] { packets.filter { $0.arrival == nil }.map { Int($0.sequence) } }
        var arrivals: [Int64] { packets.compactMap { $0.arrival?.microseconds } }
    }

    static func feedback(_ recorder: inout TransportFeedbackRecorder, capacity: Int = 1_200) -> Feedback? {
        var isWritten = false
        let bytes = [UInt8](capacity: capacity) { output in
            isWritten = recorder.appendFeedback(to: &output, senderSSRC: 0xAAAA_AAAA, mediaSSRC: 0xBBBB_BBBB)
        }
        guard isWritten else {
            #expect(bytes.isEmpty)
            return nil
        }
        let span = bytes.span
        var cursor = RTCPCursor(span)
        guard let item = cursor.next(in: span), let feedback = TransportFeedback(item, in: span) else {
            Issue.record("not readable: \(bytes)")
            return nil
        }
        #expect(item.end == bytes.count && bytes.count % 4 == 0)
        #expect(feedback.senderSSRC == 0xAAAA_AAAA && feedback.mediaSSRC == 0xBBBB_BBBB)
        var packets: [PacketStatus] = []
        var statuses = TransportFeedbackCursor(feedback)
        while let status = statuses.next(in: span) { packets.append(status) }
        return Feedback(
            base: Int(feedback.baseSequence), count: feedback.feedbackCount, packets: packets,
            byteCount: bytes.count)
    }

    static func all(_ recorder: inout TransportFeedbackRecorder) -> [Feedback] {
        var result: [Feedback] = []
        while let feedback = feedback(&recorder) { result.append(feedback) }
        return result
    }

    @Test("nothing is written before a packet came, nor twice")
    func nothing() {
        Self.with { recorder in
            #expect(Self.feedback(&recorder) == nil)
            recorder.record(5, arrival: Self.microseconds(1_000))
            #expect(recorder.pendingCount == 1)
            #expect(Self.feedback(&recorder)?.received == [5])
            #expect(Self.feedback(&recorder) == nil)
            #expect(recorder.pendingCount == 0)
        }
    }

    @Test("packets in order are one run, their arrivals to the 250 µs")
    func inOrder() throws {
        try Self.with { recorder in
            for index in Int64(0)..<10 {
                recorder.record(UInt16(100 + index), arrival: Self.microseconds(64_000_300 + index * 5_000))
            }
            let feedback = try #require(Self.feedback(&recorder))
            #expect(feedback.base == 100)
            #expect(feedback.received == Array(100..<110))
            #expect(feedback.arrivals == (0..<10).map { 64_000_250 + $0 * 5_000 })
            // Header, one chunk, ten small deltas.
            #expect(feedback.byteCount == 32)
        }
    }

    @Test("gaps are told as lost, also before the first packet of a later feedback")
    func losses() {
        Self.with { recorder in
            recorder.record(10, arrival: Self.microseconds(0))
            recorder.record(13, arrival: Self.microseconds(1_000))
            #expect(Self.feedback(&recorder)?.lost == [11, 12])
            recorder.record(16, arrival: Self.microseconds(2_000))
            let second = Self.feedback(&recorder)
            #expect(second?.base == 14)
            #expect(second?.lost == [14, 15])
            #expect(second?.received == [16])
        }
    }

    @Test("numbers wrap inside one feedback")
    func wrap() {
        Self.with { recorder in
            for (index, number) in [65_534, 65_535, 1, 2].enumerated() {
                recorder.record(UInt16(number), arrival: Self.microseconds(Int64(index) * 1_000))
            }
            let feedback = Self.feedback(&recorder)
            #expect(feedback?.base == 65_534)
            #expect(feedback?.received == [65_534, 65_535, 1, 2])
            #expect(feedback?.lost == [0])
        }
    }

    @Test("packets that changed places have a negative delta")
    func reordered() {
        Self.with { recorder in
            recorder.record(1, arrival: Self.microseconds(100_000))
            recorder.record(3, arrival: Self.microseconds(101_000))
            recorder.record(2, arrival: Self.microseconds(102_000))
            #expect(Self.feedback(&recorder)?.arrivals == [100_000, 102_000, 101_000])
        }
    }

    @Test("the packet with the lowest number may have come last")
    func firstCameLast() {
        Self.with { recorder in
            recorder.record(1, arrival: Self.microseconds(0))
            _ = Self.feedback(&recorder)
            recorder.record(3, arrival: Self.microseconds(500_000))
            recorder.record(2, arrival: Self.microseconds(900_000))
            #expect(Self.feedback(&recorder)?.arrivals == [900_000, 500_000])
        }
    }

    @Test("a packet that comes after its loss was told is told in a packet of its own, once")
    func late() {
        Self.with { recorder in
            recorder.record(1, arrival: Self.microseconds(0))
            recorder.record(3, arrival: Self.microseconds(1_000))
            #expect(Self.feedback(&recorder)?.lost == [2])
            recorder.record(2, arrival: Self.microseconds(30_000))
            recorder.record(4, arrival: Self.microseconds(31_000))
            let packets = Self.all(&recorder)
            #expect(packets.map(\.received) == [[4], [2]])
            #expect(packets.map(\.lost) == [[], []])
            #expect(packets.map(\.arrivals) == [[31_000], [30_000]])
        }
    }

    @Test("late neighbours share a packet, and a packet from before the very first is told too")
    func lateNeighbours() {
        Self.with { recorder in
            recorder.record(10, arrival: Self.microseconds(0))
            recorder.record(14, arrival: Self.microseconds(1_000))
            _ = Self.feedback(&recorder)
            for number: UInt16 in [12, 11, 9] { recorder.record(number, arrival: Self.microseconds(5_000)) }
            #expect(Self.all(&recorder).map(\.received) == [[9], [11, 12]])
        }
    }

    @Test("many late packets do not keep new ones from being told")
    func newFirst() {
        Self.with { recorder in
            recorder.record(0, arrival: Self.microseconds(0))
            recorder.record(100, arrival: Self.microseconds(0))
            _ = Self.feedback(&recorder)
            for number in stride(from: 2, to: 100, by: 2) {
                recorder.record(UInt16(number), arrival: Self.microseconds(1_000))
            }
            recorder.record(101, arrival: Self.microseconds(2_000))
            #expect(Self.feedback(&recorder)?.received == [101])
            #expect(Self.feedback(&recorder)?.received == [2])
            #expect(recorder.pendingCount == 48)
        }
    }

    @Test("duplicates are told once, with their first arrival")
    func duplicates() {
        Self.with { recorder in
            recorder.record(7, arrival: Self.microseconds(1_000))
            recorder.record(7, arrival: Self.microseconds(9_000))
            #expect(Self.feedback(&recorder)?.arrivals == [1_000])
            recorder.record(7, arrival: Self.microseconds(20_000))
            #expect(Self.feedback(&recorder) == nil)
            #expect(recorder.ignoredCount == 2)
        }
    }

    @Test("feedback packets are counted modulo 256")
    func feedbackCount() {
        Self.with { recorder in
            var counts: [UInt8] = []
            for index in 0..<300 {
                recorder.record(UInt16(index), arrival: Self.microseconds(Int64(index) * 1_000))
                if let feedback = Self.feedback(&recorder) { counts.append(feedback.count) }
            }
            #expect(counts == (0..<300).map { UInt8($0 % 256) })
        }
    }

    @Test("a pause that 16 bits of delta cannot say starts another packet")
    func longPause() {
        Self.with { recorder in
            recorder.record(1, arrival: Self.microseconds(0))
            recorder.record(2, arrival: Self.microseconds(8_000_000))
            recorder.record(3, arrival: Self.microseconds(20_000_000))
            let packets = Self.all(&recorder)
            #expect(packets.map(\.received) == [[1, 2], [3]])
            #expect(packets.flatMap(\.arrivals) == [0, 8_000_000, 20_000_000])
        }
    }

    @Test("the reference time wraps after 24 bits of 64 ms")
    func referenceWrap() {
        Self.with { recorder in
            // 2^24 × 64 ms and one second.
            let wrap = Int64(1) << 24 * 64_000
            recorder.record(1, arrival: Self.microseconds(wrap + 1_000_000))
            #expect(Self.feedback(&recorder)?.arrivals == [1_000_000])
            // The upper half reads as negative.
            recorder.record(2, arrival: Self.microseconds(wrap + wrap / 2))
            #expect(Self.feedback(&recorder)?.arrivals == [-wrap / 2])
        }
    }

    @Test("a gap of thousands takes few bytes")
    func largeGap() {
        Self.with { recorder in
            recorder.record(0, arrival: Self.microseconds(0))
            recorder.record(20_000, arrival: Self.microseconds(1_000))
            let packets = Self.all(&recorder)
            #expect(packets.count == 1)
            #expect(packets.first?.byteCount ?? 99 < 40)
            #expect(packets.first?.packets.count ?? 0 == 19_999 + 1)
            // Number 0 left the window before it was reported.
            #expect(recorder.evictedCount == 1)
        }
    }

    @Test("a gap of thousands after a feedback is told completely")
    func largeGapAfterFeedback() {
        Self.with { recorder in
            recorder.record(0, arrival: Self.microseconds(0))
            _ = Self.feedback(&recorder)
            recorder.record(30_000, arrival: Self.microseconds(1_000))
            let packets = Self.all(&recorder)
            #expect(packets.map(\.base) == [1])
            #expect(packets.first?.lost.count == 29_999)
            #expect(recorder.evictedCount == 0)
        }
    }

    @Test("a full window of large deltas fits into one packet of at most 1,100 bytes")
    func budget() {
        Self.with { recorder in
            for index in Int64(0)..<512 {
                recorder.record(UInt16(index), arrival: Self.microseconds(index * 100_000))
            }
            let packets = Self.all(&recorder)
            #expect(packets.count == 1)
            #expect(packets.allSatisfy { $0.byteCount <= 1_100 })
            #expect(packets.flatMap(\.received) == Array(0..<512))
            #expect(packets.flatMap(\.arrivals) == (0..<512).map { $0 * 100_000 })
        }
    }

    @Test("a small buffer takes a part, one below 64 bytes nothing, and nothing is lost")
    func smallBuffer() {
        Self.with { recorder in
            for index in Int64(0)..<200 {
                recorder.record(UInt16(index), arrival: Self.microseconds(index * 1_000))
            }
            #expect(Self.feedback(&recorder, capacity: 63) == nil)
            let part = Self.feedback(&recorder, capacity: 64)
            #expect(part?.received == Array(0..<42))
            #expect(Self.all(&recorder).flatMap(\.received) == Array(42..<200))
        }
    }

    @Test("a packet older than the window is ignored")
    func tooOld() {
        Self.with { recorder in
            recorder.record(5_000, arrival: Self.microseconds(0))
            recorder.record(5_000 - 512, arrival: Self.microseconds(1_000))
            recorder.record(5_000 - 511, arrival: Self.microseconds(1_000))
            #expect(recorder.ignoredCount == 1)
            #expect(Self.all(&recorder).flatMap(\.received) == [5_000, 5_000 - 511])
        }
    }

    @Test("half a window without feedback asks for it")
    func needsFeedback() {
        Self.with { recorder in
            for index in 0..<256 { recorder.record(UInt16(index), arrival: Self.microseconds(0)) }
            #expect(!recorder.needsFeedback)
            recorder.record(256, arrival: Self.microseconds(0))
            #expect(recorder.needsFeedback)
            _ = Self.all(&recorder)
            #expect(!recorder.needsFeedback)
        }
    }

    @Test("packets that leave the window unreported are counted and never told as lost")
    func evicted() {
        Self.with { recorder in
            for index in 0..<1_100 {
                // Number 50 is lost, inside of what is evicted.
                if index != 50 {
                    recorder.record(UInt16(index), arrival: Self.microseconds(Int64(index) * 500))
                }
            }
            #expect(recorder.evictedCount == 587)
            let packets = Self.all(&recorder)
            #expect(packets.flatMap(\.lost) == [])
            #expect(packets.flatMap(\.received) == Array(588..<1_100))
        }
    }

    @Test("alternating losses take one chunk for fourteen packets")
    func oneBitChunks() throws {
        try Self.with { recorder in
            for index in stride(from: Int64(0), to: 28, by: 2) {
                recorder.record(UInt16(index), arrival: Self.microseconds(index * 1_000))
            }
            let feedback = try #require(Self.feedback(&recorder))
            #expect(feedback.received == Array(stride(from: 0, to: 28, by: 2)))
            // Header, two chunks for 27 packets, 14 small deltas, filled up to a word.
            #expect(feedback.byteCount == 40)
        }
    }

    @Test("a mix of losses and delays takes no more chunks than one for each seven packets")
    func chunkCount() throws {
        try Self.with { recorder in
            var random = RandomSource.seeded(2)
            var time: Int64 = 0
            var receivedCount = 0
            recorder.record(0, arrival: Self.microseconds(0))
            _ = Self.feedback(&recorder)
            for index in 1...350 {
                time += 100_000 * Int64.random(in: 0...1, using: &random) + 250
                if index == 350 || UInt8.random(in: 0..<3, using: &random) > 0 {
                    recorder.record(UInt16(index), arrival: Self.microseconds(time))
                    receivedCount += 1
                }
            }
            let feedback = try #require(Self.feedback(&recorder))
            #expect(feedback.packets.count == 350)
            #expect(feedback.byteCount <= 20 + 50 * 2 + receivedCount * 2 + 3)
        }
    }

    @Test(
        "recorded arrivals give the decoded values of the vectors",
        arguments: vectors.rows().filter(isReproducible))
    func decodedValues(_ row: VectorRow) throws {
        let packets = try #require(row["decoded"]["packets"].array)
        let received = packets.filter { !$0[1].isNull }
        // Losses behind the last packet are unknown to a recorder.
        let last = try #require(received.last?[0].integer)
        let expected = packets.prefix { $0[0].integer != last } + packets.filter { $0[0].integer == last }
        try Self.with { recorder in
            let base = try #require(packets[0][0].integer)
            recorder.record(UInt16(base) &- 1, arrival: Self.microseconds(0))
            _ = Self.feedback(&recorder)
            for packet in received {
                recorder.record(
                    UInt16(packet[0].integer ?? 0), arrival: Self.microseconds(Int64(packet[1].integer ?? 0)))
            }
            let feedback = try #require(Self.feedback(&recorder))
            #expect(feedback.packets.map { Int($0.sequence) } == expected.map { $0[0].integer })
            #expect(
                feedback.packets.map { $0.arrival.map { Int($0.microseconds) } }
                    == expected.map { $0[1].integer })
        }
    }

    @Test(
        "under random loss, delay and duplication every packet that came is told once and exactly",
        arguments: 1...8)
    func random(seed: Int) {
        Self.with { recorder in
            var random = RandomSource.seeded(UInt64(seed))
            var arrivals: [(time: Int64, number: Int64)] = []
            let first = Int64.random(in: 0...65_535, using: &random)
            let reach = Int64.random(in: 1...300_000, using: &random)
            for index in Int64(0)..<4_000 where UInt8.random(in: 0..<10, using: &random) > 0 {
                let time = index * 1_000 + Int64.random(in: 0...reach, using: &random)
                arrivals.append((time, first + index))
                if UInt8.random(in: 0..<20, using: &random) == 0 {
                    arrivals.append((time + 10_000, first + index))
                }
            }
            arrivals.sort { $0.time < $1.time }
            var firstArrivals: [UInt16: Int64] = [:]
            var told: [UInt16: Int64] = [:]
            var toldLost: Set<UInt16> = []
            var nextFeedback: Int64 = 0
            for (time, number) in arrivals {
                let wire = UInt16(truncatingIfNeeded: number)
                recorder.record(wire, arrival: Self.microseconds(time))
                if firstArrivals[wire] == nil { firstArrivals[wire] = time / 250 * 250 }
                guard time >= nextFeedback else { continue }
                nextFeedback = time + 50_000
                for feedback in Self.all(&recorder) {
                    #expect(feedback.byteCount <= 1_100)
                    for status in feedback.packets {
                        guard let arrival = status.arrival else {
                            toldLost.insert(status.sequence)
                            continue
                        }
                        #expect(told[status.sequence] == nil, "\(status.sequence) told twice")
                        told[status.sequence] = arrival.microseconds
                    }
                }
            }
            for status in Self.all(&recorder).flatMap(\.packets) {
                told[status.sequence] = status.arrival?.microseconds
            }
            #expect(told == firstArrivals)
            #expect(recorder.evictedCount == 0 && recorder.pendingCount == 0)
            // Between the first and the newest nothing is left out.
            let silent = (first + 400..<first + 3_600).map(UInt16.init(truncatingIfNeeded:)).filter {
                told[$0] == nil && !toldLost.contains($0)
            }
            #expect(silent == [])
        }
    }
}
