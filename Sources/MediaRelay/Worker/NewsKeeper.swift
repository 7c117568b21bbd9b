import RTPCore
import RelayCore

/// The news that a worker keeps until control has taken them over (CALLS.md, "When processes die"): from the
/// loss of the link until `.adopted` answers the next hello. Facts only: statistics are of the moment, and who is in
/// which slot stands in the snapshot. Bounded; the oldest make room.
///
/// While adopted it remembers the ends of the last seconds: control may die with them unread, and an end is
/// the one fact that the snapshot of the next hello does not show. Control ignores an end that it knows
/// already. The last counters of removed transports are ends in this, and so are prompts and recordings that
/// are over.
package struct NewsKeeper {
    package static let endMemory = Interval.seconds(10)

    private let limit: Int
    private var kept: [WorkerNews] = []
    private var recentEnds: [(news: WorkerNews, at: Instant)] = []
    package private(set) var isAdopted = false
    package private(set) var droppedCount: UInt64 = 0

    package var keptCount: Int { kept.count }

    package init(limit: Int) {
        precondition(limit > 0, "no room for news")
        self.limit = limit
    }

    /// Notes what happened.
    package mutating func append(_ news: WorkerNews, now: Instant) {
        if isAdopted {
            switch news {
            case .ended, .removed, .played, .recorded: break
            default: return
            }
            forgetOldEnds(now: now)
            if recentEnds.count == limit { recentEnds.removeFirst() }
            recentEnds.append((news, now))
            return
        }
        switch news {
        case .statistics, .slots, .speaker: return
        default: break
        }
        if kept.count == limit {
            kept.removeFirst()
            droppedCount += 1
        }
        kept.append(news)
    }

    /// The news for a hello, in order. What happens after it is kept, beside being told at once.
    package mutating func startHello(now: Instant) -> [WorkerNews] {
        loseLink(now: now)
        return kept
    }

    /// Control has taken over what the hello told; what came after it was told on the same connection.
    package mutating func adopt() {
        isAdopted = true
        kept = []
    }

    /// The connection is gone: from here on everything is kept again.
    package mutating func loseLink(now: Instant) {
        guard isAdopted else { return }
        isAdopted = false
        forgetOldEnds(now: now)
        kept = recentEnds.map(\.news)
        recentEnds = []
    }

    private mutating func forgetOldEnds(now: Instant) {
        let firstKept = recentEnds.firstIndex { now - $0.at <= Self.endMemory } ?? recentEnds.endIndex
        recentEnds.removeFirst(firstKept)
    }
}
