import Foundation
import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

/// A journal file of its own for one test.
final class JournalFile {
    let path: String
    init() { path = NSTemporaryDirectory() + "journal-\(UUID().uuidString).sqlite" }
    deinit { for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) } }
}

func journalEvent(_ seq: UInt64, room: String? = nil, type: String = "room.created", timeMs: Int64 = 1_000)
    -> JournalEvent
{
    JournalEvent(seq: seq, room: room, timeMs: timeMs, type: type, json: Array("{\"seq\":\(seq)}".utf8))
}

@Suite("Journal") struct JournalTests {
    private let file = JournalFile()

    private func entry(_ turn: UInt64, _ events: [JournalEvent]) -> JournalEntry {
        var entry = JournalEntry(turn: turn)
        entry.events = events
        return entry
    }

    @Test("a new journal is empty") func empty() throws {
        let journal = try Journal(path: file.path, bootID: "b1")
        let contents = try journal.contents()
        #expect(contents.lastSeq == 0 && contents.rooms.isEmpty && contents.keys.isEmpty && contents.workers.isEmpty)
        #expect(!journal.isFromEarlierBoot)
    }

    @Test("what was stored is there after the journal is opened again") func reopened() throws {
        do {
            let journal = try Journal(path: file.path, bootID: "b1")
            var entry = entry(1, [journalEvent(1, room: "r"), journalEvent(2)])
            entry.rooms = [JournalRoom(id: "r", record: try roomRecord("r"))]
            entry.keys = [JournalKey(key: "k/1", record: [3])]
            entry.workers = [JournalWorker(id: WorkerID(index: 0, epoch: .max), processID: 77)]
            try journal.store([entry])
        }
        let journal = try Journal(path: file.path, bootID: "b1")
        let contents = try journal.contents()
        #expect(contents.lastSeq == 2)
        #expect(
            contents.rooms.map { RecordCoding.decode($0, log: Log(level: .error, format: .text)) } == [
                try roomRecord("r")
            ])
        #expect(contents.keys.map(\.key) == ["k/1"])
        #expect(contents.workers == [JournalWorker(id: WorkerID(index: 0, epoch: .max), processID: 77)])
        #expect(try journal.events(after: 0, room: nil, limit: 10) == [journalEvent(1, room: "r"), journalEvent(2)])
    }

    @Test("an event's number at the end of its range is refused as damage") func damagedNumber() throws {
        let journal = try Journal(path: file.path, bootID: "b1")
        try journal.store([entry(1, [journalEvent(UInt64(Int64.max), room: "r")])])
        #expect(throws: SQLiteError.self) { try journal.contents() }
    }

    @Test("another boot is noticed") func boot() throws {
        _ = try Journal(path: file.path, bootID: "b1")
        #expect(try Journal(path: file.path, bootID: "b2").isFromEarlierBoot)
        // Nothing was decided in that start: the instants are still those of the boot before.
        let journal = try Journal(path: file.path, bootID: "b2")
        #expect(journal.isFromEarlierBoot)
        try journal.store([], progress: [WebhookProgress(endpoint: "e", cursor: 0, arrears: [])])
        #expect(try Journal(path: file.path, bootID: "b2").isFromEarlierBoot)
        try journal.store([entry(1, [journalEvent(1)])])
        #expect(try !Journal(path: file.path, bootID: "b2").isFromEarlierBoot)
    }

    @Test("a batch with one bad entry stores nothing of the batch") func atomic() throws {
        let journal = try Journal(path: file.path, bootID: "b")
        try journal.store([entry(1, [journalEvent(1)])])
        #expect(throws: SQLiteError.self) {
            try journal.store([entry(2, [journalEvent(2)]), entry(3, [journalEvent(1)])])
        }
        #expect(try journal.contents().lastSeq == 1)
        try journal.store([entry(4, [journalEvent(2)])])
        #expect(try journal.contents().lastSeq == 2)
    }

    @Test("an ended room's outcome is known after its record is forgotten, until its age is over") func ended() throws {
        let journal = try Journal(path: file.path, bootID: "b")
        var entry = JournalEntry(turn: 1)
        entry.rooms = [JournalRoom(id: "r", record: try roomRecord("r", isEnded: true))]
        try journal.store([entry])
        entry.rooms = [JournalRoom(id: "r", record: nil)]
        try journal.store([entry])
        let ended = try EndedRooms(path: file.path, log: Log(level: .error, format: .text))
        let id = try #require(RoomID("r"))
        #expect(ended.outcome(of: id) == .ended)
        #expect(ended.outcome(of: try #require(RoomID("other"))) == nil)
        try journal.truncate(to: JournalRetention(), lastSeq: 1, nowMs: 1_001 + JournalRetention().endedAgeMs)
        #expect(ended.outcome(of: id) == nil)
    }

    @Test("a worker that is gone is forgotten") func workers() throws {
        let journal = try Journal(path: file.path, bootID: "b")
        let id = WorkerID(index: 1, epoch: 9)
        for processID: Int32 in [5, 0] {
            var entry = JournalEntry(turn: 1)
            entry.workers = [JournalWorker(id: id, processID: processID)]
            try journal.store([entry])
        }
        #expect(try journal.contents().workers.isEmpty)
    }

    @Test("events are given by room, after a number, up to a limit") func pages() throws {
        let journal = try Journal(path: file.path, bootID: "b")
        let events = (1...10).map { journalEvent(UInt64($0), room: $0 % 2 == 0 ? "even" : "odd") }
        try journal.store([entry(1, events)])
        #expect(try journal.events(after: 3, room: "even", limit: 2).map(\.seq) == [4, 6])
        #expect(try journal.events(after: 8, room: nil, limit: 5).map(\.seq) == [9, 10])
        #expect(try journal.events(after: .max, room: nil, limit: 5).isEmpty)
        #expect(try journal.events(after: 0, room: "none", limit: 5).isEmpty)
    }

    @Test("retention by count and by age deletes the oldest, and numbers are never used again") func retention() throws
    {
        let journal = try Journal(path: file.path, bootID: "b")
        try journal.store([entry(1, (1...10).map { journalEvent(UInt64($0), timeMs: Int64($0) * 100) })])
        var retention = JournalRetention()
        retention.events = 4
        retention.ageMs = 1_000
        try journal.truncate(to: retention, lastSeq: 10, nowMs: 1_000)
        #expect(try journal.oldestSeq() == 7)
        try journal.truncate(to: retention, lastSeq: 10, nowMs: 1_850)
        #expect(try journal.oldestSeq() == 9)
        try journal.truncate(to: retention, lastSeq: 10, nowMs: 10_000)
        #expect(try journal.oldestSeq() == 0)
        #expect(try journal.contents().lastSeq == 10)
    }

    @Test("nothing that was read keeps the write-ahead log from going back into the database") func readsEnd() throws {
        let journal = try Journal(path: file.path, bootID: "b")
        try journal.store([entry(1, [journalEvent(1, room: "r"), journalEvent(2), journalEvent(3)])])
        _ = try journal.oldestSeq()
        try journal.checkpoint()
        _ = try journal.events(after: 0, room: "r", limit: 1)
        _ = try journal.events(after: 0, room: nil, limit: 1)
        try journal.checkpoint()
        _ = try journal.contents()
        try journal.truncate(to: JournalRetention(), lastSeq: 3, nowMs: 1_000)
        try journal.checkpoint()
    }

    @Test("a journal of another schema is refused") func schema() throws {
        _ = try Journal(path: file.path, bootID: "b")
        let database = try SQLiteDatabase(path: file.path)
        try database.execute("UPDATE meta SET value = '999' WHERE name = 'schemaVersion'")
        #expect(throws: SQLiteError.self) { try Journal(path: file.path, bootID: "b") }
    }

    @Test("a file that is no database is refused with its path") func notADatabase() throws {
        try Data("this is text, not a database, and long enough to be looked at".utf8).write(
            to: URL(fileURLWithPath: file.path))
        let refusal = #expect(throws: SQLiteError.self) { try Journal(path: file.path, bootID: "b") }
        #expect(refusal?.description.contains(file.path) == true)
    }
}
