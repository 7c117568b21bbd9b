import MediaRelay
import RTPCore
import RelayCore
import RelaySimulation
import Testing

/// What the simulation found, each by itself: journal and feed on a disk that refuses for a while.
@Suite("Journal and feed on a failing disk")
struct DiskFaultTests {
    private final class Sink: EventSink {
        var text: [UInt64: String] = [:]
        var closed: [UInt64] = []
        var answered: [UInt64] = []
        func write(_ stream: UInt64, _ bytes: [UInt8]) {
            text[stream, default: ""] += String(decoding: bytes, as: UTF8.self)
        }
        func close(_ stream: UInt64) { closed.append(stream) }
        func answer(_ request: UInt64, _ json: [UInt8]) { answered.append(request) }
    }

    private let disk = SimulatedDisk(seed: 1)
    private let sink = Sink()
    private let now = Instant(nanoseconds: 1_000_000_000)

    /// A journal of 600 events that is opened afresh, so that none of them is in memory.
    private func journal() throws -> Journal {
        try Self.open(disk).store([Self.entry(1, Array(1...600))])
        return try Self.open(disk)
    }

    private static func open(_ disk: SimulatedDisk) throws -> Journal {
        try Journal(path: "/journal.sqlite", bootID: "b", vfs: disk.vfsName)
    }

    private static func entry(_ turn: UInt64, _ seqs: [UInt64], room: String? = nil) -> JournalEntry {
        var entry = JournalEntry(turn: turn)
        entry.events = seqs.map { seq in
            JournalEvent(
                seq: seq, room: room, timeMs: 1, type: "t",
                json: Array("{\"seq\":\(seq),\"roomSeq\":1}".utf8) + Array(repeating: 32, count: 150))
        }
        return entry
    }

    @Test("a reader whose page the disk refuses keeps no other one from its own, and gets it later")
    func oneReader() throws {
        let journal = try journal()
        let feed = EventFeed(journal: journal, lastSeq: 600, sink: sink)
        try feed.subscribe(1, after: 0, room: nil, endsWithRoom: false, now: now)
        try feed.subscribe(2, after: nil, room: "r", endsWithRoom: false, now: now)
        try feed.drained(2, now: now)
        disk.faults.failsReads = true
        #expect(throws: SQLiteError.self) { try feed.drained(1, now: now) }
        #expect(throws: SQLiteError.self) {
            try feed.committed(Self.entry(2, [601], room: "r").events, now: now)
        }
        #expect(sink.text[2]?.contains("id: 601") == true)
        disk.faults = .none
        let before = sink.text[1]?.count ?? 0
        try feed.advance(to: now)
        #expect(sink.text[1]?.count ?? 0 > before)
    }

    @Test("a request for a page that the disk refuses is answered once, when it can be read")
    func page() throws {
        let feed = EventFeed(journal: try journal(), lastSeq: 600, sink: sink)
        disk.faults.failsReads = true
        #expect(throws: SQLiteError.self) {
            try feed.page(EventPageRequest(request: 9, after: 10, room: nil, limit: 5, until: now), now: now)
        }
        #expect(throws: SQLiteError.self) { try feed.advance(to: now) }
        disk.faults = .none
        try feed.advance(to: now)
        try feed.advance(to: now)
        #expect(sink.answered == [9])
    }

    @Test("a stream that can not begin is closed, so that its reader comes again")
    func stream() throws {
        let feed = EventFeed(journal: try journal(), lastSeq: 600, sink: sink)
        disk.faults.failsReads = true
        #expect(throws: SQLiteError.self) {
            try feed.subscribe(1, after: 3, room: nil, endsWithRoom: false, now: now)
        }
        #expect(sink.closed == [1] && feed.streamCount == 0)
    }

    @Test("while the disk refuses to be read the journal's thread waits and does not spin")
    func spin() throws {
        let journal = try journal()
        let work = JournalWork(
            journal: journal, feed: EventFeed(journal: journal, lastSeq: 600, sink: sink),
            retention: JournalRetention(), now: now, clock: { now }, onCommit: { _, _ in }, onFailure: { _ in },
            onCheckpointWanted: {})
        disk.faults.failsReads = true
        let request = EventPageRequest(request: 9, after: 10, room: nil, limit: 5, until: now)
        _ = work.turn([.page(request)], now: now, wallClockMs: 0)
        #expect(work.deadline(after: now) == now + .seconds(1))
        disk.faults = .none
        _ = work.turn([], now: now + .seconds(1), wallClockMs: 0)
        #expect(sink.answered == [9])
        #expect(work.deadline(after: now + .seconds(1)) > now + .seconds(2))
    }
}
