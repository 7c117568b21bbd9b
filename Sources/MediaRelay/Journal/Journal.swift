import Glibc
import RTPCore
import RelayCore

/// One decision as it is stored: all of it in one transaction, before anyone is told.
package struct JournalEntry: Sendable {
    /// Counts turns; `committed` names the last one stored.
    package var turn: UInt64
    /// When it was decided; for the metrics only.
    package var decidedAt: Instant?
    package var events: [JournalEvent]
    package var rooms: [JournalRoom]
    package var keys: [JournalKey]
    package var workers: [JournalWorker]
    package var calls: [JournalCall] = []
    package var drain: JournalDrain?

    package init(turn: UInt64) {
        self.turn = turn
        events = []
        rooms = []
        keys = []
        workers = []
    }

    package var isEmpty: Bool {
        events.isEmpty && rooms.isEmpty && keys.isEmpty && workers.isEmpty && calls.isEmpty && drain == nil
    }
}

/// One event as it goes over the wire: its JSON text and what it is found by.
package struct JournalEvent: Sendable, Equatable {
    package var seq: UInt64
    package var room: String?
    package var timeMs: Int64
    package var type: String
    package var json: [UInt8]
    package init(seq: UInt64, room: String?, timeMs: Int64, type: String, json: [UInt8]) {
        self.seq = seq
        self.room = room
        self.timeMs = timeMs
        self.type = type
        self.json = json
    }
}

extension JournalEvent {
    /// As in its JSON: the same at every telling.
    package var id: String { "evt_\(seq)" }
}

/// What became of a room. `record` nil: forget the room.
package struct JournalRoom: Sendable {
    package var id: String
    package var record: RoomRecord?
    package init(id: String, record: RoomRecord?) {
        self.id = id
        self.record = record
    }
}

/// An idempotency key with what it stands for. `record` nil: forget it.
package struct JournalKey: Sendable {
    package var key: String
    package var record: [UInt8]?
    package init(key: String, record: [UInt8]?) {
        self.key = key
        self.record = record
    }
}

/// A worker process that may outlive control. `processID` 0: it is gone.
package struct JournalWorker: Sendable, Equatable {
    package var id: WorkerID
    package var processID: Int32
    package init(id: WorkerID, processID: Int32) {
        self.id = id
        self.processID = processID
    }
}

/// The node's drain. `record` nil: it is over.
package struct JournalDrain: Sendable, Equatable {
    package var record: [UInt8]?
    package init(record: [UInt8]?) { self.record = record }
}

/// What a new control process finds.
package struct JournalContents: Sendable {
    package var lastSeq: UInt64
    /// Rooms that have not ended, or not settled.
    package var rooms: [StoredRoom]
    package var settledRooms: [ShelvedRoom] = []
    package var keys: [(key: String, record: [UInt8])]
    package var workers: [JournalWorker]
    package var webhooks: [WebhookProgress] = []
    package var drain: [UInt8]?
}

/// How long events are kept: until the first of these bounds.
package struct JournalRetention: Sendable {
    package var events = 1_000_000
    package var ageMs: Int64 = 7 * 24 * 3_600_000
    /// Of the events' JSON; on disk they take about twice as much.
    package var byteCount: Int64 = 2 << 30
    /// How long the ids of ended rooms are known.
    package var endedAgeMs: Int64 = 90 * 24 * 3_600_000
    /// Call records.
    package var calls = 1_000_000
    package var callsAgeMs: Int64 = 90 * 24 * 3_600_000
    package init() {}
}

/// Events, rooms and idempotency keys on disk: SQLite with a write-ahead log, each commit flushed. Confined to the journal
/// thread. Refuses a database of another schema or another boot's deadlines (`bootID`): instants mean nothing after a reboot.
package final class Journal {
    private static let schemaVersion = "4"
    /// Files of these versions are opened and brought up to this one. 1 had no call records, 2 had sessions
    /// within rooms, 3 did not tell settled rooms.
    private static let earlierVersions: Set = ["1", "2", "3"]
    private let database: SQLiteDatabase
    let path: String
    private let rooms: RoomTable
    private let calls: CallTable
    private let webhooks: WebhookTable
    private let log: EventLog
    private let insertEvent: SQLiteStatement
    private let putKey: SQLiteStatement
    private let deleteKey: SQLiteStatement
    private let putWorker: SQLiteStatement
    private let deleteWorker: SQLiteStatement
    private let putDrain: SQLiteStatement
    private let deleteDrain: SQLiteStatement
    private let selectEvents: SQLiteStatement
    private let selectRoomEvents: SQLiteStatement
    private let selectNodeEvents: SQLiteStatement
    private let selectOldest: SQLiteStatement
    /// The boot in which the stored instants were taken differs from this one.
    package let isFromEarlierBoot: Bool
    /// What the first decisions, which put the stored instants right, are to be stored with: a start that dies before them leaves
    /// a journal of the earlier boot.
    private var newBootID: String?

    /// Opens or creates the journal at `path`; `bootID` names this boot of the machine. `vfs`: as of `SQLiteDatabase`.
    package init(path: String, bootID: String, vfs: String? = nil) throws(SQLiteError) {
        self.path = path
        database = try SQLiteDatabase(path: path, vfs: vfs)
        database.ownCheckpoints()
        try database.execute(
            """
            CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
            CREATE TABLE IF NOT EXISTS events (
                seq INTEGER PRIMARY KEY, room TEXT, timeMs INTEGER NOT NULL, type TEXT NOT NULL, json BLOB NOT NULL);
            CREATE INDEX IF NOT EXISTS eventsOfRoom ON events (room, seq) WHERE room IS NOT NULL;
            CREATE INDEX IF NOT EXISTS eventsOfNode ON events (seq) WHERE room IS NULL;
            CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
            CREATE TABLE IF NOT EXISTS workers (
                number INTEGER NOT NULL, epoch TEXT NOT NULL, processID INTEGER NOT NULL,
                PRIMARY KEY (number, epoch)) WITHOUT ROWID;
            """)
        let version = try Self.meta("schemaVersion", in: database, default: Self.schemaVersion)
        try Self.check(version: version, path: path)
        rooms = try RoomTable(in: database)
        calls = try CallTable(in: database)
        try database.prepare("UPDATE meta SET value = ? WHERE name = 'schemaVersion'").run(.text(Self.schemaVersion))
        isFromEarlierBoot = try Self.meta("bootID", in: database, default: bootID) != bootID
        if isFromEarlierBoot { newBootID = bootID }
        insertEvent = try database.prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?)")
        putKey = try database.prepare("INSERT OR REPLACE INTO keys VALUES (?, ?)")
        deleteKey = try database.prepare("DELETE FROM keys WHERE key = ?")
        putWorker = try database.prepare("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)")
        deleteWorker = try database.prepare("DELETE FROM workers WHERE number = ? AND epoch = ?")
        putDrain = try database.prepare("INSERT OR REPLACE INTO meta VALUES ('drain', ?)")
        deleteDrain = try database.prepare("DELETE FROM meta WHERE name = 'drain'")
        selectEvents = try database.prepare(
            "SELECT seq, room, timeMs, type, json FROM events WHERE seq > ? ORDER BY seq LIMIT ?")
        selectRoomEvents = try database.prepare(
            "SELECT seq, room, timeMs, type, json FROM events WHERE room = ? AND seq > ? ORDER BY seq LIMIT ?")
        selectOldest = try database.prepare("SELECT ifnull(min(seq), 0) FROM events")
        selectNodeEvents = try database.prepare(
            "SELECT seq, room, timeMs, type, json FROM events WHERE room IS NULL AND seq > ? ORDER BY seq LIMIT ?")
        webhooks = try WebhookTable(database)
        log = try EventLog(database)
    }

    /// Throws when this program could not go on from the journal there. Reads only; no file is fine.
    static func check(path: String) throws(SQLiteError) {
        guard access(path, F_OK) == 0 else { return }
        let database = try SQLiteDatabase(reading: path)
        let select = try database.prepare("SELECT value FROM meta WHERE name = 'schemaVersion'")
        try select.bind()
        guard try select.step() else { return }
        try check(version: select.text(0), path: path)
    }

    private static func check(version: String, path: String) throws(SQLiteError) {
        guard version == schemaVersion || earlierVersions.contains(version) else {
            throw SQLiteError(
                operation: "open \(path)", code: 0,
                message: "schema version \(version), this program knows \(schemaVersion)")
        }
    }

    private static func meta(
        _ name: String, in database: SQLiteDatabase, default value: String
    ) throws(SQLiteError) -> String {
        try database.prepare("INSERT OR IGNORE INTO meta VALUES (?, ?)").run(.text(name), .text(value))
        let select = try database.prepare("SELECT value FROM meta WHERE name = ?")
        try select.bind(.text(name))
        return try select.step() ? select.text(0) : value
    }

    /// The write-ahead log has grown so long that it should go back into the database: 4 MiB.
    var wantsCheckpoint: Bool { database.logPageCount >= 1_024 }

    /// See `JournalCheckpointer`.
    func checkpoint() throws(SQLiteError) { try database.checkpoint() }

    /// Everything that a new control process needs to go on.
    package func contents() throws(SQLiteError) -> JournalContents {
        // Numbers are never used again, also when retention has emptied the table.
        let last = try database.prepare(
            """
            SELECT max(ifnull((SELECT max(seq) FROM events), 0),
                       ifnull((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'lastSeq'), 0))
            """)
        try last.bind()
        let lastSeq = try last.step() ? UInt64(clamping: last.integer(0)) : 0
        // No node gets there: a damaged row, from which numbering would run out of its range.
        guard lastSeq < 1 << 62 else {
            throw SQLiteError(
                operation: "read \(path)", code: 0, message: "\(lastSeq) is no event's number: the journal is damaged")
        }
        var contents = JournalContents(lastSeq: lastSeq, rooms: [], keys: [], workers: [])
        contents.rooms = try rooms.unsettled()
        contents.settledRooms = try rooms.settled()
        let keys = try database.prepare("SELECT key, record FROM keys")
        try keys.bind()
        while try keys.step() { contents.keys.append((keys.text(0), keys.bytes(1))) }
        let workers = try database.prepare("SELECT number, epoch, processID FROM workers")
        try workers.bind()
        while try workers.step() {
            guard let epoch = UInt64(workers.text(1)) else { continue }
            contents.workers.append(
                JournalWorker(
                    id: WorkerID(index: Int(workers.integer(0)), epoch: epoch),
                    processID: Int32(truncatingIfNeeded: workers.integer(2))))
        }
        contents.webhooks = try webhooks.all()
        let drain = try database.prepare("SELECT value FROM meta WHERE name = 'drain'")
        try drain.bind()
        if try drain.step() { contents.drain = Array(drain.text(0).utf8) }
        return contents
    }

    /// Stores all entries, and where webhook endpoints stand, in one transaction: all of it or, when it throws, nothing.
    package func store(_ entries: [JournalEntry], progress: [WebhookProgress] = []) throws(SQLiteError) {
        try transact { () throws(SQLiteError) in
            for entry in entries { try write(entry) }
            try writeRooms(of: entries)
            for one in progress { try webhooks.write(one) }
            try log.grow(by: entries.reduce(0) { $0 + $1.events.reduce(0) { $0 + Int64($1.json.count) } })
            if let newBootID, !entries.isEmpty {
                try database.prepare("UPDATE meta SET value = ? WHERE name = 'bootID'").run(.text(newBootID))
            }
        }
        if !entries.isEmpty { newBootID = nil }
    }

    private func transact(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        try database.execute("BEGIN IMMEDIATE")
        do throws(SQLiteError) {
            try body()
            try database.execute("COMMIT")
        } catch {
            // The transaction may be gone already; what failed first is what counts.
            try? database.execute("ROLLBACK")
            try? log.reload()
            try? rooms.reload()
            throw error
        }
    }

    private func write(_ entry: JournalEntry) throws(SQLiteError) {
        for event in entry.events {
            try insertEvent.run(
                .integer(Int64(event.seq)), event.room.map { .text($0) } ?? .null, .integer(event.timeMs),
                .text(event.type), .bytes(event.json))
        }
        for call in entry.calls { try calls.put(call) }
        for key in entry.keys {
            if let record = key.record {
                try putKey.run(.text(key.key), .bytes(record))
            } else {
                try deleteKey.run(.text(key.key))
            }
        }
        if let drain = entry.drain {
            if let record = drain.record {
                try putDrain.run(.text(String(decoding: record, as: UTF8.self)))
            } else {
                try deleteDrain.run()
            }
        }
        for worker in entry.workers {
            // Epochs use all 64 bits: kept as text.
            let number = SQLiteStatement.Value.integer(Int64(worker.id.index))
            let epoch = SQLiteStatement.Value.text(String(worker.id.epoch))
            if worker.processID != 0 {
                try putWorker.run(number, epoch, .integer(Int64(worker.processID)))
            } else {
                try deleteWorker.run(number, epoch)
            }
        }
    }

    /// Only the last of what several decisions made of a room, and the end of each: after a disk that refused for long, a room's
    /// end and its forgetting may be stored together.
    private func writeRooms(of entries: [JournalEntry]) throws(SQLiteError) {
        var written: Set<String> = []
        for entry in entries.reversed() {
            for room in entry.rooms.reversed() {
                if let record = room.record { try rooms.noteEnd(of: record) }
                guard written.insert(room.id).inserted else { continue }
                if let record = room.record { try rooms.put(record) } else { try rooms.forget(room.id) }
            }
        }
    }

    /// Events after `seq` in order, at most `limit`, of one room, of none ("") or of all.
    package func events(after seq: UInt64, room: String?, limit: Int) throws(SQLiteError) -> [JournalEvent] {
        let select = room == nil ? selectEvents : room == "" ? selectNodeEvents : selectRoomEvents
        let after = SQLiteStatement.Value.integer(Int64(clamping: seq))
        if let room, !room.isEmpty {
            try select.bind(.text(room), after, .integer(Int64(limit)))
        } else {
            try select.bind(after, .integer(Int64(limit)))
        }
        var events: [JournalEvent] = []
        while try select.step() {
            let room = select.text(1)
            events.append(
                JournalEvent(
                    seq: UInt64(clamping: select.integer(0)), room: room.isEmpty ? nil : room,
                    timeMs: select.integer(2),
                    type: select.text(3), json: select.bytes(4)))
        }
        return events
    }

    /// The oldest event that is kept; 0 when there is none.
    package func oldestSeq() throws(SQLiteError) -> UInt64 {
        // An open read would keep the write-ahead log from going back into the database, for ever.
        defer { selectOldest.reset() }
        try selectOldest.bind()
        return try selectOldest.step() ? UInt64(clamping: selectOldest.integer(0)) : 0
    }

    /// Deletes what retention no longer covers, at most 10,000 events at once. True: there is more to delete.
    @discardableResult
    package func truncate(to retention: JournalRetention, lastSeq: UInt64, nowMs: Int64) throws(SQLiteError) -> Bool {
        let plan = try log.plan(for: retention, lastSeq: lastSeq, nowMs: nowMs)
        let oldestEnded = nowMs - retention.endedAgeMs
        try transact { () throws(SQLiteError) in
            if plan.upTo > 0 { try log.delete(plan, lastSeq: lastSeq) }
            try rooms.deleteEnded(before: oldestEnded)
            try calls.truncate(in: database, keeping: retention.calls, oldestMs: nowMs - retention.callsAgeMs)
        }
        return plan.isPartial
    }
}
