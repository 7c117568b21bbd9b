import RTPCore

// How participants leave and rooms end: every way out of the relay comes through `depart` and `finish`, once.

extension Conductor {
    /// What a room's lifecycle asks for.
    func perform(_ action: RoomLifecycle.Action, on room: ConductedRoom, at time: Instant) {
        switch action {
        case .nothing:
            break
        case .becomeOccupied:
            room.record.emptyDeadline = nil
            timers.cancel(.emptyRoom(room.record.handle))
        case .becomeEmpty:
            releaseWorker(of: room)
            if room.record.ring == nil { startEmptyTimer(of: room) }
        case .start:
            tally.initiatedRooms -= 1
            tally.ongoingRooms += 1
            startDuration(of: room, at: time)
        case .evacuate:
            for participant in room.record.participants {
                depart(participant.handle, from: room, reason: .nodeLost, detail: nil, at: time, removing: false)
            }
        case .end(_, let others, let reason):
            finish(room, others: others, reason: reason, at: time)
        }
    }

    /// Takes a participant out: its place, its indexes, its timer, its transport unless that is gone already;
    /// tells it, and lets the room draw its conclusion.
    func depart(
        _ handle: ParticipantHandle, from room: ConductedRoom, reason: LeaveReason, detail: String?,
        at time: Instant, removing: Bool
    ) {
        let isCancel = reason == .hangup && isLastOfCaller(handle, in: room)
        // Whoever leaves a group call takes along the rings that it still makes; that may end the room.
        if isCancel, room.record.ring?.stage != .ringing {
            receive(.stopped, in: room, by: room.record.ring?.caller)
        }
        guard let index = room.record.index(of: handle) else { return }
        var participant = room.record.participants.remove(at: index)
        participant.lifecycle.leave(reason)
        forget(participant, of: room, reason: reason)
        let worker = room.record.worker
        if removing { command(.remove(handle), to: room.record.worker) }
        if reason == .failed, room.record.ring?.isMember(participant.uid) == true {
            room.record.ring?.failures[participant.uid] = detail
        }
        let heldSeat = participant.lifecycle.holdsSeat && !passSeat(of: participant.uid, in: room)
        let stage = room.record.ring?.stage
        var action = room.record.lifecycle.receive(.left(reason, heldSeat: heldSeat, ring: stage))
        if isCancel, stage == .ringing, room.record.status != .ended {
            if action == .becomeEmpty { releaseWorker(of: room) }
            action = room.record.lifecycle.receive(
                .concluded(.cancelled, others: .cancelled, reason: LeaveReason.cancelled.rawValue))
        }
        if case .end(_, _, let why) = action {
            tellCallEnded(in: room, reason: why, by: participant.uid, at: time)
        }
        let told = isCancel && stage == .ringing ? LeaveReason.cancelled : reason
        noteDeparture(
            of: participant, from: room, reason: told, detail: detail, at: time, worker: worker,
            awaitsFigures: removing)
        let data = detail.map { [JSONValue.Field("detail", .string($0))] } ?? []
        noteMediaLeave(of: participant, in: room)
        emit(.participantLeft, in: room, of: participant, reason: told.rawValue, data: data, at: time)
        settlePrompts(in: room)
        perform(action, on: room, at: time)
    }

    /// Whether the caller of a live ring is no longer in when this participant leaves.
    private func isLastOfCaller(_ handle: ParticipantHandle, in room: ConductedRoom) -> Bool {
        guard let ring = room.record.ring, room.record.status != .ended, room.record.index(of: handle) != nil
        else { return false }
        return room.record.participants.allSatisfy { ($0.uid == ring.caller) == ($0.handle == handle) }
    }

    /// Whether another device of the user is joined or on its way: then the user is still in, and the leave
    /// is not final.
    private func passSeat(of uid: String, in room: ConductedRoom) -> Bool {
        let heir = room.record.participants.firstIndex { $0.uid == uid && $0.lifecycle.claimsSeat }
        guard let heir else { return false }
        room.record.participants[heir].lifecycle.inheritSeat()
        return true
    }

    /// What leaving and being replaced have in common: indexes, timer, the worker's load, the name that is
    /// remembered.
    func forget(_ participant: ParticipantRecord, of room: ConductedRoom, reason: LeaveReason?) {
        let handle = participant.handle
        tally.remove(participant)
        forgetSlots(of: handle, in: room)
        forgetListener(handle, in: room)
        timers.cancel(.participant(handle))
        roomsByParticipant[handle] = nil
        sessions[participant.uid]?.removeAll { $0 == handle }
        if sessions[participant.uid]?.isEmpty == true { sessions[participant.uid] = nil }
        if let worker = room.record.worker { workers[worker]?.transportCount -= 1 }
        room.record.departed.append(
            DepartedParticipant(
                id: participant.id, uid: participant.uid, device: participant.device, reason: reason))
        if room.record.departed.count > ConductorConfiguration.departedKept { room.record.departed.removeFirst() }
    }

    /// The end of a room whose lifecycle has just ended: everybody leaves, then `room.closed`.
    /// - Parameter actor: the user who ended it and, where the others leave for that, hung up.
    func finish(
        _ room: ConductedRoom, others: LeaveReason, reason: String, by actor: String? = nil, at time: Instant
    ) {
        guard let outcome = room.record.outcome else { preconditionFailure("a room finishes without an outcome") }
        tellCallEnded(in: room, reason: reason, by: actor, at: time)
        unindexCalls(of: room)
        for timer in ConductorTimer.all(ofRoom: room.record.handle) { timers.cancel(timer) }
        room.record.emptyDeadline = nil
        room.record.warningDeadline = nil
        room.record.durationDeadline = nil
        room.record.idle = nil
        room.record.alone = nil
        for participant in room.record.participants {
            var own = others
            var detail: String?
            let isHangUp = others == .peerLeft || (others == .cancelled && outcome == .ended)
            if isHangUp, participant.uid == actor { own = .hangup }
            if others == .failed {
                // Who was in did not fail: the other side did.
                let isJoined = participant.lifecycle.state == .joined
                own = isJoined ? .peerLeft : .failed
                detail = isJoined ? nil : missingReason(of: participant.uid, in: room)
            }
            depart(participant.handle, from: room, reason: own, detail: detail, at: time, removing: true)
        }
        releaseWorker(of: room)
        // Nothing but who leaves is told between the end of the call and that of the room.
        room.record.prompts = []
        tally.end(room.record)
        room.record.reason = reason
        room.record.endedAtMs = milliseconds(of: time)
        emit(
            .roomClosed, in: room, of: nil, reason: reason,
            data: [
                JSONValue.Field("outcome", .string(outcome.rawValue)),
                JSONValue.Field("durationMs", .integer(duration(of: room, at: time).milliseconds)),
            ], at: time)
        closeRecord(of: room, by: actor, durationMs: duration(of: room, at: time).milliseconds)
        keepEnded(room, until: now + configuration.retention)
    }

    func duration(of room: ConductedRoom, at time: Instant) -> Interval {
        room.record.talkingSince.map { max(Interval.zero, time - $0) } ?? .zero
    }

    func releaseWorker(of room: ConductedRoom) {
        guard let worker = room.record.worker else { return }
        endRecording(of: room, for: room.record.status == .ended ? .roomEnded : .left)
        workers[worker]?.rooms.remove(room.record.handle)
        room.record.worker = nil
        room.isAwaitingWorker = false
        armRing(of: room)
        change(room)
    }

    func startEmptyTimer(of room: ConductedRoom) {
        let deadline = now + room.record.specification.timeouts.empty
        room.record.emptyDeadline = deadline
        timers.set(.emptyRoom(room.record.handle), to: deadline)
        change(room)
    }

    private func startDuration(of room: ConductedRoom, at time: Instant) {
        room.record.startedAtMs = milliseconds(of: time)
        if room.record.specification.kind == .group, room.record.ring == nil { startTalking(in: room, at: time) }
        guard let longest = room.record.specification.timeouts.maxDuration else { return }
        let deadline = time + longest
        room.record.durationDeadline = deadline
        timers.set(.duration(room.record.handle), to: deadline)
        guard longest > configuration.warningLead else { return }
        room.record.warningDeadline = deadline - configuration.warningLead
        timers.set(.durationWarning(room.record.handle), to: deadline - configuration.warningLead)
    }

    func startTalking(in room: ConductedRoom, at time: Instant) {
        guard room.record.talkingSince == nil else { return }
        room.record.talkingSince = time
        room.record.talkingSinceMs = milliseconds(of: time)
    }

    // MARK: Ended rooms

    /// Keeps an ended room to be looked at; the longest ended one makes room where there are too many.
    func keepEnded(_ room: ConductedRoom, until deadline: Instant) {
        keepEnded(room.record.handle, until: deadline)
    }

    func keepEnded(_ room: RoomHandle, until deadline: Instant) {
        endedRooms.append((room, deadline))
        while endedRooms.count > configuration.endedRoomsKept { forgetOldestEnded() }
        rearmRetention()
    }

    func forgetEnded(at now: Instant) {
        while let oldest = endedRooms.first, oldest.until <= now { forgetOldestEnded() }
        rearmRetention()
    }

    private func forgetOldestEnded() {
        guard let oldest = endedRooms.removeFirst() else { return }
        if let shelved = shelf[oldest.room] {
            shelf.remove(shelved)
            return forget(shelved.id, ordinal: shelved.ordinal)
        }
        guard let room = roomsByHandle.removeValue(forKey: oldest.room) else { return }
        rooms[room.record.id] = nil
        forgetFigures(of: room)
        if let recording = room.record.recording { recordings[recording.handle] = nil }
        turn.changedRooms.remove(room.record.id)
        forget(room.record.id, ordinal: room.record.ordinal)
    }

    private func forget(_ id: RoomID, ordinal: UInt64) {
        tally.endedRooms -= 1
        listing.remove(ordinal: ordinal)
        turn.forgottenRooms.insert(id)
    }

    private func rearmRetention() {
        guard let oldest = endedRooms.first else { return timers.cancel(.retention) }
        guard timers.deadline(of: .retention) != oldest.until else { return }
        timers.set(.retention, to: oldest.until)
    }
}
