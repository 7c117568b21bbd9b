import RTPCore
import Testing

@testable import RelayCore

@Suite("SRTP replay window")
struct SRTPReplayWindowTests {
    private func withWindow(_ bitCount: Int = 1024, _ body: (inout ReplayWindow) -> Void) {
        var window = ReplayWindow.create(bitCount: bitCount)
        body(&window)
        window.destroy()
    }

    @Test("everything is fresh before the first packet")
    func startsEmpty() {
        withWindow { window in
            for index: UInt64 in [0, 1, 65_535, 1 << 47] { #expect(window.check(index)) }
        }
    }

    @Test("each index is taken once")
    func once() {
        withWindow { window in
            for index: UInt64 in [5, 6, 3, 1_000, 900] {
                #expect(window.check(index))
                window.mark(index)
                #expect(!window.check(index))
            }
        }
    }

    @Test("checking changes nothing")
    func checkIsPure() {
        withWindow { window in
            window.mark(10)
            for _ in 0..<3 { #expect(window.check(9)) }
            #expect(window.check(11))
        }
    }

    @Test("the oldest index inside is 1023 behind the newest")
    func edge() {
        withWindow { window in
            window.mark(5_000)
            #expect(window.check(5_000 - 1_023))
            #expect(!window.check(5_000 - 1_024))
            window.mark(5_000 - 1_023)
            #expect(!window.check(5_000 - 1_023))
        }
    }

    @Test(
        "marks survive steps of every size that keep them inside",
        arguments: [1, 2, 63, 64, 65, 127, 500, 1_000, 1_023] as [UInt64])
    func steps(step: UInt64) {
        withWindow { window in
            window.mark(2_000)
            window.mark(2_000 + step)
            #expect(!window.check(2_000))
            for index in 2_000 + 1..<2_000 + step { #expect(window.check(index), "\(index)") }
        }
    }

    @Test(
        "a jump over the whole window forgets everything behind",
        arguments: [1_024, 1_025, 5_000, 1 << 40] as [UInt64])
    func jumps(step: UInt64) {
        withWindow { window in
            for index: UInt64 in 3_000..<4_024 { window.mark(index) }
            let front = 4_023 + step
            window.mark(front)
            #expect(!window.check(4_023))
            for index in front - 1_023..<front { #expect(window.check(index)) }
        }
    }

    @Test("an index behind the window is not marked")
    func markOld() {
        withWindow { window in
            window.mark(10_000)
            window.mark(10_000 - 1_024)
            // One lap of the ring behind is the place of 10,000 itself: that one must stay.
            #expect(!window.check(10_000))
            window.mark(10_000 - 1_025)
            #expect(window.check(10_000 - 1))
        }
    }

    @Test("a random walk agrees with a set of marked indices", arguments: [64, 128, 1024])
    func model(bitCount: Int) {
        withWindow(bitCount) { window in
            var random = RandomSource.seeded(UInt64(bitCount))
            var taken: Set<UInt64> = []
            var front: UInt64 = 0
            var isEmpty = true
            for _ in 0..<20_000 {
                let base = front + UInt64.random(in: 0...3, using: &random)
                let back = UInt64.random(in: 0...UInt64(bitCount + 20), using: &random)
                let ahead = Int.random(in: 0..<200, using: &random) == 0 ? UInt64(bitCount) * 2 : 0
                let index = base >= back ? base - back + ahead : base
                let isExpected =
                    isEmpty || index > front || front - index < bitCount && !taken.contains(index)
                #expect(window.check(index) == isExpected, "index \(index), front \(front)")
                guard isExpected else { continue }
                window.mark(index)
                taken.insert(index)
                front = max(front, index)
                isEmpty = false
            }
        }
    }

    @Test("the media window holds 1024 packets")
    func mediaSize() { #expect(ReplayWindow.mediaBitCount == 1_024) }
}
