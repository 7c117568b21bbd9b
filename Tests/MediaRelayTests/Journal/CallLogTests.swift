import Foundation
import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

@Suite("Journal: call records") struct CallLogTests {
    private let file = JournalFile()

    private func call(
        _ room: String, endedMs: Int64, outcome: String = "ended", missedBy: [String] = [], by users: [String] = [],
        json: String? = nil
    ) -> JournalCall {
        func user(_ uid: String, _ isMissed: Bool) -> JournalCall.User {
            JournalCall.User(
                uid: uid, view: Array(#"{"status":"\#(isMissed ? "missed" : "answered")"}"#.utf8), isMissed: isMissed)
        }
        return JournalCall(
            room: room, endedMs: endedMs, outcome: outcome, json: Array((json ?? #"{"roomId":"\#(room)"}"#).utf8),
            users: users.map { user($0, false) } + missedBy.map { user($0, true) })
    }

    private func store(_ calls: [JournalCall], in journal: Journal) throws {
        var entry = JournalEntry(turn: 1)
        entry.calls = calls
        try journal.store([entry])
    }

    private func open() throws -> (Journal, CallReader) {
        let journal = try Journal(path: file.path, bootID: "b")
        return (journal, try CallReader(path: file.path))
    }

    private struct Page {
        var rooms: [String]
        var statuses: [String]
        var next: CallQuery.Cursor?
    }

    private func page(_ reader: CallReader, _ change: (inout CallQuery) -> Void = { _ in }) throws -> Page {
        var query = CallQuery()
        change(&query)
        guard case .object(let page) = try JSONReader.read(reader.page(query)),
            case .array(let calls)? = page.first(where: { $0.name == "calls" })?.value
        else { throw SQLiteError(operation: "page", code: 0, message: "no page") }
        func member(_ name: String, of value: JSONValue?) -> JSONValue? {
            guard case .object(let fields)? = value else { return nil }
            return fields.first { $0.name == name }?.value
        }
        func text(_ value: JSONValue?) -> String? { if case .string(let text)? = value { text } else { nil } }
        return Page(
            rooms: calls.compactMap { text(member("roomId", of: $0)) },
            statuses: calls.compactMap { text(member("status", of: member("view", of: $0))) },
            next: text(member("next", of: .object(page))).flatMap { CallQuery.Cursor($0) })
    }

    @Test("calls come newest end first, of all or of one user with that user's view") func order() throws {
        let (journal, reader) = try open()
        try store(
            [
                call("b", endedMs: 200, by: ["alice"]), call("a", endedMs: 100, missedBy: ["alice"], by: ["ben"]),
                call("c", endedMs: 300, by: ["ben"]),
            ], in: journal)
        #expect(try page(reader).rooms == ["c", "b", "a"])
        let alice = try page(reader) { $0.uid = "alice" }
        #expect(alice.rooms == ["b", "a"] && alice.statuses == ["answered", "missed"])
        #expect(try page(reader).statuses.isEmpty)
        #expect(try page(reader) { $0.uid = "nobody" }.rooms.isEmpty)
    }

    @Test("from is included and to is not; outcome and missed choose") func filters() throws {
        let (journal, reader) = try open()
        for number in 1...5 {
            let isBusy = number % 2 == 0
            let stored = call(
                "r\(number)", endedMs: Int64(number) * 100, outcome: isBusy ? "busy" : "cancelled",
                missedBy: isBusy ? [] : ["ben"], by: isBusy ? ["alice", "ben"] : ["alice"])
            try store([stored], in: journal)
        }
        for uid in [nil, "alice"] {
            #expect(
                try page(reader) {
                    $0.uid = uid
                    $0.fromMs = 200
                    $0.toMs = 400
                }.rooms == ["r3", "r2"])
            #expect(
                try page(reader) {
                    $0.uid = uid
                    $0.outcome = "busy"
                }.rooms == ["r4", "r2"])
        }
        func missed(_ uid: String) throws -> [String] {
            try page(reader) {
                $0.uid = uid
                $0.isMissed = true
            }.rooms
        }
        #expect(try missed("ben") == ["r5", "r3", "r1"])
        #expect(try missed("alice").isEmpty)
    }

    @Test("a cursor goes on where the page ended, whatever is stored meanwhile", arguments: [nil, "alice"])
    func cursor(_ uid: String?) throws {
        let (journal, reader) = try open()
        // Pairs with one end time: the place in the order is the time and the number.
        try store((0..<10).map { call("r\($0)", endedMs: Int64($0 / 2), by: ["alice"]) }, in: journal)
        var seen: [String] = []
        var query = CallQuery()
        query.uid = uid
        query.limit = 3
        for round in 0..<10 {
            let page = try page(reader) { $0 = query }
            seen += page.rooms
            #expect(page.rooms.count <= 3)
            guard let next = page.next else { break }
            query.after = CallQuery.Cursor(next.text)
            try store([call("new\(round)", endedMs: 1_000 + Int64(round), by: ["alice"])], in: journal)
        }
        #expect(seen == (0..<10).reversed().map { "r\($0)" })
    }

    @Test("a page of large records ends before it is too long, and goes on") func longPage() throws {
        let (journal, reader) = try open()
        let filling = String(repeating: "x", count: 300_000)
        try store(
            (0..<5).map { call("r\($0)", endedMs: Int64($0), json: #"{"roomId":"r\#($0)","x":"\#(filling)"}"#) },
            in: journal)
        let first = try page(reader)
        #expect(first.rooms == ["r4", "r3"])
        #expect(try page(reader) { $0.after = first.next }.rooms == ["r2", "r1"])
    }

    @Test("a second record of a room replaces the text and keeps its place") func replaced() throws {
        let (journal, reader) = try open()
        try store([call("a", endedMs: 1, by: ["ben"]), call("b", endedMs: 2)], in: journal)
        try store([call("a", endedMs: 1, by: ["ben"], json: #"{"roomId":"a","complete":true}"#)], in: journal)
        #expect(try page(reader).rooms == ["b", "a"])
        let record = try #require(try reader.record(of: "a", uid: nil))
        #expect(String(decoding: record, as: UTF8.self) == #"{"roomId":"a","complete":true}"#)
    }

    @Test("one room's record, with the view of whoever had a part in it") func one() throws {
        let (journal, reader) = try open()
        try store([call("a", endedMs: 1, by: ["ben"])], in: journal)
        func text(_ uid: String?) throws -> String? {
            try reader.record(of: "a", uid: uid).map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(try text("ben") == #"{"roomId":"a","view":{"status":"answered"}}"#)
        #expect(try text("cat") == #"{"roomId":"a"}"#)
        #expect(try text(nil) == #"{"roomId":"a"}"#)
        #expect(try reader.record(of: "none", uid: nil) == nil)
    }

    @Test("retention by count and by age takes the oldest, with their users") func retention() throws {
        let (journal, reader) = try open()
        try store((1...10).map { call("r\($0)", endedMs: Int64($0) * 100, by: ["alice"]) }, in: journal)
        var retention = JournalRetention()
        retention.calls = 4
        retention.callsAgeMs = 1_000
        try journal.truncate(to: retention, lastSeq: 1, nowMs: 1_000)
        #expect(try page(reader).rooms == ["r10", "r9", "r8", "r7"])
        try journal.truncate(to: retention, lastSeq: 1, nowMs: 1_900)
        #expect(try page(reader).rooms == ["r10", "r9"])
        #expect(try page(reader) { $0.uid = "alice" }.rooms == ["r10", "r9"])
        let database = try SQLiteDatabase(path: file.path)
        let count = try database.prepare("SELECT count(*) FROM callUsers")
        try count.bind()
        #expect(try count.step() && count.integer(0) == 2)
    }

    @Test("a record is stored with the decision that ended the room, or not at all") func atomic() throws {
        let (journal, reader) = try open()
        var entry = JournalEntry(turn: 1)
        entry.calls = [call("a", endedMs: 1)]
        entry.events = [journalEvent(1), journalEvent(1)]
        #expect(throws: SQLiteError.self) { try journal.store([entry]) }
        #expect(try page(reader).rooms.isEmpty)
    }

    @Test("a journal from before call records is opened with all that it holds, and takes them from then on")
    func migration() throws {
        do {
            // The schema of version 1, as it was written out then.
            let database = try SQLiteDatabase(path: file.path)
            try database.execute(
                """
                CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
                CREATE TABLE events (
                    seq INTEGER PRIMARY KEY, room TEXT, timeMs INTEGER NOT NULL, type TEXT NOT NULL, json BLOB NOT NULL);
                CREATE TABLE rooms (id TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
                CREATE TABLE ended (
                    id TEXT PRIMARY KEY, outcome TEXT NOT NULL, timeMs INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TABLE keys (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
                CREATE TABLE workers (
                    number INTEGER NOT NULL, epoch TEXT NOT NULL, processID INTEGER NOT NULL,
                    PRIMARY KEY (number, epoch)) WITHOUT ROWID;
                INSERT INTO meta VALUES ('schemaVersion', '1'), ('bootID', 'b');
                INSERT INTO events VALUES (7, 'r', 1000, 'room.created', CAST('{}' AS BLOB));
                INSERT INTO rooms VALUES ('r', CAST('{"old":1}' AS BLOB));
                INSERT INTO ended VALUES ('gone', 'busy', 1000);
                """)
        }
        let (journal, reader) = try open()
        let contents = try journal.contents()
        #expect(contents.lastSeq == 7 && contents.rooms == [StoredRoom(record: Array(#"{"old":1}"#.utf8))])
        let ended = try EndedRooms(path: file.path, log: Log(level: .error, format: .text))
        #expect(ended.outcome(of: try #require(RoomID("gone"))) == .busy)
        #expect(try page(reader).rooms.isEmpty)
        try store([call("a", endedMs: 1)], in: journal)
        #expect(try page(reader).rooms == ["a"])
        _ = try Journal(path: file.path, bootID: "b")
    }
}

/// A sink that keeps what it is told.
private final class StrawSink: CallSink, @unchecked Sendable {
    // @unchecked: guarded by `lock`.
    private let lock = Lock()
    private var answers: [UInt64: String] = [:]
    func answer(_ request: UInt64, _ json: [UInt8]) {
        lock.withLock { answers[request] = String(decoding: json, as: UTF8.self) }
    }
    func refuse(_ request: UInt64, _ problem: Problem) {
        lock.withLock { answers[request] = "\(problem.status) \(problem.code)" }
    }
    var all: [UInt64: String] { lock.withLock { answers } }
}

@Suite("Call log thread") struct CallLogThreadTests {
    @Test("questions are answered by a connection of its own, in order, to the end") func answers() throws {
        let file = JournalFile()
        let journal = try Journal(path: file.path, bootID: "b")
        var entry = JournalEntry(turn: 1)
        entry.calls = [JournalCall(room: "a", endedMs: 1, outcome: "ended", json: Array("{\"a\":1}".utf8), users: [])]
        try journal.store([entry])
        let sink = StrawSink()
        let log = try CallLog(reader: try CallReader(path: file.path), sink: sink, onFailure: { _ in })
        try log.start()
        #expect(log.page(1, CallQuery()))
        #expect(log.record(2, of: try #require(RoomID("a")), uid: nil))
        #expect(log.record(3, of: try #require(RoomID("b")), uid: nil))
        log.stop()
        #expect(sink.all == [1: #"{"calls":[{"a":1}]}"#, 2: #"{"a":1}"#, 3: "404 call-not-found"])
    }
}
