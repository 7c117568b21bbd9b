import RTPCore
import RelayCore

/// What one decision asks of the shell: commands first, then the entry to the journal, then whatever answers are ready.
package struct ControlStep {
    package var commands: [(worker: WorkerID, command: WorkerCommand)]
    /// What is to be stored; nil: nothing.
    package var entry: JournalEntry?
    /// For the log.
    package var events: [RelayEvent]
    package var measures: [CallMeasure]
    /// What became of the node's drain.
    package var drain: DrainChange?
    /// Who joined in it, by a command that leaves now.
    package var joins: [ParticipantHandle]
}

/// An answer whose turn is on disk.
package struct ControlAnswer {
    package var request: UInt64
    package var reply: ControlReply
    package var form: ReplyForm
}

/// The order of things in the control process: every decision of the conductor becomes commands that leave at once, an entry
/// of the journal, and answers that wait until everything decided before them is on disk. Owns the conductor and what waits;
/// no thread, mailbox, clock or socket. Confined to one thread.
package final class ControlDecisions {
    package let conductor: Conductor
    package private(set) var turn: UInt64 = 0
    package private(set) var eventCount: UInt64 = 0
    /// The last turn that the journal was given, and the last one it stored.
    private var storedTurn: UInt64 = 0
    private var committedTurn: UInt64 = 0
    private var waiting: [(turn: UInt64, answer: ControlAnswer)] = []
    private var forms: [UInt64: ReplyForm] = [:]

    package init(conductor: Conductor) { self.conductor = conductor }

    /// Nothing waits for the disk.
    package var isQuiet: Bool { waiting.isEmpty && committedTurn >= storedTurn }
    /// Turns that wait for the disk.
    package var uncommitted: UInt64 { storedTurn - min(storedTurn, committedTurn) }
    package var waitingCount: Int { waiting.count }

    /// A request as it comes from the API. `key`: it may come twice and is carried out once.
    package func decide(
        request id: UInt64, from principal: Principal, _ request: ControlRequest, as form: ReplyForm,
        once key: IdempotencyKey?, now: Instant, wallClockMs: Int64
    ) -> ControlStep {
        forms[id] = form
        let input: ConductorInput =
            if let key {
                .keyedRequest(RequestID(id), principal, request, key)
            } else {
                .request(RequestID(id), principal, request)
            }
        return decide(input, now: now, wallClockMs: wallClockMs)
    }

    /// What the supervisor tells of workers; nil for what nothing is to be decided about.
    package func decide(on event: SupervisorEvent, now: Instant, wallClockMs: Int64) -> ControlStep? {
        switch event {
        case .hello(let hello):
            decide(
                .workerConnected(hello), worker: JournalWorker(id: hello.worker, processID: hello.processID), now: now,
                wallClockMs: wallClockMs)
        case .news(let worker, let news): decide(.news(worker, news), now: now, wallClockMs: wallClockMs)
        case .load(let worker, let load): decide(.load(worker, load), now: now, wallClockMs: wallClockMs)
        case .detached(let worker): decide(.workerDetached(worker), now: now, wallClockMs: wallClockMs)
        case .retiring(let worker): decide(.workerRetiring(worker), now: now, wallClockMs: wallClockMs)
        case .gone(let worker, _):
            decide(
                .workerGone(worker), worker: JournalWorker(id: worker, processID: 0), now: now,
                wallClockMs: wallClockMs)
        case .counters, .captured, .note: nil
        }
    }

    /// One decision and what follows from it. `worker`: to be noted in the same transaction.
    package func decide(
        _ input: ConductorInput, worker: JournalWorker? = nil, now: Instant, wallClockMs: Int64
    ) -> ControlStep {
        let decision = conductor.decide(input, now: now, wallClockMs: wallClockMs)
        turn += 1
        eventCount += UInt64(decision.events.count)
        let entry = entry(of: decision, worker: worker, now: now)
        if !entry.isEmpty { storedTurn = turn }
        for (request, reply) in decision.replies {
            let form = forms.removeValue(forKey: request.value) ?? .response
            // An answer tells of everything decided before it: it waits for all of that to be stored.
            waiting.append((storedTurn, ControlAnswer(request: request.value, reply: reply, form: form)))
        }
        let hasJoins = decision.events.contains { $0.type == .participantJoined }
        return ControlStep(
            commands: decision.commands, entry: entry.isEmpty ? nil : entry, events: decision.events,
            measures: decision.measures, drain: decision.drain,
            joins: !hasJoins
                ? []
                : decision.commands.compactMap { if case .join(let handle) = $0.command { handle } else { nil } })
    }

    private func entry(of decision: ConductorTurn, worker: JournalWorker?, now: Instant) -> JournalEntry {
        var entry = JournalEntry(turn: turn)
        entry.decidedAt = now
        entry.events = decision.events.map { event in
            JournalEvent(
                seq: event.seq, room: event.roomID?.text, timeMs: event.timeMs, type: event.type.rawValue,
                json: JSONText.of(ViewJSON.event(event)))
        }
        // In one order, so that one history of decisions is one history of the disk.
        for room in decision.changedRooms.sorted(by: { $0.text < $1.text }) {
            guard let record = conductor.record(of: room) else { continue }
            entry.rooms.append(JournalRoom(id: room.text, record: record))
        }
        for room in decision.forgottenRooms.sorted(by: { $0.text < $1.text }) {
            entry.rooms.append(JournalRoom(id: room.text, record: nil))
        }
        for key in decision.idempotency {
            entry.keys.append(JournalKey(key: "\(key.keyID)/\(key.key)", record: RecordCoding.encode(key)))
        }
        for key in decision.forgottenKeys {
            entry.keys.append(JournalKey(key: "\(key.keyID)/\(key.key)", record: nil))
        }
        entry.calls = decision.calls.map { JournalCall($0) }
        switch decision.drain {
        case nil: break
        case .put(let record): entry.drain = JournalDrain(record: RecordCoding.encode(record))
        case .over: entry.drain = JournalDrain(record: nil)
        }
        if let worker { entry.workers.append(worker) }
        return entry
    }

    /// Everything up to this turn is on disk.
    package func committed(_ turn: UInt64) { committedTurn = turn }

    /// The answers whose time has come, in order.
    package func takeAnswers() -> [ControlAnswer] {
        let count = waiting.firstIndex { $0.turn > committedTurn } ?? waiting.count
        guard count > 0 else { return [] }
        defer { waiting.removeFirst(count) }
        return waiting.prefix(count).map(\.answer)
    }
}
