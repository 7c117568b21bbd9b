import RTPCore
import Testing

/// How many earlier packets go along, by a receiver's reports.
@Suite("Redundancy by loss") struct RedundancyControlTests {
    /// Reports once in `interval` for `seconds` that `loss` of 50 packets a second is lost.
    private func report(
        _ control: inout RedundancyControl, loss: Double, from start: Int64, seconds: Int64, interval: Int64 = 1
    ) {
        var second = start
        while second < start + seconds {
            second += interval
            let covered = 50 * interval
            control.report(
                lost: Int64((Double(covered) * loss).rounded()), of: covered,
                at: Instant(nanoseconds: second * 1_000_000_000))
        }
    }

    @Test("without loss nothing goes along, and one lost packet of a second changes nothing")
    func calm() {
        var control = RedundancyControl()
        report(&control, loss: 0, from: 0, seconds: 20)
        #expect(control.depth == 0)
        control.report(lost: 1, of: 50, at: Instant(nanoseconds: 21_000_000_000))
        #expect(control.depth == 0)
    }

    @Test("5 % takes one earlier packet along, 10 % two", arguments: [(0.05, 1), (0.10, 2), (0.30, 2)])
    func depths(loss: Double, depth: Int) {
        var control = RedundancyControl()
        report(&control, loss: loss, from: 0, seconds: 4)
        #expect(Int(control.depth) == depth)
    }

    @Test("reports of every 5 seconds, as libwebrtc sends them for sound, do as well")
    func seldom() {
        var control = RedundancyControl()
        report(&control, loss: 0, from: 0, seconds: 5, interval: 5)
        report(&control, loss: 0.05, from: 5, seconds: 10, interval: 5)
        #expect(control.depth == 1)
        report(&control, loss: 0, from: 15, seconds: 25, interval: 5)
        #expect(control.depth == 0)
    }

    @Test("it ends when the loss has been under 1 % for 5 seconds, not before")
    func end() {
        var control = RedundancyControl()
        report(&control, loss: 0.06, from: 0, seconds: 10)
        #expect(control.depth == 1)
        report(&control, loss: 0, from: 10, seconds: 5)
        #expect(control.depth == 1)
        report(&control, loss: 0, from: 15, seconds: 15)
        #expect(control.depth == 0)
    }

    @Test("loss between 1 and 2.5 % begins nothing and ends nothing")
    func between() {
        var fresh = RedundancyControl()
        report(&fresh, loss: 0.02, from: 0, seconds: 60)
        #expect(fresh.depth == 0)
        var begun = RedundancyControl()
        report(&begun, loss: 0.06, from: 0, seconds: 10)
        report(&begun, loss: 0.02, from: 10, seconds: 60)
        #expect(begun.depth == 1)
    }

    @Test("two become one again below 5 %")
    func lighter() {
        var control = RedundancyControl()
        report(&control, loss: 0.12, from: 0, seconds: 10)
        #expect(control.depth == 2)
        report(&control, loss: 0.06, from: 10, seconds: 20)
        #expect(control.depth == 2)
        report(&control, loss: 0.04, from: 30, seconds: 20)
        #expect(control.depth == 1)
    }

    @Test("few packets decide nothing, and no report does harm")
    func odd() {
        var control = RedundancyControl()
        control.report(lost: 10, of: 20, at: Instant(nanoseconds: 1_000_000_000))
        #expect(control.depth == 0)
        for (lost, covered) in [(-5, 10), (5, 0), (0, -7), (Int64.max, 40), (Int64.min, 40)] as [(Int64, Int64)] {
            control.report(lost: lost, of: covered, at: Instant(nanoseconds: 900_000_000))
        }
        #expect((0...1).contains(control.loss))
    }
}
