import RTPCore

// A ring's beginning and middle: what is checked before one is made, who is let in while it rings, the claim.

extension Conductor {
    // MARK: Creation

    /// The form of a ring and, in CALLS.md's order, what may stand in its way.
    func checkRing(of specification: RoomSpecification) throws(Problem) {
        guard let ring = specification.ring else { return }
        func refuse(_ detail: String) -> Problem {
            Problem(status: 422, code: "invalid-room", detail: detail)
        }
        let most = specification.kind == .peer ? 1 : specification.maxParticipants
        guard (1...most).contains(ring.callees.count) else {
            throw refuse("a ring in a \(specification.kind) room has 1…\(most) callees, not \(ring.callees.count)")
        }
        guard Set(ring.callees).count == ring.callees.count else { throw refuse("a callee is named twice") }
        guard ring.window > .zero, ring.window <= ConductorConfiguration.longestTimeout else {
            throw refuse("a window of \(ring.window.milliseconds) ms is not in 1…2592000000")
        }
        guard !ring.callees.contains(ring.caller) else {
            throw Problem(status: 400, code: "calling-self", detail: "\(ring.caller) is caller and callee")
        }
        let theirs = ordered(Set(calls[ring.caller] ?? []))
        if specification.kind == .peer, let crossing = theirs.first(where: { isGlare($0, ring) }) {
            throw inTheWay(crossing, "glare", "\(ring.callees[0]) is calling \(ring.caller) already")
        }
        guard !specification.allowParallel else { return }
        let engaging = theirs.first {
            !$0.record.specification.allowParallel && isEngaged(ring.caller, in: $0)
        }
        if let engaging {
            throw inTheWay(engaging, "session-already-active", "\(ring.caller) is in a call already")
        }
    }

    private func isGlare(_ room: ConductedRoom, _ ring: RingSpecification) -> Bool {
        guard room.record.specification.kind == .peer, let other = room.record.ring else { return false }
        return other.stage == .ringing && ring.callees == [other.caller] && other.isRinging(ring.caller)
    }

    private func inTheWay(_ room: ConductedRoom, _ code: String, _ detail: String) -> Problem {
        Problem(
            status: 409, code: code, detail: "\(detail), in room \(room.record.id)",
            members: [JSONValue.Field("roomId", .string(room.record.id.text))])
    }

    /// Whether the user's own doing ties it to the room's call: calling, having answered, being in. Being rung
    /// does not count.
    func isEngaged(_ uid: String, in room: ConductedRoom) -> Bool {
        guard let ring = room.record.ring, !ring.isRinging(uid) else { return false }
        if uid == ring.caller, ring.stage == .ringing || !ring.isConnected { return true }
        if ring.callee(uid)?.joinDeadline != nil { return true }
        return room.record.participants.contains { $0.uid == uid }
    }

    /// After `room.created`: the ring starts, and callees who are busy elsewhere end theirs where the room
    /// wants that.
    func startRing(of room: ConductedRoom) {
        let specification = room.record.specification
        guard let ring = specification.ring else { return }
        room.record.ring = Ring(kind: specification.kind, specification: ring, now: now, nowMs: wallClockMs)
        indexCalls(of: room)
        armRing(of: room)
        emit(.callInitiated, in: room, uid: ring.caller, data: pushData(of: room, ring), at: now)
        guard specification.ifBusy == .refuse else { return }
        for uid in ring.callees where isBusyElsewhere(uid, than: room) {
            receive(.declined(uid, .busy), in: room, by: uid)
        }
    }

    private func isBusyElsewhere(_ uid: String, than room: ConductedRoom) -> Bool {
        let isJoined = (sessions[uid] ?? []).contains { handle in
            guard let other = roomsByParticipant[handle], other !== room, let index = other.record.index(of: handle)
            else { return false }
            return other.record.participants[index].lifecycle.claimsSeat
        }
        return isJoined
            || ordered(Set(calls[uid] ?? [])).contains {
                $0 !== room && $0.record.ring?.callee(uid)?.joinDeadline != nil
            }
    }

    /// What a push needs (CALLS.md, the last paragraph but one).
    private func pushData(of room: ConductedRoom, _ ring: RingSpecification) -> [JSONValue.Field] {
        let specification = room.record.specification
        let isPeer = specification.kind == .peer
        func text(_ value: String?) -> JSONValue { value.map { .string($0) } ?? .null }
        return [
            JSONValue.Field("sessionId", .string(room.record.id.text)),
            JSONValue.Field("callerUid", .string(ring.caller)),
            JSONValue.Field("callerName", text(ring.callerName)),
            JSONValue.Field("callerAvatarUrl", text(ring.callerAvatarURL)),
            JSONValue.Field("callType", .string(specification.media.rawValue)),
            JSONValue.Field("receiverType", .string(isPeer ? "user" : "group")),
            // A group has no uid of its own here: its conversation names it.
            JSONValue.Field("receiverUid", isPeer ? .string(ring.callees[0]) : text(ring.conversationID)),
            JSONValue.Field("callees", .array(ring.callees.map { .string($0) })),
            JSONValue.Field("conversationId", text(ring.conversationID)),
            JSONValue.Field("initiatedAtMs", .integer(room.record.createdAtMs)),
            JSONValue.Field("ringTimeoutMs", .integer(ring.window.milliseconds)),
            JSONValue.Field("isVideo", .bool(specification.media == .video)),
            JSONValue.Field("isPeerCall", .bool(isPeer)),
        ]
    }

    /// What later events of a call repeat of it, so that each can be understood alone.
    func callData(of room: ConductedRoom) -> JSONValue.Field {
        let specification = room.record.specification
        let ring = room.record.ring
        let isPeer = specification.kind == .peer
        let receiver = isPeer ? ring?.callees.first?.uid : specification.ring?.conversationID
        var fields = [
            JSONValue.Field("callerUid", .string(ring?.caller ?? "")),
            JSONValue.Field("receiverUid", receiver.map { .string($0) } ?? .null),
            JSONValue.Field("receiverType", .string(isPeer ? "user" : "group")),
            JSONValue.Field("callType", .string(specification.media.rawValue)),
            JSONValue.Field("initiatedAtMs", .integer(room.record.createdAtMs)),
        ]
        if let answered = ring?.callees.compactMap(\.answeredAtMs).min() {
            fields.append(JSONValue.Field("answeredAtMs", .integer(answered)))
        }
        if let joined = room.record.talkingSinceMs {
            fields.append(JSONValue.Field("joinedAtMs", .integer(joined)))
        }
        return JSONValue.Field("call", .object(fields))
    }

    // MARK: Index and timers

    func indexCalls(of room: ConductedRoom) {
        guard let ring = room.record.ring, room.record.status != .ended else { return }
        for uid in [ring.caller] + ring.callees.map(\.uid) { calls[uid, default: []].append(room.record.handle) }
    }

    func unindexCalls(of room: ConductedRoom) {
        guard let ring = room.record.ring else { return }
        for uid in [ring.caller] + ring.callees.map(\.uid) {
            calls[uid]?.removeAll { $0 == room.record.handle }
            if calls[uid]?.isEmpty == true { calls[uid] = nil }
        }
    }

    /// Both timers of a ring as its deadlines say. The join's waits for a worker that is away, since that may
    /// know of a gate that opened; the window does not, since no worker decides a claim.
    func armRing(of room: ConductedRoom) {
        guard let ring = room.record.ring else { return }
        func arm(_ timer: ConductorTimer, _ deadline: Instant?) {
            guard timers.deadline(of: timer) != deadline else { return }
            if let deadline { timers.set(timer, to: deadline) } else { timers.cancel(timer) }
        }
        arm(.ringWindow(room.record.handle), ring.windowDeadline)
        arm(.joinAfterClaim(room.record.handle), room.isAwaitingWorker ? nil : ring.joinDeadline)
    }

    // MARK: Letting in

    /// Any request of a callee's device for the room, even one that is refused, reaches the callee.
    func noteReached(by request: ControlRequest, from principal: Principal) {
        guard case .participant(let identity) = principal, request.room == identity.room,
            let room = rooms[identity.room], room.record.ring?.reach(identity.uid) == true
        else { return }
        change(room)
    }

    enum Admission { case free, claims }

    /// Whether a device may come into a room with a ring, or join it; without a ring everybody may.
    func admit(
        _ uid: String, _ device: String, to room: ConductedRoom, joining: Bool, takeover: Bool
    ) throws(Problem) -> Admission {
        guard let ring = room.record.ring, uid != ring.caller else { return .free }
        guard let callee = ring.callee(uid) else {
            guard ring.kind == .group, ring.stage != .ringing else {
                throw Problem(
                    status: 403, code: "forbidden", detail: "\(uid) is neither caller nor callee of \(room.record.id)")
            }
            return .free
        }
        if let outcome = callee.outcome { throw .ended(room.record.id, outcome) }
        if callee.isRung {
            guard !callee.declinedDevices.contains(device) else { throw .ended(room.record.id, .rejected) }
            return .claims
        }
        let isIn =
            callee.joinDeadline != nil || ring.kind == .peer
            || room.record.participants.contains { $0.uid == uid && $0.lifecycle.claimsSeat }
        guard callee.device == device || takeover || !joining || !isIn else { throw answeredElsewhere(callee) }
        return .free
    }

    func answeredElsewhere(_ callee: Ring.Callee) -> Problem {
        Problem(
            status: 409, code: "answered-elsewhere", detail: "\(callee.uid) answered on another device",
            members: callee.device.map { [JSONValue.Field("device", .string($0))] } ?? [])
    }

    // MARK: The claim

    /// The call is answered: told, the user's other devices leave, a caller who asked for it joins.
    func claim(_ uid: String, on device: String, in room: ConductedRoom) {
        let joinUntil = now + room.record.specification.timeouts.joinAfterClaim
        receive(
            .claimed(uid, device: device, atMs: wallClockMs, joinUntil: joinUntil), in: room, by: uid)
        for other in room.record.participants where other.uid == uid && other.device != device {
            depart(other.handle, from: room, reason: .answeredElsewhere, detail: nil, at: now, removing: true)
        }
        endPrompts(in: room, for: .answered) { $0.endsWithAnswer }
        perform(room.record.lifecycle.receive(.claimed), on: room, at: now)
        noteJoined(in: room)
        for device in room.record.ring?.devicesJoiningOnAnswer ?? [] {
            let waiting = room.record.participants.first {
                $0.uid == room.record.ring?.caller && $0.device == device && !$0.lifecycle.claimsSeat
            }
            // A caller who is joined elsewhere has to say itself what shall become of that.
            guard let waiting, rivals(of: waiting.uid, in: room, except: waiting.handle).isEmpty else { continue }
            apply(.joinRequested, to: waiting.handle, in: room, at: now, transportIsGone: false)
        }
    }

    /// Somebody's gate opened, or a claim found gates open.
    func noteJoined(in room: ConductedRoom) {
        guard room.record.ring != nil else { return }
        let joined = Set(room.record.participants.filter { $0.lifecycle.state == .joined }.map(\.uid))
        receive(.joined(joined), in: room, by: nil)
    }
}

extension ControlRequest {
    /// The room that it is about.
    var room: RoomID? {
        switch self {
        case .createRoom, .listRooms, .logout, .drain, .undrain: nil
        case .room(let room), .deleteRoom(let room, _), .prepare(let room, _, _, _, _), .join(let room, _, _, _),
            .leave(let room, _), .kick(let room, _), .trickle(let room, _, _, _), .ringing(let room),
            .answer(let room), .end(let room, _, _, _), .pushed(let room, _, _), .changeMedia(let room, _, _),
            .changeMediaByServer(let room, _, _), .requestSlots(let room, _, _), .video(let room, _, _),
            .playPrompt(let room, _), .stopPrompt(let room, _), .series(let room), .capture(let room, _),
            .startRecording(let room, _), .stopRecording(let room, _):
            room
        }
    }
}
