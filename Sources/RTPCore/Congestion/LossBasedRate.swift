/// The rate that loss allows: untouched by a few lost packets, cut when more than a tenth is missing
/// (draft-ietf-rmcat-gcc-02 §6). Bits per second; unlimited until loss has limited it.
///
/// Beyond the draft: the median of the last ten windows is taken for the path's own loss and does not count. A
/// loss p that the rate causes is cured by the five cuts made before it becomes the median, since
/// (1 − p/2)^5 < 1 − p up to 0.96; one that outlives them is not caused by the rate, and a radio link that loses
/// every seventh packet would starve. And a share counts less its standard deviation: of the windows of 20 packets on a
/// path that loses one in twenty by chance, one in thirteen misses more than a tenth. And what arrives has passed: while a
/// queue overflows half of all is lost and the link is full all the same, so a cut ends a little below that.
struct LossBasedRate {
    private static let light = 0.02
    private static let heavy = 0.10
    private static let window = Interval.milliseconds(500)
    private static let leastCount = 20
    private static let growth = 1.05
    /// Of what arrives, what a cut leaves at least: a queue that stands empties at that.
    private static let leastOfArrived = 0.85

    /// Nil: loss limits nothing.
    private(set) var rate: Double?
    /// Share of packets missing in the last complete window, 0…1.
    private(set) var lossFraction = 0.0
    /// What of it the rate has caused, for all that is known.
    private(set) var caused = 0.0
    private var arrived = 0
    private var missing = 0
    private var windowStart: Instant?
    private var history = InlineArray<10, Double>(repeating: 0)
    private var windowCount = 0

    mutating func count(arrived: Int, missing: Int) {
        self.arrived += arrived
        // A packet that came after all takes its loss back.
        self.missing = max(0, self.missing + missing)
    }

    /// - Parameters:
    ///   - current: the rate in use, from which a first cut starts.
    ///   - passes: what arrives, or would; nil when too little is known.
    mutating func update(current: Double, passes: Double?, now: Instant) {
        let start = windowStart ?? now
        windowStart = start
        let total = arrived + missing
        guard now - start >= Self.window, total >= Self.leastCount else { return }
        lossFraction = Double(missing) / Double(total)
        arrived = 0
        missing = 0
        windowStart = now
        let own = ownLoss
        history[windowCount % history.count] = lossFraction
        windowCount += 1
        let deviation = (lossFraction * (1 - lossFraction) / Double(total)).squareRoot()
        caused = max(0, (lossFraction - deviation - own) / (1 - own))
        if caused > Self.heavy {
            let known = min(rate ?? current, current)
            let least = (passes ?? 0) * Self.leastOfArrived
            rate = max(known * (1 - 0.5 * caused), min(known, least))
        } else if let limited = rate, caused < Self.light {
            let raised = limited * Self.growth
            // Once the delay alone decides again, loss limits nothing.
            rate = raised > current * 1.5 ? nil : raised
        }
    }

    /// A probe has shown that this much passes.
    mutating func raise(to proven: Double) {
        if let limited = rate, proven > limited { rate = proven }
    }

    /// The median of the last ten windows; 0 before there are as many.
    private var ownLoss: Double {
        guard windowCount >= history.count else { return 0 }
        var sorted = history
        for k in 1..<sorted.count {
            var j = k
            while j > 0, sorted[j - 1] > sorted[j] {
                sorted.swapAt(j - 1, j)
                j -= 1
            }
        }
        return min(sorted[(sorted.count - 1) / 2], 0.9)
    }
}
