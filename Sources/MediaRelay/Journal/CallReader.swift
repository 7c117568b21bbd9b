/// Which call records are asked for: newest end first.
package struct CallQuery: Sendable, Equatable {
    /// The place of a record in that order: what a page ended with.
    package struct Cursor: Sendable, Equatable {
        package var endedMs: Int64
        package var number: Int64

        package init(endedMs: Int64, number: Int64) {
            self.endedMs = endedMs
            self.number = number
        }

        /// As the API gives it out; nil for what is none.
        package init?(_ text: String) {
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 2, let endedMs = Int64(parts[0]), let number = Int64(parts[1]) else { return nil }
            self.init(endedMs: endedMs, number: number)
        }

        package var text: String { "\(endedMs).\(number)" }
    }

    /// Only calls of this user, each with its view.
    package var uid: String?
    /// Ended at this time or later, and before that one.
    package var fromMs: Int64?
    package var toMs: Int64?
    package var outcome: String?
    /// Only those that `uid` missed.
    package var isMissed = false
    package var after: Cursor?
    package var limit = 100
    package init() {}
}

/// Reads call records by a connection of its own: neither a decision nor a commit waits for a reader, since readers
/// of a write-ahead log stand in no writer's way. Confined to one thread.
package final class CallReader {
    /// A page ends before the record that would make it longer, bytes: the server's answers end at 1 MiB.
    private static let pageByteCount = 768 * 1024

    private let database: SQLiteDatabase
    private var statements: [String: SQLiteStatement] = [:]

    /// `path`: the file of a journal that was opened before.
    package init(path: String) throws(SQLiteError) { database = try SQLiteDatabase(path: path) }

    /// `{calls, next}` as JSON text.
    package func page(_ query: CallQuery) throws(SQLiteError) -> [UInt8] {
        var conditions: [String] = []
        var values: [SQLiteStatement.Value] = []
        func require(_ condition: String, _ value: SQLiteStatement.Value) {
            conditions.append(condition)
            values.append(value)
        }
        if let uid = query.uid { require("a.uid = ?", .text(uid)) }
        if query.isMissed { conditions.append("a.isMissed = 1") }
        if let outcome = query.outcome { require("a.outcome = ?", .text(outcome)) }
        if let from = query.fromMs { require("a.endedMs >= ?", .integer(from)) }
        if let to = query.toMs { require("a.endedMs < ?", .integer(to)) }
        if let after = query.after {
            require("(a.endedMs, a.number) < (?, ?)", .integer(after.endedMs))
            values.append(.integer(after.number))
        }
        let source =
            query.uid == nil
            ? "a.json, NULL FROM calls a" : "c.json, a.view FROM callUsers a JOIN calls c ON c.number = a.number"
        let filter = conditions.isEmpty ? "" : " WHERE " + conditions.joined(separator: " AND ")
        let select = try statement(
            "SELECT a.endedMs, a.number, \(source)\(filter) ORDER BY a.endedMs DESC, a.number DESC LIMIT ?")
        values.append(.integer(Int64(query.limit) + 1))
        try select.bind(all: values)
        defer { select.reset() }
        var json = Array("{\"calls\":[".utf8)
        var count = 0
        var last = CallQuery.Cursor(endedMs: 0, number: 0)
        var hasMore = false
        while try select.step() {
            let record = Self.record(select.bytes(2), view: query.uid == nil ? nil : select.bytes(3))
            hasMore = count == query.limit || (count > 0 && json.count + record.count > Self.pageByteCount)
            if hasMore { break }
            if count > 0 { json.append(UInt8(ascii: ",")) }
            json.append(contentsOf: record)
            last = CallQuery.Cursor(endedMs: select.integer(0), number: select.integer(1))
            count += 1
        }
        json.append(UInt8(ascii: "]"))
        if hasMore { json.append(contentsOf: ",\"next\":\"\(last.text)\"".utf8) }
        json.append(UInt8(ascii: "}"))
        return json
    }

    /// The record of a room as JSON text, with `uid`'s view where it had a part in it; nil when there is none.
    package func record(of room: String, uid: String?) throws(SQLiteError) -> [UInt8]? {
        let select = try statement(
            """
            SELECT c.json, u.view FROM calls c LEFT JOIN callUsers u
            ON u.number = c.number AND u.uid = ? WHERE c.room = ?
            """)
        try select.bind(all: [uid.map { .text($0) } ?? .null, .text(room)])
        defer { select.reset() }
        guard try select.step() else { return nil }
        let view = select.bytes(1)
        return Self.record(select.bytes(0), view: view.isEmpty ? nil : view)
    }

    private func statement(_ text: String) throws(SQLiteError) -> SQLiteStatement {
        if let known = statements[text] { return known }
        let made = try database.prepare(text)
        statements[text] = made
        return made
    }

    /// The stored object with one more member.
    private static func record(_ json: [UInt8], view: [UInt8]?) -> [UInt8] {
        guard let view else { return json }
        return json.dropLast() + Array(",\"view\":".utf8) + view + [UInt8(ascii: "}")]
    }
}
