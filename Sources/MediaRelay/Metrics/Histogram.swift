import RTPCore

/// Counts values in buckets, as Prometheus reads them. Any thread; recording is a search among some forty bounds and an addition
/// under a lock.
package final class Histogram: @unchecked Sendable {
    // @unchecked: everything mutable is touched under `lock` only.
    package struct Snapshot: Hashable, Sendable {
        /// Upper bounds, ascending; what lies above the highest counts behind it.
        package let bounds: [Double]
        /// One for each bound and one more; not cumulative.
        package var counts: [UInt64]
        package var sum = 0.0
        package var count: UInt64 { counts.reduce(0, +) }
    }

    private let lock = Lock()
    private var state: Snapshot

    package init(bounds: [Double]) {
        precondition(zip(bounds, bounds.dropFirst()).allSatisfy { $0 < $1 }, "bounds ascend")
        state = Snapshot(bounds: bounds, counts: Array(repeating: 0, count: bounds.count + 1))
    }

    /// A value that lies on a bound belongs below it, as Prometheus' `le` says; one below zero (clocks of two threads) is zero.
    package func record(_ value: Double) {
        let value = max(0, value)
        lock.withLock {
            state.counts[state.bounds.firstIndex { value <= $0 } ?? state.bounds.count] += 1
            state.sum += value
        }
    }

    /// In seconds.
    package func record(_ interval: Interval) { record(Double(interval.nanoseconds) / 1_000_000_000) }

    package var snapshot: Snapshot { lock.withLock { state } }
}

extension Histogram {
    /// Seconds, 0.1 ms to 1 s, each about a quarter more: enough for a percentile within a tenth of a decade.
    package static let fineSeconds: [Double] =
        [100, 1_000, 10_000, 100_000].flatMap { (decade: Double) in
            [1_000, 1_250, 1_600, 2_000, 2_500, 3_150, 4_000, 5_000, 6_300, 8_000].map { $0 * decade / 1_000_000_000 }
        } + [1]
    /// Seconds that a human waits.
    package static let waitSeconds: [Double] = [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 30]
    /// Seconds of jitter; 0.03 and 0.08 are where quality is fair and poor.
    package static let jitterSeconds: [Double] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.15, 0.3]
    /// Seconds of a round trip; 0.2 and 0.4 are where quality is fair and poor.
    package static let roundTripSeconds: [Double] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1, 2]
    /// A part of one; 0.02 and 0.1 are where quality is fair and poor.
    package static let lossRatios: [Double] = [0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5]
}
