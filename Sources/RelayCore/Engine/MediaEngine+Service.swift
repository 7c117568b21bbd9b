import RTPCore

// Time: what is due for one transport, and liveness.

extension MediaEngine {
    /// Does what is due for `index` and sets its next deadline.
    func service(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        guard transport.pointee.flags.contains(.live) else { return }
        guard transport.pointee.selectedPath >= 0 else { return }
        if now >= transport.pointee.nextCheck { sendDueChecks(index, now: now) }
        if transport.pointee.flags.contains(.hasKeys) {
            if !watchLiveness(index, now: now) { return }
            if now >= transport.pointee.nextTransportFeedback { sendTransportFeedback(index, now: now) }
            if now >= transport.pointee.nextRepair { sendRepairRequests(index, now: now) }
            if now >= transport.pointee.nextProbe { sendProbe(index, now: now) }
            if now >= transport.pointee.nextLayers { reviewLayers(index, now: now) }
            if now >= transport.pointee.nextPrompt { sendPrompt(index, now: now) }
            if now >= transport.pointee.nextReport { sendReports(index, now: now) }
            if now >= transport.pointee.nextStatistics {
                news.append(.statistics(transport.pointee.handle, statistics(of: index, now: now), at: now))
                transport.pointee.nextStatistics = now + Limits.statisticsInterval
            }
        }
        reschedule(index, now: now)
    }

    /// Sets the wheel to the earliest of the transport's deadlines.
    func reschedule(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        var next = min(transport.pointee.nextCheck, transport.pointee.nextReport)
        next = min(next, transport.pointee.nextTransportFeedback)
        next = min(next, transport.pointee.nextRepair)
        next = min(next, transport.pointee.nextProbe)
        next = min(next, transport.pointee.nextLayers)
        next = min(next, transport.pointee.nextPrompt)
        next = min(next, transport.pointee.nextStatistics)
        if transport.pointee.flags.contains(.hasKeys) { next = min(next, livenessDeadline(transport.pointee)) }
        if next == .distantFuture {
            timers.clear(index)
        } else {
            timers.set(index, to: next)
        }
    }

    /// Repair requests of `index` are wanted at `when`.
    @inline(__always) func wake(_ index: Int32, forRepairAt when: Instant) {
        let transport = transports + Int(index)
        guard when < transport.pointee.nextRepair else { return }
        transport.pointee.nextRepair = when
        timers.setIfEarlier(index, to: when)
    }

    private func livenessDeadline(_ transport: Transport) -> Instant {
        if transport.flags.contains(.interrupted) { return transport.lastAuthenticated + Limits.lost }
        let quiet = transport.flags.contains(.joined) ? Limits.interruptedJoined : Limits.interruptedPrepared
        return transport.lastAuthenticated + quiet
    }

    /// False when the transport was lost and is gone.
    private func watchLiveness(_ index: Int32, now: Instant) -> Bool {
        let transport = transports + Int(index)
        if now >= transport.pointee.lastAuthenticated + Limits.lost {
            end(index, .lost, now: now)
            return false
        }
        if !transport.pointee.flags.contains(.interrupted), now >= livenessDeadline(transport.pointee) {
            transport.pointee.flags.insert(.interrupted)
            news.append(.interrupted(transport.pointee.handle, at: now))
            rechoose(transport.pointee.room, now: now)
        }
        return true
    }

    func recovered(_ index: Int32, now: Instant) {
        transports[Int(index)].flags.remove(.interrupted)
        news.append(.recovered(transports[Int(index)].handle, at: now))
        askForPictures(of: index, now: now)
        let room = transports[Int(index)].room
        if rooms[Int(room)]?.group != nil { roomTimers.setIfEarlier(room, to: now) }
    }
}
