import RTPCore

/// What the journal's thread does with what it was asked: everything that waits is stored in one transaction (group
/// commit), then told, then readers are served. When the disk fails nothing is told or lost: the next turn tries again.
/// Owns the journal, the feed and what the disk has refused so far; no thread, mailbox or clock. Confined to one thread.
package final class JournalWork {
    package let journal: Journal
    package let feed: EventFeed
    private var retention: JournalRetention
    private let onCommit: (_ turn: UInt64, _ newest: UInt64) -> Void
    private let onFailure: (String) -> Void
    private let onCheckpointWanted: () -> Void
    /// For the measures only.
    private let clock: () -> Instant
    private let measures: NodeMeasures

    /// Decisions that are not on disk yet, in order: those that the disk refused.
    package private(set) var unstored: [JournalEntry] = []
    private var progress: [WebhookProgress] = []
    /// Readers in this process whose batch the disk refused: nobody else would ask again for them.
    private var unserved: [JournalCommand] = []
    private var nextTruncate: Instant
    /// Not a deadline: while nothing happens, who lags is about to be told by what it takes.
    private var nextLag: Instant
    private var isCheckpointing = false
    /// The disk has refused somebody something in the last turn.
    private var hasFailed = false

    private static let truncateInterval = Interval.seconds(10)
    /// While there is more to delete than was deleted at once.
    private static let truncatePause = Interval.milliseconds(100)
    /// After the disk has refused.
    private static let retryInterval = Interval.seconds(1)

    /// - Parameters:
    ///   - onCommit: names the last turn and the newest event on disk, before any reader is told.
    ///   - onCheckpointWanted: the log has grown long; answered by `.checkpointed` when somebody has moved it back.
    package init(
        journal: Journal, feed: EventFeed, retention: JournalRetention, now: Instant, clock: @escaping () -> Instant,
        measures: NodeMeasures = NodeMeasures(),
        onCommit: @escaping (_ turn: UInt64, _ newest: UInt64) -> Void,
        onFailure: @escaping (String) -> Void, onCheckpointWanted: @escaping () -> Void
    ) {
        self.journal = journal
        self.feed = feed
        self.retention = retention
        self.onCommit = onCommit
        self.onFailure = onFailure
        self.onCheckpointWanted = onCheckpointWanted
        self.clock = clock
        self.measures = measures
        nextTruncate = now + Self.truncateInterval
        nextLag = now
    }

    /// When the next turn is due, whether there is anything new or not.
    package func deadline(after now: Instant) -> Instant {
        let isDone = unstored.isEmpty && progress.isEmpty && unserved.isEmpty && !hasFailed
        return isDone ? min(feed.deadline, nextTruncate) : now + Self.retryInterval
    }

    /// One turn with what was asked since the last one, in order. False: it was asked to stop, and has stored what it could.
    package func turn(_ batch: [JournalCommand], now: Instant, wallClockMs: Int64) -> Bool {
        hasFailed = false
        var others = unserved
        var isStopping = false
        for command in batch {
            switch command {
            case .store(let entry): unstored.append(entry)
            case .progress(let one): progress.append(one)
            case .checkpointed:
                isCheckpointing = false
                // What was committed meanwhile: little.
                attempt("checkpoint") { () throws(SQLiteError) in try journal.checkpoint() }
            case .retain(let limits): retention = limits
            case .stop: isStopping = true
            default: others.append(command)
            }
        }
        let isStored = store(now: now)
        if isStopping {
            if !isStored { onFailure("\(unstored.count) decisions could not be stored before the end") }
            return false
        }
        unserved = others.filter { !serves($0, now: now) }
        attempt("event feed") { () throws(SQLiteError) in try feed.advance(to: now) }
        if now >= nextLag {
            nextLag = now + .seconds(1)
            measures.eventLag = feed.largestLag
        }
        guard now >= nextTruncate else { return true }
        nextTruncate = now + Self.truncateInterval
        attempt("retention") { () throws(SQLiteError) in
            let hasMore = try journal.truncate(to: retention, lastSeq: feed.newest, nowMs: wallClockMs)
            if hasMore { nextTruncate = now + Self.truncatePause }
        }
        return true
    }

    /// Stores and tells; false when the disk refused.
    private func store(now: Instant) -> Bool {
        guard !unstored.isEmpty || !progress.isEmpty else { return true }
        let began = clock()
        do throws(SQLiteError) {
            try journal.store(unstored, progress: progress)
        } catch {
            onFailure("\(error)")
            return false
        }
        progress.removeAll(keepingCapacity: true)
        if journal.wantsCheckpoint, !isCheckpointing {
            isCheckpointing = true
            onCheckpointWanted()
        }
        let ended = clock()
        measures.commit.record(ended - began)
        for decided in unstored.compactMap(\.decidedAt) { measures.stored.record(ended - decided) }
        guard let last = unstored.last else { return true }
        let events = unstored.flatMap(\.events)
        unstored.removeAll(keepingCapacity: true)
        onCommit(last.turn, events.last?.seq ?? feed.newest)
        attempt("event feed") { () throws(SQLiteError) in try feed.committed(events, now: now) }
        return true
    }

    /// False for what is to be served again.
    private func serves(_ command: JournalCommand, now: Instant) -> Bool {
        do throws(SQLiteError) {
            try serve(command, now: now)
            return true
        } catch {
            hasFailed = true
            onFailure("event feed: \(error)")
            if case .batch = command { return false }
            return true
        }
    }

    private func serve(_ command: JournalCommand, now: Instant) throws(SQLiteError) {
        switch command {
        case .subscribe(let stream, let after, let room, let endsWithRoom, let dialect):
            try feed.subscribe(
                stream, after: after, room: room, endsWithRoom: endsWithRoom, dialect: dialect, now: now)
        case .unsubscribe(let stream): feed.unsubscribe(stream)
        case .drained(let stream): try feed.drained(stream, now: now)
        case .page(let request): try feed.page(request, now: now)
        case .batch(let request): try feed.batch(request)
        case .releasePages: try feed.releasePages(now: now)
        case .store, .progress, .retain, .checkpointed, .stop: preconditionFailure("stored and stopped elsewhere")
        }
    }

    private func attempt(_ what: String, _ body: () throws(SQLiteError) -> Void) {
        do throws(SQLiteError) {
            try body()
        } catch {
            hasFailed = true
            onFailure("\(what): \(error)")
        }
    }
}
