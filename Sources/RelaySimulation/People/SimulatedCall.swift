import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// One call and who is in it: a plan that goes well if nothing crosses it, and things that cross it. People do what they do
/// whatever they are answered, as people do.
final class SimulatedCall {
    /// A device and its session.
    final class Party {
        let uid: String
        let device: String
        var seat: ClientSeat? {
            didSet { if let seat { tags.insert(seat.client.tag) } }
        }
        /// Of all its clients so far.
        private(set) var tags: Set<UInt32> = []
        var session: ParticipantID?
        /// It has said that it wants to be joined, or that it wants to when the call is answered.
        var asksToJoin = false
        var isGone = false
        init(_ uid: String, _ device: String) {
            self.uid = uid
            self.device = device
        }
    }

    unowned let simulation: RelaySimulation
    let room: RoomID
    let number: Int
    let caller: Party
    var callees: [Party] = []
    let isGroup: Bool
    /// Its end was told as stored.
    var endedAt: Instant?
    /// Everybody has been put away.
    var isOver = false

    var parties: [Party] { [caller] + callees }
    /// What the clients of a user's device, or of the same user, sign with.
    func tags(of party: Party) -> Set<UInt32> { party.tags }
    var seats: [ClientSeat] { parties.compactMap { $0.isGone ? nil : $0.seat } }

    init(_ simulation: RelaySimulation, number: Int, room: RoomID) {
        self.simulation = simulation
        self.number = number
        self.room = room
        let users = (0..<simulation.options.userCount).map { "u\($0)" }
        let first = simulation.draw(users.count)
        caller = Party(users[first], "phone")
        isGroup = simulation.draw(5) == 0
        let others = users.indices.filter { $0 != first }.map { users[$0] }
        if isGroup {
            for uid in others where simulation.draw(3) == 0 && callees.count < 3 { callees.append(Party(uid, "phone")) }
        }
        if callees.isEmpty { callees.append(Party(others[simulation.draw(others.count)], "phone")) }
        // Two devices of one user ring.
        if simulation.draw(4) == 0, let uid = callees.first?.uid { callees.append(Party(uid, "laptop")) }
    }

    private func draw(_ count: Int) -> Int { simulation.draw(count) }
    private func tell(_ what: String) { simulation.tell("call \(number): \(what)") }
    private func later(_ range: ClosedRange<Int>, _ act: @escaping () -> Void) {
        simulation.schedule(after: simulation.milliseconds(range)) { [weak self] in
            guard let self, !self.isOver else { return }
            act()
        }
    }

    func token(_ party: Party) -> Principal {
        .participant(ParticipantIdentity(uid: party.uid, device: party.device, room: room, grants: .standard))
    }

    private func ask(
        _ party: Party, _ request: ControlRequest, _ words: String, then: @escaping (ControlReply) -> Void = { _ in }
    ) {
        tell("\(party.uid)/\(party.device) \(words)")
        simulation.ask(token(party), request, isKeyed: draw(3) == 0) { [weak self] reply in
            self?.look(at: reply, words)
            then(reply)
        }
    }

    private func askAsServer(
        _ request: ControlRequest, _ words: String, then: @escaping (ControlReply) -> Void = { _ in }
    ) {
        tell("server \(words)")
        simulation.ask(RelaySimulation.server, request, isKeyed: draw(2) == 0) { [weak self] reply in
            self?.look(at: reply, words)
            then(reply)
        }
    }

    private func look(at reply: ControlReply, _ words: String) {
        if case .problem(let problem) = reply { tell("  \(words): \(problem.status) \(problem.code)") }
    }

    // MARK: The plan

    func begin() {
        var specification = RoomSpecification(
            id: room, kind: isGroup ? .group : .peer, media: draw(6) == 0 ? .video : .audio)
        specification.ring = RingSpecification(caller: caller.uid, callees: Array(Set(callees.map(\.uid))).sorted())
        specification.ring?.window = .milliseconds(Int64(3_000 + draw(27_000)))
        if draw(4) == 0 { specification.allowParallel = true }
        if draw(5) == 0 { specification.ifBusy = .refuse }
        if draw(8) == 0 { specification.timeouts.maxDuration = .seconds(Int64(5 + draw(30))) }
        let hasVideo = specification.media == .video
        askAsServer(.createRoom(specification), "makes \(room) for \(caller.uid) → \(callees.map(\.uid))") {
            [weak self] reply in
            guard let self else { return }
            if case .problem = reply { return }
            later(5...900) { [self] in
                prepare(caller, state: .prepared, joinsOnAnswer: draw(3) > 0, hasVideo: hasVideo)
            }
            for callee in callees { later(80...2_500) { [self] in ring(callee, hasVideo: hasVideo) } }
            if draw(3) == 0 { cross() }
        }
        // Whatever became of it.
        later(70_000...90_000) { [self] in askAsServer(.deleteRoom(room, reason: nil), "gives \(room) up") }
    }

    private func ring(_ callee: Party, hasVideo: Bool) {
        ask(callee, .ringing(room), "rings")
        later(100...5_000) { [self] in
            switch draw(12) {
            case 0: ask(callee, .end(room, .rejected, uid: nil, scope: draw(3) == 0 ? .device : .user), "declines")
            case 1: ask(callee, .end(room, .busy, uid: nil, scope: .user), "is busy")
            case 2: break
            case 3...5: prepare(callee, state: .joined, joinsOnAnswer: false, hasVideo: hasVideo)
            default: prepare(callee, state: .prepared, joinsOnAnswer: false, hasVideo: hasVideo)
            }
        }
    }

    private func prepare(_ party: Party, state: PrepareState, joinsOnAnswer: Bool, hasVideo: Bool) {
        let old = party.seat
        let seat = simulation.makeClient(hasVideo: hasVideo)
        if state == .joined || joinsOnAnswer { party.asksToJoin = true }
        let request = ControlRequest.prepare(
            room, state: state, offer: seat.client.offer(), joinOnAnswer: joinsOnAnswer)
        ask(party, request, "prepares as \(state.rawValue)\(joinsOnAnswer ? ", joins on answer" : "")") {
            [weak self] reply in
            guard let self, !isOver else { return }
            guard let (session, answer) = Self.session(of: reply) else { return }
            party.session = session
            party.isGone = false
            if let old { simulation.putAway(old) }
            party.seat = seat
            simulation.connect(seat, answer: answer)
            if state == .prepared, !joinsOnAnswer {
                later(30...1_800) { [self] in join(party) }
            } else {
                later(500...2_000) { [self] in talk() }
            }
        }
    }

    private static func session(of reply: ControlReply) -> (ParticipantID, [UInt8])? {
        switch reply {
        case .prepared(let id, let answer, _, _): return (id, answer)
        case .repeated(let stored) where stored.status < 300:
            guard let location = stored.fields.first(where: { $0.name == "Location" })?.value,
                let last = location.split(separator: "/").last, let id = ParticipantID(String(last))
            else { return nil }
            return (id, Array(stored.body.utf8))
        default: return nil
        }
    }

    private func join(_ party: Party) {
        guard let session = party.session else { return }
        party.asksToJoin = true
        ask(party, .join(room, session, endOthers: draw(2) == 0, takeover: draw(4) == 0), "joins") { [weak self] _ in
            self?.talk()
        }
    }

    private var isTalking = false

    private func talk() {
        guard !isTalking, parties.count(where: { $0.asksToJoin && $0.seat != nil }) > 1 else { return }
        isTalking = true
        let length = Int(simulation.options.talk.milliseconds)
        if draw(3) == 0 { later(500...length) { [self] in chat() } }
        later(length / 3...length * 5 / 3) { [self] in hangUp() }
    }

    /// Something in the midst of a call.
    private func chat() {
        guard let party = simulation.pick(parties.filter { $0.seat != nil && !$0.isGone }), let session = party.session
        else { return }
        switch draw(4) {
        case 0:
            tell("\(party.uid) moves to another network")
            if let seat = party.seat { simulation.move(seat) }
        case 1:
            party.seat?.isDisturbed = true
            ask(party, .changeMedia(room, session, MediaChange(audio: draw(2) == 0 ? .muted : .on)), "mutes, or not")
        case 2: ask(party, .video(room, VideoWord.allCases[draw(3)], uid: nil), "wishes for video")
        default:
            party.seat?.isDisturbed = true
            ask(party, .changeMedia(room, session, MediaChange(isHeld: draw(2) == 0)), "holds, or not")
        }
    }

    private func hangUp() {
        guard let party = simulation.pick(parties.filter { $0.seat != nil && !$0.isGone }) else { return }
        party.seat?.isDisturbed = true
        switch draw(10) {
        case 0...4: ask(party, .end(room, .ended, uid: nil, scope: .user), "hangs up")
        case 5: if let session = party.session { ask(party, .leave(room, session), "leaves") }
        case 6:
            tell("\(party.uid) closes its connection")
            if let seat = party.seat {
                seat.client.close(now: simulation.now)
                simulation.drain(seat)
            }
        case 7:
            tell("\(party.uid) vanishes")
            party.seat?.client.vanish()
        case 8: askAsServer(.logout(uid: party.uid), "logs \(party.uid) out")
        default: askAsServer(.deleteRoom(room, reason: nil), "ends the room")
        }
        later(3_000...20_000) { [self] in
            ask(caller, .end(room, .ended, uid: nil, scope: .user), "ends what may be left")
        }
    }

    // MARK: What crosses it

    private func cross() {
        let count = 1 + draw(4)
        for _ in 0..<count { later(50...9_000) { [self] in crossOnce() } }
    }

    private func crossOnce() {
        guard let party = simulation.pick(parties) else { return }
        let status = EndStatus.allCases[draw(EndStatus.allCases.count)]
        switch draw(12) {
        case 0...2: ask(caller, .end(room, .cancelled, uid: nil, scope: .user), "cancels")
        case 3...4: ask(party, .end(room, status, uid: nil, scope: .user), "says \(status.rawValue)")
        case 5...6: ask(party, .answer(room), "answers")
        case 7: prepare(party, state: draw(2) == 0 ? .joined : .prepared, joinsOnAnswer: false, hasVideo: false)
        case 8: if let session = party.session { ask(party, .leave(room, session), "leaves") }
        case 9: join(party)
        case 10:
            askAsServer(.end(room, status, uid: party.uid, scope: .user), "says \(status.rawValue) for \(party.uid)")
        default: askAsServer(.pushed(room, uid: party.uid, device: party.device), "has sent a push")
        }
    }
}
