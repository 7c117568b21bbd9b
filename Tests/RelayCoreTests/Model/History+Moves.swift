import RTPCore
import RelayCore

// What happens in a history: the clients' and the server's moves, news, time.

extension History {
    private static let users = ["ann", "ben", "cat", "dan"]

    func begin() {
        create(isSecond: false)
        if draw(3) == 0 { create(isSecond: true) }
    }

    /// The first room is ann's; a second one crosses it: ben calls ann, dan calls ben, or both are in it without ring.
    private func create(isSecond: Bool) {
        let isGroup = draw(3) == 0
        var specification = RoomSpecification(
            id: nil, kind: isGroup ? .group : .peer, media: draw(2) == 0 ? .audio : .video)
        if draw(4) != 0 {
            let caller = isSecond ? ["ben", "dan"][draw(2)] : "ann"
            let callees =
                isGroup ? Self.users.filter { $0 != caller && draw(3) != 0 } : [caller == "ben" ? "ann" : "ben"]
            if !callees.isEmpty {
                specification.ring = RingSpecification(caller: caller, callees: callees)
                specification.ring?.window = .milliseconds(Int64(1_000 + draw(44_000)))
            }
        }
        specification.allowParallel = draw(5) == 0
        if draw(5) == 0 { specification.ifBusy = .refuse }
        if draw(6) == 0 { specification.timeouts.maxDuration = .seconds(Int64(30 + draw(100))) }
        if draw(5) == 0 { specification.timeouts.idle = draw(3) == 0 ? nil : .milliseconds(Int64(500 + draw(120_000))) }
        if draw(3) == 0 { specification.timeouts.alone = .milliseconds(Int64(500 + draw(100_000))) }
        if draw(6) == 0 { specification.timeouts.prepared = .seconds(Int64(1 + draw(40))) }
        let key = draw(4) == 0 ? IdempotencyKey(text: "create", digest: "\(isSecond)") : nil
        if case .created(let view, _)? = request(Self.server, .createRoom(specification), key: key) {
            rooms.append(view.id)
        }
    }

    func step() {
        switch draw(100) {
        case 0..<22: prepare()
        case 22..<28: ask { .ringing($0) }
        case 28..<35: ask { .answer($0) }
        case 35..<46: join()
        case 46..<54: end()
        case 54..<57: leaveOrKick()
        case 57..<60: other()
        case 60..<76: tellTruth()
        case 76..<81: endTransport()
        case 81..<90: advance(.milliseconds(Int64(draw(9_000))))
        case 90..<93: advance(.seconds(Int64(draw(70))))
        case 93: oversleep(.milliseconds(Int64(draw(60_000))))
        case 94: goWell()
        case 95: detach()
        case 96: reconnectAll(forgetting: draw(5) == 0)
        case 97: if draw(3) == 0 { loseWorker() }
        case 98: restart(isSameBoot: draw(5) != 0)
        default: dieInTheMiddle()
        }
    }

    private func somebody() -> (room: RoomID, uid: String, device: String, token: Principal)? {
        guard let room = pick(rooms) else { return nil }
        let uid = Self.users[min(draw(5), 3)]
        let device = draw(3) == 0 ? "laptop" : "phone"
        return (room, uid, device, Principal.device(uid, room, device: device))
    }

    private func ask(_ make: (RoomID) -> ControlRequest) {
        guard let who = somebody() else { return }
        repeatable(who.token, make(who.room))
    }

    /// Some requests come with a key, some of those twice: the second time nothing happens.
    private func repeatable(_ principal: Principal, _ asked: ControlRequest) {
        guard draw(6) == 0 else {
            _ = request(principal, asked)
            return
        }
        let key = IdempotencyKey(text: "key\(draw(4))", digest: "\(asked)")
        let first = request(principal, asked, key: key)
        // What the first has made due is not the second's doing.
        advance(.zero)
        guard draw(2) == 0, rules.failure == nil else { return }
        let before = rules.nextSeq
        let second = request(principal, asked, key: key)
        if case .problem(let problem)? = first, problem.status == 429 || problem.status >= 500 { return }
        if case .problem(let problem)? = first, problem.code == "idempotency-key-reused" { return }
        guard case .repeated? = second else { return rules.fail("a repeated key was not answered as before") }
        if rules.nextSeq != before { rules.fail("a repeated request had consequences") }
    }

    private func prepare() {
        guard let who = somebody() else { return }
        prepare(who.uid, who.device, in: who.room, draw(4) == 0 ? .joined : draw(12) == 0 ? nil : .prepared)
    }

    @discardableResult
    private func prepare(_ uid: String, _ device: String, in room: RoomID, _ state: PrepareState?) -> Session? {
        let asked = ControlRequest.prepare(
            room, state: state, offer: draw(30) == 0 ? [] : offer(fresh: draw(6) != 0),
            joinOnAnswer: rules.caller(of: room) == uid ? draw(2) == 0 : draw(40) == 0)
        let token = Principal.device(uid, room, device: device)
        guard case .prepared(let id, _, _, let isNew)? = request(token, asked) else { return nil }
        let session = Session(id: id, room: room, uid: uid, device: device)
        if isNew { sessions.append(session) }
        return session
    }

    private func join() {
        // Mostly one who is still in.
        guard let session = draw(4) == 0 ? pick(sessions) : sessions.last(where: { _ in draw(2) == 0 }) else { return }
        let token = Principal.device(session.uid, session.room, device: session.device)
        repeatable(token, .join(session.room, session.id, endOthers: draw(4) == 0, takeover: draw(4) == 0))
    }

    private func end() {
        guard let who = somebody(), let status = pick(EndStatus.allCases) else { return }
        if draw(5) == 0 {
            repeatable(Self.server, .end(who.room, status, uid: draw(10) == 0 ? nil : who.uid, scope: .user))
        } else {
            repeatable(who.token, .end(who.room, status, uid: nil, scope: draw(4) == 0 ? .device : .user))
        }
    }

    private func leaveOrKick() {
        guard let session = pick(sessions) else { return }
        let token = Principal.device(session.uid, session.room, device: session.device)
        if draw(4) == 0 {
            _ = request(Self.server, .kick(session.room, session.id))
        } else {
            _ = request(token, .leave(session.room, session.id))
        }
    }

    private func other() {
        guard let who = somebody() else { return }
        switch draw(12) {
        case 9, 10:
            let specification = PromptSpecification(
                Self.beep, to: draw(2) == 0 ? nil : [who.uid], times: UInt32(draw(2)))
            if case .prompt(let view)? = request(Self.server, .playPrompt(who.room, specification)) {
                prompts.append((who.room, view.id))
            }
        case 11:
            guard let prompt = pick(prompts) else { return }
            _ = request(Self.server, .stopPrompt(prompt.room, prompt.id))
        case 6, 7:
            guard let session = pick(sessions) else { return }
            let token = Principal.device(session.uid, session.room, device: session.device)
            let change = MediaChange(audio: draw(2) == 0 ? .muted : .on, isHeld: [nil, true, false][draw(3)])
            repeatable(token, .changeMedia(session.room, session.id, change))
        case 8: repeatable(who.token, .video(who.room, VideoWord.allCases[draw(3)], uid: nil))
        case 0: if draw(3) == 0 { _ = request(Self.server, .deleteRoom(who.room, reason: nil)) }
        case 1: if draw(2) == 0 { _ = request(Self.server, .logout(uid: who.uid)) }
        case 2: repeatable(Self.server, .pushed(who.room, uid: who.uid, device: who.device))
        case 3: create(isSecond: true)
        case 4:
            guard let session = pick(sessions) else { return }
            let fragment = "a=ice-ufrag:again\r\na=ice-pwd:zyxwvutsrqponmlkjihgfedc\r\n"
            _ = request(
                Principal.device(session.uid, session.room, device: session.device),
                .trickle(session.room, session.id, ifMatch: "*", fragment: Array(fragment.utf8)))
        default: _ = request(who.token, .room(who.room))
        }
    }

    /// A call that goes well, as far as what happened before lets it.
    private func goWell() {
        guard let room = pick(rooms), let caller = rules.caller(of: room) else { return }
        prepare(caller, "phone", in: room, .prepared)
        tellTruth()
        guard let callee = pick(rules.callees(of: room)), let session = prepare(callee, "phone", in: room, .prepared)
        else { return }
        for _ in 0..<4 { tellTruth() }
        let token = Principal.device(callee, room)
        _ = request(token, .join(room, session.id, endOthers: true, takeover: draw(2) == 0))
        join()
    }

    // MARK: News

    private func tellTruth() {
        let at = now - .milliseconds(Int64(draw(20)))
        let kind = draw(10)
        tell { transport in
            let handle = transport.handle
            guard transport.hasKeys else {
                transport.hasKeys = true
                transport.since = at
                return transport.isOpening ? .joined(handle, at: at) : .prepared(handle, at: at)
            }
            switch kind {
            case 0: return .interrupted(handle, at: at)
            case 1: return .recovered(handle, at: at)
            case 2: return .pathChanged(handle, at: at)
            case 3: return transport.isOpening ? .media(handle, .audio, at: at) : nil
            case 4, 5:
                var statistics = TransportStatistics()
                statistics.packetsReceived = UInt64(at.nanoseconds / 4_000_000_000)
                return .statistics(handle, statistics, at: at)
            case 6:
                guard let prompt = transport.prompt else { return nil }
                transport.prompt = nil
                return .played(handle, prompt, .finished, at: at)
            case 7: return transport.isOpening ? .joined(handle, at: at) : .prepared(handle, at: at)
            default: return nil
            }
        }
    }

    private func endTransport() {
        let ends: [TransportEnd] = [.closed, .lost, .fingerprintMismatch, .noSRTPProfile, .handshakeFailed]
        endSomebody(ends[draw(ends.count)])
    }

    /// A decision whose commands left, and whose commit never came.
    private func dieInTheMiddle() {
        guard let who = somebody() else { return }
        let session = pick(sessions.filter { $0.room == who.room })
        let asked: [ControlRequest] = [
            .answer(who.room),
            .end(who.room, EndStatus.allCases[draw(EndStatus.allCases.count)], uid: nil, scope: .user),
        ]
        if let session, draw(2) == 0 {
            _ = request(
                Principal.device(session.uid, session.room, device: session.device),
                .join(session.room, session.id, endOthers: false, takeover: false), isLost: true)
        } else {
            _ = request(who.token, asked[draw(2)], isLost: true)
        }
        rules.isTorn = true
        restart(isSameBoot: true)
        rules.isTorn = false
    }
}
