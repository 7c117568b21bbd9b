extension [Double] {
    /// The middle value; 0 for none.
    var median: Double { quantile(0.5) }

    /// Linear between the two nearest values.
    func quantile(_ q: Double) -> Double {
        guard !isEmpty else { return 0 }
        let sorted = sorted()
        let position = q * Double(count - 1)
        let below = Int(position)
        let above = Swift.min(below + 1, count - 1)
        return sorted[below] + (sorted[above] - sorted[below]) * (position - Double(below))
    }
}

/// A median with its quartiles.
struct Spread: Hashable, Sendable {
    var low: Double
    var median: Double
    var high: Double

    init(_ values: [Double]) {
        low = values.quantile(0.25)
        median = values.median
        high = values.quantile(0.75)
    }
}
