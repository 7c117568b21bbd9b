/// A call record as the journal stores it: its JSON text, what it is found by, and how each user's log shows it.
package struct JournalCall: Sendable {
    package struct User: Sendable, Equatable {
        package var uid: String
        /// The `view` as JSON text.
        package var view: [UInt8]
        package var isMissed: Bool
        package init(uid: String, view: [UInt8], isMissed: Bool) {
            self.uid = uid
            self.view = view
            self.isMissed = isMissed
        }
    }
    package var room: String
    package var endedMs: Int64
    package var outcome: String
    package var json: [UInt8]
    package var users: [User]
    package init(room: String, endedMs: Int64, outcome: String, json: [UInt8], users: [User]) {
        self.room = room
        self.endedMs = endedMs
        self.outcome = outcome
        self.json = json
        self.users = users
    }
}

/// The journal's tables of call records, for writing: a second record of a room replaces the text of the first and
/// keeps its place. Confined to the journal thread, inside its transactions.
final class CallTable {
    private let put: SQLiteStatement
    private let numberOf: SQLiteStatement
    private let putUser: SQLiteStatement
    private let deleteUsers: SQLiteStatement
    private let deleteCalls: SQLiteStatement

    init(in database: SQLiteDatabase) throws(SQLiteError) {
        try database.execute(
            """
            CREATE TABLE IF NOT EXISTS calls (
                number INTEGER PRIMARY KEY, room TEXT NOT NULL UNIQUE, endedMs INTEGER NOT NULL, outcome TEXT NOT NULL,
                json BLOB NOT NULL);
            CREATE INDEX IF NOT EXISTS callsByEnd ON calls (endedMs, number);
            CREATE INDEX IF NOT EXISTS callsByOutcome ON calls (outcome, endedMs, number);
            CREATE TABLE IF NOT EXISTS callUsers (
                uid TEXT NOT NULL, endedMs INTEGER NOT NULL, number INTEGER NOT NULL, outcome TEXT NOT NULL,
                isMissed INTEGER NOT NULL, view BLOB NOT NULL, PRIMARY KEY (uid, endedMs, number)) WITHOUT ROWID;
            CREATE INDEX IF NOT EXISTS missedCalls ON callUsers (uid, endedMs, number) WHERE isMissed = 1;
            CREATE INDEX IF NOT EXISTS usersOfCall ON callUsers (number);
            """)
        put = try database.prepare(
            """
            INSERT INTO calls (room, endedMs, outcome, json) VALUES (?, ?, ?, ?)
            ON CONFLICT (room) DO UPDATE SET json = excluded.json
            """)
        numberOf = try database.prepare("SELECT number FROM calls WHERE room = ?")
        putUser = try database.prepare("INSERT OR IGNORE INTO callUsers VALUES (?, ?, ?, ?, ?, ?)")
        deleteUsers = try database.prepare(
            "DELETE FROM callUsers WHERE number IN (SELECT number FROM calls WHERE number <= ? OR endedMs < ?)")
        deleteCalls = try database.prepare("DELETE FROM calls WHERE number <= ? OR endedMs < ?")
    }

    func put(_ call: JournalCall) throws(SQLiteError) {
        try put.run(.text(call.room), .integer(call.endedMs), .text(call.outcome), .bytes(call.json))
        try numberOf.bind(.text(call.room))
        guard try numberOf.step() else { return }
        let number = numberOf.integer(0)
        while try numberOf.step() {}
        for user in call.users {
            try putUser.run(
                .text(user.uid), .integer(call.endedMs), .integer(number), .text(call.outcome),
                .integer(user.isMissed ? 1 : 0), .bytes(user.view))
        }
    }

    /// Keeps the newest `count` records of those that ended at `oldestMs` or later.
    func truncate(in database: SQLiteDatabase, keeping count: Int, oldestMs: Int64) throws(SQLiteError) {
        let newest = try database.prepare("SELECT ifnull(max(number), 0) FROM calls")
        try newest.bind()
        let bound = try newest.step() ? newest.integer(0) - Int64(count) : 0
        while try newest.step() {}
        try deleteUsers.run(.integer(bound), .integer(oldestMs))
        try deleteCalls.run(.integer(bound), .integer(oldestMs))
    }
}
