/// Prometheus' text format (version 0.0.4): families with help and type, samples with labels. Writes what it is given, in order.
struct MetricsText {
    private(set) var text = ""

    /// Samples of a family without labels, or with one set of label values each.
    mutating func add(_ metric: Metric, _ samples: [([String], Double)]) {
        guard !samples.isEmpty else { return }
        begin(metric)
        for (values, value) in samples { line(metric.name, labels(metric, values), value) }
    }

    mutating func add(_ metric: Metric, _ value: some BinaryInteger) { add(metric, [([], Double(value))]) }

    mutating func add(_ metric: Metric, _ histograms: [([String], Histogram)]) {
        begin(metric)
        for (values, histogram) in histograms {
            let snapshot = histogram.snapshot
            let outer = labels(metric, values)
            var total: UInt64 = 0
            for (index, count) in snapshot.counts.enumerated() {
                total += count
                let bound = index < snapshot.bounds.count ? "\(snapshot.bounds[index])" : "+Inf"
                line("\(metric.name)_bucket", outer + ["le=\"\(bound)\""], Double(total))
            }
            line("\(metric.name)_sum", outer, snapshot.sum)
            line("\(metric.name)_count", outer, Double(total))
        }
    }

    /// A family of another convention.
    mutating func add(foreign name: String, _ kind: Metric.Kind, _ help: String, _ value: Double) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
        line(name, [], value)
    }

    private mutating func begin(_ metric: Metric) {
        text += "# HELP \(metric.name) \(metric.help)\n# TYPE \(metric.name) \(metric.kind.rawValue)\n"
    }

    private func labels(_ metric: Metric, _ values: [String]) -> [String] {
        precondition(values.count == metric.labels.count, "\(metric.name) has the labels \(metric.labels)")
        return zip(metric.labels, values).map { "\($0)=\"\(Self.escaped($1))\"" }
    }

    private mutating func line(_ name: String, _ labels: [String], _ value: Double) {
        let set = labels.isEmpty ? "" : "{\(labels.joined(separator: ","))}"
        text += "\(name)\(set) \(Self.number(value))\n"
    }

    /// Whole numbers without a point, up to where a double holds every one.
    private static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 9e15 ? "\(Int64(value))" : "\(value)"
    }

    private static func escaped(_ value: String) -> String {
        var result = ""
        for character in value {
            switch character {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.append(character)
            }
        }
        return result
    }
}
