import RTPCore

// Draining: the node takes no new rooms, what rings or runs goes on, and what is left at the deadline ends as `drained`.
// An operator's drain is a state of the node that a restart of control finds again; it ends by `undrain`, or with the
// node in order (SIGTERM), which is a drain whose deadline is now.

/// A drain as the journal keeps it.
public struct DrainRecord: Hashable, Sendable, Codable {
    public let startedAtMs: Int64
    /// What is left then ends. Of the boot clock, and the same of the wall clock for another boot.
    public internal(set) var deadline: Instant
    public internal(set) var deadlineMs: Int64
    /// When the last room had ended; nil: rooms are left.
    public internal(set) var drainedAtMs: Int64?
    /// Rooms that the deadline ended.
    public internal(set) var endedRooms: Int
}

/// What became of the node's drain in a decision, for the journal.
public enum DrainChange: Hashable, Sendable {
    case put(DrainRecord)
    case over
}

/// A drain as the API shows it.
public struct DrainView: Hashable, Sendable {
    /// Nil: the node does not drain.
    public var record: DrainRecord?
    /// Rooms that have not ended.
    public var rooms: Int
}

extension Conductor {
    /// The operator's drain, while there is one.
    public var drain: DrainRecord? { drainRecord }

    /// Nothing new is taken: the operator said so, or everything has been ended.
    var isDraining: Bool { drainRecord != nil || hasShutDown }

    /// What rings or runs is let finish, and what is needed for that.
    func mayPrepare(in room: RoomRecord) -> Bool {
        !isDraining || room.ring != nil || room.status == .ongoing || !room.participants.isEmpty
    }

    /// Again while it drains: another deadline.
    func drain(within time: Interval, for principal: Principal) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        let deadlineMs = wallClockMs + time.milliseconds
        var record =
            drainRecord
            ?? DrainRecord(
                startedAtMs: wallClockMs, deadline: now, deadlineMs: wallClockMs, drainedAtMs: nil, endedRooms: 0)
        record.deadline = now + time
        record.deadlineMs = deadlineMs
        put(record)
        emit(
            .nodeDraining, in: nil, of: nil, reason: nil,
            data: [
                JSONValue.Field("deadlineAtMs", .integer(deadlineMs)),
                JSONValue.Field("rooms", .integer(Int64(liveRooms))),
            ], at: now)
        // A deadline of now is kept in this decision.
        decideDrain()
        return .drain(drainView)
    }

    /// New rooms are taken again. Nothing to end is no fault.
    func undrain(for principal: Principal) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        if drainRecord != nil {
            forgetDrain()
            emit(
                .nodeUndrained, in: nil, of: nil, reason: nil,
                data: [JSONValue.Field("rooms", .integer(Int64(liveRooms)))], at: now)
        }
        return .drain(drainView)
    }

    var drainView: DrainView { DrainView(record: drainRecord, rooms: liveRooms) }

    private var liveRooms: Int { tally.initiatedRooms + tally.ongoingRooms }

    private func put(_ record: DrainRecord) {
        drainRecord = record
        turn.drain = .put(record)
        if record.drainedAtMs == nil { timers.set(.drain, to: record.deadline) } else { timers.cancel(.drain) }
    }

    private func forgetDrain() {
        drainRecord = nil
        timers.cancel(.drain)
        turn.drain = .over
    }

    /// At the deadline, and at the end of every decision: whether the node is empty by now.
    func decideDrain() {
        guard var record = drainRecord, record.drainedAtMs == nil else { return }
        if now >= record.deadline {
            record.endedRooms += liveRooms
            endAllRooms()
        }
        guard liveRooms == 0 else { return }
        record.drainedAtMs = wallClockMs
        put(record)
        emit(
            .nodeDrained, in: nil, of: nil, reason: nil,
            data: [JSONValue.Field("ended", .integer(Int64(record.endedRooms)))], at: now)
    }

    /// Before the first decision: a drain of the control process before this one goes on.
    func restoreDrain() {
        guard var record = drainRecord else { return }
        if !isSameBoot {
            record.deadline = now + .milliseconds(max(0, min(record.deadlineMs - wallClockMs, 1 << 40)))
        }
        put(record)
    }

    /// Everything ends, nothing new is taken; the workers stop when they have said so to their clients.
    func shutDown() {
        guard !hasShutDown else { return }
        hasShutDown = true
        if drainRecord != nil {
            // The next start is another node's life: it takes rooms.
            forgetDrain()
        } else {
            emit(.nodeDraining, in: nil, of: nil, reason: nil, data: [], at: now)
        }
        endAllRooms()
        for worker in workers.keys.sorted(by: { $0.index < $1.index }) { command(.shutDown, to: worker) }
    }

    private func endAllRooms() {
        cause = CallCause(.node)
        for room in ordered(Set(roomsByHandle.keys)) {
            perform(room.record.lifecycle.receive(.drained), on: room, at: now)
        }
    }
}
