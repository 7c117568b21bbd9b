import RTPCore
import RelayCore

/// Counts how long something took, in buckets that grow by about a quarter each, from 0.1 ms to 1 s: enough for a percentile
/// within a tenth of a decade. Any thread; recording is a few instructions under a lock.
package final class LatencyHistogram: @unchecked Sendable {
    // @unchecked: everything mutable is touched under `lock` only.
    package struct Snapshot: Hashable, Sendable {
        /// One for each of `bounds`, and last what took longer than the highest; not cumulative.
        package var counts: [UInt64]
        package var sum = Interval.zero
        package var count: UInt64 { counts.reduce(0, +) }
    }

    /// Upper bounds, microseconds.
    package static let bounds: [Int64] =
        [100, 1_000, 10_000, 100_000].flatMap { decade in
            [1_000, 1_250, 1_600, 2_000, 2_500, 3_150, 4_000, 5_000, 6_300, 8_000].map { $0 * decade / 1_000 }
        } + [1_000_000]

    private let lock = Lock()
    private var counts = [UInt64](repeating: 0, count: bounds.count + 1)
    private var sum = Interval.zero

    package init() {}

    /// What lies below zero (clocks of two threads) counts as zero.
    package func record(_ interval: Interval) {
        let time = max(interval, .zero)
        // A duration that lies on a bound belongs below it, as Prometheus' `le` says.
        let index = Self.bounds.firstIndex { time <= .microseconds($0) } ?? Self.bounds.count
        lock.withLock {
            counts[index] += 1
            sum = sum + time
        }
    }

    package var snapshot: Snapshot { lock.withLock { Snapshot(counts: counts, sum: sum) } }
}

/// The durations that a node measures of itself.
package final class RelayTimings: Sendable {
    /// One transaction of the journal, flushed to disk.
    package let commit = LatencyHistogram()
    /// From a decision to its being on disk: the wait for the transaction before, and its own.
    package let stored = LatencyHistogram()
    /// From a request that lets a prepared participant join, as it was read, to the worker's opening of the gate.
    package let gate = LatencyHistogram()
    package init() {}
}

/// Remembers which gates a request is opening, until the worker says that they are open. Confined to the control loop.
package struct GateWatch {
    private var asked: [ParticipantHandle: Instant] = [:]
    /// Those whose worker never answers must not stay for ever: when there are so many, all are forgotten.
    package static let limit = 4_096

    package init() {}

    package mutating func note(_ handle: ParticipantHandle, askedAt: Instant) {
        if asked.count >= Self.limit { asked.removeAll(keepingCapacity: true) }
        asked[handle] = askedAt
    }

    /// How long the gate took; nil when no request is known to have opened it.
    package mutating func opened(_ handle: ParticipantHandle, at instant: Instant) -> Interval? {
        asked.removeValue(forKey: handle).map { instant - $0 }
    }
}
