import MediaRelay
import RTPCore
import RelayCore

/// One life of the control process: the product's journal, its work, the decisions and a webhook's outbox, put together as a
/// node does it, with mailboxes that take their time. The workers' side is in `SimulatedControl+Workers`. Times are the node's.
/// Released it is dead: nothing of it is saved. Confined to one thread.
final class SimulatedControl {
    /// What the world does for it.
    struct World {
        var wallClockMs: (Instant) -> Int64
        /// An answer leaves.
        var answer: (ControlAnswer) -> Void
        /// Bytes of an event stream, or an answered page.
        var write: (_ stream: UInt64, [UInt8]) -> Void
        var close: (_ stream: UInt64) -> Void
        var page: (_ request: UInt64, [UInt8]) -> Void
        var post: (WebhookPost) -> Void
        /// A decision goes to the journal; a transaction up to a turn begins; it is stored and may be told.
        var posted: (JournalEntry) -> Void
        var attempts: (_ turn: UInt64) -> Void
        var stored: (_ turn: UInt64) -> Void
        var commanded: () -> Void
        var isAlive: (_ processID: Int32) -> Bool
        var startWorker: (_ index: Int) -> Int32
        var note: (String) -> Void
    }

    let world: World
    let journal: Journal
    let contents: JournalContents
    let work: JournalWork
    let decisions: ControlDecisions
    let ended: EndedRooms
    private(set) var outbox: WebhookOutbox
    private var random: RandomSource
    private let feedSink: FeedSink
    private let inbox = BatchInbox()
    private let failures: Failures

    /// What waits for the journal's thread, and when that gets to it.
    private var journalMailbox: [JournalCommand] = []
    private(set) var journalDue = Instant.distantFuture
    /// `committed` on its way to the control loop.
    private var commits: [(at: Instant, turn: UInt64)] = []
    private var checkpointDue = Instant.distantFuture
    private let checkpointWanted: Flag

    // Workers.
    var processes: [Int32: WatchedWorker] = [:]
    var peers: [Int: LinkPeer] = [:]
    var nextPeer = 1
    var restarts: [Int: Instant] = [:]
    var backOffs: [Int: RestartBackOff] = [:]
    var supervisorEvents: [SupervisorEvent] = []

    static let workerCount = 2

    /// - Throws: what the disk says while the journal is opened.
    init(
        disk: SimulatedDisk, bootID: String, seed: UInt64, now: Instant, log: Log,
        configuration: ConductorConfiguration,
        hasWebhook: Bool, world: World
    ) throws {
        self.world = world
        random = .seeded(seed)
        journal = try Journal(path: "/journal.sqlite", bootID: bootID, vfs: disk.vfsName)
        contents = try journal.contents()
        ended = try EndedRooms(path: "/journal.sqlite", vfs: disk.vfsName, log: log)
        let isSameBoot = !journal.isFromEarlierBoot
        decisions = ControlDecisions(
            conductor: Conductor(
                from: contents, ended: ended, configuration: configuration, random: .seeded(seed &+ 1),
                isSameBoot: isSameBoot, sounds: SoundLibrary(), log: log))
        feedSink = FeedSink(world)
        let commits = CommitInbox()
        let wanted = Flag()
        let failures = Failures()
        self.failures = failures
        work = JournalWork(
            journal: journal, feed: EventFeed(journal: journal, lastSeq: contents.lastSeq, sink: feedSink),
            retention: JournalRetention(), now: now, clock: { now },
            onCommit: { turn, _ in commits.turns.append(turn) }, onFailure: { failures.texts.append($0) },
            onCheckpointWanted: { wanted.isSet = true })
        commitInbox = commits
        checkpointWanted = wanted
        outbox = WebhookOutbox(
            name: "hook", dialect: .current, limits: .init(), progress: contents.webhooks.first,
            newest: contents.lastSeq, random: .seeded(seed &+ 2), now: now)
        self.hasWebhook = hasWebhook
        startSupervisor(known: isSameBoot ? contents.workers : [], now: now)
    }

    private let commitInbox: CommitInbox
    private let hasWebhook: Bool

    private final class CommitInbox { var turns: [UInt64] = [] }
    private final class Flag { var isSet = false }
    private final class Failures { var texts: [String] = [] }
    private final class BatchInbox: @unchecked Sendable {
        // @unchecked: the journal calls back on the one thread that there is.
        var batches: [(stream: String?, batch: EventBatch)] = []
    }
    private final class FeedSink: EventSink {
        private let world: World
        init(_ world: World) { self.world = world }
        func write(_ stream: UInt64, _ bytes: [UInt8]) { world.write(stream, bytes) }
        func close(_ stream: UInt64) { world.close(stream) }
        func answer(_ request: UInt64, _ json: [UInt8]) { world.page(request, json) }
    }

    // MARK: Time

    func deadline(after now: Instant) -> Instant {
        var deadline = min(journalDue, commits.first?.at ?? .distantFuture)
        deadline = min(deadline, decisions.conductor.deadline)
        deadline = min(deadline, checkpointDue)
        if hasWebhook { deadline = min(deadline, outbox.deadline(after: now)) }
        return min(deadline, supervisorDeadline)
    }

    /// Everything that is due but the journal's turn, which may end the process.
    func advance(to now: Instant) {
        while let first = commits.first, first.at <= now {
            commits.removeFirst()
            decisions.committed(first.turn)
            deliver()
        }
        advanceSupervisor(to: now)
        takeSupervisorEvents(now: now)
        if decisions.conductor.deadline <= now { decide(.timer, now: now) }
        if hasWebhook { advanceOutbox(now: now) }
        if checkpointDue <= now { journalDue = min(journalDue, now) }
        if journalDue == .distantFuture { journalDue = max(now, work.deadline(after: now)) }
    }

    // MARK: Decisions

    func receive(
        _ id: UInt64, _ principal: Principal, _ request: ControlRequest, _ form: ReplyForm, once key: IdempotencyKey?,
        now: Instant
    ) {
        carryOut(
            decisions.decide(
                request: id, from: principal, request, as: form, once: key, now: now,
                wallClockMs: world.wallClockMs(now)),
            now: now)
    }

    func decide(_ input: ConductorInput, now: Instant) {
        carryOut(decisions.decide(input, now: now, wallClockMs: world.wallClockMs(now)), now: now)
    }

    func takeSupervisorEvents(now: Instant) {
        while !supervisorEvents.isEmpty {
            let event = supervisorEvents.removeFirst()
            if case .note(let text) = event { world.note(text) }
            if let step = decisions.decide(on: event, now: now, wallClockMs: world.wallClockMs(now)) {
                carryOut(step, now: now)
            }
        }
    }

    private func carryOut(_ step: ControlStep, now: Instant) {
        for (worker, command) in step.commands { send(command, to: worker, now: now) }
        if let entry = step.entry {
            world.posted(entry)
            post(.store(entry), now: now)
        }
        deliver()
        if !step.commands.isEmpty, step.entry != nil { world.commanded() }
    }

    private func deliver() {
        for answer in decisions.takeAnswers() { world.answer(answer) }
    }

    // MARK: The journal's thread

    func post(_ command: JournalCommand, now: Instant) {
        journalMailbox.append(command)
        // A flush takes its time; what comes meanwhile goes with the next one.
        let draw = random.next()
        let pause = Interval.microseconds(Int64(draw % 32 == 0 ? draw >> 8 % 120_000 : draw >> 8 % 4_000) + 50)
        journalDue = min(journalDue, now + pause)
    }

    /// One turn of the journal. What the disk refused is in the log of the world.
    func journalTurn(now: Instant) {
        journalDue = .distantFuture
        if checkpointDue <= now {
            checkpointDue = .distantFuture
            journalMailbox.append(.checkpointed)
        }
        let batch = journalMailbox
        journalMailbox = []
        var last = work.unstored.last?.turn
        for case .store(let entry) in batch { last = entry.turn }
        if let last { world.attempts(last) }
        _ = work.turn(batch, now: now, wallClockMs: world.wallClockMs(now))
        for turn in commitInbox.turns {
            world.stored(turn)
            commits.append((now + .microseconds(Int64(random.next() % 900)), turn))
        }
        commitInbox.turns = []
        for text in failures.texts { world.note("journal: \(text)") }
        failures.texts = []
        if checkpointWanted.isSet {
            checkpointWanted.isSet = false
            checkpointDue = now + .milliseconds(Int64(random.next() % 60))
        }
        journalDue = max(now, work.deadline(after: now))
    }

    var isJournalIdle: Bool { journalMailbox.isEmpty && work.unstored.isEmpty && commits.isEmpty }

    // MARK: The webhook

    private func advanceOutbox(now: Instant) {
        for (stream, batch) in inbox.batches { outbox.receive(batch, of: stream, now: now) }
        inbox.batches = []
        for action in outbox.advance(to: now, wallClockMs: world.wallClockMs(now)) {
            switch action {
            case .read(let stream, let after, let limit):
                let inbox = inbox
                let request = EventBatchRequest(reader: "hook", after: after, stream: stream, limit: limit) { batch in
                    inbox.batches.append((stream, batch))
                }
                post(.batch(request), now: now)
            case .post(let post): world.post(post)
            case .save(let progress): post(.progress(progress), now: now)
            case .note(let note): world.note("webhook: \(note)")
            }
        }
    }

    func webhookAnswered(_ result: WebhookResult, token: UInt64, now: Instant) {
        outbox.receive(result, for: token, now: now)
        advanceOutbox(now: now)
    }
}
