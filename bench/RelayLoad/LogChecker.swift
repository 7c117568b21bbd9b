import RTPCore

/// What one room's events said.
struct RoomTrace: Sendable {
    var roomSeq: UInt64 = 0
    var hasRing = false
    var ringingCount = 0
    /// Participants that became prepared, and when the last one did.
    var prepared: [String] = []
    var preparedAt: Instant?
    var answers: [(uid: String, device: String)] = []
    /// Outcomes of `call.ended`, in order; a good log has one.
    var outcomes: [String] = []
    var endedAt: Instant?
    var answeredAt: Instant?
    var joined: [(participant: String, uid: String, device: String)] = []
    var left: [(uid: String, reason: String)] = []
    var isClosed = false
}

/// Reads the server's whole log as it comes and holds it to what CALLS.md promises of any log: `seq` without gap, each room's
/// own numbers without gap, one `call.ended` a ring, nothing behind `room.closed`. Confined to the loop's thread.
final class LogChecker: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    private(set) var lastSeq: UInt64
    private(set) var eventCount = 0
    private(set) var faults: [String] = []
    private(set) var faultCount = 0
    private(set) var endedRings = 0
    private(set) var rings = 0
    private(set) var rooms: [String: RoomTrace] = [:]
    private var waiting: [String: [(condition: (RoomTrace) -> Bool, continuation: UnsafeContinuation<Void, Never>)]] =
        [:]
    private let loop: EventLoop

    /// `after`: the seq before the first event that it is to see.
    init(_ loop: EventLoop, after: UInt64 = 0) {
        self.loop = loop
        lastSeq = after
    }

    func note(_ fault: String) {
        faultCount += 1
        if faults.count < 20 { faults.append(fault) }
    }

    func take(_ event: LoadEvent) {
        eventCount += 1
        if event.seq != lastSeq + 1 { note("seq \(event.seq) follows \(lastSeq)") }
        lastSeq = event.seq
        guard let id = event.room else { return }
        var room = rooms[id] ?? RoomTrace()
        if event.roomSeq != room.roomSeq + 1 { note("\(id): roomSeq \(event.roomSeq) follows \(room.roomSeq)") }
        room.roomSeq = event.roomSeq
        if room.isClosed { note("\(id): \(event.type) behind room.closed") }
        switch event.type {
        case "call.initiated":
            room.hasRing = true
            rings += 1
        case "call.ringing": room.ringingCount += 1
        case "participant.prepared":
            room.prepared.append(event.participant ?? "")
            room.preparedAt = event.receivedAt
        case "call.answered":
            room.answers.append((event.uid ?? "", event.device ?? ""))
            room.answeredAt = event.receivedAt
            if room.answers.count > 1 { note("\(id): answered twice") }
        case "call.ended":
            room.outcomes.append(event.outcome ?? "")
            room.endedAt = event.receivedAt
            endedRings += 1
            if room.outcomes.count > 1 { note("\(id): ended \(room.outcomes)") }
        case "participant.joined":
            room.joined.append((event.participant ?? "", event.uid ?? "", event.device ?? ""))
            if room.answers.isEmpty, room.hasRing { note("\(id): joined before the answer") }
        case "participant.left": room.left.append((event.uid ?? "", event.reason ?? ""))
        case "room.closed":
            room.isClosed = true
            if room.hasRing, room.outcomes.isEmpty { note("\(id): closed without call.ended") }
        default: break
        }
        rooms[id] = room
        wake(id, room)
    }

    private func wake(_ id: String, _ room: RoomTrace) {
        guard let waiters = waiting[id] else { return }
        let rest = waiters.filter { waiter in
            guard waiter.condition(room) else { return true }
            waiter.continuation.resume()
            return false
        }
        waiting[id] = rest.isEmpty ? nil : rest
    }

    /// Waits until the log has said of the room what `condition` wants, and gives what was said; nil after `limit`.
    func trace(
        of id: String, within limit: Interval = .seconds(20), _ condition: @escaping (RoomTrace) -> Bool
    ) async -> RoomTrace? {
        if let room = rooms[id], condition(room) { return room }
        let timeout = loop.spawn { [self] in
            await loop.sleep(for: limit)
            if !Task.isCancelled, let waiters = waiting.removeValue(forKey: id) {
                for waiter in waiters { waiter.continuation.resume() }
            }
        }
        await withUnsafeContinuation { continuation in
            waiting[id, default: []].append((condition, continuation))
        }
        timeout.cancel()
        guard let room = rooms[id], condition(room) else { return nil }
        return room
    }

    /// A room whose checks are done takes no memory any more.
    func forget(_ id: String) { if rooms[id]?.isClosed == true { rooms[id] = nil } }
}
