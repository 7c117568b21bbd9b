import RelayCore

/// A room's record as it is found: its JSON, and that of its participants' sessions by their ids.
package struct StoredRoom: Sendable, Equatable {
    package var record: [UInt8]
    package var sessions: [String: [UInt8]]
    package init(record: [UInt8], sessions: [String: [UInt8]] = [:]) {
        self.record = record
        self.sessions = sessions
    }
}

/// The journal's tables of rooms: their records by the order of creation, so that those who live at the same time lie
/// together; the sessions of their participants in rows of their own, written when they change, which is rare; the
/// outcomes of ended rooms. Confined to the journal thread, inside its transactions.
final class RoomTable {
    private struct Session {
        var handle: UInt64
        /// Nil: what is on disk is not known, and so is written anew.
        var record: SessionRecord?
    }
    private struct Row {
        var ordinal: Int64
        var sessions: [Session]
    }

    private let database: SQLiteDatabase
    private let putRecord: SQLiteStatement
    private let deleteRecord: SQLiteStatement
    private let putSession: SQLiteStatement
    private let deleteSession: SQLiteStatement
    private let putEnded: SQLiteStatement
    /// What is on disk, by room.
    private var rows: [String: Row] = [:]

    /// Makes the tables; takes over those of a journal from before version 3, whose records have their sessions within.
    init(in database: SQLiteDatabase) throws(SQLiteError) {
        self.database = database
        try database.execute(
            """
            CREATE TABLE IF NOT EXISTS roomRecords (
                ordinal INTEGER PRIMARY KEY, id TEXT NOT NULL, handle INTEGER NOT NULL DEFAULT 0, settledMs INTEGER,
                record BLOB NOT NULL);
            CREATE TABLE IF NOT EXISTS sessions (
                handle INTEGER PRIMARY KEY, room INTEGER NOT NULL, participant TEXT NOT NULL, record BLOB NOT NULL);
            CREATE TABLE IF NOT EXISTS ended (
                id TEXT PRIMARY KEY, outcome TEXT NOT NULL, timeMs INTEGER NOT NULL) WITHOUT ROWID;
            CREATE INDEX IF NOT EXISTS endedByTime ON ended (timeMs);
            """)
        try Self.takeOverEarlier(in: database)
        putRecord = try database.prepare(
            """
            INSERT INTO roomRecords (ordinal, id, handle, settledMs, record) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (ordinal) DO UPDATE
            SET handle = excluded.handle, settledMs = excluded.settledMs, record = excluded.record
            """)
        deleteRecord = try database.prepare("DELETE FROM roomRecords WHERE ordinal = ?")
        putSession = try database.prepare(
            "INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT (handle) DO UPDATE SET record = excluded.record")
        deleteSession = try database.prepare("DELETE FROM sessions WHERE handle = ?")
        putEnded = try database.prepare("INSERT OR IGNORE INTO ended VALUES (?, ?, ?)")
        try reload()
    }

    private static func takeOverEarlier(in database: SQLiteDatabase) throws(SQLiteError) {
        func count(_ query: String) throws(SQLiteError) -> Int64 {
            let select = try database.prepare(query)
            defer { select.reset() }
            try select.bind()
            return try select.step() ? select.integer(0) : 0
        }
        if try count("SELECT count(*) FROM pragma_table_info('roomRecords') WHERE name = 'handle'") == 0 {
            try database.execute(
                """
                ALTER TABLE roomRecords ADD COLUMN handle INTEGER NOT NULL DEFAULT 0;
                ALTER TABLE roomRecords ADD COLUMN settledMs INTEGER;
                """)
        }
        if try count("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'rooms'") > 0 {
            try database.execute(
                """
                BEGIN IMMEDIATE;
                INSERT INTO roomRecords (ordinal, id, record)
                    SELECT json_extract(CAST(record AS TEXT), '$.ordinal'), id, record FROM rooms;
                DROP TABLE rooms;
                COMMIT;
                """)
        }
    }

    /// Learns what is on disk: at the start, and when a transaction failed.
    func reload() throws(SQLiteError) {
        rows = [:]
        var ids: [Int64: String] = [:]
        let records = try database.prepare("SELECT ordinal, id FROM roomRecords")
        try records.bind()
        while try records.step() {
            ids[records.integer(0)] = records.text(1)
            rows[records.text(1)] = Row(ordinal: records.integer(0), sessions: [])
        }
        let sessions = try database.prepare("SELECT handle, room FROM sessions")
        try sessions.bind()
        while try sessions.step() {
            guard let id = ids[sessions.integer(1)] else { continue }
            rows[id]?.sessions.append(Session(handle: UInt64(bitPattern: sessions.integer(0)), record: nil))
        }
    }

    /// Rooms whose records nothing will change any more, by what a restart needs of them; see `EndedRooms`.
    func settled() throws(SQLiteError) -> [ShelvedRoom] {
        var rooms: [ShelvedRoom] = []
        let select = try database.prepare(
            "SELECT ordinal, id, handle, settledMs FROM roomRecords WHERE settledMs IS NOT NULL ORDER BY ordinal")
        try select.bind()
        while try select.step() {
            guard let id = RoomID(select.text(1)) else { continue }
            rooms.append(
                ShelvedRoom(
                    id: id, handle: RoomHandle(UInt64(bitPattern: select.integer(2))),
                    ordinal: UInt64(clamping: select.integer(0)), endedAtMs: select.integer(3)))
        }
        return rooms
    }

    /// Every other room, in the order of creation.
    func unsettled() throws(SQLiteError) -> [StoredRoom] {
        var sessionsOf: [Int64: [String: [UInt8]]] = [:]
        let sessions = try database.prepare("SELECT room, participant, record FROM sessions")
        try sessions.bind()
        while try sessions.step() {
            sessionsOf[sessions.integer(0), default: [:]][sessions.text(1)] = sessions.bytes(2)
        }
        var rooms: [StoredRoom] = []
        let records = try database.prepare(
            "SELECT ordinal, record FROM roomRecords WHERE settledMs IS NULL ORDER BY ordinal")
        try records.bind()
        while try records.step() {
            rooms.append(StoredRoom(record: records.bytes(1), sessions: sessionsOf[records.integer(0)] ?? [:]))
        }
        return rooms
    }

    func put(_ room: RoomRecord) throws(SQLiteError) {
        let id = room.id.text
        let ordinal = Int64(clamping: room.ordinal)
        try putRecord.run(
            .integer(ordinal), .text(id), .integer(Int64(bitPattern: room.handle.value)),
            room.isSettled ? .integer(room.endedAtMs ?? 0) : .null, .bytes(RecordCoding.encode(room)))
        let before = rows[id]?.sessions ?? []
        var sessions: [Session] = []
        for participant in room.participants {
            let handle = participant.handle.value
            sessions.append(Session(handle: handle, record: participant.session))
            // Compared by identity first: what did not change shares its storage.
            if let known = before.first(where: { $0.handle == handle }), known.record == participant.session {
                continue
            }
            try putSession.run(
                .integer(Int64(bitPattern: handle)), .integer(ordinal), .text(participant.id.text),
                .bytes(RecordCoding.encode(participant.session)))
        }
        for session in before where !sessions.contains(where: { $0.handle == session.handle }) {
            try deleteSession.run(.integer(Int64(bitPattern: session.handle)))
        }
        rows[id] = Row(ordinal: ordinal, sessions: sessions)
    }

    /// Its id is never used again, also after its record is forgotten.
    func noteEnd(of room: RoomRecord) throws(SQLiteError) {
        guard let outcome = room.outcome else { return }
        try putEnded.run(.text(room.id.text), .text(outcome.rawValue), .integer(room.endedAtMs ?? WallClock.nowMs))
    }

    func forget(_ id: String) throws(SQLiteError) {
        guard let row = rows.removeValue(forKey: id) else { return }
        try deleteRecord.run(.integer(row.ordinal))
        for session in row.sessions { try deleteSession.run(.integer(Int64(bitPattern: session.handle))) }
    }

    func deleteEnded(before timeMs: Int64) throws(SQLiteError) {
        try database.prepare("DELETE FROM ended WHERE timeMs < ?").run(.integer(timeMs))
    }
}
