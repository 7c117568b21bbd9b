import RTPCore

// Joining and leaving, and what a participant's lifecycle asks for.

extension Conductor {
    func join(
        _ id: ParticipantID, in roomID: RoomID, endOthers: Bool, takeover: Bool, for principal: Principal
    ) throws(Problem) -> ControlReply {
        let room = try liveRoom(roomID, for: principal)
        let participant = room.record.participants[try session(id, in: room, for: principal, joining: true)]
        guard !participant.lifecycle.claimsSeat else { return .joined(view(of: room)) }
        let admission = try admit(
            participant.uid, participant.device, to: room, joining: true, takeover: takeover)
        let others = rivals(of: participant.uid, in: room, except: participant.handle)
        for other in others where other.room === room ? !takeover : !endOthers {
            throw alreadyJoined(other)
        }
        for other in others {
            // The same user's joined device stays until the new one's gate opens: whoever moves a call does
            // not fall silent.
            if other.room === room, other.participant.lifecycle.state == .joined { continue }
            giveUp(other, for: room, at: now)
        }
        if endOthers, !room.record.specification.allowParallel {
            for other in ordered(Set(calls[participant.uid] ?? []))
            where other !== room && !other.record.specification.allowParallel && isEngaged(participant.uid, in: other) {
                endCall(of: participant.uid, in: other)
            }
        }
        switch admission {
        case .claims: claim(participant.uid, on: participant.device, in: room)
        case .free: room.record.ring?.move(participant.uid, to: participant.device)
        }
        apply(.joinRequested, to: participant.handle, in: room, at: now, transportIsGone: false)
        return .joined(view(of: room))
    }

    func leave(_ id: ParticipantID, in roomID: RoomID, for principal: Principal) throws(Problem) -> ControlReply {
        // The server ends somebody else's session: that is a kick, whatever the path of the request.
        let event: ParticipantLifecycle.Event = if case .server = principal { .kicked } else { .leaveRequested }
        return try end(id, in: roomID, by: event, for: principal)
    }

    func kick(_ id: ParticipantID, in roomID: RoomID, for principal: Principal) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        return try end(id, in: roomID, by: .kicked, for: principal)
    }

    /// Leaving again, or leaving an ended room, is as good as the first time.
    private func end(
        _ id: ParticipantID, in roomID: RoomID, by event: ParticipantLifecycle.Event, for principal: Principal
    ) throws(Problem) -> ControlReply {
        let room = try room(roomID, for: principal)
        if departed(id, in: room, for: principal) != nil { return .done }
        let handle = room.record.participants[try session(id, in: room, for: principal)].handle
        apply(event, to: handle, in: room, at: now, transportIsGone: false)
        return .done
    }

    /// Everything that the user has ends, in the order of the rooms.
    func logOut(_ uid: String, for principal: Principal) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        for room in ordered(Set(calls[uid] ?? [])) { endCall(of: uid, in: room) }
        for handle in sessions[uid] ?? [] {
            guard let room = roomsByParticipant[handle] else { continue }
            endCall(of: uid, in: room)
            apply(.leaveRequested, to: handle, in: room, at: now, transportIsGone: false)
        }
        return .done
    }

    // MARK: One joined session a user

    struct Rival {
        var room: ConductedRoom
        var participant: ParticipantRecord
    }

    /// The user's other sessions that are joined or on the way there and do not go together with one in
    /// `room`: those of the same room, and those of other rooms unless either room allows to be joined beside
    /// others.
    func rivals(of uid: String, in room: ConductedRoom, except handle: ParticipantHandle?) -> [Rival] {
        (sessions[uid] ?? []).compactMap { other in
            guard other != handle, let otherRoom = roomsByParticipant[other],
                let index = otherRoom.record.index(of: other)
            else { return nil }
            let participant = otherRoom.record.participants[index]
            guard participant.lifecycle.claimsSeat else { return nil }
            let goesTogether =
                room.record.specification.allowParallel || otherRoom.record.specification.allowParallel
            return otherRoom === room || !goesTogether ? Rival(room: otherRoom, participant: participant) : nil
        }
    }

    /// A rival leaves for a join in `room`; a call elsewhere is left with all of the user's devices.
    private func giveUp(_ rival: Rival, for room: ConductedRoom, at time: Instant) {
        if rival.room !== room { endCall(of: rival.participant.uid, in: rival.room) }
        let reason: LeaveReason = rival.room === room ? .answeredElsewhere : .hangup
        depart(rival.participant.handle, from: rival.room, reason: reason, detail: nil, at: time, removing: true)
    }

    func alreadyJoined(_ rival: Rival) -> Problem {
        let device = rival.participant.device
        return Problem(
            status: 409, code: "already-joined",
            detail: "user \(rival.participant.uid) is joined in room \(rival.room.record.id) with device \(device)",
            members: [
                JSONValue.Field("roomId", .string(rival.room.record.id.text)),
                JSONValue.Field("participantId", .string(rival.participant.id.text)),
                JSONValue.Field("device", .string(device)),
            ])
    }

    // MARK: Lifecycle

    /// Lets a participant's lifecycle judge an event and carries out what it says. `transportIsGone`: the
    /// worker has nothing left to remove.
    func apply(
        _ event: ParticipantLifecycle.Event, to handle: ParticipantHandle, in room: ConductedRoom, at time: Instant,
        transportIsGone: Bool
    ) {
        guard let index = room.record.index(of: handle) else { return }
        switch room.record.participants[index].lifecycle.receive(event) {
        case .nothing:
            break
        case .becomePrepared:
            becomePrepared(index, in: room, at: time)
            let participant = room.record.participants[index]
            if participant.lifecycle.claimsSeat, !participant.transport.joinsWhenReady {
                apply(.joinRequested, to: handle, in: room, at: now, transportIsGone: false)
            }
        case .becomeJoined(let opensGate):
            becomeJoined(handle, in: room, at: time, opensGate: opensGate)
        case .becomePreparedAndJoined:
            becomePrepared(index, in: room, at: time)
            becomeJoined(handle, in: room, at: time, opensGate: false)
        case .awaitKeys:
            awaitKeys(index, in: room)
        case .leave(let reason, let detail):
            depart(handle, from: room, reason: reason, detail: detail, at: time, removing: !transportIsGone)
        case .becomeInterrupted:
            noteInterruption(true, ofParticipantAt: index, in: room, at: time)
            emit(.participantInterrupted, in: room, of: room.record.participants[index], at: time)
        case .becomeRecovered:
            noteInterruption(false, ofParticipantAt: index, in: room, at: time)
            emit(.participantRecovered, in: room, of: room.record.participants[index], at: time)
        }
    }

    /// The worker opens the gate by itself when keys are in, except where another device of the user is still
    /// joined: then that one is removed first, so that neither hears the other or keeps its slot.
    private func awaitKeys(_ index: Int, in room: ConductedRoom) {
        let participant = room.record.participants[index]
        let isTakeover = room.record.participants.contains {
            $0.uid == participant.uid && $0.lifecycle.state == .joined
        }
        if !isTakeover {
            room.record.participants[index].transport.joinsWhenReady = true
            command(.join(participant.handle), to: room.record.worker)
        }
        change(room)
    }

    private func becomePrepared(_ index: Int, in room: ConductedRoom, at time: Instant) {
        tally.connecting -= 1
        tally.prepared += 1
        room.record.participants[index].preparedAtMs = milliseconds(of: time)
        setDeadline(time + room.record.specification.timeouts.prepared, ofParticipantAt: index, in: room)
        let participant = room.record.participants[index]
        emit(.participantPrepared, in: room, of: participant, at: time)
        playLoops(to: participant.handle, in: room)
        receive(.rang(participant.uid), in: room, by: participant.uid)
    }

    private func becomeJoined(
        _ handle: ParticipantHandle, in room: ConductedRoom, at time: Instant, opensGate: Bool
    ) {
        guard let joining = room.record.index(of: handle).map({ room.record.participants[$0] }) else { return }
        let uid = joining.uid
        // A gate that is open without a claim: the claim was decided, and lost with the process before its
        // commit.
        if room.record.ring?.isRinging(uid) == true { claim(uid, on: joining.device, in: room) }
        for rival in rivals(of: uid, in: room, except: handle) {
            giveUp(rival, for: room, at: time)
        }
        if opensGate { command(.join(handle), to: room.record.worker) }
        guard let index = room.record.index(of: handle) else { return }
        tally.joined += 1
        tally.prepared -= 1
        room.record.participants[index].joinedAtMs = milliseconds(of: time)
        room.record.participants[index].deadline = nil
        timers.cancel(.participant(handle))
        emit(.participantJoined, in: room, of: room.record.participants[index], at: time)
        commandSlots(thatPin: uid, in: room)
        playLoops(to: handle, in: room)
        if room.record.ring == nil {
            perform(room.record.lifecycle.receive(.joined), on: room, at: time)
        } else {
            noteJoined(in: room)
        }
        if room.record.specification.kind == .peer || room.record.ring != nil {
            let joinedUsers = Set(room.record.participants.filter { $0.lifecycle.state == .joined }.map(\.uid))
            if joinedUsers.count == 2 { startTalking(in: room, at: time) }
        }
    }

    func setDeadline(_ deadline: Instant, ofParticipantAt index: Int, in room: ConductedRoom) {
        room.record.participants[index].deadline = deadline
        timers.set(.participant(room.record.participants[index].handle), to: deadline)
        change(room)
    }
}
