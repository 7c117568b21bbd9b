import RTPCore

// The requests of a ring, and how one ends.

extension Conductor {
    func ringing(_ id: RoomID, for principal: Principal) throws(Problem) -> ControlReply {
        let (room, identity) = try calleesRoom(id, for: principal)
        if try admit(identity.uid, identity.device, to: room, joining: true, takeover: false) == .claims {
            receive(.rang(identity.uid), in: room, by: identity.uid)
        }
        return .room(view(of: room))
    }

    func answer(_ id: RoomID, for principal: Principal) throws(Problem) -> ControlReply {
        let (room, identity) = try calleesRoom(id, for: principal)
        if try admit(identity.uid, identity.device, to: room, joining: true, takeover: false) == .claims {
            claim(identity.uid, on: identity.device, in: room)
        }
        return .room(view(of: room))
    }

    private func calleesRoom(
        _ id: RoomID, for principal: Principal
    ) throws(Problem) -> (ConductedRoom, ParticipantIdentity) {
        let room = try liveRoom(id, for: principal)
        guard let ring = room.record.ring else { throw noRing(room) }
        guard case .participant(let identity) = principal, ring.callee(identity.uid) != nil else {
            throw Problem(status: 403, code: "forbidden", detail: "only a callee's device rings or answers")
        }
        return (room, identity)
    }

    func notePush(
        _ id: RoomID, uid: String, device: String, for principal: Principal
    ) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        let room = try room(id, for: principal)
        guard room.record.ring != nil else { throw noRing(room) }
        guard room.record.ring?.callee(uid) != nil else { throw notInRing(uid, room) }
        guard room.record.ring?.push(to: device, of: uid, atMs: wallClockMs) == true else {
            throw tooManyDevices(uid)
        }
        change(room)
        return .done
    }

    private func notInRing(_ uid: String, _ room: ConductedRoom) -> Problem {
        Problem(status: 422, code: "invalid-field", detail: "\(uid) has no part in the ring of \(room.record.id)")
    }

    private func tooManyDevices(_ uid: String) -> Problem {
        Problem(
            status: 429, code: "overloaded",
            detail: "\(Ring.devicesKept) devices of \(uid) are noted already, which is the limit",
            retryAfterSeconds: configuration.retryAfterSeconds)
    }

    // MARK: The end by request

    func end(
        _ id: RoomID, as status: EndStatus, uid given: String?, scope: EndScope, for principal: Principal
    ) throws(Problem) -> ControlReply {
        let room = try room(id, for: principal)
        var uid = given
        var device: String?
        var endsForAll = false
        if case .participant(let identity) = principal {
            uid = identity.uid
            device = identity.device
            endsForAll = status == .ended && mayEndForAll(identity, in: room)
        }
        guard let uid else {
            throw Problem(status: 400, code: "invalid-field", detail: "the server names the uid that it speaks for")
        }
        guard scope == .user || device != nil else {
            throw Problem(status: 400, code: "invalid-field", detail: "only a device's own token has scope device")
        }
        guard room.record.status != .ended else { return .room(view(of: room)) }
        guard let ring = room.record.ring else {
            guard status == .ended else { throw noRing(room) }
            hangUp(uid, in: room, endsForAll: endsForAll)
            return .room(view(of: room))
        }
        let role = try role(of: uid, device, in: room)
        switch RingAuthority.verdict(on: status, by: role, isClaimed: ring.stage != .ringing) {
        case .forbid:
            throw Problem(
                status: 403, code: "forbidden", detail: "\(uid) may not end this call as \(status.rawValue)")
        case .nothing: break
        case .cancel: cancel(room, at: now)
        case .decline(let outcome):
            if scope == .device, let device {
                try decline(on: device, of: uid, in: room)
            } else {
                receive(.declined(uid, outcome), in: room, by: uid)
            }
        case .ringOut: receive(.rangOut(role == .caller ? nil : uid), in: room, by: uid)
        case .hangUp: hangUp(uid, in: room, endsForAll: endsForAll)
        }
        return .room(view(of: room))
    }

    private func role(
        of uid: String, _ device: String?, in room: ConductedRoom
    ) throws(Problem) -> RingAuthority.Role {
        guard let ring = room.record.ring else { throw noRing(room) }
        if uid == ring.caller { return .caller }
        if let callee = ring.callee(uid) {
            if callee.isRung { return .callee }
            guard callee.state == .answered else { return .late }
            return device == nil || device == callee.device ? .claimer : .late
        }
        guard room.record.participants.contains(where: { $0.uid == uid }) else { throw notInRing(uid, room) }
        return .guest
    }

    private func decline(on device: String, of uid: String, in room: ConductedRoom) throws(Problem) {
        guard room.record.ring?.decline(device, of: uid) == true else { throw tooManyDevices(uid) }
        change(room)
        for participant in room.record.participants where participant.uid == uid && participant.device == device {
            depart(participant.handle, from: room, reason: .declined, detail: nil, at: now, removing: true)
        }
    }

    /// Everything that ties the user to the room ends: cancelled, declined or left.
    func endCall(of uid: String, in room: ConductedRoom) {
        guard let ring = room.record.ring, room.record.status != .ended else { return }
        if ring.isRinging(uid) {
            receive(.declined(uid, .rejected), in: room, by: uid)
        } else if uid == ring.caller, ring.stage == .ringing {
            cancel(room, at: now)
        } else if isEngaged(uid, in: room) {
            hangUp(uid, in: room, endsForAll: false)
        }
    }

    func cancel(_ room: ConductedRoom, at time: Instant) {
        guard let ring = room.record.ring else { return }
        close(room, as: .cancelled, others: .cancelled, reason: "cancelled", by: ring.caller, at: time)
    }

    /// Peer: the call is over for both; group: the user leaves, and a caller takes its other rings along.
    private func hangUp(_ uid: String, in room: ConductedRoom, endsForAll: Bool) {
        let hasRing = room.record.ring != nil
        if endsForAll || (hasRing && room.record.specification.kind == .peer) {
            return close(room, as: .ended, others: .peerLeft, reason: "hangup", by: uid, at: now)
        }
        receive(uid == room.record.ring?.caller ? .stopped : .gaveUp(uid), in: room, by: uid)
        if room.record.ring?.stage == .settled, room.record.participants.allSatisfy({ $0.uid == uid }) {
            return close(room, as: .ended, others: .hangup, reason: "empty", by: uid, at: now)
        }
        for participant in room.record.participants where participant.uid == uid {
            depart(participant.handle, from: room, reason: .hangup, detail: nil, at: now, removing: true)
        }
    }

    // MARK: What a ring asks for

    /// Lets the ring judge an event and carries out what it says.
    func receive(_ event: Ring.Event, in room: ConductedRoom, by actor: String?) {
        guard room.record.status != .ended, let effects = room.record.ring?.receive(event) else { return }
        let isGroup = room.record.specification.kind == .group
        let roomEnd = effects.contains { if case .end = $0 { true } else { false } }
        var over: [(uid: String, outcome: RoomOutcome)] = []
        for effect in effects {
            switch effect {
            case .tellRinging(let uid):
                noteRinging(uid, in: room)
                emit(.callRinging, in: room, uid: uid, data: [], at: now)
            case .tellAnswered(let uid, let device):
                emit(.callAnswered, in: room, uid: uid, device: device, data: [callData(of: room)], at: now)
            case .endCallee(let uid, let outcome):
                over.append((uid, outcome))
                if isGroup { tellCalleeEnded(uid, outcome, in: room) }
            case .end(let outcome):
                close(
                    room, as: outcome, others: Self.leaveReason(of: outcome), reason: outcome.rawValue, by: actor,
                    at: now)
            }
        }
        guard !roomEnd else { return }
        armRing(of: room)
        change(room)
        // Where nobody stays, the end is told before those whose ring is over leave.
        let leaving = Set(over.map(\.uid) + (event == .stopped ? [actor].compactMap { $0 } : []))
        if room.record.ring?.stage == .settled, room.record.participants.allSatisfy({ leaving.contains($0.uid) }) {
            let others = over.first.map { Self.leaveReason(of: $0.outcome) } ?? .roomEnded
            return close(room, as: .ended, others: others, reason: "empty", by: actor, at: now)
        }
        for (uid, outcome) in over {
            for participant in room.record.participants where participant.uid == uid {
                depart(
                    participant.handle, from: room, reason: Self.leaveReason(of: outcome), detail: nil, at: now,
                    removing: true)
            }
        }
    }

    /// Why those leave whom an outcome of the ring sends away.
    static func leaveReason(of outcome: RoomOutcome) -> LeaveReason {
        switch outcome {
        case .rejected, .busy: .declined
        case .cancelled: .cancelled
        case .failed: .failed
        case .ended: .hangup
        default: .roomEnded
        }
    }

    private func tellCalleeEnded(_ uid: String, _ outcome: RoomOutcome, in room: ConductedRoom) {
        var data = [JSONValue.Field("outcome", .string(outcome.rawValue))]
        if outcome == .failed { data.append(missing(in: room, among: [uid])) }
        emit(.calleeEnded, in: room, uid: uid, data: data, at: now)
    }

    private func close(
        _ room: ConductedRoom, as outcome: RoomOutcome, others: LeaveReason, reason: String, by actor: String?,
        at time: Instant
    ) {
        guard case .end = room.record.lifecycle.receive(.concluded(outcome, others: others, reason: reason)) else {
            return
        }
        finish(room, others: others, reason: reason, by: actor, at: time)
    }

    /// `call.ended`, once, before anything else of a room's end. The rings of a group that the end cuts short
    /// are told before it, since nobody listens afterwards.
    func tellCallEnded(in room: ConductedRoom, reason: String, by actor: String?, at time: Instant) {
        guard room.record.ring?.endIsTold == false, let outcome = room.record.outcome else { return }
        var data = [
            JSONValue.Field("outcome", .string(outcome.rawValue)),
            JSONValue.Field("durationMs", .integer(duration(of: room, at: time).milliseconds)),
        ]
        if let actor { data.append(JSONValue.Field("by", .string(actor))) }
        if outcome == .failed, let ring = room.record.ring {
            let awaited = ring.callees.filter { $0.outcome == .failed }.map(\.uid)
            let users = (ring.kind == .peer ? [ring.caller] : []) + awaited
            data.append(missing(in: room, among: users))
            noteMissing(users, in: room)
        }
        let cutShort = room.record.ring?.close(outcome) ?? []
        if room.record.specification.kind == .group {
            for uid in cutShort { tellCalleeEnded(uid, outcome, in: room) }
        }
        room.record.ring?.endIsTold = true
        data.append(callData(of: room))
        emit(.callEnded, in: room, uid: nil, reason: reason, data: data, at: time)
    }

    /// Why a user is not joined; nil when it is.
    func missingReason(of uid: String, in room: ConductedRoom) -> String? {
        let states = Set(room.record.participants.filter { $0.uid == uid }.map(\.lifecycle.state))
        if states.contains(.joined) { return nil }
        if states.contains(.prepared) { return "no-join" }
        return states.contains(.connecting) ? "ice" : room.record.ring?.failures[uid] ?? "no-join"
    }

    /// Who of the users is not joined, and why.
    private func missing(in room: ConductedRoom, among users: [String]) -> JSONValue.Field {
        let entries: [JSONValue] = users.compactMap { uid in
            guard let reason = missingReason(of: uid, in: room) else { return nil }
            return .object([JSONValue.Field("uid", .string(uid)), JSONValue.Field("reason", .string(reason))])
        }
        return JSONValue.Field("missing", .array(entries))
    }
}
