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

    /// The median of the slopes between all pairs (Theil and Sen): what grows all the time shows in it, a step or two do not,
    /// such as a burst leaves that was larger than all before. Nil for fewer than three points.
    var medianSlope: Double? {
        guard points.count > 2 else { return nil }
        var slopes: [Double] = []
        for (index, point) in points.enumerated() {
            for later in points[(index + 1)...] where later.x != point.x {
                slopes.append((later.y - point.y) / (later.x - point.x))
            }
        }
        slopes.sort()
        return slopes.isEmpty ? nil : slopes[slopes.count / 2]
    }

    /// How much the line rises from the first sample to the last.
    var rise: Double {
        guard let slope, let first = points.first, let last = points.last else { return 0 }
        return slope.value * (last.x - first.x)
    }
}
