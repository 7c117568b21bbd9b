import RTPCore
import RelayCore
import Testing

/// Random histories of calls from one seed: every verb of a ring from any device in any order, workers and
/// control that die and come back. The harness checks each decision (invariants, gapless numbers, order);
/// here: each call's life as its events tell it.
@Suite("Ring: model")
struct RingModelTests {
    @Test("thirty thousand random inputs keep every promise of a ring", arguments: [1, 2, 3])
    func randomInputs(_ seed: UInt64) {
        var walk = RingWalk(seed: seed)
        for _ in 0..<10_000 where !walk.isBroken { walk.step() }
        walk.finish()
        #expect(!walk.isBroken, "SEED=\(seed)")
        // The walk went where it should.
        let outcomes: Set<String> = [
            "ended", "rejected", "busy", "cancelled", "unanswered", "unreachable", "failed", "lost", "node-lost",
        ]
        #expect(outcomes.subtracting(walk.outcomes).isEmpty, "never: \(outcomes.subtracting(walk.outcomes))")
        #expect(walk.talkedCount > 50)
    }

    @Test("the same seed gives the same log of calls")
    func replay() {
        func log(_ seed: UInt64) -> [String] {
            var walk = RingWalk(seed: seed)
            for _ in 0..<1_000 { walk.step() }
            return walk.harness.events.map { "\($0.seq) \($0.line)" }
        }
        #expect(log(5) == log(5))
        #expect(log(5) != log(6))
    }
}

private struct RingWalk {
    let harness: ConductorHarness
    private var random: RandomSource
    private var rooms: [(id: RoomID, isGroup: Bool)] = []
    private var calls: [RoomID: Call] = [:]
    private var everybody: [(participant: HarnessParticipant, room: RoomID)] = []
    private var readEventCount = 0
    private var epoch: UInt64 = 1
    private(set) var isBroken = false
    private(set) var outcomes: Set<String> = []
    private(set) var talkedCount = 0
    private let users = ["ann", "ben", "cat", "dan"]

    private struct Call {
        var caller = ""
        var callees: Set<String> = []
        var isGroup = false
        var answered: Set<String> = []
        var rang: Set<String> = []
        var over: Set<String> = []
        var joined: Set<String> = []
        var isEnded = false
    }

    init(seed: UInt64) {
        var configuration = ConductorConfiguration()
        configuration.endedRoomsKept = 8
        configuration.retention = .seconds(300)
        harness = ConductorHarness(configuration, seed: seed, workers: 2)
        random = .seeded(seed &* 104_729)
    }

    private mutating func draw(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
    private mutating func pick<T>(_ elements: [T]) -> T? { elements.isEmpty ? nil : elements[draw(elements.count)] }

    mutating func step() {
        switch draw(100) {
        case 0..<12: create()
        case 12..<30: prepare()
        case 30..<36: ring()
        case 36..<42: answer()
        case 42..<54: join()
        case 54..<60: end()
        case 60..<64: leaveOrKick()
        case 64..<86: tellNews()
        case 86..<92: harness.advance(.milliseconds(Int64(draw(9_000))))
        case 92: talk()
        case 93: harness.move(to: harness.now + .milliseconds(Int64(draw(60_000))))
        case 94: reconnect()
        case 95: if draw(4) == 0 { loseWorker() }
        case 96: if draw(2) == 0 { restartControl() }
        case 97: other()
        default: harness.advance(.seconds(Int64(draw(40))))
        }
        check()
    }

    mutating func finish() {
        harness.decide(.drain)
        check()
        let unended = calls.values.filter { !$0.isEnded }.count
        #expect(unended == 0, "calls without an end")
        harness.advance(.seconds(400))
        let counts = harness.conductor.counts
        #expect(counts.initiatedRooms + counts.ongoingRooms + counts.endedRooms + counts.timers == 0)
    }

    // MARK: Moves

    private mutating func create() {
        let isGroup = draw(3) == 0
        var specification = RoomSpecification(id: nil, kind: isGroup ? .group : .peer, media: .video)
        let first = draw(users.count)
        let others = (1..<users.count).map { users[(first + $0) % users.count] }
        let count = isGroup ? 1 + draw(3) : 1
        let start = draw(others.count)
        specification.ring = RingSpecification(
            caller: users[first], callees: (0..<count).map { others[(start + $0) % others.count] })
        specification.ring?.window = .milliseconds(Int64(1_000 + draw(44_000)))
        specification.allowParallel = draw(3) == 0
        if draw(4) == 0 { specification.ifBusy = .refuse }
        if draw(6) == 0 { specification.timeouts.maxDuration = .seconds(Int64(30 + draw(100))) }
        let reply = harness.request(ConductorHarness.server, .createRoom(specification))
        guard case .created(let view, _) = reply else { return }
        rooms.append((view.id, isGroup))
        if rooms.count > 8 { rooms.removeFirst() }
    }

    private mutating func somebody() -> (room: RoomID, uid: String, device: String, token: Principal)? {
        guard let room = pick(rooms)?.id, let uid = pick(users) else { return nil }
        let device = draw(3) == 0 ? "laptop" : "phone"
        return (room, uid, device, ConductorHarness.token(uid, room, device: device))
    }

    private mutating func prepare() {
        guard let who = somebody() else { return }
        let isCaller = calls[who.room]?.caller == who.uid
        let offer = draw(20) == 0 ? Array("v=0".utf8) : conductorOffer(ufrag: harness.nextUfrag())
        let reply = harness.request(
            who.token,
            .prepare(
                who.room, state: draw(4) == 0 ? .joined : .prepared, offer: offer,
                joinOnAnswer: isCaller && draw(2) == 0))
        guard case .prepared(let id, _, _, true) = reply, let participant = harness.participant(id, in: who.room) else {
            return
        }
        everybody.append((participant, who.room))
        if everybody.count > 24 { everybody.removeFirst() }
        if draw(3) != 0 { tell(participant, in: who.room) }
    }

    /// A call that goes well, as far as others let it.
    private mutating func talk() {
        guard let room = rooms.last?.id, let call = calls[room], let callee = pick(call.callees.sorted()) else {
            return
        }
        for uid in [call.caller, callee] {
            let token = ConductorHarness.token(uid, room)
            let offer = conductorOffer(ufrag: harness.nextUfrag())
            let request = ControlRequest.prepare(
                room, state: .prepared, offer: offer, joinOnAnswer: uid == call.caller)
            guard case .prepared(let id, _, _, _) = harness.request(token, request),
                let participant = harness.participant(id, in: room)
            else { continue }
            everybody.append((participant, room))
            tell(participant, in: room)
            if uid == callee { harness.join(participant, in: room, endOthers: true) }
        }
        harness.advance(.milliseconds(Int64(draw(3_000))))
    }

    private mutating func ring() {
        guard let who = somebody() else { return }
        _ = harness.request(who.token, .ringing(who.room))
    }

    private mutating func answer() {
        guard let who = somebody() else { return }
        _ = harness.request(who.token, .answer(who.room))
    }

    private mutating func join() {
        guard let (participant, room) = pick(everybody) else { return }
        harness.join(participant, in: room, endOthers: draw(3) == 0, takeover: draw(4) == 0)
    }

    private mutating func end() {
        guard let who = somebody(), let status = pick(EndStatus.allCases) else { return }
        if draw(4) == 0 {
            harness.serverEnd(status, who.uid, in: who.room)
        } else {
            let scope: EndScope = draw(3) == 0 ? .device : .user
            _ = harness.request(who.token, .end(who.room, status, uid: nil, scope: scope))
        }
    }

    private mutating func leaveOrKick() {
        guard let (participant, room) = pick(everybody) else { return }
        if draw(4) == 0 {
            _ = harness.request(ConductorHarness.server, .kick(room, participant.id))
        } else {
            harness.leave(participant, in: room)
        }
    }

    private mutating func other() {
        guard let who = somebody() else { return }
        switch draw(4) {
        case 0: _ = harness.request(ConductorHarness.server, .deleteRoom(who.room, reason: nil))
        case 1: _ = harness.request(ConductorHarness.server, .logout(uid: who.uid))
        case 2:
            _ = harness.request(ConductorHarness.server, .pushed(who.room, uid: who.uid, device: who.device))
        default: _ = harness.request(who.token, .room(who.room))
        }
    }

    private mutating func tellNews() {
        guard let (participant, room) = pick(everybody) else { return }
        if draw(5) != 0 { return tell(participant, in: room) }
        guard let worker = holder(of: participant) else { return }
        let end = pick([TransportEnd.closed, .lost, .fingerprintMismatch, .noSRTPProfile, .handshakeFailed]) ?? .lost
        harness.news(.ended(participant.handle, end, at: harness.now, TransportStatistics()), from: worker)
    }

    private func holder(of participant: HarnessParticipant) -> WorkerID? {
        harness.held.first { $0.value.contains(participant.handle) }?.key
    }

    /// Keys are in; the gate is open where the conductor wants that.
    private func tell(_ participant: HarnessParticipant, in room: RoomID) {
        guard let worker = holder(of: participant),
            let record = harness.record(room)?.participants.first(
                where: { $0.handle == participant.handle })
        else { return }
        let handle = participant.handle
        let isOpen = record.transport.joinsWhenReady
        harness.news(isOpen ? .joined(handle, at: harness.now) : .prepared(handle, at: harness.now), from: worker)
    }

    private var workersInOrder: [WorkerID] {
        harness.held.keys.sorted { ($0.index, $0.epoch) < ($1.index, $1.epoch) }
    }

    private mutating func reconnect() {
        guard let worker = pick(workersInOrder) else { return }
        if draw(2) == 0 {
            harness.decide(.workerDetached(worker))
            harness.advance(.milliseconds(Int64(draw(30_000))))
        }
        hello(of: worker)
    }

    private mutating func hello(of worker: WorkerID) {
        var transports: [TransportSnapshot] = []
        for handle in (harness.held[worker] ?? []).sorted(by: { $0.value < $1.value }) where draw(10) != 0 {
            // Joined even where nobody decided that: the decision was lost with control.
            let phase = pick([TransportPhase.connecting, .prepared, .prepared, .joined]) ?? .connecting
            transports.append(
                TransportSnapshot(
                    participant: handle, room: RoomHandle(1), phase: phase, isInterrupted: false, since: harness.now))
        }
        harness.connect(worker, transports: transports)
    }

    private mutating func loseWorker() {
        harness.lose(ConductorHarness.worker(draw(2), epoch: epoch))
        epoch += 1
        for index in 0..<2 { harness.connect(ConductorHarness.worker(index, epoch: epoch)) }
    }

    private mutating func restartControl() {
        harness.restart()
        for worker in workersInOrder {
            if draw(5) == 0 { harness.advance(.seconds(3)) }
            hello(of: worker)
        }
    }

    // MARK: What must hold

    private mutating func check() {
        for event in harness.events[readEventCount...] { follow(event) }
        readEventCount = harness.events.count
        for (worker, handles) in harness.held where handles != harness.conductor.expectedTransports(on: worker) {
            fail("\(worker) holds \(handles.count) transports, not those of who is in")
        }
        if !harness.conductor.checkInvariants().isEmpty { isBroken = true }
    }

    private mutating func fail(_ what: String) {
        isBroken = true
        Issue.record("\(what)")
    }

    private mutating func follow(_ event: RelayEvent) {
        guard let room = event.roomID else { return }
        if event.type == .callInitiated {
            var call = Call()
            call.caller = event.uid ?? ""
            call.isGroup = event.value("isPeerCall") == .bool(false)
            if case .array(let callees)? = event.value("callees") {
                call.callees = Set(callees.compactMap { if case .string(let uid) = $0 { uid } else { nil } })
            }
            if calls[room] != nil { fail("two call.initiated in \(room)") }
            calls[room] = call
            return
        }
        guard var call = calls[room] else { return }
        let uid = event.uid ?? ""
        switch event.type {
        case .callRinging:
            if !call.rang.insert(uid).inserted || call.answered.contains(uid) { fail("\(event.line) twice or late") }
        case .callAnswered:
            if !call.callees.contains(uid) || !call.answered.insert(uid).inserted || call.over.contains(uid) {
                fail("\(event.line) may not be")
            }
            if !call.isGroup, call.answered.count > 1 { fail("two claims in \(room)") }
        case .calleeEnded:
            if !call.isGroup || !call.over.insert(uid).inserted { fail("\(event.line) may not be") }
        case .participantJoined:
            if call.callees.contains(uid), !call.answered.contains(uid) { fail("\(uid) joined without a claim") }
            if !call.callees.contains(uid), uid != call.caller, call.answered.isEmpty { fail("\(uid) came early") }
            call.joined.insert(uid)
        case .callEnded:
            if call.isEnded { fail("two call.ended in \(room)") }
            call.isEnded = true
            if call.isGroup, !call.callees.subtracting(call.answered).isSubset(of: call.over) {
                fail("a callee of \(room) was not told of")
            }
            judge(event, call)
        case .roomClosed:
            if !call.isEnded { fail("\(room) closed before its call ended") }
        default:
            break
        }
        if call.isEnded, ![.callEnded, .participantLeft, .roomClosed].contains(event.type) {
            fail("\(event.line) after the end")
        }
        calls[room] = call
    }

    /// Outcomes before the claim and after it do not mix.
    private mutating func judge(_ event: RelayEvent, _ call: Call) {
        guard case .string(let outcome)? = event.value("outcome") else { return fail("no outcome") }
        outcomes.insert(outcome)
        let isOfRinging = ["rejected", "busy", "cancelled", "unanswered", "unreachable"].contains(outcome)
        let isOfClaimed = ["failed", "lost", "node-lost"].contains(outcome)
        if isOfRinging && !call.answered.isEmpty || isOfClaimed && call.answered.isEmpty {
            fail("\(outcome) with \(call.answered.count) claims")
        }
        if outcome == "failed", !call.isGroup, call.joined.isSuperset(of: call.answered.union([call.caller])) {
            // Only one who came back may have been joined with both and failed none the less.
            if event.value("missing") == .array([]) { fail("a call failed with nobody missing") }
        }
        if case .integer(let ms)? = event.value("durationMs"), ms > 0 {
            talkedCount += 1
            if call.joined.count < 2 { fail("a duration without two who were joined") }
        }
    }
}
