import RTPCore

/// What the journal's thread is asked to do.
package enum JournalCommand: Sendable {
    case store(JournalEntry)
    case subscribe(
        stream: UInt64, after: UInt64?, room: String?, endsWithRoom: Bool, dialect: EventDialect = .current)
    case unsubscribe(stream: UInt64)
    case drained(stream: UInt64)
    case page(EventPageRequest)
    case batch(EventBatchRequest)
    /// A webhook endpoint got further; goes with the next transaction.
    case progress(WebhookProgress)
    /// How much the log holds from now on.
    case retain(JournalRetention)
    /// The checkpointer is done.
    case checkpointed
    case stop
}

/// The thread that owns the journal and the event feed. Everything that waits is stored in one transaction (group commit), then
/// told: `onCommit` names the last turn on disk. When the disk fails, nothing is told or lost: it tries again each second.
package final class JournalThread: @unchecked Sendable {
    // @unchecked: only mailbox and newest number are shared, guarded; the checkpointer is set before the thread starts, journal, feed and retention are made before it starts and used only on it.
    private let mailbox: Mailbox<JournalCommand>
    private let journal: Journal
    private let feed: EventFeed
    private var retention: JournalRetention
    private let onCommit: @Sendable (UInt64) -> Void
    private let onFailure: @Sendable (String) -> Void
    private let measures: NodeMeasures
    private var thread: Thread?
    private var checkpointer: JournalCheckpointer?
    private var isCheckpointing = false
    private let lock = Lock()
    private var sharedNewest: UInt64

    /// Commands that may wait; more than a second of the busiest node's decisions.
    private static let capacity = 65_536
    private static let truncateInterval = Interval.seconds(10)
    /// While there is more to delete than was deleted at once.
    private static let truncatePause = Interval.milliseconds(100)

    package init(
        journal: Journal, feed: EventFeed, retention: JournalRetention,
        onCommit: @escaping @Sendable (UInt64) -> Void, onFailure: @escaping @Sendable (String) -> Void,
        measures: NodeMeasures = NodeMeasures()
    ) throws(SystemError) {
        self.journal = journal
        self.feed = feed
        self.retention = retention
        self.onCommit = onCommit
        self.onFailure = onFailure
        self.measures = measures
        sharedNewest = feed.newest
        mailbox = try Mailbox(capacity: Self.capacity)
    }

    package func start() throws {
        let (mailbox, onFailure) = (mailbox, onFailure)
        let checkpointer = try JournalCheckpointer(
            path: journal.path, onDone: { mailbox.post(.checkpointed) }, onFailure: { onFailure("checkpoint: \($0)") })
        self.checkpointer = checkpointer
        thread = try Thread(named: "journal") { [self] in run() }
    }

    /// The newest event on disk.
    package var newestEvent: UInt64 { lock.withLock { sharedNewest } }

    /// False: too much waits already.
    @discardableResult
    package func post(_ command: JournalCommand) -> Bool { mailbox.post(command) }

    /// Stores what was posted before, then ends the thread.
    package func stop() {
        mailbox.post(.stop)
        thread?.join()
        thread = nil
        checkpointer?.stop()
        checkpointer = nil
    }

    private func run() {
        guard let poller = try? Poller(), (try? poller.add(mailbox.wakeUp.descriptor, token: 0, for: .reading)) != nil
        else { preconditionFailure("the journal thread has no poller") }
        var batch: [JournalCommand] = []
        var unstored: [JournalEntry] = []
        var progress: [WebhookProgress] = []
        // Readers in this process whose batch the disk refused: nobody else would ask again for them.
        var unserved: [JournalCommand] = []
        // Not a deadline: while nothing happens, who lags is about to be told by what it takes.
        var nextLag = MonotonicClock.now()
        var nextTruncate = MonotonicClock.now() + Self.truncateInterval
        var isStopping = false
        while true {
            var now = MonotonicClock.now()
            let isDone = unstored.isEmpty && progress.isEmpty && unserved.isEmpty
            let wait = isDone ? min(feed.deadline, nextTruncate) : now + .seconds(1)
            _ = poller.wait(until: wait, now: now)
            _ = mailbox.wakeUp.clear()
            mailbox.take(into: &batch)
            now = MonotonicClock.now()
            var others = unserved
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
            let isStored = store(&unstored, &progress, now: now)
            if isStopping {
                if !isStored { onFailure("\(unstored.count) decisions could not be stored before the end") }
                return
            }
            unserved = others.filter { !serves($0, now: now) }
            attempt("event feed") { () throws(SQLiteError) in try feed.advance(to: now) }
            if now >= nextLag {
                nextLag = now + .seconds(1)
                measures.eventLag = feed.largestLag
            }
            guard now >= nextTruncate else { continue }
            nextTruncate = now + Self.truncateInterval
            attempt("retention") { () throws(SQLiteError) in
                let hasMore = try journal.truncate(to: retention, lastSeq: feed.newest, nowMs: WallClock.nowMs)
                if hasMore { nextTruncate = now + Self.truncatePause }
            }
        }
    }

    /// Stores and tells; false when the disk refused.
    private func store(_ entries: inout [JournalEntry], _ progress: inout [WebhookProgress], now: Instant) -> Bool {
        guard !entries.isEmpty || !progress.isEmpty else { return true }
        let began = MonotonicClock.now()
        do throws(SQLiteError) {
            try journal.store(entries, progress: progress)
        } catch {
            onFailure("\(error)")
            return false
        }
        progress.removeAll(keepingCapacity: true)
        if journal.wantsCheckpoint, !isCheckpointing, let checkpointer {
            isCheckpointing = true
            checkpointer.request()
        }
        let ended = MonotonicClock.now()
        measures.commit.record(ended - began)
        for decided in entries.compactMap(\.decidedAt) { measures.stored.record(ended - decided) }
        guard let last = entries.last else { return true }
        let events = entries.flatMap(\.events)
        entries.removeAll(keepingCapacity: true)
        if let newest = events.last?.seq { lock.withLock { sharedNewest = newest } }
        onCommit(last.turn)
        attempt("event feed") { () throws(SQLiteError) in try feed.committed(events, now: now) }
        return true
    }

    /// False for what is to be served again.
    private func serves(_ command: JournalCommand, now: Instant) -> Bool {
        do throws(SQLiteError) {
            try serve(command, now: now)
            return true
        } catch {
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
        case .store, .progress, .retain, .checkpointed, .stop: preconditionFailure("stored and stopped elsewhere")
        }
    }

    private func attempt(_ what: String, _ body: () throws(SQLiteError) -> Void) {
        do throws(SQLiteError) { try body() } catch { onFailure("\(what): \(error)") }
    }
}
