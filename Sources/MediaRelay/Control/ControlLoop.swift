import RTPCore
import RelayCore

/// What reaches the control loop from the HTTP thread and the journal.
package enum ControlMessage: Sendable {
    /// `readAt`: when the request had come whole. `once`: it may come twice and is carried out once.
    case request(
        UInt64, Principal, ControlRequest, ReplyForm, readAt: Instant = MonotonicClock.now(),
        once: IdempotencyKey? = nil)
    /// Everything up to this turn is on disk.
    case committed(turn: UInt64)
    /// What prompts may name from now on.
    case sounds(SoundLibrary)
    /// From what on a worker takes nobody new.
    case admission(AdmissionBounds)
    /// Nobody reads this capture any more.
    case stopCapture(CaptureID, WorkerID)
    /// Decide nothing more, keep everything: another program goes on in this process.
    case handOver
    /// End every room with `drained`, wait for the workers to say goodbye, stop.
    case drain
}

/// What an answer is to become once its turn is stored.
package enum ReplyForm: Sendable, Equatable {
    /// The HTTP answer of the request itself.
    case response
    /// The SDP answer of a session in this room.
    case session(RoomID)
    /// An event stream of the room, if the caller may look at it.
    case roomEvents(after: UInt64, dialect: EventDialect = .current)
    /// The call record of an ended room, if the caller may look at it, with this user's view.
    case call(uid: String)
    /// The stream of a capture.
    case capture
    /// A page of the room's events.
    case roomEventPage(after: UInt64, limit: Int, until: Instant, dialect: EventDialect = .current)
    /// The demo page's token for `uid` in the room that was made or found.
    case demo(uid: String, name: String, kind: RoomKind, attempt: Int)
}

/// Where answers go: implemented by the API, called on the control loop's thread.
package protocol ReplySink: AnyObject, Sendable {
    func deliver(_ reply: ControlReply, to request: UInt64, as form: ReplyForm)
    /// A worker told a part of a capture.
    func captured(_ part: CapturePart)
    /// Nothing more comes of this worker's captures.
    func endCaptures(of worker: WorkerID)
}

/// Numbers for `/metrics`, `/readyz` and `/v1/node`, as of the last turn.
package struct ControlStatus: Sendable {
    package var isReady = false
    package var isDraining = false
    /// The operator's drain.
    package var drain: DrainRecord?
    package var workers = 0
    package var counts = ConductorCounts()
    package var events: UInt64 = 0
    package var turns: UInt64 = 0
    /// Turns that wait for the disk.
    package var uncommitted: UInt64 = 0
    package var admissions: [(index: Int, refusal: Refusal?, admission: WorkerAdmission)] = []
    package var refusals: [Refusal: UInt64] = [:]
    /// By index, from the start on.
    package var workerStates: [Int: WorkerState] = [:]
    /// What connected workers speak.
    package var linkVersions: Set<UInt8> = []
    package init() {}

    package var readiness: Readiness { isDraining ? .draining : isReady ? .ready : .notReady }
}

/// What control knows of the worker of one index.
package struct WorkerState: Sendable {
    /// Nil: its seat is served from the seat's other index.
    package var isConnected: Bool?
    /// How many processes of this index have ended in this life of control.
    package var exits: UInt64 = 0
    /// The latest counters and when they came; none since the process is gone.
    package var counters: [WorkerCounter] = []
    package var reportedAt: Instant?
    package init() {}
}

/// What `/readyz` says to load balancers.
package enum Readiness: String, Sendable {
    case ready
    /// No worker is connected.
    case notReady = "not ready"
    /// No new rooms: send them elsewhere.
    case draining
}

/// The thread that decides: requests, workers' news and timers enter the conductor one at a time. Commands leave in the deciding
/// turn; events and rooms go to the journal; answers wait until their turn is on disk. Owns conductor and supervisor.
package final class ControlLoop: @unchecked Sendable {
    // @unchecked: mailbox and status are shared and guarded; everything else is used on the loop's thread only.
    private let mailbox: Mailbox<ControlMessage>
    private let poller: Poller
    private let journal: JournalThread
    private let sink: any ReplySink
    private let log: Log
    private let measures: NodeMeasures
    private var gates = GateWatch()
    private let statusLock = Lock()
    private var sharedStatus = ControlStatus()

    private let decisions: ControlDecisions
    private let supervisor: WorkerSupervisor
    private var workerStates: [Int: WorkerState] = [:]
    private var nextStatus = Instant(nanoseconds: 0)
    private var drainDeadline: Instant?
    private var isHandingOver = false
    /// Workers that are to leave when they are empty: their end is no fault.
    private var retiring: Set<WorkerID> = []
    /// Called once, when the workers of the control process before this one are back, or have been waited for.
    private var onWorkersBack: (() -> Void)?
    private let workersBackLimit: Instant
    private var thread: Thread?

    private static let mailboxToken: UInt64 = 0
    package static let firstSupervisorToken: UInt64 = 1

    package init(
        conductor: Conductor, supervisor: WorkerSupervisor, poller: Poller, journal: JournalThread,
        sink: any ReplySink, mailbox: Mailbox<ControlMessage>, log: Log, measures: NodeMeasures = NodeMeasures(),
        onWorkersBack: (@Sendable () -> Void)? = nil
    ) throws(SystemError) {
        decisions = ControlDecisions(conductor: conductor)
        self.supervisor = supervisor
        self.poller = poller
        self.journal = journal
        self.sink = sink
        self.mailbox = mailbox
        self.log = log
        self.measures = measures
        self.onWorkersBack = onWorkersBack
        workersBackLimit = MonotonicClock.now() + conductor.configuration.workerWait
        try poller.add(mailbox.wakeUp.descriptor, token: Self.mailboxToken, for: .reading)
    }

    package func start() throws(SystemError) {
        thread = try Thread(named: "control") { [self] in run() }
    }

    /// Waits until the loop has ended (after `.drain` or `.handOver`).
    package func join() {
        thread?.join()
        thread = nil
    }

    package var status: ControlStatus { statusLock.withLock { sharedStatus } }

    // MARK: The loop

    private func run() {
        var batch: [ControlMessage] = []
        while !isFinished {
            var now = MonotonicClock.now()
            let deadline = min(min(decisions.conductor.deadline, supervisor.deadline), nextStatus)
            let count = poller.wait(until: deadline, now: now)
            now = MonotonicClock.now()
            for index in 0..<count {
                let event = poller.event(at: index)
                if supervisor.owns(event.token) { supervisor.receive(event, now: now) }
            }
            _ = mailbox.wakeUp.clear()
            mailbox.take(into: &batch)
            for message in batch { receive(message) }
            if supervisor.deadline <= now { supervisor.advance(to: now) }
            takeSupervisorEvents()
            if decisions.conductor.deadline <= MonotonicClock.now() { decide(.timer) }
            if onWorkersBack != nil { tellWorkersBack(now: now) }
            if now >= nextStatus { publishStatus(now: now) }
        }
    }

    /// Who comes now is not told that there is no worker.
    private func tellWorkersBack(now: Instant) {
        guard supervisor.awaitedCount == 0 && !supervisor.connectedWorkers.isEmpty || now >= workersBackLimit else {
            nextStatus = min(nextStatus, workersBackLimit)
            return
        }
        onWorkersBack?()
        onWorkersBack = nil
    }

    private var isFinished: Bool {
        if isHandingOver { return decisions.isQuiet }
        guard let drainDeadline else { return false }
        return (decisions.isQuiet && supervisor.isEmpty) || MonotonicClock.now() >= drainDeadline
    }

    private func receive(_ message: ControlMessage) {
        switch message {
        case .request(let id, let principal, let request, let form, let readAt, let key):
            let now = MonotonicClock.now()
            carryOut(
                decisions.decide(
                    request: id, from: principal, request, as: form, once: key, now: now, wallClockMs: WallClock.nowMs),
                now: now, askedAt: readAt)
        case .committed(let turn):
            decisions.committed(turn)
            deliverAnswers()
        case .sounds(let library): decisions.conductor.use(library)
        case .stopCapture(let id, let worker):
            supervisor.send(.stopCapture(id), to: worker, now: MonotonicClock.now())
        case .admission(let bounds): decisions.conductor.use(bounds)
        case .handOver: isHandingOver = true
        case .drain:
            guard drainDeadline == nil else { return }
            log.write(.info, "ending all rooms: the node drains")
            drainDeadline = MonotonicClock.now() + .seconds(5)
            decide(.drain)
            supervisor.shutDown(now: MonotonicClock.now())
        }
    }

    private func takeSupervisorEvents() {
        for event in supervisor.takeEvents() {
            tell(event)
            let now = MonotonicClock.now()
            if let step = decisions.decide(on: event, now: now, wallClockMs: WallClock.nowMs) {
                carryOut(step, now: now)
            }
        }
    }

    /// What of it is for the log and the metrics.
    private func tell(_ event: SupervisorEvent) {
        switch event {
        case .hello(let hello):
            publishSoon()
            log.write(
                .info, "worker connected", .init("worker", .integer(Int64(hello.worker.index))),
                .init("pid", .integer(Int64(hello.processID))),
                .init("transports", .integer(Int64(hello.transports.count))))
        case .news(_, .joined(let handle, let at)):
            if let time = gates.opened(handle, at: at) { measures.gate.record(time) }
        case .detached(let worker): sink.endCaptures(of: worker)
        case .captured(_, let part): sink.captured(part)
        case .retiring(let worker):
            retiring.insert(worker)
            log.write(
                .info, "worker of an earlier build retires: its rooms end there, new ones go elsewhere",
                .init("worker", .integer(Int64(worker.index))))
        case .counters(let worker, let counters):
            workerStates[worker.index, default: WorkerState()].counters = counters
            workerStates[worker.index]?.reportedAt = MonotonicClock.now()
        case .gone(let worker, let cause):
            publishSoon()
            let isExpected = drainDeadline != nil || retiring.remove(worker) != nil
            noteEnd(of: worker, isExpected: isExpected)
            sink.endCaptures(of: worker)
            log.write(
                isExpected ? .info : .error, "worker gone",
                .init("worker", .integer(Int64(worker.index))), .init("cause", .string(cause)))
        case .note(let text): log.write(.info, text)
        case .news, .load: break
        }
    }

    private func noteEnd(of worker: WorkerID, isExpected: Bool) {
        var state = WorkerState()
        state.exits = (workerStates[worker.index]?.exits ?? 0) + (isExpected ? 0 : 1)
        workerStates[worker.index] = state
    }

    private func decide(_ input: ConductorInput) {
        let now = MonotonicClock.now()
        carryOut(decisions.decide(input, now: now, wallClockMs: WallClock.nowMs), now: now)
    }

    /// What follows from a decision at once. `askedAt`: when the request was read.
    private func carryOut(_ step: ControlStep, now: Instant, askedAt: Instant? = nil) {
        for (worker, command) in step.commands { supervisor.send(command, to: worker, now: now) }
        for event in step.events { log.write(event) }
        for measure in step.measures { measures.record(measure) }
        // Join commands open gates of those whose keys are in.
        if let askedAt { for handle in step.joins { gates.note(handle, askedAt: askedAt) } }
        if let entry = step.entry {
            let isAccepted = journal.post(.store(entry))
            precondition(isAccepted, "the journal does not keep up with 65,536 decisions")
        }
        if step.drain != nil {
            // Before the answer: whoever has it asks /readyz next.
            publishStatus(now: now)
            log.write(.info, drainSentence(step.drain))
        }
        deliverAnswers()
    }

    private func drainSentence(_ change: DrainChange?) -> String {
        guard case .put(let record) = change else { return "the drain is over" }
        if record.drainedAtMs != nil { return "drained: no room is left, \(record.endedRooms) were ended" }
        return "the node drains: no new rooms, what is left ends at \(Timestamp.text(ofMs: record.deadlineMs))"
    }

    private func deliverAnswers() {
        for answer in decisions.takeAnswers() { sink.deliver(answer.reply, to: answer.request, as: answer.form) }
    }

    /// `/readyz` follows the workers at once, not with the next half second.
    private func publishSoon() { nextStatus = Instant(nanoseconds: 0) }

    private func publishStatus(now: Instant) {
        nextStatus = now + .milliseconds(500)
        var status = ControlStatus()
        let connected = supervisor.connectedWorkers
        status.workers = connected.count
        status.drain = decisions.conductor.drain
        status.isDraining = drainDeadline != nil || status.drain != nil
        status.isReady = status.workers > 0 && !status.isDraining
        status.counts = decisions.conductor.counts
        status.events = decisions.eventCount
        status.turns = decisions.turn
        status.uncommitted = decisions.uncommitted
        status.admissions = decisions.conductor.workerAdmissions
        status.refusals = decisions.conductor.refusals
        status.linkVersions = supervisor.linkVersions
        status.workerStates = workerStates
        for worker in connected { status.workerStates[worker.index, default: WorkerState()].isConnected = true }
        for seat in 0..<supervisor.configuration.workerCount {
            let indices = supervisor.configuration.indices(ofSeat: seat)
            guard !connected.contains(where: { indices.contains($0.index) }), let index = indices.first else {
                continue
            }
            status.workerStates[index, default: WorkerState()].isConnected = false
        }
        statusLock.withLock { sharedStatus = status }
    }
}
