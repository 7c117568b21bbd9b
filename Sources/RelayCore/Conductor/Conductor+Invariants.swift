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

extension Conductor {
    /// - Complexity: O(rooms and participants): for a scrape, not for every decision.
    public var counts: ConductorCounts {
        var counts = ConductorCounts()
        for room in rooms.values {
            switch room.record.status {
            case .initiated: counts.initiatedRooms += 1
            case .ongoing: counts.ongoingRooms += 1
            case .ended: counts.endedRooms += 1
            }
            for participant in room.record.participants {
                switch participant.lifecycle.state {
                case .connecting: counts.connecting += 1
                case .prepared: counts.prepared += 1
                case .joined: counts.joined += 1
                case .left: break
                }
            }
        }
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
        var loads: [WorkerID: Int] = [:]
        for room in rooms.values {
            let record = room.record
            participantCount += record.participants.count
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
                    (timers.deadline(of: .emptyRoom(record.handle)) != nil) == isEmpty,
                    "room \(record.id) waits to be closed while somebody is in, or does not while nobody is")
            }
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
        let endedCount = rooms.values.count { $0.record.status == .ended }
        require(endedCount == endedRooms.count, "ended rooms are not those in line to be forgotten")
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
        let isWaiting = timers.deadline(of: .participant(handle)) != nil
        let shallWait = participant.lifecycle.state != .joined
        require(
            isWaiting == shallWait || room.isAwaitingWorker,
            "\(participant.id) is \(participant.lifecycle.state) with\(isWaiting ? "" : "out") a timer")
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
        case .emptyRoom(let handle), .duration(let handle), .durationWarning(let handle):
            roomsByHandle[handle].map { $0.record.status != .ended } ?? false
        case .workerWait: workers.values.contains { $0.endpoint == nil }
        case .retention: endedRooms.count > 0
        case .idempotency: idempotency.count > 0
        }
    }
}
