/// A straight line through samples: whether something grows.
struct Trend {
    private(set) var points: [(x: Double, y: Double)] = []

    mutating func add(_ x: Double, _ y: Double) { points.append((x, y)) }

    /// Only what was sampled at `x` or behind it.
    func from(_ x: Double) -> Trend {
        var rest = Trend()
        rest.points = points.filter { $0.x >= x }
        return rest
    }

    var mean: Double { points.isEmpty ? 0 : points.reduce(0) { $0 + $1.y } / Double(points.count) }

    /// Least squares: y per x, and its standard error. Nil for fewer than three points.
    var slope: (value: Double, error: Double)? {
        guard points.count > 2 else { return nil }
        let n = Double(points.count)
        let meanX = points.reduce(0) { $0 + $1.x } / n
        let meanY = mean
        let xx = points.reduce(0) { $0 + ($1.x - meanX) * ($1.x - meanX) }
        guard xx > 0 else { return nil }
        let value = points.reduce(0) { $0 + ($1.x - meanX) * ($1.y - meanY) } / xx
        let rest = points.reduce(0) { sum, point in
            let off = point.y - meanY - value * (point.x - meanX)
            return sum + off * off
        }
        return (value, (rest / (n - 2) / xx).squareRoot())
    }

    /// The longest stretch of x in which the highest y so far rises by `rise` at most. What grows all the time has none that is
    /// long; a step or two, such as a burst leaves that was larger than all before, do not matter.
    func longestPlateau(rise: Double) -> Double {
        var highest: [(x: Double, y: Double)] = []
        var begin = 0
        var longest = 0.0
        for point in points {
            highest.append((point.x, max(point.y, highest.last?.y ?? point.y)))
            while highest[highest.count - 1].y - highest[begin].y > rise { begin += 1 }
            longest = max(longest, point.x - highest[begin].x)
        }
        return longest
    }

    /// How much the line rises from the first sample to the last.
    var rise: Double {
        guard let slope, let first = points.first, let last = points.last else { return 0 }
        return slope.value * (last.x - first.x)
    }
}
