import RTPCore

/// How much the conductor holds, for metrics and for leak tests.
public struct ConductorCounts: Hashable, Sendable {
    /// Rooms by status; ended ones are those that are still told about.
    public var initiatedRooms = 0
    public var ongoingRooms = 0
    public var endedRooms = 0
    public var connecting = 0
    public var prepared = 0
    public var joined = 0
    public var connectedWorkers = 0
    /// Workers of restored rooms that have not said hello, and detached ones.
    public var absentWorkers = 0
    public var timers = 0
    public var idempotencyKeys = 0
    public init() {}
}

/// Rooms and participants by state, kept up with every change so that asking is free.
struct ConductorTally: Equatable {
    var initiatedRooms = 0
    var ongoingRooms = 0
    var endedRooms = 0
    var connecting = 0
    var prepared = 0
    var joined = 0

    /// A whole room, as it is at a restart or when everything is counted anew.
    mutating func add(_ room: RoomRecord) {
        switch room.status {
        case .initiated: initiatedRooms += 1
        case .ongoing: ongoingRooms += 1
        case .ended: endedRooms += 1
        }
        for participant in room.participants {
            if participant.joinedAtMs != nil {
                joined += 1
            } else if participant.preparedAtMs != nil {
                prepared += 1
            } else {
                connecting += 1
            }
        }
    }

    /// One who leaves or is replaced; its times say how far it came.
    mutating func remove(_ participant: ParticipantRecord) {
        if participant.joinedAtMs != nil {
            joined -= 1
        } else if participant.preparedAtMs != nil {
            prepared -= 1
        } else {
            connecting -= 1
        }
    }

    /// A room that ends; whether it was ever started says what it was.
    mutating func end(_ room: RoomRecord) {
        if room.startedAtMs != nil { ongoingRooms -= 1 } else { initiatedRooms -= 1 }
        endedRooms += 1
    }
}

extension Conductor {
    /// - Complexity: O(workers).
    public var counts: ConductorCounts {
        var counts = ConductorCounts()
        counts.initiatedRooms = tally.initiatedRooms
        counts.ongoingRooms = tally.ongoingRooms
        counts.endedRooms = tally.endedRooms
        counts.connecting = tally.connecting
        counts.prepared = tally.prepared
        counts.joined = tally.joined
        counts.connectedWorkers = workers.values.count(where: \.isConnected)
        counts.absentWorkers = workers.count - counts.connectedWorkers
        counts.timers = timers.count
        counts.idempotencyKeys = idempotency.count
        return counts
    }

    /// The sessions' transports that a worker should hold, for comparing with what it does hold.
    public func expectedTransports(on worker: WorkerID) -> Set<ParticipantHandle> {
        guard let worker = workers[worker] else { return [] }
        return Set(ordered(worker.rooms).flatMap { $0.record.participants.map(\.handle) })
    }

    /// Everything that must hold between two decisions, as sentences about what does not. Empty when all is
    /// well.
    /// - Complexity: O(rooms and participants): for tests and simulations.
    public func checkInvariants() -> [String] {
        var broken: [String] = []
        func require(_ condition: Bool, _ sentence: @autoclosure () -> String) {
            if !condition { broken.append(sentence()) }
        }
        var participantCount = 0
        var counted = ConductorTally()
        var loads: [WorkerID: Int] = [:]
        for room in rooms.values {
            let record = room.record
            participantCount += record.participants.count
            counted.add(record)
            require(roomsByHandle[record.handle] === room, "room \(record.id) is not found by its handle")
            require(record.lifecycle.presentCount == record.participants.count, "room \(record.id) miscounts")
            require((record.outcome != nil) == (record.status == .ended), "room \(record.id) has a wrong outcome")
            if let worker = record.worker { loads[worker, default: 0] += record.participants.count }
            let hasWorker = record.worker != nil
            require(hasWorker == !record.participants.isEmpty, "room \(record.id) holds a worker for nobody")
            let hasTimers = ConductorTimer.all(ofRoom: record.handle).contains { timers.deadline(of: $0) != nil }
            if record.status == .ended {
                require(record.participants.isEmpty, "ended room \(record.id) has participants")
                require(!hasTimers, "ended room \(record.id) has timers")
            } else if !room.isAwaitingWorker {
                let isEmpty = record.participants.isEmpty
                require(
                    (timers.deadline(of: .emptyRoom(record.handle)) != nil) == (isEmpty && record.ring == nil),
                    "room \(record.id) waits to be closed while somebody is in, or does not while nobody is")
            }
            require(record.speaker.map { record.index(of: $0) != nil } ?? true, "a speaker of \(record.id) has left")
            checkCountdowns(of: room, require)
            for listener in record.prompts.flatMap(\.listeners) {
                require(record.index(of: listener) != nil, "somebody hears a prompt in \(record.id) who has left")
            }
            require(record.status != .ended || record.prompts.isEmpty, "a prompt outlived room \(record.id)")
            if let ring = record.ring { check(ring, of: room, require) }
            for participant in record.participants { check(participant, in: room, require) }
        }
        require(roomsByHandle.count == rooms.count, "rooms by handle are not the rooms")
        require(roomsByParticipant.count == participantCount, "participants by handle are not the participants")
        require(sessions.values.reduce(0) { $0 + $1.count } == participantCount, "users' sessions miscount")
        require(!sessions.values.contains(where: \.isEmpty), "a user without sessions is kept")
        for worker in workers.values {
            require(worker.transportCount == loads[worker.id, default: 0], "worker \(worker.id) miscounts")
        }
        for worker in loads.keys { require(workers[worker] != nil, "a room is on worker \(worker), which is gone") }
        for (timer, _) in timers.all { require(isAlive(timer), "timer \(timer) outlived what it was for") }
        counted.endedRooms += shelf.count
        require(counted == tally, "the tally \(tally) is not what is there: \(counted)")
        require(counted.endedRooms == endedRooms.count, "ended rooms are not those in line to be forgotten")
        for (handle, awaited) in awaitedFigures {
            let legs = roomsByHandle[awaited.room]?.record.history?.legs ?? []
            require(legs.contains { $0.handle == handle && !$0.isFinal }, "figures are awaited that nobody wants")
        }
        checkSeats(require)
        return broken
    }

    private func check(
        _ participant: ParticipantRecord, in room: ConductedRoom, _ require: (Bool, @autoclosure () -> String) -> Void
    ) {
        let handle = participant.handle
        require(roomsByParticipant[handle] === room, "participant \(participant.id) is not found by its handle")
        require(sessions[participant.uid]?.contains(handle) == true, "\(participant.id) is not among its user's")
        require(participant.lifecycle.state != .left, "\(participant.id) left and is still in")
        let isJoined = participant.lifecycle.state == .joined
        require((participant.joinedAtMs != nil) == isJoined, "\(participant.id) is joined without a time")
        let heard = room.record.prompts.count { $0.listeners.contains(handle) }
        require(heard <= 1, "\(participant.id) hears \(heard) prompts at once")
        for slot in participant.slots {
            require(room.record.index(of: slot.sender) != nil, "\(participant.id) has somebody in a slot who has left")
        }
        let isWaiting = timers.deadline(of: .participant(handle)) != nil
        require(
            isWaiting != isJoined || room.isAwaitingWorker,
            "\(participant.id) is \(participant.lifecycle.state) with\(isWaiting ? "" : "out") a timer")
    }

    private func checkCountdowns(
        of room: ConductedRoom, _ require: (Bool, @autoclosure () -> String) -> Void
    ) {
        let record = room.record
        let due = Self.countdowns(of: record)
        require((record.idle != nil) == due.idle, "silence counts in \(record.id) and should not, or does not")
        require((record.alone != nil) == due.alone, "\(record.id) counts who is alone and should not, or does not")
        for (timer, countdown, length) in [
            (ConductorTimer.idle(record.handle), record.idle, record.specification.timeouts.idle),
            (.alone(record.handle), record.alone, record.specification.timeouts.alone),
        ] {
            let next = length.flatMap { countdown?.next($0, warningLead: configuration.warningLead) }
            let isAwaited = next != nil && !room.isAwaitingWorker
            require((timers.deadline(of: timer) != nil) == isAwaited, "\(timer) is set for nothing, or is not set")
            if let next, let set = timers.deadline(of: timer) { require(set <= next, "\(timer) comes too late") }
        }
        require(!room.isUnsettled, "what counts in \(record.id) was not looked at")
    }

    private func check(
        _ ring: Ring, of room: ConductedRoom, _ require: (Bool, @autoclosure () -> String) -> Void
    ) {
        let record = room.record
        let isOver = record.status == .ended
        require(ring.endIsTold == isOver, "the end of the call in \(record.id) is told too early or not at all")
        require(!isOver || !ring.isBusy, "ended room \(record.id) rings")
        require(
            timers.deadline(of: .ringWindow(record.handle)) == ring.windowDeadline,
            "the window of \(record.id) is not its timer's")
        let joinDeadline = room.isAwaitingWorker ? nil : ring.joinDeadline
        require(
            timers.deadline(of: .joinAfterClaim(record.handle)) == joinDeadline,
            "the join deadline of \(record.id) is not its timer's")
        require(isOver || ring.isBusy || !record.participants.isEmpty, "nothing will ever end \(record.id)")
        require(isOver || (ring.claimer != nil) == (record.status == .ongoing), "\(record.id) claimed and not ongoing")
        for participant in record.participants where ring.isRinging(participant.uid) {
            require(!participant.lifecycle.claimsSeat, "\(participant.uid) is in \(record.id) without a claim")
        }
        for uid in [ring.caller] + ring.callees.map(\.uid) {
            require(
                calls[uid]?.contains(record.handle) == !isOver || (isOver && calls[uid] == nil),
                "\(record.id) is not among the calls of \(uid), or still is")
        }
    }

    private func checkSeats(_ require: (Bool, @autoclosure () -> String) -> Void) {
        for (uid, handles) in sessions {
            var joinedAlone = 0
            var joinedRooms: Set<RoomHandle> = []
            for handle in handles {
                guard let record = roomsByParticipant[handle]?.record, let index = record.index(of: handle),
                    record.participants[index].lifecycle.state == .joined
                else { continue }
                require(joinedRooms.insert(record.handle).inserted, "\(uid) is joined twice in room \(record.id)")
                if !record.specification.allowParallel { joinedAlone += 1 }
            }
            require(joinedAlone <= 1, "user \(uid) is joined in \(joinedAlone) rooms")
        }
    }

    private func isAlive(_ timer: ConductorTimer) -> Bool {
        switch timer {
        case .participant(let handle): roomsByParticipant[handle] != nil
        case .emptyRoom(let handle), .duration(let handle), .durationWarning(let handle), .idle(let handle),
            .alone(let handle), .ringWindow(let handle), .joinAfterClaim(let handle):
            roomsByHandle[handle].map { $0.record.status != .ended } ?? false
        case .retirement(let worker): workers[worker]?.isRetiring ?? false
        case .drain: drainRecord.map { $0.drainedAtMs == nil } ?? false
        case .workerWait: workers.values.contains { $0.endpoint == nil }
        case .retention: endedRooms.count > 0
        case .idempotency: idempotency.count > 0
        }
    }
}
