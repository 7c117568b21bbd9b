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

    /// The longest stretch of x in which nothing was higher than all before. What grows all the time has none that is long: a
    /// process that loses b bytes in each call takes another page after 4,096 / b calls. A step or two, such as a burst leaves that was
    /// larger than all before, do not matter.
    var longestPlateau: Double {
        guard var highest = points.first else { return 0 }
        var longest = 0.0
        for point in points {
            longest = max(longest, point.x - highest.x)
            if point.y > highest.y { highest = point }
        }
        return longest
    }

    /// How much the line rises from the first sample to the last.
    var rise: Double {
        guard let slope, let first = points.first, let last = points.last else { return 0 }
        return slope.value * (last.x - first.x)
    }
}
