import RTPCore
import Testing

@Suite("Sequence map")
struct SequenceMapTests {
    /// One packet of a row: its source number, whether it is dropped, the number it is expected to get.
    struct Step: Sendable {
        let source: UInt64
        let isDropped: Bool
        let output: UInt64?

        static func to(_ source: UInt64, _ output: UInt64?) -> Step {
            Step(source: source, isDropped: false, output: output)
        }
        static func drop(_ source: UInt64) -> Step { Step(source: source, isDropped: true, output: nil) }
    }
    struct Row: Sendable, CustomStringConvertible {
        let description: String
        let steps: [Step]
        init(_ description: String, _ steps: [Step]) {
            self.description = description
            self.steps = steps
        }
    }

    // Every row starts with source 100 sent as 2000.
    static let rows: [Row] = [
        Row("packets in order follow each other", [.to(100, 2000), .to(101, 2001), .to(102, 2002)]),
        Row("a lost packet keeps its place", [.to(101, 2001), .to(103, 2003), .to(102, 2002)]),
        Row("a dropped packet closes up", [.to(101, 2001), .drop(102), .to(103, 2002), .to(104, 2003)]),
        Row("several dropped packets close up", [.drop(101), .drop(102), .drop(103), .to(104, 2001)]),
        Row(
            "a late packet before a drop gets the number kept for it",
            [.to(101, 2001), .to(103, 2003), .drop(104), .to(105, 2004), .to(102, 2002)]),
        Row(
            "late packets between drops are told apart",
            [.drop(101), .to(104, 2003), .drop(105), .to(106, 2004), .to(103, 2002), .to(102, 2001)]),
        Row(
            "a dropped packet that is seen again is not forwarded",
            [.drop(101), .to(102, 2001), .to(101, nil)]),
        Row("dropping one packet twice closes one gap", [.drop(101), .drop(101), .to(102, 2001)]),
        Row("a duplicate gets the same number", [.to(101, 2001), .to(102, 2002), .to(101, 2001)]),
        Row(
            "packets older than the first forwarded one are refused",
            [.to(99, nil), .to(98, nil), .to(101, 2001)]),
        Row("a drop of before the first packet changes nothing", [.drop(99), .to(101, 2001)]),
        Row(
            "a late drop behind a forwarded packet leaves the numbers as they are",
            [.to(102, 2002), .drop(101), .to(103, 2003)]),
        Row(
            "a late drop before which nothing newer was forwarded still closes up",
            [.drop(102), .drop(101), .to(103, 2001)]),
        Row(
            "a packet that overtakes a dropped one and comes late is forwarded in its place",
            [.drop(102), .to(101, 2001), .to(103, 2002)]),
        Row(
            "numbers of 16 bits wrap without a seam",
            [.to(63_635, 65_535), .drop(63_636), .to(63_637, 65_536), .to(63_638, 65_537)]),
    ]

    @Test("rows of packets forwarded and dropped", arguments: rows)
    func forwardAndDrop(_ row: Row) {
        var map = SequenceMap()
        map.start(source: 100, output: 2000)
        for (index, step) in row.steps.enumerated() {
            if step.isDropped {
                map.drop(step.source)
            } else {
                #expect(map.map(step.source) == step.output, "step \(index)")
            }
        }
    }

    @Test("nothing is mapped before the start")
    func notStarted() {
        var map = SequenceMap()
        #expect(!map.isStarted)
        #expect(map.map(5) == nil)
        #expect(map.drop(5) == false)
        #expect(map.inverse(0) == nil)
    }

    @Test("every first number of 100,000 streams lies in 1024…32767")
    func firstNumbers() {
        var random = RandomSource.seeded(1)
        var lowest = UInt64.max
        var highest: UInt64 = 0
        for _ in 0..<100_000 {
            let first = SequenceMap.drawFirstOutput(using: &random)
            lowest = min(lowest, first)
            highest = max(highest, first)
        }
        #expect(lowest >= 1024 && lowest < 1100)
        #expect(highest <= 32_767 && highest > 32_700)
    }

    @Test("late packets of the last 128 numbers are mapped rightly, whatever was dropped")
    func insideHistory() {
        var map = SequenceMap()
        map.start(source: 1_000, output: 5_000)
        _ = map.map(1_001)
        map.drop(1_003)
        // 1,002 is late by 127: the drop of 1,003 is the oldest one the history holds.
        #expect(map.map(1_130) == 5_129)
        #expect(map.map(1_002) == 5_002)
        #expect(map.map(1_004) == 5_003)
    }

    @Test("a packet older than the history is refused when a drop after it was forgotten")
    func forgottenDrop() {
        var map = SequenceMap()
        map.start(source: 1_000, output: 5_000)
        map.drop(1_003)
        #expect(map.map(1_131) == 5_130)
        #expect(map.map(1_002) == nil)
        #expect(map.map(1_003) == nil)
        #expect(map.map(1_004) == 5_003)
    }

    @Test("a packet older than the history is mapped when nothing was dropped after it")
    func oldWithoutDrops() {
        var map = SequenceMap()
        map.start(source: 1_000, output: 5_000)
        map.drop(1_001)
        #expect(map.map(1_002) == 5_001)
        #expect(map.map(9_000) == 8_000 + 4_999)
        #expect(map.map(8_000) == 7_000 + 4_999)
        #expect(map.map(1_002) == 5_001)
        #expect(map.map(1_001) == nil)
    }

    @Test("thousands of dropped packets in a row close up")
    func longDrop() {
        var map = SequenceMap()
        map.start(source: 10, output: 3_000)
        for source: UInt64 in 11...5_000 { #expect(map.drop(source) == true) }
        #expect(map.lastOutput == 3_000)
        #expect(map.inverse(3_000) == 10)
        #expect(map.map(5_001) == 3_001)
    }

    @Test("C02: a switch goes on at the number after the last one sent, also to lower numbers and back")
    func rebase() {
        var map = SequenceMap()
        map.start(source: 9_000, output: 9_000)
        #expect(map.map(9_050) == 9_050)
        map.rebase(source: 120)
        #expect(map.map(120) == 9_051)
        #expect(map.map(121) == 9_052)
        #expect(map.map(119) == nil)
        map.rebase(source: 9_051)
        #expect(map.map(9_051) == 9_053)
        #expect(map.lastOutput == 9_053)
    }

    @Test("a switch after drops leaves no gap")
    func rebaseAfterDrops() {
        var map = SequenceMap()
        map.start(source: 1, output: 2_000)
        _ = map.map(2)
        for source: UInt64 in 3...400 { map.drop(source) }
        map.rebase(source: 70_000)
        #expect(map.map(70_000) == 2_002)
    }

    @Test("a number sent is traced back to its source across drops")
    func inverseAcrossDrops() {
        var map = SequenceMap()
        map.start(source: 100, output: 2_000)
        _ = map.map(101)
        map.drop(102)
        _ = map.map(103)
        map.drop(104)
        map.drop(105)
        _ = map.map(106)
        #expect([2_000, 2_001, 2_002, 2_003].map { map.inverse($0) } == [100, 101, 103, 106])
    }

    @Test("a number never sent under this mapping is not traced")
    func inverseOutside() {
        var map = SequenceMap()
        map.start(source: 100, output: 2_000)
        _ = map.map(101)
        #expect(map.inverse(2_002) == nil)
        #expect(map.inverse(1_999) == nil)
        #expect(map.inverse(0) == nil)
        #expect(map.inverse(UInt64.max) == nil)
        map.rebase(source: 700)
        #expect(map.inverse(2_001) == nil)
        #expect(map.inverse(2_002) == 700)
    }

    @Test("the 16 bits of a NACK are traced across a wrap, and not before the start")
    func inverseWire() {
        var map = SequenceMap()
        map.start(source: 10, output: 30_000)
        for source: UInt64 in 11...40_010 { _ = map.map(source) }
        #expect(map.lastOutput == 70_000)
        #expect(map.inverse(wire: UInt16(70_000 - 65_536)) == 40_010)
        #expect(map.inverse(wire: 65_535) == 35_545)
        #expect(map.inverse(wire: UInt16(70_001 - 65_536)) == nil)
        map.start(source: 10, output: 1_024)
        #expect(map.inverse(wire: 65_000) == nil)
    }

    @Test("a number whose drops are forgotten is not traced")
    func inverseForgotten() {
        var map = SequenceMap()
        map.start(source: 100, output: 2_000)
        map.drop(101)
        _ = map.map(300)
        #expect(map.inverse(2_000) == nil)
        #expect(map.inverse(2_001) == 102)
    }

    @Test(
        "random forwarding, dropping, loss and reordering equal a model that remembers everything",
        arguments: 1...6)
    func model(seed: Int) {
        var random = RandomSource.seeded(UInt64(seed))
        let first: UInt64 = 60_000
        let firstOutput: UInt64 = 30_000
        var map = SequenceMap()
        map.start(source: first, output: firstOutput)
        var model = NaiveMap(first: first, firstOutput: firstOutput, count: 3_000)
        let dropShare = UInt64.random(in: 0...70, using: &random)
        let lossShare = UInt64.random(in: 0...20, using: &random)
        let reach = UInt64.random(in: 0...200, using: &random)
        for next in first + 1..<first + 3_000 {
            // Now and then an old packet instead of the next one.
            let isLate = UInt64.random(in: 0..<100, using: &random) < 15
            let source =
                isLate ? next - min(next - first + 5, UInt64.random(in: 0...reach, using: &random)) : next
            if !isLate && UInt64.random(in: 0..<100, using: &random) < lossShare { continue }
            if UInt64.random(in: 0..<100, using: &random) < dropShare {
                #expect(map.drop(source) == model.drop(source), "drop \(source)")
            } else {
                #expect(map.map(source) == model.map(source), "map \(source)")
            }
            let output = map.lastOutput - min(map.lastOutput, UInt64.random(in: 0...150, using: &random))
            #expect(map.inverse(output) == model.inverse(output), "inverse \(output)")
        }
    }

    @Test("a mapping covers its first packet and what follows, and nothing from before a rebase")
    func covers() {
        var map = SequenceMap()
        #expect(!map.covers(100))
        map.start(source: 100, output: 2_000)
        #expect(!map.covers(99) && map.covers(100) && map.covers(500))
        map.rebase(source: 300)
        #expect(!map.covers(299) && map.covers(300))
    }
}

/// The same contract by remembering every number for ever: `outputs[i]` of source `first + i`, counted anew
/// behind a drop.
private struct NaiveMap {
    let first: UInt64
    var drops: Set<UInt64> = []
    var newestForgotten: UInt64 = 0
    var outputs: [UInt64]
    var highest: UInt64
    var highestForwarded: UInt64

    init(first: UInt64, firstOutput: UInt64, count: UInt64) {
        self.first = first
        outputs = Array(firstOutput..<firstOutput + count)
        highest = first
        highestForwarded = first
    }

    mutating func see(_ source: UInt64) {
        while highest < source {
            highest += 1
            if highest >= 128, drops.contains(highest - 128) { newestForgotten = highest - 128 }
        }
    }
    mutating func map(_ source: UInt64) -> UInt64? {
        see(source)
        if source < first || drops.contains(source) || source <= newestForgotten { return nil }
        highestForwarded = max(highestForwarded, source)
        return outputs[Int(source - first)]
    }
    mutating func drop(_ source: UInt64) -> Bool {
        guard source > highestForwarded else { return false }
        see(source)
        guard highest - source < 128, drops.insert(source).inserted else { return false }
        for index in Int(source - first) + 1..<outputs.count {
            outputs[index] -= 1
        }
        return true
    }
    func inverse(_ output: UInt64) -> UInt64? {
        let newest = Int(highestForwarded - first)
        for index in stride(from: newest, through: 0, by: -1) where outputs[index] == output {
            let source = first + UInt64(index)
            if drops.contains(source) { continue }
            // Numbers rise with their sources, so this is the only one.
            return source == highestForwarded || source > newestForgotten ? source : nil
        }
        return nil
    }
}
