/// How much the log of events holds, and what of it retention lets go: knows its size in bytes without counting it
/// anew. Confined to the journal thread, inside the journal's transactions.
final class EventLog {
    /// What to delete.
    struct Plan {
        /// The newest event to delete; 0: none.
        var upTo: UInt64
        /// Bytes of JSON that go with it.
        var byteCount: Int64
        /// More is to be deleted after it.
        var isPartial: Bool
    }

    private static let chunk: Int64 = 10_000
    private let database: SQLiteDatabase
    private let selectSize: SQLiteStatement
    private let putMeta: SQLiteStatement
    private let selectFront: SQLiteStatement
    private let deleteFront: SQLiteStatement
    /// Of all events' JSON.
    private(set) var byteCount: Int64 = 0

    init(_ database: SQLiteDatabase) throws(SQLiteError) {
        self.database = database
        selectSize = try database.prepare("SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'eventBytes'")
        putMeta = try database.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)")
        selectFront = try database.prepare("SELECT seq, timeMs, length(json) FROM events ORDER BY seq LIMIT ?")
        deleteFront = try database.prepare("DELETE FROM events WHERE seq <= ?")
        try reload()
    }

    /// Takes the size from disk: at the start, and when a transaction failed.
    func reload() throws(SQLiteError) {
        try selectSize.bind()
        if try selectSize.step() {
            byteCount = selectSize.integer(0)
            while try selectSize.step() {}
        } else {
            // A journal from before the size was kept is counted once.
            let sum = try database.prepare("SELECT ifnull(sum(length(json)), 0) FROM events")
            try sum.bind()
            byteCount = try sum.step() ? sum.integer(0) : 0
            while try sum.step() {}
        }
    }

    func grow(by count: Int64) throws(SQLiteError) {
        guard count > 0 else { return }
        byteCount += count
        try putMeta.run(.text("eventBytes"), .text(String(byteCount)))
    }

    /// Looks at the oldest events only: the log is in the order of time but for news that a worker kept.
    func plan(for retention: JournalRetention, lastSeq: UInt64, nowMs: Int64) throws(SQLiteError) -> Plan {
        let bound = Int64(clamping: lastSeq > UInt64(retention.events) ? lastSeq - UInt64(retention.events) : 0)
        let oldest = nowMs - retention.ageMs
        var plan = Plan(upTo: 0, byteCount: 0, isPartial: false)
        var rows: Int64 = 0
        try selectFront.bind(.integer(Self.chunk))
        while try selectFront.step() {
            let seq = selectFront.integer(0)
            let isTooBig = byteCount - plan.byteCount > retention.byteCount
            guard seq <= bound || selectFront.integer(1) < oldest || isTooBig else { break }
            plan.upTo = UInt64(clamping: seq)
            plan.byteCount += selectFront.integer(2)
            rows += 1
        }
        // No read transaction stays open.
        try selectFront.bind(.integer(0))
        while try selectFront.step() {}
        plan.isPartial = rows == Self.chunk
        return plan
    }

    func delete(_ plan: Plan, lastSeq: UInt64) throws(SQLiteError) {
        // Numbers are never used again, also when nothing is left.
        try putMeta.run(.text("lastSeq"), .text(String(lastSeq)))
        try deleteFront.run(.integer(Int64(clamping: plan.upTo)))
        byteCount -= plan.byteCount
        try putMeta.run(.text("eventBytes"), .text(String(byteCount)))
    }
}
