import Foundation
import MediaRelay
import RTPCore

/// Durations of one kind, in milliseconds.
struct Samples {
    private var samples: [(value: Double, start: Instant)] = []
    private var isSorted = true

    var count: Int { samples.count }

    mutating func add(from start: Instant, to end: Instant) {
        samples.append((Double((end - start).nanoseconds) / 1_000_000, start))
        isSorted = false
    }

    /// Of something that ends now.
    mutating func add(_ interval: Interval) {
        let now = MonotonicClock.now()
        add(from: now - interval, to: now)
    }

    mutating func append(_ other: Samples) {
        samples += other.samples
        isSorted = false
    }

    /// Nil for none.
    mutating func quantile(_ q: Double) -> Double? {
        guard !samples.isEmpty else { return nil }
        if !isSorted { samples.sort { $0.value < $1.value } }
        isSorted = true
        return samples[min(count - 1, Int(Double(count) * q))].value
    }

    /// Those in which the machine was not held.
    func whole(_ probe: MachineProbe) -> Samples {
        var rest = self
        rest.samples.removeAll {
            probe.wasHeld(from: $0.start, to: $0.start + .nanoseconds(Int64($0.value * 1_000_000)))
        }
        return rest
    }
}

/// What the load program prints: progress on standard error, figures and a last line of passes and failures on standard
/// output; with `--json` one object a line, as RelayBench does.
final class LoadReport: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    let isJSON: Bool
    private var lastProgress = Instant(nanoseconds: 0)
    private(set) var passed = 0
    private(set) var failed = 0

    init(isJSON: Bool) { self.isJSON = isJSON }

    func say(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }

    /// At most once in two seconds.
    func progress(_ now: Instant, _ text: @autoclosure () -> String) {
        guard now - lastProgress >= .seconds(2) else { return }
        lastProgress = now
        say("     " + text())
    }

    func line(_ text: String) { if !isJSON { show(text) } }

    /// Unbuffered, so that lines keep their place among those of standard error.
    private func show(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

    func figure(_ metric: String, _ value: Double?, _ unit: String, _ context: [(String, String)] = []) {
        guard isJSON, let value else { return }
        let fields = context.map { "\"\($0)\":\($1)" }.joined(separator: ",")
        show("{\"metric\":\"\(metric)\",\"value\":\(Self.number(value)),\"unit\":\"\(unit)\",\"context\":{\(fields)}}")
    }

    /// Any line of JSON.
    func object(_ object: [String: Any]) {
        guard isJSON, let data = try? JSONSerialization.data(withJSONObject: object, options: [.sortedKeys]) else {
            return
        }
        show(String(decoding: data, as: UTF8.self))
    }

    static func number(_ value: Double) -> String { String(format: "%.4g", value) }

    static func ms(_ value: Double?) -> String { value.map { String(format: "%.2f ms", $0) } ?? "-" }

    /// What one scenario checked.
    func count(_ name: String, passed: Int, failed: Int, faults: [String]) {
        self.passed += passed
        self.failed += failed
        for fault in faults.prefix(20) { say("FAIL \(name): \(fault)") }
        line("\(name): \(passed) passed, \(failed) failed")
        figure("\(name)_failed", Double(failed), "count", [("passed", "\(passed)")])
    }
}
