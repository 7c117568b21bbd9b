import CSQLite
import Foundation
import RTPCore
import RelayCore
import RelayTesting
import Testing

@testable import MediaRelay

private func roomID(_ text: String) -> RoomID {
    guard let id = RoomID(text) else { preconditionFailure("\(text) is no room's id") }
    return id
}

/// A conductor whose rooms are records to store.
private final class Rooms {
    private let conductor: Conductor
    private var now = Instant(nanoseconds: 1_000_000_000)
    private var request: UInt64 = 0

    init(hasWorker: Bool = false) {
        conductor = Conductor(
            configuration: ConductorConfiguration(), random: .seeded(1), restoring: [], idempotency: [], nextSeq: 1,
            isSameBoot: true, knownEnded: { _ in nil })
        guard hasWorker else { return }
        let endpoint = WorkerEndpoint(
            candidates: [.init(address: "192.0.2.1", port: 40_000)], fingerprint: [UInt8](repeating: 7, count: 32))
        let hello = WorkerHello(
            worker: WorkerID(index: 0, epoch: 1), processID: 1, endpoint: endpoint, transports: [], news: [])
        _ = conductor.decide(.workerConnected(hello), now: now, wallClockMs: 1_000)
    }

    func ask(_ request: ControlRequest, as principal: Principal = .server(keyID: "k")) -> ControlReply? {
        self.request += 1
        now += .milliseconds(1)
        let turn = conductor.decide(
            .request(RequestID(self.request), principal, request), now: now, wallClockMs: 1_000)
        return turn.replies.first?.1
    }

    func create(_ id: String) { _ = ask(.createRoom(RoomSpecification(id: RoomID(id), kind: .peer, media: .video))) }

    func prepare(_ uid: String, in id: String) throws -> ParticipantID {
        let room = roomID(id)
        let identity = ParticipantIdentity(uid: uid, device: "phone", room: room, grants: .standard)
        let offer = SimulatedClient(SimulatedClient.Options(), address: .none).offer()
        let reply = ask(.prepare(room, state: .prepared, offer: offer), as: .participant(identity))
        guard case .prepared(let participant, _, _, _)? = reply else {
            throw SQLiteError(operation: "prepare", code: 0, message: "\(String(describing: reply))")
        }
        return participant
    }

    func record(_ id: String) throws -> RoomRecord { try #require(conductor.record(of: roomID(id))) }
}

/// The record of a new room, or of one that has ended.
func roomRecord(_ id: String, isEnded: Bool = false) throws -> RoomRecord {
    let rooms = Rooms()
    rooms.create(id)
    if isEnded { _ = rooms.ask(.deleteRoom(roomID(id), reason: nil)) }
    return try rooms.record(id)
}

@Suite("Journal: rooms") struct RoomTableTests {
    private let file = JournalFile()
    private let log = Log(level: .error, format: .text)

    private func store(_ rooms: [JournalRoom]..., in journal: Journal) throws {
        try journal.store(
            rooms.map { rooms in
                var entry = JournalEntry(turn: 1)
                entry.rooms = rooms
                return entry
            })
    }

    private func stored(_ record: RoomRecord) -> JournalRoom { JournalRoom(id: record.id.text, record: record) }

    private func found() throws -> [RoomRecord] {
        try Journal(path: file.path, bootID: "b").contents().rooms.compactMap { RecordCoding.decode($0, log: log) }
    }

    private func count(_ table: String, _ condition: String = "1") throws -> Int {
        let database = try SQLiteDatabase(path: file.path)
        let select = try database.prepare("SELECT count(*) FROM \(table) WHERE \(condition)")
        try select.bind()
        _ = try select.step()
        return Int(select.integer(0))
    }

    @Test("a room comes back with its participants' sessions as it was") func sessions() throws {
        let rooms = Rooms(hasWorker: true)
        rooms.create("r")
        _ = try rooms.prepare("alice", in: "r")
        _ = try rooms.prepare("ben", in: "r")
        let record = try rooms.record("r")
        #expect(record.participants.map(\.session.answer.isEmpty) == [false, false])
        try store([stored(record)], in: Journal(path: file.path, bootID: "b"))
        #expect(try found() == [record])
    }

    @Test("a session is written once, though its room changes, and goes with its participant") func writtenOnce() throws
    {
        let rooms = Rooms(hasWorker: true)
        let journal = try Journal(path: file.path, bootID: "b")
        rooms.create("r")
        let alice = try rooms.prepare("alice", in: "r")
        try store([stored(try rooms.record("r"))], in: journal)
        // Whoever writes it again would not leave this mark.
        try SQLiteDatabase(path: file.path).execute("UPDATE sessions SET room = room + 1000")
        _ = try rooms.prepare("ben", in: "r")
        try store([stored(try rooms.record("r"))], in: journal)
        #expect(try count("sessions") == 2 && count("sessions", "room > 1000") == 1)
        _ = rooms.ask(.kick(roomID("r"), alice))
        try store([stored(try rooms.record("r"))], in: journal)
        #expect(try count("sessions") == (rooms.record("r").participants.count))
        #expect(try count("sessions", "room > 1000") == 0)
    }

    @Test("of several decisions about a room in one transaction the last is what stays") func lastOfBatch() throws {
        let rooms = Rooms(hasWorker: true)
        rooms.create("r")
        let before = try rooms.record("r")
        _ = try rooms.prepare("alice", in: "r")
        let after = try rooms.record("r")
        let journal = try Journal(path: file.path, bootID: "b")
        try store([stored(before)], [stored(after)], in: journal)
        #expect(try found() == [after])
        try store([stored(before)], [JournalRoom(id: "r", record: nil)], in: journal)
        #expect(try found().isEmpty)
        #expect(try count("sessions") == 0)
    }

    @Test("a room that ended and was forgotten in one transaction is known as ended") func endedAndForgotten() throws {
        let journal = try Journal(path: file.path, bootID: "b")
        try store([stored(try roomRecord("r", isEnded: true))], [JournalRoom(id: "r", record: nil)], in: journal)
        #expect(try EndedRooms(path: file.path, log: log).outcome(of: roomID("r")) == .ended)
        #expect(try found().isEmpty)
    }

    @Test("after a transaction that failed, sessions are on disk with the next one") func rolledBack() throws {
        let rooms = Rooms(hasWorker: true)
        rooms.create("r")
        _ = try rooms.prepare("alice", in: "r")
        let record = try rooms.record("r")
        let journal = try Journal(path: file.path, bootID: "b")
        var bad = JournalEntry(turn: 1)
        bad.rooms = [stored(record)]
        bad.events = [journalEvent(1), journalEvent(1)]
        #expect(throws: SQLiteError.self) { try journal.store([bad]) }
        #expect(try count("sessions") == 0)
        try store([stored(record)], in: journal)
        #expect(try found() == [record])
    }

    @Test("a session that another process stored is let go with its participant") func restarted() throws {
        let rooms = Rooms(hasWorker: true)
        rooms.create("r")
        let alice = try rooms.prepare("alice", in: "r")
        _ = try rooms.prepare("ben", in: "r")
        try store([stored(try rooms.record("r"))], in: Journal(path: file.path, bootID: "b"))
        _ = rooms.ask(.kick(roomID("r"), alice))
        let record = try rooms.record("r")
        try store([stored(record)], in: Journal(path: file.path, bootID: "b"))
        #expect(try count("sessions") == record.participants.count)
        #expect(try found() == [record])
    }

    @Test("a settled room comes back by what a restart needs of it, and its record when it is asked for")
    func settled() throws {
        let journal = try Journal(path: file.path, bootID: "b")
        let rooms = Rooms(hasWorker: false)
        for id in ["live", "over"] { rooms.create(id) }
        let live = try rooms.record("live")
        try store([stored(live), stored(try rooms.record("over"))], in: journal)
        #expect(try found().count == 2)
        _ = rooms.ask(.deleteRoom(roomID("over"), reason: nil))
        let over = try rooms.record("over")
        #expect(over.isSettled)
        try store([stored(over)], in: journal)
        #expect(try found() == [live])
        let shelved = try Journal(path: file.path, bootID: "b").contents().settledRooms
        #expect(
            shelved == [
                ShelvedRoom(id: over.id, handle: over.handle, ordinal: over.ordinal, endedAtMs: over.endedAtMs ?? -1)
            ])
        let reader = try EndedRooms(path: file.path, log: log)
        #expect(reader.record(of: shelved[0]) == over)
        try store([JournalRoom(id: "over", record: nil)], in: journal)
        #expect(reader.record(of: shelved[0]) == nil)
        #expect(try Journal(path: file.path, bootID: "b").contents().settledRooms.isEmpty)
    }

    @Test("a journal from before settled rooms were told gives all of them, and tells those that are stored anew")
    func beforeSettled() throws {
        let over = try roomRecord("over", isEnded: true)
        do {
            let database = try SQLiteDatabase(path: file.path)
            try database.execute(
                """
                CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
                INSERT INTO meta VALUES ('schemaVersion', '3'), ('bootID', 'b');
                CREATE TABLE roomRecords (ordinal INTEGER PRIMARY KEY, id TEXT NOT NULL, record BLOB NOT NULL);
                """)
            try database.prepare("INSERT INTO roomRecords VALUES (?, 'over', ?)")
                .run(.integer(Int64(over.ordinal)), .bytes(RecordCoding.encode(over)))
        }
        #expect(try found() == [over])
        try store([stored(over)], in: Journal(path: file.path, bootID: "b"))
        #expect(try found().isEmpty)
        #expect(try Journal(path: file.path, bootID: "b").contents().settledRooms.map(\.handle) == [over.handle])
    }

    @Test("rooms of a journal from before sessions had rows are taken over") func fromBefore() throws {
        let rooms = Rooms(hasWorker: true)
        rooms.create("r")
        _ = try rooms.prepare("alice", in: "r")
        let record = try rooms.record("r")
        // As version 2 wrote it: the session's fields within the participant's.
        var text = String(decoding: RecordCoding.encode(record), as: UTF8.self)
        let session = String(decoding: RecordCoding.encode(record.participants[0].session), as: UTF8.self)
        text.replace("\"generation\":", with: session.dropFirst().dropLast() + ",\"generation\":", maxReplacements: 1)
        do {
            let database = try SQLiteDatabase(path: file.path)
            try database.execute(
                """
                CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
                INSERT INTO meta VALUES ('schemaVersion', '2'), ('bootID', 'b');
                CREATE TABLE rooms (id TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
                """)
            try database.prepare("INSERT INTO rooms VALUES ('r', ?)").run(.bytes(Array(text.utf8)))
        }
        #expect(try found() == [record])
        try store([stored(record)], in: Journal(path: file.path, bootID: "b"))
        #expect(try count("sessions") == 1)
        #expect(try found() == [record])
    }
}
