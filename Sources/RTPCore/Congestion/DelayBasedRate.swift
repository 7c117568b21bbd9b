/// The rate that keeps the path's queue short: raised while the delay is steady, cut to a share of what passes
/// when the queue grows (draft-ietf-rmcat-gcc-02 §5.5). Bits per second.
///
/// Beyond the draft: what passes is what the busy path lets through, so that a sender that uses less than it may is not cut
/// further; a cut is there to empty the queue, so a long one is cut deeper than a short one (the draft: always to 85 % of what
/// arrives); and once it is empty the rate goes back to a little below what passes.
struct DelayBasedRate {
    private enum State { case hold, increase, decrease }
    /// The cut where it is not known what passes.
    private static let decrease = 0.85
    private static let cuts = 0.7...0.92
    private static let drainTime = Interval.milliseconds(800)
    /// Of what passed, how far the careful growth goes.
    private static let aboveKnown = 1.05
    /// Of what passes, where the rate goes back to when the queue is empty.
    private static let afterDrain = 0.92
    /// Far from the last limit, per second.
    private static let growth = 1.08
    /// The least step of the careful growth near the limit, per response time.
    private static let leastStep = 4_000.0

    private(set) var rate: Double
    private var state = State.hold
    private var lastUpdate: Instant?
    private var lastDecrease: Instant?
    /// A cut was made, and the queue has not been seen empty since.
    private var isDraining = false
    /// Where the path was full the last times, with the spread of these measurements: growth is careful there.
    private var limit: Double?
    private var spread = 0.4

    init(rate: Double) { self.rate = rate }

    /// - Parameters:
    ///   - roundTrip: without the queue, as far as it is known.
    mutating func update(_ use: PathUse, of path: PathState, roundTrip: Interval, now: Instant) {
        let elapsed = min(Double((now - (lastUpdate ?? now)).nanoseconds) / 1e9, 1)
        lastUpdate = now
        switch use {
        case .over: state = .decrease
        case .normal: state = state == .decrease ? .hold : .increase
        case .under: state = .hold
        }
        switch state {
        case .hold: break
        case .increase: increase(elapsed, path, roundTrip: roundTrip)
        case .decrease: decrease(path, roundTrip: roundTrip, now: now)
        }
    }

    /// Once no packet waits for another, where a cut was made for that: the rate that it goes back to.
    mutating func returned(_ path: PathState) -> Double? {
        guard isDraining, !path.isBusy else { return nil }
        isDraining = false
        guard let known = path.known else { return nil }
        rate = max(rate, Self.afterDrain * known)
        return rate
    }

    /// A probe has shown that this much passes.
    mutating func raise(to proven: Double) {
        guard state != .decrease, proven > rate else { return }
        rate = proven
        limit = nil
    }

    /// Nothing is heard of the receiver.
    mutating func fade() { rate *= 0.8 }

    mutating func bound(_ range: ClosedRange<Double>) {
        rate = min(max(rate, range.lowerBound), range.upperBound)
    }

    private mutating func increase(_ elapsed: Double, _ path: PathState, roundTrip: Interval) {
        // Of the last 500 ms; a busy path is known better.
        let acknowledged = path.acknowledged.map { min($0, path.passes ?? $0) }
        if let limit, let acknowledged, acknowledged > limit, isFar(acknowledged, from: limit) { self.limit = nil }
        var raised: Double
        if limit != nil {
            // One packet for each response time, about as a lone TCP flow would grow.
            let response = Double(roundTrip.nanoseconds) / 1e9 + 0.1
            let frame = rate / 30
            let packet = frame / Double(Int(frame / (1_200 * 8)) + 1)
            raised = rate + max(Self.leastStep, packet) * min(elapsed / response, 1)
        } else {
            var factor = Self.growth
            // (1.08)^elapsed, near enough for at most a second.
            factor = 1 + (factor - 1) * elapsed
            raised = max(rate * factor, rate + 1_000 * elapsed)
        }
        if let acknowledged {
            // What is not used is not known to pass. What arrives does, as long as the path has shown no limit: where it
            // has, a queue that empties arrives as fast as that.
            raised = min(raised, max(rate, acknowledged * 1.5 + 10_000))
            if limit == nil { raised = max(raised, acknowledged) }
        }
        // Above what has just passed a queue would only grow until it shows: that more passes now is for probes to find.
        if limit != nil, let known = path.known { raised = min(raised, max(rate, Self.aboveKnown * known)) }
        rate = raised
    }

    private mutating func decrease(_ path: PathState, roundTrip: Interval, now: Instant) {
        let pause = min(max(roundTrip, .milliseconds(10)), .milliseconds(200))
        if let lastDecrease, now - lastDecrease < pause {
            guard let passes = path.passes, passes < rate / 2 else { return }
        }
        lastDecrease = now
        isDraining = true
        guard let passes = path.passes else {
            rate *= Self.decrease
            return
        }
        if let limit, passes < limit, isFar(passes, from: limit) { self.limit = nil }
        learn(passes)
        rate = min(rate, Self.cut(path.queue) * passes)
    }

    /// The share of what passes at which a queue is gone after `drainTime`.
    private static func cut(_ queue: Interval) -> Double {
        let share = 1 - Double(queue.nanoseconds) / Double(drainTime.nanoseconds)
        return min(max(share, cuts.lowerBound), cuts.upperBound)
    }

    private mutating func learn(_ passes: Double) {
        guard let limit else { return self.limit = passes }
        let mean = 0.95 * limit + 0.05 * passes
        self.limit = mean
        // Variance normed by the mean, in kbit/s.
        let error = (mean - passes) / 1_000
        spread = min(max(0.95 * spread + 0.05 * error * error / max(mean / 1_000, 1), 0.4), 2.5)
    }

    /// More than three standard deviations away.
    private func isFar(_ measured: Double, from limit: Double) -> Bool {
        let difference = (measured - limit) / 1_000
        return difference * difference > 9 * spread * limit / 1_000
    }
}
