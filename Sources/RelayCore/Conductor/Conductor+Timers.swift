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
                warnOfDuration(room)
            case .duration(let handle):
                guard let room = roomsByHandle[handle] else { break }
                perform(room.record.lifecycle.receive(.durationDeadline), on: room, at: now)
            case .idle(let handle):
                guard let room = roomsByHandle[handle] else { break }
                decideIdle(room)
            case .alone(let handle):
                guard let room = roomsByHandle[handle] else { break }
                decideAlone(room)
            case .ringWindow(let handle):
                guard let room = roomsByHandle[handle] else { break }
                receive(.rangOut(nil), in: room, by: nil)
            case .joinAfterClaim(let handle):
                guard let room = roomsByHandle[handle] else { break }
                receive(.joinDeadline(now), in: room, by: nil)
            case .retirement(let worker):
                endRooms(ofRetiring: worker)
            case .drain:
                decideDrain()
            case .workerWait:
                giveUpWaitingForWorkers()
            case .retention:
                forgetEnded(at: now)
            case .idempotency:
                forgetIdempotencyKeys()
            }
            settleCountdowns()
        }
    }

    private func warnOfDuration(_ room: ConductedRoom) {
        room.record.warningDeadline = nil
        guard let end = room.record.durationDeadline else { return }
        warn(room, reason: "max-duration", end: end)
        playWarning(in: room)
    }

    /// `room.warning`: the room ends at `end` for `reason` unless something changes.
    func warn(_ room: ConductedRoom, reason: String, end: Instant) {
        emit(
            .roomWarning, in: room, of: nil, reason: reason,
            data: [JSONValue.Field("remainingMs", .integer(max(0, (end - now).milliseconds)))], at: now)
    }
}
