import RTPCore

// What happens when a time has come. A timer that is due is decided before the input that came with it or
// later.

extension Conductor {
    func decideDueTimers() {
        while let timer = timers.removeDue(at: now) {
            switch timer {
            case .participant(let handle):
                guard let room = roomsByParticipant[handle] else { break }
                apply(.deadline, to: handle, in: room, at: now, transportIsGone: false)
            case .emptyRoom(let handle):
                guard let room = roomsByHandle[handle] else { break }
                perform(room.record.lifecycle.receive(.emptyDeadline), on: room, at: now)
            case .durationWarning(let handle):
                guard let room = roomsByHandle[handle] else { break }
                warn(room)
            case .duration(let handle):
                guard let room = roomsByHandle[handle] else { break }
                perform(room.record.lifecycle.receive(.durationDeadline), on: room, at: now)
            case .ringWindow(let handle):
                guard let room = roomsByHandle[handle] else { break }
                receive(.rangOut(nil), in: room, by: nil)
            case .joinAfterClaim(let handle):
                guard let room = roomsByHandle[handle] else { break }
                receive(.joinDeadline(now), in: room, by: nil)
            case .workerWait:
                giveUpWaitingForWorkers()
            case .retention:
                forgetEnded(at: now)
            case .idempotency:
                forgetIdempotencyKeys()
            }
        }
    }

    private func warn(_ room: ConductedRoom) {
        room.record.warningDeadline = nil
        guard let end = room.record.durationDeadline else { return }
        emit(
            .roomWarning, in: room, of: nil, reason: "max-duration",
            data: [JSONValue.Field("remainingMs", .integer(max(0, (end - now).milliseconds)))], at: now)
    }
}
