import RTPCore

// Rooms that end by themselves: idle, where nobody sends, and alone, where one is left of a group. Both follow
// from who is in, and are looked at wherever a room has changed.

extension Conductor {
    /// Begins and stops what counts in the rooms that the latest input or timer has changed.
    func settleCountdowns() {
        guard !unsettled.isEmpty else { return }
        for room in unsettled {
            room.isUnsettled = false
            settle(room)
        }
        unsettled.removeAll(keepingCapacity: true)
    }

    private func settle(_ room: ConductedRoom) {
        let before = (room.record.idle, room.record.alone)
        let due = Self.countdowns(of: room.record)
        if !due.idle { room.record.idle = nil } else if before.0 == nil { room.record.idle = Countdown(since: now) }
        if !due.alone { room.record.alone = nil } else if before.1 == nil { room.record.alone = Countdown(since: now) }
        if room.record.idle != before.0 || room.record.alone != before.1 {
            turn.changedRooms.insert(room.record.id)
        }
        armCountdowns(of: room)
    }

    /// What has to count in a room: idle while somebody is joined and nobody of them holds, alone while exactly
    /// one is. A room where people are only prepared has their expiry.
    static func countdowns(of record: RoomRecord) -> (idle: Bool, alone: Bool) {
        guard record.status == .ongoing else { return (false, false) }
        let timeouts = record.specification.timeouts
        var joinedCount = 0
        var isHeld = false
        for participant in record.participants where participant.lifecycle.holdsSeat {
            joinedCount += 1
            if participant.isHeld { isHeld = true }
        }
        return (
            timeouts.idle != nil && joinedCount > 0 && !isHeld,
            timeouts.alone != nil && record.specification.kind == .group && joinedCount == 1
        )
    }

    /// While the room's worker is away nothing is known of its media: both wait for its hello.
    func armCountdowns(of room: ConductedRoom) {
        let timeouts = room.record.specification.timeouts
        arm(.idle(room.record.handle), room.isAwaitingWorker ? nil : room.record.idle, timeouts.idle)
        arm(.alone(room.record.handle), room.isAwaitingWorker ? nil : room.record.alone, timeouts.alone)
    }

    /// A timer that is too early stays: media moves the time with every report, and the timer catches up when
    /// it fires.
    private func arm(_ timer: ConductorTimer, _ countdown: Countdown?, _ length: Interval?) {
        guard let countdown, let length else { return timers.cancel(timer) }
        let next = countdown.next(length, warningLead: configuration.warningLead)
        if let set = timers.deadline(of: timer), set <= next { return }
        timers.set(timer, to: next)
    }

    // MARK: What happens

    /// Media came from somebody who is joined.
    func heard(in room: ConductedRoom, at time: Instant) {
        guard var idle = room.record.idle else { return }
        idle.since = max(idle.since, time)
        // Otherwise neither the journal nor the timer says anything that is wrong now.
        if idle.isWarned || idle.isStored {
            idle.isWarned = false
            idle.isStored = false
            change(room)
        }
        room.record.idle = idle
    }

    /// A report without media: the silence goes to the journal once it has lasted.
    func unheard(in room: ConductedRoom, at time: Instant) {
        guard let idle = room.record.idle, !idle.isStored,
            time - idle.since >= ConductorConfiguration.silenceStoredAfter
        else { return }
        room.record.idle?.isStored = true
        change(room)
    }

    /// This process knows only what the journal knew: a room that was not known to be silent starts anew.
    func restoreCountdowns(of room: ConductedRoom) {
        if room.record.idle?.isStored == false { room.record.idle?.since = now }
    }

    /// The worker is back: the reports of everybody are waited for before silence is believed.
    func resumeCountdowns(of room: ConductedRoom) {
        if let since = room.record.idle?.since, let length = room.record.specification.timeouts.idle {
            let earliest = now + ConductorConfiguration.reportsOfEverybody - length
            room.record.idle?.since = max(since, earliest)
        }
        armCountdowns(of: room)
    }

    func decideIdle(_ room: ConductedRoom) {
        decide(
            \.idle, of: room, room.record.specification.timeouts.idle, reason: LeaveReason.idle.rawValue,
            end: .idleDeadline)
    }

    func decideAlone(_ room: ConductedRoom) {
        decide(
            \.alone, of: room, room.record.specification.timeouts.alone, reason: RoomLifecycle.aloneReason,
            end: .aloneDeadline)
    }

    private func decide(
        _ path: WritableKeyPath<RoomRecord, Countdown?>, of room: ConductedRoom, _ length: Interval?, reason: String,
        end: RoomLifecycle.Event
    ) {
        guard let countdown = room.record[keyPath: path], let length else { return }
        let lead = configuration.warningLead
        guard countdown.next(length, warningLead: lead) <= now else { return armCountdowns(of: room) }
        guard countdown.warns(length, lead) else {
            return perform(room.record.lifecycle.receive(end), on: room, at: now)
        }
        room.record[keyPath: path]?.isWarned = true
        room.record[keyPath: path]?.isStored = true
        warn(room, reason: reason, end: countdown.since + length)
    }
}
