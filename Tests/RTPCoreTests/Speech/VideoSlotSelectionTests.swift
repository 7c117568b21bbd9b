import RTPCore
import Testing

@Suite struct VideoSlotSelectionTests {
    private func choose(
        _ selection: inout VideoSlotSelection, _ ranking: [Int32], pins: [Int32]? = nil, at ms: Int64
    ) -> [Int32] {
        let pins = pins ?? Array(repeating: -1, count: selection.slots.count)
        _ = selection.choose(from: ranking.span, pins: pins.span, now: Instant(nanoseconds: ms * 1_000_000))
        return selection.slots
    }

    @Test("those who rank first fill the slots in order")
    func fill() {
        var selection = VideoSlotSelection(slotCount: 3)
        #expect(choose(&selection, [7, 5], at: 0) == [7, 5, -1])
        #expect(choose(&selection, [7, 5, 9, 1], at: 0) == [7, 5, 9])
    }

    @Test("a new speaker takes the slot of the last in rank, and the others stay where they are")
    func newSpeaker() {
        var selection = VideoSlotSelection(slotCount: 3)
        _ = choose(&selection, [1, 2, 3, 4], at: 0)
        #expect(choose(&selection, [4, 1, 2, 3], at: 2_000) == [1, 2, 4])
        #expect(choose(&selection, [2, 4, 1, 3], at: 4_000) == [1, 2, 4], "an order among those shown moves nobody")
    }

    @Test("a slot that has just changed hands is kept for its time")
    func hold() {
        var selection = VideoSlotSelection(slotCount: 1)
        _ = choose(&selection, [1, 2], at: 0)
        #expect(choose(&selection, [2, 1], at: 1_499) == [1])
        #expect(choose(&selection, [2, 1], at: 1_500) == [2])
        #expect(choose(&selection, [1, 2], at: 2_900) == [2])
    }

    @Test("one who leaves is replaced at once by the next in rank")
    func leaves() {
        var selection = VideoSlotSelection(slotCount: 2)
        _ = choose(&selection, [1, 2, 3], at: 0)
        #expect(choose(&selection, [2, 3], at: 100) == [3, 2])
        #expect(choose(&selection, [2], at: 200) == [-1, 2])
    }

    @Test("a pin comes at once, stays whoever speaks, and ends with its wish")
    func pin() {
        var selection = VideoSlotSelection(slotCount: 2)
        _ = choose(&selection, [1, 2, 3], at: 0)
        #expect(choose(&selection, [1, 2, 3], pins: [3, -1], at: 10) == [3, 2])
        #expect(choose(&selection, [1, 2, 3], pins: [3, -1], at: 5_000) == [3, 1])
        #expect(choose(&selection, [2, 1, 3], pins: [3, -1], at: 9_000) == [3, 2])
        #expect(choose(&selection, [2, 1, 3], at: 10_000) == [1, 2])
    }

    @Test("a pinned one who is shown elsewhere changes places")
    func pinSwaps() {
        var selection = VideoSlotSelection(slotCount: 3)
        _ = choose(&selection, [1, 2, 3], at: 0)
        #expect(choose(&selection, [1, 2, 3], pins: [-1, -1, 1], at: 10) == [3, 2, 1])
        #expect(choose(&selection, [1, 2, 3], pins: [2, -1, 1], at: 20) == [2, 3, 1])
    }

    @Test("a pin for one who is not there leaves the slot to the others")
    func absentPin() {
        var selection = VideoSlotSelection(slotCount: 1)
        #expect(choose(&selection, [1, 2], pins: [9], at: 0) == [1])
        #expect(choose(&selection, [1, 2, 9], pins: [9], at: 1) == [9])
        #expect(choose(&selection, [1, 2], pins: [9], at: 2) == [1])
    }

    @Test("random rankings and pins: no sender twice, pins kept, nobody shown who is not there")
    func random() {
        var random = RandomSource.seeded(3)
        for count in 1...6 {
            var selection = VideoSlotSelection(slotCount: count)
            for step in 0..<400 {
                let ranking = (0..<8).filter { _ in Bool.random(using: &random) }.map { Int32($0) }
                    .shuffled(using: &random)
                var pins = (0..<8).map { Int32($0) }.shuffled(using: &random).prefix(count).map {
                    Int.random(in: 0..<3, using: &random) == 0 ? $0 : -1
                }
                while pins.count < count { pins.append(-1) }
                let slots = choose(&selection, ranking, pins: pins, at: Int64(step) * 300)
                let shown = slots.filter { $0 >= 0 }
                #expect(Set(shown).count == shown.count && shown.allSatisfy(ranking.contains))
                #expect(shown.count == min(count, ranking.count))
                for (slot, pin) in pins.enumerated() where ranking.contains(pin) { #expect(slots[slot] == pin) }
            }
        }
    }
}
