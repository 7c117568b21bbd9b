import RTPCore

// Workers come, go and come back. The worker's word counts for media facts, the journal's for decisions
// (CALLS.md, "When processes die"): a fact without its event becomes the event now, an end that was not
// carried out is carried out.

extension Conductor {
    /// A hello: what the worker holds and kept is compared with what is known here.
    func adopt(_ hello: WorkerHello) {
        let gone = workers.keys.filter { $0.index == hello.worker.index && $0.epoch != hello.worker.epoch }
        for worker in gone.sorted(by: { $0.epoch < $1.epoch }) { lose(worker) }
        let worker = workers[hello.worker] ?? ConductedWorker(hello.worker)
        workers[hello.worker] = worker
        worker.endpoint = hello.endpoint
        worker.isConnected = true
        worker.isDismissed = false
        // Version 9 of the link brought captures and recordings; a hello that names its build is of a later one.
        worker.canCapture = !hello.build.isEmpty
        worker.sounds = []
        let known = expectedTransports(on: hello.worker)
        for news in hello.news {
            cause = cause(of: news)
            receive(news, from: hello.worker)
        }
        cause = CallCause(.node)
        forgetFigures(from: worker.id, except: Set(hello.transports.map(\.participant)))
        compareRecordings(of: hello)
        var held: [ParticipantHandle: TransportSnapshot] = [:]
        for transport in hello.transports { held[transport.participant] = transport }
        for room in ordered(worker.rooms) {
            for participant in room.record.participants {
                compare(participant.handle, in: room, with: held[participant.handle])
            }
            if room.isAwaitingWorker {
                room.isAwaitingWorker = false
                armTimers(of: room)
                resumeCountdowns(of: room)
            }
        }
        for transport in hello.transports {
            guard let room = roomsByParticipant[transport.participant], room.record.worker == worker.id else {
                continue
            }
            compareSlots(of: transport, in: room)
            comparePrompts(of: transport, in: room)
        }
        // Whoever was known before has been judged by now, and removed where that was due.
        for transport in hello.transports where !known.contains(transport.participant) {
            command(.remove(transport.participant), to: worker.id)
        }
        command(.adopted, to: worker.id)
        if !workers.values.contains(where: { $0.endpoint == nil }) { timers.cancel(.workerWait) }
    }

    /// One participant here against its transport there.
    private func compare(
        _ handle: ParticipantHandle, in room: ConductedRoom, with snapshot: TransportSnapshot?
    ) {
        guard let snapshot else {
            // Removed as well: a creation that crossed the hello may be on its way to the worker.
            return apply(.transportMissing, to: handle, in: room, at: now, transportIsGone: false)
        }
        let mayBeOpen = room.record.participants.contains {
            $0.handle == handle && ($0.lifecycle.state == .joined || $0.transport.joinsWhenReady)
        }
        // A gate that was decided while the worker was away, or lost with a decision that was never stored.
        let gates = room.record.participants.first { $0.handle == handle }?.transport.gates ?? []
        if snapshot.gates != gates { command(.gates(handle, gates), to: room.record.worker) }
        let since = min(max(snapshot.since, Instant(nanoseconds: 0)), now)
        switch snapshot.phase {
        case .connecting: break
        case .prepared: apply(.keysInstalled, to: handle, in: room, at: since, transportIsGone: false)
        case .joined: apply(.gateOpened, to: handle, in: room, at: since, transportIsGone: false)
        }
        apply(snapshot.isInterrupted ? .interrupted : .recovered, to: handle, in: room, at: now, transportIsGone: false)
        // A join that was decided while the worker was away.
        if mayBeOpen, snapshot.phase != .joined { command(.join(handle), to: room.record.worker) }
    }

    /// The link broke. The worker goes on by itself, and what it tells at its next hello may be that somebody
    /// whose time has run out here has long been prepared: so those times wait.
    func detach(_ id: WorkerID) {
        guard let worker = workers[id] else { return }
        worker.isConnected = false
        for room in ordered(worker.rooms) {
            room.isAwaitingWorker = true
            for participant in room.record.participants { timers.cancel(.participant(participant.handle)) }
            armRing(of: room)
            armCountdowns(of: room)
        }
    }

    /// The worker's process is gone, and what it carried with it.
    func lose(_ id: WorkerID) {
        guard let worker = workers.removeValue(forKey: id) else { return }
        timers.cancel(.retirement(id))
        forgetFigures(from: id)
        loseRecordings(on: id)
        for room in ordered(worker.rooms) {
            room.isAwaitingWorker = false
            perform(room.record.lifecycle.receive(.workerLost), on: room, at: now)
        }
    }

    /// Restored rooms have waited long enough.
    func giveUpWaitingForWorkers() {
        let missing = workers.values.filter { $0.endpoint == nil }.map(\.id)
        for worker in missing.sorted(by: { ($0.index, $0.epoch) < ($1.index, $1.epoch) }) { lose(worker) }
    }

    // MARK: Workers of an earlier build

    /// Its rooms go on with it until they end, at the latest at the deadline.
    func retire(_ id: WorkerID) {
        guard let worker = workers[id], !worker.isRetiring else { return }
        worker.isRetiring = true
        timers.set(.retirement(id), to: now + configuration.retirement)
    }

    /// The time of a retiring worker is over: what it still carries ends.
    func endRooms(ofRetiring id: WorkerID) {
        guard let worker = workers[id] else { return }
        cause = CallCause(.node)
        for room in ordered(worker.rooms) {
            perform(room.record.lifecycle.receive(.drained), on: room, at: now)
        }
    }

    /// At the end of every decision: whoever retires leaves when its last room has ended.
    func dismissIdleWorkers() {
        for worker in workers.values where worker.isRetiring && worker.isConnected && !worker.isDismissed {
            guard worker.rooms.isEmpty else { continue }
            worker.isDismissed = true
            command(.shutDown, to: worker.id)
        }
    }

    func ordered(_ handles: Set<RoomHandle>) -> [ConductedRoom] {
        handles.compactMap { roomsByHandle[$0] }.sorted { $0.record.ordinal < $1.record.ordinal }
    }

    // MARK: Start and end of this process

    /// Before the first decision: `node.started`, and restored rooms go on or wait for their workers.
    func start() {
        isStarted = true
        let liveCount = tally.initiatedRooms + tally.ongoingRooms
        emit(
            .nodeStarted, in: nil, of: nil, reason: nil,
            data: [
                JSONValue.Field("epoch", .string(String(epoch, radix: 16))),
                JSONValue.Field("rooms", .integer(Int64(liveCount))),
            ], at: now)
        restoreEndedRooms()
        restoreDrain()
        forgetIdempotencyKeys()
        let live = ordered(Set(roomsByHandle.keys)).filter { $0.record.status != .ended }
        if !isSameBoot {
            for room in live { rebase(room) }
            for worker in workers.keys.sorted(by: { ($0.index, $0.epoch) < ($1.index, $1.epoch) }) { lose(worker) }
        }
        for room in live where room.record.status != .ended {
            room.isAwaitingWorker = room.record.worker != nil
            restoreCountdowns(of: room)
            if room.isAwaitingWorker { armRing(of: room) } else { armTimers(of: room) }
        }
        if !workers.isEmpty { timers.set(.workerWait, to: now + configuration.workerWait) }
    }

    /// Puts a room into every index; a restored one's timers are armed at the start.
    @discardableResult
    func index(_ record: RoomRecord) -> ConductedRoom {
        precondition(rooms[record.id] == nil, "two rooms with one id")
        let room = ConductedRoom(record)
        rooms[record.id] = room
        roomsByHandle[record.handle] = room
        listing.append(record.handle, ordinal: record.ordinal)
        tally.add(record)
        indexCalls(of: room)
        restoreFigures(of: room)
        restoreRecording(of: room)
        for participant in record.participants {
            roomsByParticipant[participant.handle] = room
            sessions[participant.uid, default: []].append(participant.handle)
        }
        if let id = record.worker {
            let worker = workers[id] ?? ConductedWorker(id)
            workers[id] = worker
            worker.rooms.insert(record.handle)
            worker.transportCount += record.participants.count
        }
        return room
    }

    private func restoreEndedRooms() {
        var ended = shelf.all.map { (handle: $0.handle, ordinal: $0.ordinal, endedAtMs: $0.endedAtMs) }
        for room in rooms.values where room.record.status == .ended {
            ended.append((room.record.handle, room.record.ordinal, room.record.endedAtMs ?? 0))
        }
        for room in ended.sorted(by: { ($0.endedAtMs, $0.ordinal) < ($1.endedAtMs, $1.ordinal) }) {
            let ageMs = max(0, wallClockMs - room.endedAtMs)
            keepEnded(
                room.handle, until: now + max(.zero, configuration.retention - .milliseconds(min(ageMs, 1 << 40))))
        }
    }

    /// Instants of another boot mean nothing here: what was counted by them is counted by the wall clock.
    private func rebase(_ room: ConductedRoom) {
        func instant(ofMs time: Int64) -> Instant { now - .milliseconds(max(0, min(wallClockMs - time, 1 << 40))) }
        room.record.talkingSince = room.record.talkingSinceMs.map(instant)
        let timeouts = room.record.specification.timeouts
        room.record.ring?.rebase(joinAfterClaim: timeouts.joinAfterClaim) { time in
            now + .milliseconds(max(-1 << 40, min(time - wallClockMs, 1 << 40)))
        }
        // Whoever was joined is gone with the other boot's workers.
        room.record.idle = nil
        room.record.alone = nil
        if room.record.emptyDeadline != nil { room.record.emptyDeadline = now + timeouts.empty }
        if let startedAtMs = room.record.startedAtMs, let longest = timeouts.maxDuration {
            let deadline = instant(ofMs: startedAtMs) + longest
            room.record.durationDeadline = deadline
            if room.record.warningDeadline != nil { room.record.warningDeadline = deadline - configuration.warningLead }
        }
        change(room)
    }

    private func armTimers(of room: ConductedRoom) {
        let record = room.record
        if let deadline = record.emptyDeadline { timers.set(.emptyRoom(record.handle), to: deadline) }
        if let deadline = record.warningDeadline { timers.set(.durationWarning(record.handle), to: deadline) }
        if let deadline = record.durationDeadline { timers.set(.duration(record.handle), to: deadline) }
        armRing(of: room)
        for participant in record.participants {
            if let deadline = participant.deadline { timers.set(.participant(participant.handle), to: deadline) }
        }
    }
}
