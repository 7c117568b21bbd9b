/// The rate that keeps the path's queue short: raised while the delay is steady, cut to 85 % of what arrives
/// when the queue grows (draft-ietf-rmcat-gcc-02 §5.5). Bits per second.
struct DelayBasedRate {
    private enum State { case hold, increase, decrease }
    private static let decrease = 0.85
    /// Far from the last limit, per second.
    private static let growth = 1.08
    /// The least step of the careful growth near the limit, per response time.
    private static let leastStep = 4_000.0

    private(set) var rate: Double
    private var state = State.hold
    private var lastUpdate: Instant?
    private var lastDecrease: Instant?
    /// Where the path was full the last times, with the spread of these measurements: growth is careful there.
    private var limit: Double?
    private var spread = 0.4

    init(rate: Double) { self.rate = rate }

    /// - Parameters:
    ///   - acknowledged: what arrives; nil when too little is known.
    ///   - roundTrip: without the queue, as far as it is known.
    mutating func update(_ use: PathUse, acknowledged: Double?, roundTrip: Interval, now: Instant) {
        let elapsed = min(Double((now - (lastUpdate ?? now)).nanoseconds) / 1e9, 1)
        lastUpdate = now
        switch use {
        case .over: state = .decrease
        case .normal: state = state == .decrease ? .hold : .increase
        case .under: state = .hold
        }
        switch state {
        case .hold: break
        case .increase: increase(elapsed, acknowledged: acknowledged, roundTrip: roundTrip)
        case .decrease: decrease(acknowledged, roundTrip: roundTrip, now: now)
        }
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

    private mutating func increase(_ elapsed: Double, acknowledged: Double?, roundTrip: Interval) {
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
        rate = raised
    }

    private mutating func decrease(_ acknowledged: Double?, roundTrip: Interval, now: Instant) {
        let pause = min(max(roundTrip, .milliseconds(10)), .milliseconds(200))
        if let lastDecrease, now - lastDecrease < pause {
            guard let acknowledged, acknowledged < rate / 2 else { return }
        }
        lastDecrease = now
        guard let acknowledged else {
            rate *= Self.decrease
            return
        }
        if let limit, acknowledged < limit, isFar(acknowledged, from: limit) { self.limit = nil }
        learn(acknowledged)
        rate = min(rate, Self.decrease * acknowledged)
    }

    private mutating func learn(_ acknowledged: Double) {
        guard let limit else { return self.limit = acknowledged }
        let mean = 0.95 * limit + 0.05 * acknowledged
        self.limit = mean
        // Variance normed by the mean, in kbit/s.
        let error = (mean - acknowledged) / 1_000
        spread = min(max(0.95 * spread + 0.05 * error * error / max(mean / 1_000, 1), 0.4), 2.5)
    }

    /// More than three standard deviations away.
    private func isFar(_ acknowledged: Double, from limit: Double) -> Bool {
        let difference = (acknowledged - limit) / 1_000
        return difference * difference > 9 * spread * limit / 1_000
    }
}
