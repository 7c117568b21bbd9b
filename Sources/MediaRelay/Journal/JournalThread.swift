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
    /// Whoever waits for a page gets it as it is.
    case releasePages
    /// The checkpointer is done.
    case checkpointed
    case stop
}

/// The thread of the journal and the event feed: gives what is posted to a `JournalWork`, which stores and tells it.
/// `onCommit` names the last turn on disk. Owns the mailbox and the checkpointer.
package final class JournalThread: @unchecked Sendable {
    // @unchecked: only mailbox and newest number are shared, guarded; the checkpointer is set before the thread starts;
    // journal and feed are made before it starts and used only on it.
    private let mailbox: Mailbox<JournalCommand>
    private let journal: Journal
    private let feed: EventFeed
    private let retention: JournalRetention
    private let onCommit: @Sendable (UInt64) -> Void
    private let onFailure: @Sendable (String) -> Void
    private let measures: NodeMeasures
    private var thread: Thread?
    private var checkpointer: JournalCheckpointer?
    private let lock = Lock()
    private var sharedNewest: UInt64

    /// Commands that may wait; more than a second of the busiest node's decisions.
    private static let capacity = 65_536

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
        thread = try Thread(named: "journal") { [self] in run(checkpointer) }
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

    private func run(_ checkpointer: JournalCheckpointer) {
        guard let poller = try? Poller(), (try? poller.add(mailbox.wakeUp.descriptor, token: 0, for: .reading)) != nil
        else { preconditionFailure("the journal thread has no poller") }
        let work = JournalWork(
            journal: journal, feed: feed, retention: retention, now: MonotonicClock.now(),
            clock: { MonotonicClock.now() }, measures: measures,
            onCommit: { [self] turn, newest in
                lock.withLock { sharedNewest = newest }
                onCommit(turn)
            },
            onFailure: onFailure, onCheckpointWanted: { checkpointer.request() })
        var batch: [JournalCommand] = []
        var isRunning = true
        while isRunning {
            let now = MonotonicClock.now()
            _ = poller.wait(until: work.deadline(after: now), now: now)
            _ = mailbox.wakeUp.clear()
            mailbox.take(into: &batch)
            isRunning = work.turn(batch, now: MonotonicClock.now(), wallClockMs: WallClock.nowMs)
        }
    }
}
