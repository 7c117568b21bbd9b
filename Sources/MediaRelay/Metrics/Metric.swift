/// What one family of `/metrics` is: the text format, docs/metrics.md and the worker's counters are made of it. Names, units and
/// labels are a contract: dashboards and alerts name them.
package struct Metric: Sendable {
    package enum Kind: String, Sendable { case counter, gauge, histogram }

    package let name: String
    package let kind: Kind
    package let help: String
    /// In the order in which samples give their values.
    package let labels: [String]
    /// What a label can be, for the reference; empty where it is open.
    package let values: [String]
    /// What a worker's whole number is multiplied by.
    package let scale: Double

    init(
        _ name: String, _ kind: Kind, _ help: String, labels: [String] = [], values: [String] = [], scale: Double = 1
    ) {
        self.name = "media_relay_\(name)"
        self.kind = kind
        self.help = help
        self.labels = labels
        self.values = values
        self.scale = scale
    }

    /// docs/metrics.md.
    package static var reference: String {
        var text = """
            # Metrics

            Written by `media-relay metrics reference`; a test compares this page with the code. What they mean together, alerts and a dashboard:
            [operations](operations.md#watching-it). All are of this process' life: control's begin anew when control starts, a worker's
            (label `worker`, its index) when that worker starts. Durations are in seconds, sizes in bytes, ratios between 0 and 1.

            Process metrics of control have the usual names (`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds`,
            `process_max_fds`, `process_start_time_seconds`).


            """
        for (title, metrics) in groups {
            text += "## \(title)\n\n| name | type | labels | meaning |\n|---|---|---|---|\n"
            for metric in metrics {
                var labels = metric.labels.map { "`\($0)`" }.joined(separator: ", ")
                if !metric.values.isEmpty { labels += ": " + metric.values.joined(separator: ", ") }
                text += "| `\(metric.name)` | \(metric.kind.rawValue) | \(labels) | \(metric.help) |\n"
            }
            text += "\n"
        }
        text.removeLast()
        return text
    }
}
