import RTPCore
import RelayCore
import Testing

/// Random inputs against a straw worker, from one seed. The harness checks after each decision: invariants,
/// gapless numbers, nothing after `room.closed`. Here: participants' lives as their events tell them, one
/// joined place a user, and workers that hold exactly who is in.
@Suite("Conductor: model")
struct ConductorModelTests {
    @Test("ten thousand random inputs keep every promise", arguments: [1, 2, 3])
    func randomInputs(_ seed: UInt64) {
        var walk = RandomWalk(seed: seed)
        for _ in 0..<10_000 {
            walk.step()
            if walk.isBroken { break }
        }
        walk.finish()
        #expect(!walk.isBroken, "SEED=\(seed)")
        // The walk went where it should: all kinds of event occurred.
        let seen = Set(walk.harness.events.map(\.type))
        let never = Set(RelayEventType.allCases).subtracting(seen)
        let ofRings: Set<RelayEventType> = [
            .callInitiated, .callRinging, .callAnswered, .calleeEnded, .callEnded,
        ]
        // Users joined in one audio room, of whom one asks and one answers, are rare here; nobody plays prompts, records or drains.
        let others: Set<RelayEventType> = [
            .eventsTruncated, .mediaRequested, .mediaChanged, .promptStarted, .promptEnded, .recordingStarted,
            .recordingEnded, .nodeDrained, .nodeUndrained,
        ]
        #expect(never.isSubset(of: ofRings.union(others)), "\(never)")
    }

    @Test("the same seed gives the same log")
    func replay() {
        func log(_ seed: UInt64) -> [String] {
            var walk = RandomWalk(seed: seed)
            for _ in 0..<1_000 { walk.step() }
            return walk.harness.events.map { "\($0.seq) \($0.line) \($0.participantID?.text ?? "")" }
        }
        #expect(log(5) == log(5))
        #expect(log(5) != log(6))
    }
}

private struct RandomWalk {
    let harness: ConductorHarness
    private var random: RandomSource
    private var rooms: [RoomID] = []
    private var everybody: [(participant: HarnessParticipant, room: RoomID)] = []
    private var lives: [ParticipantID: ParticipantState] = [:]
    private var readEventCount = 0
    private var epoch: UInt64 = 1
    private(set) var isBroken = false
    private let users = ["ann", "ben", "cat", "dan", "eve"]

    init(seed: UInt64) {
        var configuration = ConductorConfiguration()
        configuration.roomsPerNode = 12
        configuration.endedRoomsKept = 8
        configuration.retention = .seconds(300)
        harness = ConductorHarness(configuration, seed: seed, workers: 2)
        random = .seeded(seed &* 7_919)
    }

    private mutating func draw(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
    private mutating func pick<T>(_ elements: [T]) -> T? { elements.isEmpty ? nil : elements[draw(elements.count)] }

    mutating func step() {
        switch draw(100) {
        case 0..<8: createRoom()
        case 8..<30: prepare()
        case 30..<48: join()
        case 48..<54: leaveOrKick()
        case 54..<56: deleteRoom()
        case 56..<84: tellNews()
        case 84..<86: changeMedia()
        case 86..<92: harness.advance(.milliseconds(Int64(draw(20_000))))
        case 92..<94: harness.move(to: harness.now + .milliseconds(Int64(draw(100_000))))
        case 94..<96: restartICE()
        case 96: reconnect()
        case 97: if draw(3) == 0 { loseWorker() }
        case 98: restartControl()
        default: harness.advance(.seconds(Int64(draw(100))))
        }
        check()
    }

    mutating func finish() {
        harness.decide(.drain)
        check()
        harness.advance(.seconds(400))
        let counts = harness.conductor.counts
        #expect(counts.initiatedRooms + counts.ongoingRooms + counts.endedRooms == 0)
        #expect(counts.connecting + counts.prepared + counts.joined + counts.timers == 0)
        #expect(lives.values.allSatisfy { $0 == .left })
    }

    // MARK: Moves

    private mutating func createRoom() {
        let media: RoomMedia = draw(3) == 0 ? .video : .audio
        var specification = RoomSpecification(id: nil, kind: draw(2) == 0 ? .peer : .group, media: media)
        specification.allowParallel = draw(6) == 0
        if draw(4) == 0 { specification.timeouts.maxDuration = .seconds(Int64(30 + draw(200))) }
        let reply = harness.request(ConductorHarness.server, .createRoom(specification))
        if case .created(let view, _) = reply { rooms.append(view.id) }
        if rooms.count > 16 { rooms.removeFirst() }
    }

    private mutating func prepare() {
        guard let room = pick(rooms), let uid = pick(users), let device = pick(["phone", "laptop"]) else { return }
        let state = pick([PrepareState.prepared, .joined, nil]) ?? nil
        let ufrag = draw(5) == 0 ? "fixed-\(uid)" : harness.nextUfrag()
        let offer = draw(20) == 0 ? Array("v=0".utf8) : conductorOffer(ufrag: ufrag)
        let reply = harness.request(
            ConductorHarness.token(uid, room, device: device), .prepare(room, state: state, offer: offer))
        if case .prepared(let id, _, _, true) = reply, let participant = harness.participant(id, in: room) {
            everybody.append((participant, room))
            if everybody.count > 60 { everybody.removeFirst() }
        }
    }

    private mutating func join() {
        guard let (participant, room) = pick(everybody) else { return }
        harness.join(participant, in: room, endOthers: draw(4) == 0, takeover: draw(4) == 0)
    }

    private mutating func leaveOrKick() {
        guard let (participant, room) = pick(everybody) else { return }
        if draw(3) == 0 {
            _ = harness.request(ConductorHarness.server, .kick(room, participant.id))
        } else {
            harness.leave(participant, in: room)
        }
    }

    private mutating func changeMedia() {
        let occupied = rooms.filter { harness.record($0)?.participants.isEmpty == false }
        guard let room = pick(occupied), let people = harness.record(room)?.participants else { return }
        for participant in people {
            let state = pick([MediaSwitch.on, .muted])
            let token = ConductorHarness.token(participant.uid, room, device: participant.device)
            switch draw(6) {
            case 0:
                let change = MediaChange(audio: state, isHeld: pick([true, false]))
                _ = harness.request(token, .changeMedia(room, participant.id, change))
            case 1:
                let change = ServerMediaChange(video: state, subscribe: pick([true, false]))
                _ = harness.request(ConductorHarness.server, .changeMediaByServer(room, participant.id, change))
            default:
                _ = harness.request(token, .video(room, pick(VideoWord.allCases) ?? .request, uid: nil))
            }
        }
    }

    private mutating func deleteRoom() {
        guard let room = pick(rooms) else { return }
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
    }

    private mutating func restartICE() {
        guard let (participant, room) = pick(everybody) else { return }
        let fragment = "a=ice-ufrag:\(harness.nextUfrag())\r\na=ice-pwd:zyxwvutsrqponmlkjihgfedc\r\n"
        _ = harness.request(
            ConductorHarness.token(participant.uid, room, device: participant.device),
            .trickle(room, participant.id, ifMatch: "*", fragment: Array(fragment.utf8)))
    }

    /// Mostly the truth about somebody whom a worker holds, sometimes about somebody of long ago.
    private mutating func tellNews() {
        guard let (participant, room) = pick(everybody) else { return }
        let holder = harness.held.first { $0.value.contains(participant.handle) }?.key
        guard let worker = draw(10) == 0 ? ConductorHarness.worker(draw(2), epoch: epoch) : holder else { return }
        let at = harness.now - .milliseconds(Int64(draw(50)))
        let handle = participant.handle
        let ends: [TransportEnd] = [.closed, .lost, .fingerprintMismatch, .noSRTPProfile, .handshakeFailed, .peerLeft]
        let isTrue = worker == holder
        switch draw(14) {
        case 0..<4: harness.news(.prepared(handle, at: at), from: worker)
        case 4..<6: harness.news(.joined(handle, at: at), from: worker)
        case 6: harness.news(.interrupted(handle, at: at), from: worker)
        case 7: harness.news(.recovered(handle, at: at), from: worker)
        case 8: harness.news(.pathChanged(handle, at: at), from: worker)
        case 9: harness.news(.media(handle, .audio, at: at), from: worker)
        case 10: harness.news(.statistics(handle, statistics(), at: at), from: worker)
        case 11: harness.news(.speaker(handle, at: at), from: worker)
        case 12: harness.news(.slots(handle, occupants(of: room), at: at), from: worker)
        default:
            guard isTrue, draw(2) == 0 else { return }
            harness.news(.ended(handle, ends[draw(ends.count)], at: at, TransportStatistics()), from: worker)
        }
    }

    /// Somebody in a slot, mostly of the same room and perhaps long gone; sometimes nobody.
    private mutating func occupants(of room: RoomID?) -> [SlotOccupant] {
        let near = draw(4) == 0 ? everybody : everybody.filter { $0.1 == room }
        guard let (sender, _) = pick(near), draw(4) > 0 else { return [] }
        return [SlotOccupant(section: UInt8(draw(3)), sender: sender.handle)]
    }

    /// A good connection or a bad one.
    private mutating func statistics() -> TransportStatistics {
        var statistics = TransportStatistics()
        statistics.packetsReceived = 100
        statistics.packetsLost = UInt64(draw(2) * 20)
        return statistics
    }

    /// The link of a worker breaks and comes back; some of its transports got lost meanwhile.
    private mutating func reconnect() {
        guard let worker = pick(harness.held.keys.sorted { ($0.index, $0.epoch) < ($1.index, $1.epoch) }) else {
            return
        }
        if draw(2) == 0 {
            harness.decide(.workerDetached(worker))
            harness.advance(.milliseconds(Int64(draw(5_000))))
        }
        hello(of: worker)
    }

    private mutating func hello(of worker: WorkerID) {
        var transports: [TransportSnapshot] = []
        for handle in (harness.held[worker] ?? []).sorted(by: { $0.value < $1.value }) where draw(10) != 0 {
            let phase = pick([TransportPhase.connecting, .prepared, .joined]) ?? .connecting
            transports.append(
                TransportSnapshot(
                    participant: handle, room: RoomHandle(1), phase: phase, isInterrupted: draw(8) == 0,
                    since: harness.now, slots: occupants(of: nil), isSpeaker: draw(4) == 0))
        }
        harness.connect(worker, transports: transports)
    }

    private mutating func loseWorker() {
        let worker = ConductorHarness.worker(draw(2), epoch: epoch)
        guard harness.held[worker] != nil else { return }
        harness.lose(worker)
        epoch += 1
        for index in 0..<2 { harness.connect(ConductorHarness.worker(index, epoch: epoch)) }
    }

    /// Control dies; its workers say hello to the next one, one of them sometimes too late.
    private mutating func restartControl() {
        harness.restart()
        for worker in harness.held.keys.sorted(by: { ($0.index, $0.epoch) < ($1.index, $1.epoch) }) {
            if draw(5) == 0 { harness.advance(.seconds(3)) }
            hello(of: worker)
        }
    }

    // MARK: What must hold

    private mutating func check() {
        for event in harness.events[readEventCount...] { follow(event) }
        readEventCount = harness.events.count
        for (worker, handles) in harness.held where handles != harness.conductor.expectedTransports(on: worker) {
            isBroken = true
            Issue.record("\(worker) holds \(handles.count) transports, not those of who is in")
        }
        if !harness.conductor.checkInvariants().isEmpty { isBroken = true }
    }

    /// connecting → prepared → joined → left or replaced, each at most once, nothing afterwards.
    private mutating func follow(_ event: RelayEvent) {
        guard let id = event.participantID else { return }
        let state = lives[id]
        let next: ParticipantState?
        switch event.type {
        case .participantConnecting: next = state == nil ? .connecting : nil
        case .participantPrepared: next = state == .connecting ? .prepared : nil
        case .participantJoined: next = state == .prepared ? .joined : nil
        case .participantLeft, .participantReplaced: next = state == nil || state == .left ? nil : .left
        default: next = state == .left ? nil : state
        }
        guard let next else {
            isBroken = true
            Issue.record("\(event.line) after \(state.map { $0.rawValue } ?? "nothing")")
            return
        }
        lives[id] = next
    }
}
