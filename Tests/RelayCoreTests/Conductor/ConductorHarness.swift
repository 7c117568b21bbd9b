import RTPCore
import RelayCore
import Testing

/// A conductor with a clock and workers of straw. Every turn is held to what must always be true: gapless
/// numbers, one `room.closed` a room, invariants, and workers that hold exactly the transports of those who
/// are in.
final class ConductorHarness {
    private(set) var conductor: Conductor
    var now = Instant(nanoseconds: 1_000_000_000_000)
    /// 2026-01-01T00:00:00Z at the start.
    private(set) var wallClockMs: Int64 = 1_767_225_600_000
    private(set) var events: [RelayEvent] = []
    private(set) var lastTurn = ConductorTurn()
    /// What the straw workers hold, by the commands that reached them.
    var held: [WorkerID: Set<ParticipantHandle>] = [:]
    /// What they let not pass.
    private(set) var gates: [ParticipantHandle: MediaGates] = [:]
    /// What they were given and told to play.
    private(set) var sounds: [WorkerID: [SoundID]] = [:]
    var playing: [ParticipantHandle: PromptOrder] = [:]
    /// What they record, whose names they were told, what they were told to end.
    var recording: [WorkerID: [RecordingOrder]] = [:]
    private(set) var named: [RecordingHandle: [String]] = [:]
    private(set) var stopped: [RecordingHandle] = []
    private var isDetached: Set<WorkerID> = []
    /// What a journal would have: the newest record of every room, and the idempotency keys.
    private(set) var journal: [RoomID: RoomRecord] = [:]
    var keys: [IdempotencyRecord] = []
    private(set) var drain: DrainRecord?
    /// Every call record that was given out, in order.
    private(set) var calls: [CallRecord] = []
    private(set) var measures: [CallMeasure] = []
    private var requestCount: UInt64 = 0
    private var closedRooms: Set<RoomID> = []
    private var nextRoomSeqs: [RoomID: UInt64] = [:]
    private let configuration: ConductorConfiguration
    private let seed: UInt64
    private let library: SoundLibrary
    private var restartCount: UInt64 = 0
    var forgotten: [RoomID: RoomOutcome] = [:]
    /// Rooms whose records the conductor asked the journal for, and those that the journal can not read.
    private(set) var unshelved: [RoomID] = []
    var unreadable: Set<RoomID> = []

    init(
        _ configuration: ConductorConfiguration = ConductorConfiguration(), seed: UInt64 = 1, workers: Int = 1,
        sounds: SoundLibrary = SoundLibrary()
    ) {
        self.configuration = configuration
        library = sounds
        self.seed = seed
        conductor = Conductor(
            configuration: configuration, random: .seeded(seed), restoring: [], idempotency: [], nextSeq: 1,
            isSameBoot: true, knownEnded: { _ in nil }, sounds: sounds,
            answerText: { reply, _ in Self.text(of: reply) })
        for index in 0..<workers { connect(Self.worker(index)) }
    }

    static func worker(_ index: Int, epoch: UInt64 = 1) -> WorkerID { WorkerID(index: index, epoch: epoch) }
    static let server = Principal.server(keyID: "key1")
    static func token(_ uid: String, _ room: RoomID, device: String = "phone") -> Principal {
        .device(uid, room, device: device)
    }

    /// The process dies and another one goes on from the journal.
    func restart(isSameBoot: Bool = true, knownEnded: @escaping (RoomID) -> RoomOutcome? = { _ in nil }) {
        restartCount += 1
        isDetached.formUnion(held.keys)
        conductor = Conductor(
            configuration: configuration, random: .seeded(seed + 1_000 * restartCount),
            restoring: journal.values.filter { !$0.isSettled },
            idempotency: keys, nextSeq: UInt64(events.count) + 1, isSameBoot: isSameBoot, knownEnded: knownEnded,
            shelved: journal.values.filter(\.isSettled).map(ShelvedRoom.init(_:)),
            unshelve: { [weak self] in self?.unshelve($0) }, sounds: library, drain: drain,
            answerText: { reply, _ in Self.text(of: reply) })
        if !isSameBoot { held = [:] }
    }

    private func unshelve(_ room: ShelvedRoom) -> RoomRecord? {
        unshelved.append(room.id)
        return unreadable.contains(room.id) ? nil : journal[room.id]
    }

    // MARK: One decision

    @discardableResult
    func decide(_ input: ConductorInput) -> ConductorTurn {
        let isOneDecision = conductor.deadline > now && input.isOneDecision
        let turn = conductor.decide(input, now: now, wallClockMs: wallClockMs)
        if isOneDecision { expectOrder(of: turn.events) }
        lastTurn = turn
        for event in turn.events { record(event) }
        for (worker, command) in turn.commands { carryOut(command, by: worker) }
        if case .workerDetached(let worker) = input { isDetached.insert(worker) }
        for room in turn.forgottenRooms {
            #expect(conductor.record(of: room) == nil)
            forgotten[room] = journal.removeValue(forKey: room)?.outcome
        }
        for room in turn.changedRooms {
            guard let record = conductor.record(of: room) else {
                Issue.record("changed room \(room) has no record")
                continue
            }
            journal[room] = record
        }
        keys.removeAll { key in turn.forgottenKeys.contains { $0.keyID == key.keyID && $0.key == key.key } }
        for room in turn.changedRooms { expectGates(of: room) }
        keys += turn.idempotency
        switch turn.drain {
        case nil: break
        case .put(let record): drain = record
        case .over: drain = nil
        }
        calls += turn.calls
        measures += turn.measures
        let broken = conductor.checkInvariants()
        #expect(broken.isEmpty, "\(broken)")
        return turn
    }

    private func record(_ event: RelayEvent) {
        #expect(event.seq == UInt64(events.count) + 1, "seq has a gap")
        events.append(event)
        guard let room = event.roomID else {
            #expect(event.roomSeq == 0)
            return
        }
        #expect(event.roomSeq == nextRoomSeqs[room, default: 1], "roomSeq of \(room) has a gap")
        nextRoomSeqs[room] = event.roomSeq + 1
        // A recording's files are whole a little later.
        let isLate = closedRooms.contains(room) && event.type != .recordingEnded
        #expect(!isLate, "\(event.type) after room.closed in \(room)")
        if event.type == .roomClosed { closedRooms.insert(room) }
    }

    private func carryOut(_ command: WorkerCommand, by worker: WorkerID) {
        switch command {
        case .create(let transport):
            held[worker, default: []].insert(transport.participant)
            gates[transport.participant] = transport.gates
        case .remove(let handle): held[worker]?.remove(handle)
        case .gates(let handle, let shut): gates[handle] = shut
        case .sound(let id, _, let isLast): if isLast { sounds[worker, default: []].append(id) }
        case .play(let handle, let order):
            #expect(sounds[worker, default: []].contains(order.sound), "an order for a sound that was not given")
            playing[handle] = order
        case .stopPlaying(let handle, let prompt): if playing[handle]?.prompt == prompt { playing[handle] = nil }
        case .record(let order): recording[worker, default: []].append(order)
        case .nameRecorded(let handle, let participant): named[handle, default: []].append(participant.uid)
        case .stopRecording(let handle): stopped.append(handle)
        case .join, .restartICE, .slots, .adopted, .capture, .stopCapture: break
        case .shutDown: held[worker] = nil
        }
    }

    /// A worker that is there lets pass what the room's record says.
    private func expectGates(of room: RoomID) {
        guard let record = conductor.record(of: room), let worker = record.worker, !isDetached.contains(worker) else {
            return
        }
        for participant in record.participants where held[worker]?.contains(participant.handle) == true {
            #expect(gates[participant.handle] == participant.transport.gates, "gates of \(participant.uid) in \(room)")
        }
    }

    /// Moves the clock, deciding every timer at its time.
    func advance(_ interval: Interval) {
        let end = now + interval
        while conductor.deadline <= end {
            let next = max(now, conductor.deadline)
            move(to: next)
            decide(.timer)
        }
        move(to: end)
    }

    /// Moves the clock without telling the conductor.
    func move(to instant: Instant) {
        // Both clocks from the same start, so that no rounding adds up.
        now = instant
        wallClockMs = 1_767_225_600_000 + (now.nanoseconds - 1_000_000_000_000) / 1_000_000
    }

    // MARK: Requests

    func request(_ principal: Principal, _ request: ControlRequest, key: IdempotencyKey? = nil) -> ControlReply {
        requestCount += 1
        let id = RequestID(requestCount)
        let input: ConductorInput =
            if let key { .keyedRequest(id, principal, request, key) } else { .request(id, principal, request) }
        let turn = decide(input)
        #expect(turn.replies.map(\.request) == [id])
        return turn.replies.first?.reply ?? .done
    }

    /// How the harness writes answers that may be given again.
    static func text(of reply: ControlReply) -> StoredAnswer {
        StoredAnswer(status: reply.problem?.status ?? 200, body: "\(reply)")
    }

    func problem(_ principal: Principal, _ request: ControlRequest) -> Problem? {
        if case .problem(let problem) = self.request(principal, request) { return problem }
        return nil
    }

    @discardableResult
    func createRoom(_ id: String? = nil, kind: RoomKind = .peer, _ change: (inout RoomSpecification) -> Void = { _ in })
        -> RoomID
    {
        var specification = RoomSpecification(id: id.flatMap { RoomID($0) }, kind: kind, media: .video)
        change(&specification)
        guard case .created(let view, _) = request(Self.server, .createRoom(specification)) else {
            Issue.record("room \(id ?? "?") was not created: \(lastTurn.replies)")
            return RoomID("none")!
        }
        return view.id
    }

    /// A prepare that must succeed.
    @discardableResult
    func prepare(
        _ uid: String, in room: RoomID, device: String = "phone", state: PrepareState? = .prepared, ufrag: String? = nil
    ) -> HarnessParticipant {
        let reply = request(
            Self.token(uid, room, device: device),
            .prepare(room, state: state, offer: conductorOffer(ufrag: ufrag ?? nextUfrag())))
        guard case .prepared(let id, _, _, _) = reply, let participant = participant(id, in: room) else {
            Issue.record("\(uid) could not prepare: \(reply)")
            return HarnessParticipant(
                id: ParticipantID("none")!, handle: ParticipantHandle(0), uid: uid, device: device)
        }
        return participant
    }

    private var ufragCount = 0
    func nextUfrag() -> String {
        ufragCount += 1
        return "u\(10_000 + ufragCount)"
    }

    /// Prepared with keys in.
    @discardableResult
    func prepared(_ uid: String, in room: RoomID, device: String = "phone") -> HarnessParticipant {
        let participant = prepare(uid, in: room, device: device)
        news(.prepared(participant.handle, at: now))
        return participant
    }

    /// Joined: prepared, then joined by request.
    @discardableResult
    func joined(_ uid: String, in room: RoomID, device: String = "phone") -> HarnessParticipant {
        let participant = prepared(uid, in: room, device: device)
        join(participant, in: room)
        #expect(state(participant, in: room) == .joined)
        return participant
    }

    @discardableResult
    func join(
        _ participant: HarnessParticipant, in room: RoomID, endOthers: Bool = false, takeover: Bool = false
    ) -> ControlReply {
        request(
            Self.token(participant.uid, room, device: participant.device),
            .join(room, participant.id, endOthers: endOthers, takeover: takeover))
    }

    @discardableResult
    func leave(_ participant: HarnessParticipant, in room: RoomID) -> ControlReply {
        request(Self.token(participant.uid, room, device: participant.device), .leave(room, participant.id))
    }

    // MARK: Workers

    @discardableResult
    func news(_ news: WorkerNews, from worker: WorkerID = worker(0)) -> ConductorTurn {
        if case .ended(let handle, _, _, _) = news { held[worker]?.remove(handle) }
        return decide(.news(worker, news))
    }

    @discardableResult
    func ended(_ participant: HarnessParticipant, _ end: TransportEnd) -> ConductorTurn {
        news(.ended(participant.handle, end, at: now, TransportStatistics()))
    }

    @discardableResult
    func connect(
        _ worker: WorkerID, transports: [TransportSnapshot] = [], news: [WorkerNews] = [],
        recordings: [RecordingHandle] = [], build: String = "1.2.3"
    ) -> ConductorTurn {
        for other in held.keys where other.index == worker.index { held[other] = nil }
        held[worker] = Set(transports.map(\.participant))
        isDetached.remove(worker)
        for transport in transports { gates[transport.participant] = transport.gates }
        return decide(
            .workerConnected(
                WorkerHello(
                    worker: worker, processID: 100, endpoint: conductorEndpoint, transports: transports, news: news,
                    recordings: recordings, build: build)))
    }

    func lose(_ worker: WorkerID) {
        held[worker] = nil
        decide(.workerGone(worker))
    }

    func snapshot(
        _ participant: HarnessParticipant, in room: RoomID, _ phase: TransportPhase, isInterrupted: Bool = false,
        gates: MediaGates? = nil
    ) -> TransportSnapshot {
        let handle = conductor.record(of: room)?.handle ?? journal[room]?.handle ?? RoomHandle(1)
        return TransportSnapshot(
            participant: participant.handle, room: handle, phase: phase, isInterrupted: isInterrupted, since: now,
            gates: gates ?? self.gates[participant.handle] ?? [])
    }

    // MARK: Looking

    func record(_ room: RoomID) -> RoomRecord? { conductor.record(of: room) }

    func participant(_ id: ParticipantID, in room: RoomID) -> HarnessParticipant? {
        guard let record = record(room)?.participants.first(where: { $0.id == id }) else { return nil }
        return HarnessParticipant(id: id, handle: record.handle, uid: record.uid, device: record.device)
    }

    func state(_ participant: HarnessParticipant, in room: RoomID) -> ParticipantState? {
        record(room)?.participants.first { $0.id == participant.id }?.lifecycle.state
    }

    /// The latest turn's events in short: `participant.left alice hangup`.
    var lines: [String] { lastTurn.events.map(\.line) }

    func closing(_ room: RoomID) -> RelayEvent? { events.first { $0.type == .roomClosed && $0.roomID == room } }

    func leaveReason(_ participant: HarnessParticipant) -> String? {
        events.first { $0.type == .participantLeft && $0.participantID == participant.id }?.reason
    }
}

struct HarnessParticipant: Hashable {
    var id: ParticipantID
    var handle: ParticipantHandle
    var uid: String
    var device: String
}

extension ControlReply {
    var problem: Problem? { if case .problem(let problem) = self { problem } else { nil } }
    var joinedView: RoomView? { if case .joined(let view) = self { view } else { nil } }
    var roomView: RoomView? { if case .room(let view) = self { view } else { nil } }
}
