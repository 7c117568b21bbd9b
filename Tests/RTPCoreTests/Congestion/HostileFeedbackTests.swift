import RTPCore
import Testing

/// Feedback is authentic, not honest: whatever a receiver says of its clock, the estimate stays an estimate.
@Suite("Hostile feedback") struct HostileFeedbackTests {
    /// About 20 packets from `first` on, all received, 250 µs apart, at a reference time in units of 64 ms.
    private static func feedback(first: UInt16, reference: UInt32) -> [UInt8] {
        let head: [UInt8] = [
            0x8F, 205, 0, 10, 0, 0, 0, 1, 0, 0, 0, 2, UInt8(first >> 8), UInt8(first & 255), 0, 20,
            UInt8(reference >> 16 & 255), UInt8(reference >> 8 & 255), UInt8(reference & 255), 0, 0x20, 20,
        ]
        return head + [UInt8](repeating: 1, count: 22)
    }

    /// An estimator that sends packets before each feedback, and hears them in turn.
    private static func estimate(
        after references: [UInt32], packetCount: Int = 20
    ) -> (targets: [Int], rates: [Int]) {
        var estimator = BandwidthEstimator.create()
        defer { estimator.destroy() }
        var now = Instant(nanoseconds: 1_000_000_000)
        var targets: [Int] = []
        var rates: [Int] = []
        for reference in references {
            let first = estimator.nextNumber
            for _ in 0..<packetCount {
                estimator.sent(byteCount: 1_000, at: now)
                now += .microseconds(Int64(60_000 / packetCount))
            }
            hear(feedback(first: first, reference: reference), &estimator, now)
            targets.append(estimator.target)
            rates.append(estimator.acknowledgedRate ?? 0)
        }
        return (targets, rates)
    }

    private static func hear(_ packet: [UInt8], _ estimator: inout BandwidthEstimator, _ now: Instant) {
        var cursor = RTCPCursor(packet.span)
        guard let item = cursor.next(in: packet.span), let feedback = TransportFeedback(item, in: packet.span) else {
            Issue.record("the feedback is malformed")
            return
        }
        estimator.receive(feedback, in: packet.span, now: now)
    }

    @Test("a clock that leaps half its circle each time does not run over")
    func leapingClock() {
        // Each step is as far as 24 bits can tell apart from a step back, six days of the receiver's clock: after 17,200
        // of them 64 bits of nanoseconds would be full.
        let references = (0..<18_000).map { UInt32(truncatingIfNeeded: $0 * 0x7F_FFFF) & 0xFF_FFFF }
        let bounds = BandwidthEstimator.Bounds()
        let targets = Self.estimate(after: references, packetCount: 1).targets
        #expect(targets.allSatisfy { (bounds.least...bounds.most).contains($0) })
    }

    @Test("a clock that leaps to and fro does not run over")
    func swingingClock() {
        let references = (0..<1_000).map { UInt32($0 % 2 == 0 ? 0 : 0x7F_FFFF) }
        let bounds = BandwidthEstimator.Bounds()
        #expect(Self.estimate(after: references).targets.allSatisfy { (bounds.least...bounds.most).contains($0) })
    }

    @Test("after it has leapt as far as a clock is followed, what arrives is measured again")
    func measuresAgain() {
        let leaps = (0..<12).map { UInt32(truncatingIfNeeded: $0 * 0x7F_FFFF) & 0xFF_FFFF }
        let last = leaps[leaps.count - 1]
        // 60 ms between two: about one unit.
        let honest = (1...60).map { (last + $0) & 0xFF_FFFF }
        #expect((Self.estimate(after: leaps + honest).rates.last ?? 0) > 1_000_000)
    }
}
