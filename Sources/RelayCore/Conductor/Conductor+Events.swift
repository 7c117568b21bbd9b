import RTPCore

// How a decision is put down: events with gapless numbers, commands, rooms to store.

extension Conductor {
    /// One event. `at`: when it happened, which for a worker's kept news is long before `now`.
    func emit(
        _ type: RelayEventType, in room: ConductedRoom?, of participant: ParticipantRecord?, reason: String?,
        data: [JSONValue.Field], at time: Instant
    ) {
        var roomSeq: UInt64 = 0
        if let room {
            roomSeq = room.record.nextRoomSeq
            room.record.nextRoomSeq += 1
            change(room)
        }
        turn.events.append(
            RelayEvent(
                seq: nextSeq, roomSeq: roomSeq, type: type, timeMs: milliseconds(of: time),
                roomID: room?.record.id, uid: participant?.uid, device: participant?.device,
                participantID: participant?.id, reason: reason, data: data))
        nextSeq += 1
    }

    func emit(_ type: RelayEventType, in room: ConductedRoom, of participant: ParticipantRecord, at time: Instant) {
        emit(type, in: room, of: participant, reason: nil, data: [], at: time)
    }

    /// One event about a user of a room's ring.
    func emit(
        _ type: RelayEventType, in room: ConductedRoom, uid: String?, device: String? = nil, reason: String? = nil,
        data: [JSONValue.Field], at time: Instant
    ) {
        emit(type, in: room, of: nil, reason: reason, data: data, at: time)
        turn.events[turn.events.count - 1].uid = uid
        turn.events[turn.events.count - 1].device = device
    }

    /// The room goes to the journal with this decision.
    func change(_ room: ConductedRoom) {
        turn.changedRooms.insert(room.record.id)
        guard !room.isUnsettled else { return }
        room.isUnsettled = true
        unsettled.append(room)
    }

    /// Tells the room's worker. One that is away hears nothing: its next hello is compared with what is
    /// decided here.
    func command(_ command: WorkerCommand, to worker: WorkerID?) {
        guard let worker, workers[worker]?.isConnected == true else { return }
        turn.commands.append((worker, command))
    }

    /// The wall clock's time at an instant of the past.
    func milliseconds(of time: Instant) -> Int64 {
        wallClockMs - (now - time).milliseconds
    }

    /// The number that goes with a view made now.
    var newestSeq: UInt64 { nextSeq - 1 }

    func view(of room: ConductedRoom) -> RoomView { room.record.view(seq: newestSeq) }
}
