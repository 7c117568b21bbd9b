import MediaRelay
import RelayCore

/// What the journal must hold: everything that was told, and of what was not told either all of one transaction or nothing.
/// It is given what control posts and hears, and compares what a new process finds. Knows no SQL.
struct JournalAudit {
    /// What is on disk as far as anybody was told.
    struct Contents {
        var events: [JournalEvent] = []
        var rooms: [String: RoomRecord] = [:]
        var keys: [String: [UInt8]] = [:]
        var workers: [WorkerID: Int32] = [:]
        var outcomes: [String: RoomOutcome] = [:]
        var calls: Set<String> = []

        mutating func store(_ entry: JournalEntry) {
            events += entry.events
            for room in entry.rooms {
                rooms[room.id] = room.record
                if let record = room.record, let outcome = record.outcome, outcomes[room.id] == nil {
                    outcomes[room.id] = outcome
                }
            }
            for key in entry.keys { keys[key.key] = key.record }
            for worker in entry.workers { workers[worker.id] = worker.processID == 0 ? nil : worker.processID }
            for call in entry.calls { calls.insert(call.room) }
        }
    }

    private(set) var told = Contents()
    /// Posted and not told as stored, in order.
    private var posted: [JournalEntry] = []
    /// How many of them transactions have held since the last one that was told.
    private var attempts: Set<Int> = []

    /// What is in both: the number of the newest event that anybody may have heard of.
    var newest: UInt64 { told.events.last?.seq ?? 0 }

    /// Rooms of which something was decided that nobody has been told of.
    var postedRooms: Set<String> { Set(posted.flatMap { $0.rooms.map(\.id) }) }

    mutating func post(_ entry: JournalEntry) { posted.append(entry) }

    /// A transaction with everything up to `turn` begins.
    mutating func attempt(upTo turn: UInt64) {
        let count = posted.count { $0.turn <= turn }
        if count > 0 { attempts.insert(count) }
    }

    /// Everything up to `turn` was told as stored. The events of it.
    mutating func stored(upTo turn: UInt64) -> [JournalEvent] {
        let count = posted.count { $0.turn <= turn }
        let events = posted.prefix(count).flatMap(\.events)
        for entry in posted.prefix(count) { told.store(entry) }
        posted.removeFirst(count)
        attempts = []
        return events
    }

    /// Compares what a new process found. Afterwards that is what counts. Nil: it is what it must be; else what is not.
    mutating func recovered(_ found: JournalContents, log: Log) -> String? {
        var first: String?
        for count in [0] + attempts.sorted() {
            var candidate = told
            for entry in posted.prefix(count) { candidate.store(entry) }
            guard let difference = Self.difference(found, from: candidate, log: log) else {
                told = candidate
                posted = []
                attempts = []
                return nil
            }
            first = first ?? difference
        }
        return "the journal after recovery is neither what was told nor that and a whole transaction: \(first ?? "")"
    }

    private static func difference(_ found: JournalContents, from expected: Contents, log: Log) -> String? {
        let newest = expected.events.last?.seq ?? 0
        guard found.lastSeq == newest else { return "its newest event is \(found.lastSeq), not \(newest)" }
        var keys: [String: [UInt8]] = [:]
        for (key, record) in found.keys { keys[key] = record }
        guard keys == expected.keys else { return "it has \(keys.count) idempotency keys, not \(expected.keys.count)" }
        var workers: [WorkerID: Int32] = [:]
        for worker in found.workers { workers[worker.id] = worker.processID }
        guard workers == expected.workers else { return "it has workers \(workers), not \(expected.workers)" }
        let restored = RestoredRooms(found, log: log)
        guard restored.rooms.count == found.rooms.count, restored.shelved.count == found.settledRooms.count else {
            return "records that it has can not be read"
        }
        let live = expected.rooms.values.filter { !$0.isSettled }
        guard restored.rooms.count == live.count, restored.shelved.count == expected.rooms.count - live.count else {
            return "it has \(restored.rooms.count) rooms and \(restored.shelved.count) settled ones, not \(live.count)"
        }
        for room in restored.rooms where expected.rooms[room.id.text] != room {
            return "room \(room.id) is not as it was stored"
        }
        for room in restored.shelved where expected.rooms[room.id.text]?.isSettled != true {
            return "room \(room.id) is settled and was not"
        }
        return nil
    }
}
