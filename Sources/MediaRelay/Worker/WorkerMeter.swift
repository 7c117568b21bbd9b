import CLinuxIO
import RTPCore
import RelayCore

/// What the worker carries, measured beside the media loop's work at no cost to a packet: a comparison a turn, a report a second.
/// One thread.
package struct WorkerMeter {
    static let interval = Interval.seconds(1)
    /// When the next report is due.
    package private(set) var due: Instant
    /// Since when the sockets have not been seen empty; nil: they were, the last time.
    private var behindSince: Instant?
    private var longestBacklog = Interval.zero

    package init(now: Instant) { due = now + Self.interval }

    /// A turn that began at `began` has read its share of the sockets, and all that there was or not.
    package mutating func note(isEmpty: Bool, began: Instant, now: Instant) {
        if !isEmpty {
            if behindSince == nil { behindSince = began }
        } else if let since = behindSince {
            longestBacklog = max(longestBacklog, now - since)
            behindSince = nil
        }
    }

    /// The longest time since the last call in which the sockets were not seen empty.
    package mutating func takeBacklog(now: Instant) -> Interval {
        defer { longestBacklog = .zero }
        return max(longestBacklog, behindSince.map { now - $0 } ?? .zero)
    }

    mutating func report(now: Instant, cpu: Interval, packets: UInt64, handshakerSteps: UInt64) -> WorkerLoad {
        due = now + Self.interval
        return WorkerLoad(
            at: now, cpu: cpu, packets: packets, backlog: takeBacklog(now: now),
            residentBytes: UInt64(max(0, lio_resident_bytes())), handshakerSteps: handshakerSteps)
    }
}
