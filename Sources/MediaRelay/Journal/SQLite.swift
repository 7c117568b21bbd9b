import CSQLite

/// What SQLite answered instead of doing what it was asked.
package struct SQLiteError: Error, CustomStringConvertible {
    package var operation: String
    package var code: Int32
    package var message: String
    package var description: String { "\(operation): \(message) (SQLite code \(code))" }
}

/// One connection to an SQLite database file and the few verbs that the journal needs. One thread.
final class SQLiteDatabase {
    private var connection: OpaquePointer?
    private let logPages = UnsafeMutablePointer<Int32>.allocate(capacity: 1)

    /// Opens or creates `path` with a write-ahead log that is flushed at every commit: a commit that was told survives power
    /// loss (HTTP.md; NORMAL would lose the last ones).
    /// - Parameter vfs: the name of SQLite's way to the disk; nil: the system's.
    init(path: String, vfs: String? = nil) throws(SQLiteError) {
        logPages.initialize(to: 0)
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE
        let result = sqlite3_open_v2(path, &connection, flags, vfs)
        guard result == SQLITE_OK else {
            let failure = error("open \(path)", result)
            sqlite3_close_v2(connection)
            connection = nil
            throw failure
        }
        sqlite3_busy_timeout(connection, 2_000)
        do throws(SQLiteError) {
            try execute("PRAGMA journal_mode=WAL")
            try execute("PRAGMA synchronous=FULL")
            // 4 MiB of pages: with SQLite's own 2 MB a busy journal reads its pages from the file again and again.
            try execute("PRAGMA cache_size=-4096")
        } catch {
            // The first that reads the file: whoever starts a node on another one's must learn which it was.
            throw SQLiteError(operation: "open \(path)", code: error.code, message: error.message)
        }
    }

    /// Opens `path`, which another process may be writing, to be read.
    init(reading path: String) throws(SQLiteError) {
        logPages.initialize(to: 0)
        let result = sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nil)
        guard result == SQLITE_OK else {
            let failure = error("open \(path)", result)
            sqlite3_close_v2(connection)
            connection = nil
            throw failure
        }
        sqlite3_busy_timeout(connection, 2_000)
    }

    deinit {
        sqlite3_close_v2(connection)
        logPages.deallocate()
    }

    /// From now on nobody moves the log's pages back at a commit: the owner does, by `checkpoint`.
    func ownCheckpoints() {
        logPages.pointee = 0
        sqlite3_wal_hook(
            connection,
            { context, _, _, pages in
                context?.assumingMemoryBound(to: Int32.self).pointee = pages
                return SQLITE_OK
            }, logPages)
    }

    /// Pages in the log after the last commit of this connection, if it owns its checkpoints.
    var logPageCount: Int32 { logPages.pointee }

    /// Moves back what no reader needs in the log, waiting for nobody.
    func checkpoint() throws(SQLiteError) {
        let result = sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
        guard result == SQLITE_OK || result == SQLITE_BUSY else { throw error("checkpoint", result) }
    }

    func execute(_ text: String) throws(SQLiteError) {
        let result = sqlite3_exec(connection, text, nil, nil, nil)
        guard result == SQLITE_OK else { throw error(text, result) }
    }

    func prepare(_ text: String) throws(SQLiteError) -> SQLiteStatement {
        var statement: OpaquePointer?
        let result = sqlite3_prepare_v3(connection, text, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard result == SQLITE_OK, let statement else { throw error(text, result) }
        return SQLiteStatement(statement, text: text)
    }

    private func error(_ operation: String, _ code: Int32) -> SQLiteError {
        let message = sqlite3_errmsg(connection).map { String(cString: $0) } ?? "out of memory"
        return SQLiteError(operation: operation, code: code, message: message)
    }
}

/// A prepared statement: bind, run or step, read columns. Reset by each `bind`.
final class SQLiteStatement {
    private let statement: OpaquePointer
    private let text: String

    fileprivate init(_ statement: OpaquePointer, text: String) {
        self.statement = statement
        self.text = text
    }

    deinit { sqlite3_finalize(statement) }

    enum Value {
        case null
        case integer(Int64)
        case text(String)
        case bytes([UInt8])
    }

    /// Starts anew with these parameters, in order.
    func bind(_ values: Value...) throws(SQLiteError) { try bind(all: values) }

    func bind(all values: [Value]) throws(SQLiteError) {
        sqlite3_reset(statement)
        // SQLite copies what it is given.
        let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        for (offset, value) in values.enumerated() {
            let at = Int32(offset + 1)
            let result: Int32
            switch value {
            case .null: result = sqlite3_bind_null(statement, at)
            case .integer(let number): result = sqlite3_bind_int64(statement, at, number)
            case .text(let string): result = sqlite3_bind_text(statement, at, string, -1, copies)
            case .bytes(let bytes): result = sqlite3_bind_blob(statement, at, bytes, Int32(bytes.count), copies)
            }
            guard result == SQLITE_OK else {
                throw SQLiteError(operation: text, code: result, message: "parameter \(at) cannot be bound")
            }
        }
    }

    /// Moves to the next row; false at the end.
    func step() throws(SQLiteError) -> Bool {
        let result = sqlite3_step(statement)
        switch result {
        case SQLITE_ROW: return true
        case SQLITE_DONE:
            sqlite3_reset(statement)
            return false
        default:
            let message = sqlite3_errmsg(sqlite3_db_handle(statement)).map { String(cString: $0) } ?? ""
            sqlite3_reset(statement)
            throw SQLiteError(operation: text, code: result, message: message)
        }
    }

    /// Runs a statement that gives no rows.
    func run(_ values: Value...) throws(SQLiteError) {
        try bind(all: values)
        while try step() {}
    }

    /// Leaves the rows that were not looked at, and the read transaction with them.
    func reset() { sqlite3_reset(statement) }

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

    func text(_ column: Int32) -> String {
        sqlite3_column_text(statement, column).map { String(cString: $0) } ?? ""
    }

    func bytes(_ column: Int32) -> [UInt8] {
        guard let base = sqlite3_column_blob(statement, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: base, count: Int(sqlite3_column_bytes(statement, column))))
    }
}
