import RTPCore
import RelayCore

/// One random history from one seed: a room, sometimes two that cross, and every verb of a call from any device in any
/// order, between workers and control that die and come back. It makes a conductor of its own, carries its commands out on
/// straw workers and its journal in memory, and holds every decision to `HistoryRules`.
final class History {
    let seed: UInt64
    var random: RandomSource
    /// Who chooses the moves, where it is not the seed: bytes of a fuzzer's. The history ends with them.
    private var choices: ArraySlice<UInt8>?
    /// Whether the node drains at the end; nil: the seed says.
    private let drains: Bool?
    private(set) var conductor: Conductor
    private(set) var now = Instant(nanoseconds: 1_000_000_000_000)
    private var wallClockMs: Int64 { 1_767_225_600_000 + (now.nanoseconds - 1_000_000_000_000) / 1_000_000 }
    var rules = HistoryRules()
    private var journal: [RoomID: RoomRecord] = [:]
    private var keys: [IdempotencyRecord] = []
    private var requestCount: UInt64 = 0
    private var configuration = ConductorConfiguration()
    /// Inputs and events in words, where wanted.
    var trace: [String]?

    // What the straw workers hold.
    struct Transport {
        let handle: ParticipantHandle
        let room: RoomHandle
        var hasKeys = false
        /// The gate is open, or opens with the keys.
        var isOpening: Bool
        var since: Instant
        var gates: MediaGates = []
        var prompt: PromptHandle?
    }
    private(set) var held: [WorkerID: [Transport]] = [:]
    private var isDetached: Set<WorkerID> = []
    private var keptNews: [WorkerID: [WorkerNews]] = [:]
    private var epoch: UInt64 = 1
    private static let workerCount = 2

    // What the clients know.
    var rooms: [RoomID] = []
    var sessions: [Session] = []
    struct Session {
        let id: ParticipantID
        let room: RoomID
        let uid: String
        let device: String
    }
    private var offerCount = 0
    /// What was answered to have begun.
    var prompts: [(room: RoomID, id: PromptID)] = []
    static let beep = SoundName(.tone, "beep")
    private static let sounds: SoundLibrary = {
        var library = SoundLibrary()
        library[beep] = Sound(packets: [[0xF8, 1, 2]]).map { SoundLibrary.Entry($0) }
        return library
    }()

    init(seed: UInt64, choices: [UInt8]? = nil, traced: Bool = false) {
        self.seed = seed
        self.choices = choices?[...]
        drains = choices.map { $0.count % 2 == 0 }
        random = .seeded(seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        configuration.retention = .seconds(300)
        configuration.idempotencyLife = .seconds(600)
        conductor = Conductor(
            configuration: configuration, random: .seeded(seed), restoring: [], idempotency: [], nextSeq: 1,
            isSameBoot: true, knownEnded: { _ in nil }, sounds: Self.sounds)
        if traced { trace = [] }
    }

    func draw(_ count: Int) -> Int {
        guard choices != nil else { return Int(truncatingIfNeeded: random.next() % UInt64(count)) }
        var value = 0
        var largest = count - 1
        // As many bytes as it takes to name every choice; 0 behind the last one.
        while largest > 0 {
            value = value << 8 | Int(choices?.popFirst() ?? 0)
            largest >>= 8
        }
        return value % count
    }
    func pick<Element>(_ elements: [Element]) -> Element? { elements.isEmpty ? nil : elements[draw(elements.count)] }

    /// The whole history. Nil: every rule was kept.
    func run() -> String? {
        for index in 0..<Self.workerCount { hello(WorkerID(index: index, epoch: epoch)) }
        begin()
        var steps = choices.map(\.count) ?? 4 + draw(36)
        while steps > 0, choices?.isEmpty != true, rules.failure == nil {
            step()
            steps -= 1
        }
        if rules.failure == nil { finish() }
        return rules.failure
    }

    /// Everything ends by itself or is ended; nothing may be left.
    private func finish() {
        if drains ?? (draw(2) == 0) {
            decide(.drain)
        } else {
            for _ in 0..<6 where rules.failure == nil && !isAllEnded {
                reconnectAll()
                advance(.seconds(400))
                for room in rooms { _ = request(Self.server, .deleteRoom(room, reason: nil)) }
            }
        }
        reconnectAll()
        advance(.seconds(3_700))
        rules.finish()
        let counts = conductor.counts
        let left =
            counts.initiatedRooms + counts.ongoingRooms + counts.endedRooms + counts.connecting + counts.prepared
            + counts.joined + counts.timers + counts.idempotencyKeys
        if left > 0 { rules.fail("left behind: \(counts)") }
        if !held.values.allSatisfy(\.isEmpty) { rules.fail("workers still hold transports") }
    }

    private var isAllEnded: Bool { conductor.counts.initiatedRooms + conductor.counts.ongoingRooms == 0 }

    // MARK: One decision

    @discardableResult
    func decide(_ input: ConductorInput, about what: @autoclosure () -> String = "", isLost: Bool = false)
        -> ConductorTurn
    {
        let isOne = conductor.deadline > now && input.isOneDecision
        let turn = conductor.decide(input, now: now, wallClockMs: wallClockMs)
        trace?.append("\(now.nanoseconds / 1_000_000 - 1_000_000) ms: \(what().isEmpty ? "\(input)" : what())")
        for (worker, command) in turn.commands { carryOut(command, by: worker) }
        // The process dies between the commands and the commit.
        if isLost { return turn }
        for event in turn.events { trace?.append("    \(event.line)") }
        for room in turn.forgottenRooms { journal[room] = nil }
        for room in turn.changedRooms {
            guard let record = conductor.record(of: room) else {
                rules.fail("changed room \(room) has no record")
                continue
            }
            journal[room] = record
            rules.noteOutcome(of: record)
            if !record.isSound { rules.fail("the record of \(room) would be left out at a restart") }
        }
        keys.removeAll { key in turn.forgottenKeys.contains { $0.keyID == key.keyID && $0.key == key.key } }
        keys += turn.idempotency
        rules.follow(turn.events, isOneDecision: isOne)
        check()
        return turn
    }

    private func check() {
        if let broken = conductor.checkInvariants().first { rules.fail(broken) }
        for (worker, transports) in held where !isDetached.contains(worker) {
            let expected = conductor.expectedTransports(on: worker)
            if expected.count != transports.count || !transports.allSatisfy({ expected.contains($0.handle) }) {
                rules.fail("\(worker) holds \(transports.count) transports and should hold \(expected.count)")
            }
            for transport in transports where transport.prompt != heard(by: transport.handle) {
                rules.fail("\(worker) plays to \(transport.handle) what it should not, or nothing")
            }
        }
    }

    /// What the conductor thinks that a participant is played.
    private func heard(by handle: ParticipantHandle) -> PromptHandle? {
        for room in rooms {
            let prompts = conductor.record(of: room)?.prompts ?? []
            if let prompt = prompts.first(where: { $0.listeners.contains(handle) }) { return prompt.handle }
        }
        return nil
    }

    private func carryOut(_ command: WorkerCommand, by worker: WorkerID) {
        guard var transports = held[worker] else { return }
        switch command {
        case .create(let configuration):
            transports.append(
                Transport(
                    handle: configuration.participant, room: configuration.room,
                    isOpening: configuration.joinsWhenReady, since: now))
            if configuration.joinsWhenReady { rules.mustMayOpen.append(configuration.participant) }
        case .join(let handle):
            guard let index = transports.firstIndex(where: { $0.handle == handle }) else { break }
            transports[index].isOpening = true
            rules.mustMayOpen.append(handle)
        case .gates(let handle, let gates):
            guard let index = transports.firstIndex(where: { $0.handle == handle }) else { break }
            transports[index].gates = gates
        case .remove(let handle): transports.removeAll { $0.handle == handle }
        case .shutDown: transports = []
        case .play(let handle, let order):
            guard let index = transports.firstIndex(where: { $0.handle == handle }) else { break }
            if !transports[index].hasKeys { rules.fail("an order for somebody who has no keys") }
            transports[index].prompt = order.prompt
        case .stopPlaying(let handle, let prompt):
            guard let index = transports.firstIndex(where: { $0.handle == handle && $0.prompt == prompt }) else {
                break
            }
            transports[index].prompt = nil
        case .restartICE, .slots, .sound, .adopted, .capture, .stopCapture, .record, .nameRecorded, .stopRecording:
            break
        }
        held[worker] = transports
    }

    /// Moves the clock, deciding every timer at its time.
    func advance(_ interval: Interval) {
        let end = now + interval
        while conductor.deadline <= end, rules.failure == nil {
            now = max(now, conductor.deadline)
            decide(.timer, about: "timer")
        }
        now = end
    }

    /// The clock moves and nobody calls the conductor.
    func oversleep(_ interval: Interval) { now = now + interval }

    // MARK: Requests

    static let server = Principal.server(keyID: "k")

    /// - Parameter isLost: control dies when it has decided, before the commit; the client hears nothing.
    func request(
        _ principal: Principal, _ request: ControlRequest, key: IdempotencyKey? = nil, isLost: Bool = false
    ) -> ControlReply? {
        requestCount += 1
        let id = RequestID(requestCount)
        let input: ConductorInput =
            if let key { .keyedRequest(id, principal, request, key) } else { .request(id, principal, request) }
        rules.asked(request, by: principal)
        let turn = decide(input, about: Self.words(principal, request), isLost: isLost)
        guard let reply = turn.replies.first?.reply, turn.replies.count == 1 else {
            rules.fail("a request got \(turn.replies.count) replies")
            return nil
        }
        if isLost { return nil }
        if case .problem(let problem) = reply { trace?.append("    -> \(problem.status) \(problem.code)") }
        rules.answered(request, with: reply, record: request.roomID.flatMap { conductor.record(of: $0) })
        return reply
    }

    private static func words(_ principal: Principal, _ request: ControlRequest) -> String {
        switch (principal, request) {
        case (.participant(let who), .prepare(_, let state, _, let onAnswer, _)):
            "\(who.uid)/\(who.device) prepare \(state?.rawValue ?? "")\(onAnswer ? " on-answer" : "") in \(who.room)"
        case (.participant(let who), _): "\(who.uid)/\(who.device): \(request)"
        case (.server, _): "server: \(request)"
        }
    }

    func offer(fresh: Bool) -> [UInt8] {
        if fresh { offerCount += 1 }
        return Self.offers[offerCount % Self.offers.count]
    }
    private static let offers = (0..<64).map { conductorOffer(ufrag: "ufrag\($0)") }

    // MARK: Workers

    var workers: [WorkerID] { held.keys.sorted { ($0.index, $0.epoch) < ($1.index, $1.epoch) } }

    /// Something happens to somebody's transport; told at once, or kept where the link is broken.
    func tell(_ change: (inout Transport) -> WorkerNews?, orEnd: ((ParticipantHandle) -> WorkerNews)? = nil) {
        let candidates = workers.flatMap { worker in (held[worker] ?? []).indices.map { (worker, $0) } }
        guard let (worker, index) = pick(candidates) else { return }
        let news: WorkerNews?
        if let orEnd, let transport = held[worker]?.remove(at: index) {
            news = orEnd(transport.handle)
        } else if var transport = held[worker]?[index] {
            news = change(&transport)
            held[worker]?[index] = transport
        } else {
            news = nil
        }
        guard let news else { return }
        if isDetached.contains(worker) {
            keptNews[worker, default: []].append(news)
        } else {
            decide(.news(worker, news))
        }
    }

    func endSomebody(_ end: TransportEnd) {
        tell({ _ in nil }, orEnd: { [now] in .ended($0, end, at: now, TransportStatistics()) })
    }

    func hello(_ worker: WorkerID, forgetting: Bool = false) {
        if held[worker] == nil { held[worker] = [] }
        if forgetting, let count = held[worker]?.count, count > 0 { held[worker]?.remove(at: draw(count)) }
        isDetached.remove(worker)
        let transports = (held[worker] ?? []).map { transport in
            TransportSnapshot(
                participant: transport.handle, room: transport.room,
                phase: !transport.hasKeys ? .connecting : transport.isOpening ? .joined : .prepared,
                isInterrupted: false, since: transport.since, gates: transport.gates, prompt: transport.prompt)
        }
        decide(
            .workerConnected(
                WorkerHello(
                    worker: worker, processID: 1, endpoint: conductorEndpoint, transports: transports,
                    news: keptNews.removeValue(forKey: worker) ?? [])), about: "hello of \(worker.index)")
    }

    func detach() {
        guard let worker = pick(workers.filter { !isDetached.contains($0) }) else { return }
        isDetached.insert(worker)
        decide(.workerDetached(worker), about: "link of \(worker.index) broken")
    }

    func reconnectAll(forgetting: Bool = false) {
        for worker in workers where isDetached.contains(worker) { hello(worker, forgetting: forgetting) }
    }

    func loseWorker() {
        guard let worker = pick(workers) else { return }
        held[worker] = nil
        isDetached.remove(worker)
        keptNews[worker] = nil
        decide(.workerGone(worker), about: "worker \(worker.index) gone")
        epoch += 1
        hello(WorkerID(index: worker.index, epoch: epoch))
    }

    /// Control dies and another one goes on from the journal, where `isLost` without its last decision.
    func restart(isSameBoot: Bool) {
        let stored = journal
        conductor = Conductor(
            configuration: configuration, random: .seeded(seed &+ requestCount &+ 7),
            restoring: stored.values.filter { !$0.isSettled }, idempotency: keys, nextSeq: rules.nextSeq,
            isSameBoot: isSameBoot, knownEnded: { _ in nil },
            shelved: stored.values.filter(\.isSettled).map(ShelvedRoom.init(_:)), unshelve: { stored[$0.id] },
            sounds: Self.sounds)
        trace?.append("control restarts\(isSameBoot ? "" : " after a reboot")")
        if !isSameBoot {
            held = [:]
            keptNews = [:]
            isDetached = []
            epoch += 1
            for index in 0..<Self.workerCount { hello(WorkerID(index: index, epoch: epoch)) }
            return
        }
        isDetached.formUnion(workers)
        if draw(4) == 0 { advance(.seconds(Int64(draw(4)))) }
        for worker in workers {
            if draw(6) == 0 { advance(.milliseconds(1_500)) }
            if draw(4) == 0 { endSomebody(.closed) }
            hello(worker, forgetting: draw(8) == 0)
        }
    }
}

extension ControlRequest {
    var roomID: RoomID? {
        switch self {
        case .room(let room), .deleteRoom(let room, _), .prepare(let room, _, _, _, _), .join(let room, _, _, _),
            .leave(let room, _), .kick(let room, _), .trickle(let room, _, _, _), .ringing(let room),
            .answer(let room), .end(let room, _, _, _), .pushed(let room, _, _):
            room
        default: nil
        }
    }
}
