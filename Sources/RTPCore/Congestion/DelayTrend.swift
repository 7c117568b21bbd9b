/// What the queue of a path does.
public enum PathUse: Hashable, Sendable {
    /// It grows: more is sent than passes.
    case over
    case normal
    /// It drains.
    case under
}

/// Tells from delay variations whether a queue builds up: the slope of a line through the last 20 smoothed
/// delays, against a threshold that adapts to the path's own noise (draft-ietf-rmcat-gcc-02 §5.3, §5.4; the
/// line in place of the draft's Kalman filter, which follows a step more slowly). Times in ms.
struct DelayTrend {
    /// Points of the line.
    static let windowCount = 20
    /// Weight of the past in the smoothed delay.
    private static let smoothing = 0.9
    /// Makes the slope comparable with the threshold; measurements count up to 60.
    private static let gain = 4.0
    private static let countLimit = 60
    /// The growth has to last this long.
    private static let overuseTime = 10.0
    /// How fast the threshold follows upwards and downwards, per ms (draft §5.4, Table 1).
    private static let rise = 0.0087
    private static let fall = 0.039
    private static let thresholdRange = 6.0...600.0
    /// Jumps further than this over the threshold do not move it.
    private static let outlier = 15.0

    private(set) var use = PathUse.normal
    private(set) var threshold = 12.5
    private var arrivals = InlineArray<20, Double>(repeating: 0)
    private var delays = InlineArray<20, Double>(repeating: 0)
    private var count = 0
    private var accumulated = 0.0
    private var smoothed = 0.0
    private var start: Interval?
    private var lastTrend = 0.0
    private var lastUpdate: Double?
    private var timeOver = -1.0
    private var overCount = 0

    mutating func add(_ variation: DelayVariation) {
        let start = self.start ?? variation.arrival
        self.start = start
        let arrival = Self.milliseconds(variation.arrival - start)
        accumulated += Self.milliseconds(variation.growth)
        smoothed = Self.smoothing * smoothed + (1 - Self.smoothing) * accumulated
        arrivals[count % Self.windowCount] = arrival
        delays[count % Self.windowCount] = smoothed
        count += 1
        // A line through a few points only says nothing.
        guard count >= Self.windowCount else { return }
        detect(slope, sent: Self.milliseconds(variation.sent), at: arrival)
    }

    /// Begins anew with the next measurement; what was learnt of the path's noise stays.
    mutating func forget() {
        use = .normal
        count = 0
        accumulated = 0
        smoothed = 0
        start = nil
        lastTrend = 0
        lastUpdate = nil
        timeOver = -1
        overCount = 0
    }

    /// Least squares over the window; nil when all points fall on one time.
    private var slope: Double? {
        var meanX = 0.0
        var meanY = 0.0
        for k in 0..<Self.windowCount {
            meanX += arrivals[k]
            meanY += delays[k]
        }
        meanX /= Double(Self.windowCount)
        meanY /= Double(Self.windowCount)
        var numerator = 0.0
        var denominator = 0.0
        for k in 0..<Self.windowCount {
            let x = arrivals[k] - meanX
            numerator += x * (delays[k] - meanY)
            denominator += x * x
        }
        return denominator > 0 ? numerator / denominator : nil
    }

    private mutating func detect(_ slope: Double?, sent: Double, at arrival: Double) {
        let trend = (slope ?? 0) * Double(min(count, Self.countLimit)) * Self.gain
        if trend > threshold {
            timeOver = timeOver < 0 ? sent / 2 : timeOver + sent
            overCount += 1
            if timeOver > Self.overuseTime, overCount > 1, trend >= lastTrend {
                timeOver = 0
                overCount = 0
                use = .over
            }
        } else {
            timeOver = -1
            overCount = 0
            use = trend < -threshold ? .under : .normal
        }
        lastTrend = trend
        adapt(to: trend, at: arrival)
    }

    private mutating func adapt(to trend: Double, at arrival: Double) {
        let elapsed = min(arrival - (lastUpdate ?? arrival), 100)
        lastUpdate = arrival
        guard abs(trend) <= threshold + Self.outlier else { return }
        let speed = abs(trend) < threshold ? Self.fall : Self.rise
        threshold += speed * (abs(trend) - threshold) * max(0, elapsed)
        threshold = min(max(threshold, Self.thresholdRange.lowerBound), Self.thresholdRange.upperBound)
    }

    private static func milliseconds(_ interval: Interval) -> Double { Double(interval.nanoseconds) / 1e6 }
}
