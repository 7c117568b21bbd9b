import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

@Suite("Truncated log") struct EventFeedTruncationTests {
    private let file = JournalFile()
    private let sink = RecordingSink()
    private let journal: Journal
    private let start = Instant(nanoseconds: 0)

    init() throws { journal = try Journal(path: file.path, bootID: "b") }

    private func event(_ seq: UInt64, _ roomSeq: UInt64, room: String?, type: String = "participant.joined")
        -> JournalEvent
    {
        JournalEvent(
            seq: seq, room: room, timeMs: 1_000, type: type,
            json: Array("{\"seq\":\(seq),\"roomSeq\":\(roomSeq),\"type\":\"\(type)\"}".utf8))
    }

    /// A log whose events before `oldest` are gone.
    private func feed(_ events: [JournalEvent], keeping count: Int) throws -> EventFeed {
        var entry = JournalEntry(turn: 1)
        entry.events = events
        try journal.store([entry])
        var retention = JournalRetention()
        retention.events = count
        try journal.truncate(to: retention, lastSeq: UInt64(events.count), nowMs: 1_000)
        return EventFeed(journal: journal, lastSeq: UInt64(events.count), sink: sink)
    }

    private func commit(_ feed: EventFeed, _ events: [JournalEvent]) throws {
        var entry = JournalEntry(turn: 2)
        entry.events = events
        try journal.store([entry])
        try feed.committed(events, now: start)
    }

    private func page(_ feed: EventFeed, after: UInt64, room: String? = nil) throws -> String? {
        sink.answers = [:]
        try feed.page(EventPageRequest(request: 1, after: after, room: room, limit: 10, until: start), now: start)
        return sink.answers[1]
    }

    @Test("a stream whose cursor is older than the log is told so first, then gets what there is") func stream() throws
    {
        let feed = try feed((1...10).map { event($0, 0, room: nil) }, keeping: 3)
        try feed.subscribe(7, after: 2, room: nil, endsWithRoom: false, now: start)
        let text = sink.written[7]?.joined() ?? ""
        #expect(text.contains("event: events.truncated"))
        #expect(text.contains("\"after\":2,\"oldest\":8"))
        // The notice has the cursor from which the log goes on.
        #expect(sink.seqs(7) == [7, 8, 9, 10])
    }

    @Test("a cursor right before the oldest event lacks nothing") func boundary() throws {
        let feed = try feed((1...10).map { event($0, 0, room: nil) }, keeping: 3)
        try feed.subscribe(7, after: 7, room: nil, endsWithRoom: false, now: start)
        #expect(sink.seqs(7) == [8, 9, 10])
        #expect(try page(feed, after: 7)?.contains("truncated") == false)
        #expect(try page(feed, after: 6)?.contains("truncated") == true)
    }

    @Test("a page whose cursor is older begins with the notice and goes on behind it") func pages() throws {
        let feed = try feed((1...10).map { event($0, 0, room: nil) }, keeping: 3)
        let answer = try #require(try page(feed, after: 0))
        let value = try JSONReader.read(Array(answer.utf8))
        guard case .array(let events)? = value["events"] else {
            Issue.record("no events")
            return
        }
        #expect(events.first?["type"] == .string("events.truncated"))
        #expect(events.first?["data"]?["oldest"] == .integer(8))
        #expect(events.dropFirst().map { $0["seq"] } == [.integer(8), .integer(9), .integer(10)])
        #expect(value["next"] == .integer(10))
    }

    @Test("a log that is empty is told as truncated at once, and goes on") func empty() throws {
        let feed = try feed((1...10).map { event($0, 0, room: nil) }, keeping: 0)
        try feed.subscribe(7, after: 2, room: nil, endsWithRoom: false, now: start)
        #expect(sink.seqs(7) == [10])
        #expect(sink.written[7]?.joined().contains("\"oldest\":11") == true)
        try feed.drained(7, now: start)
        try commit(feed, [event(11, 0, room: nil)])
        #expect(sink.seqs(7) == [10, 11])
        try feed.subscribe(8, after: 11, room: nil, endsWithRoom: false, now: start)
        #expect(sink.seqs(8).isEmpty)
    }

    @Test("a cursor of another log, from the future, is told so and starts anew") func future() throws {
        let feed = try feed((1...4).map { event($0, 0, room: nil) }, keeping: 10)
        try feed.subscribe(7, after: 99, room: nil, endsWithRoom: false, now: start)
        #expect(sink.written[7]?.joined().contains("\"after\":0,\"oldest\":1") == true)
        #expect(sink.seqs(7) == [0, 1, 2, 3, 4])
        #expect(try page(feed, after: 99)?.contains("events.truncated") == true)
        try commit(feed, [event(5, 0, room: nil)])
        #expect(try page(feed, after: 99)?.contains("\"next\":5") == true)
    }

    @Test("a room's reader is told when the room's beginning is gone, and not when only others' events are")
    func rooms()
        throws
    {
        let events =
            [event(1, 1, room: "old"), event(2, 0, room: nil), event(3, 1, room: "new"), event(4, 2, room: "old")]
            + [event(5, 2, room: "new")]
        let feed = try feed(events, keeping: 3)
        try feed.subscribe(7, after: 0, room: "old", endsWithRoom: true, now: start)
        #expect(sink.seqs(7) == [2, 4])
        #expect(sink.written[7]?.joined().contains("\"roomId\":\"old\"") == true)
        try feed.subscribe(8, after: 0, room: "new", endsWithRoom: true, now: start)
        #expect(sink.seqs(8) == [3, 5])
        #expect(try page(feed, after: 0, room: "old")?.contains("truncated") == true)
        #expect(try page(feed, after: 0, room: "new")?.contains("truncated") == false)
    }

    @Test("a room's reader whose room is gone from the log is told with the room's next event") func roomLater() throws
    {
        let feed = try feed([event(1, 1, room: "r"), event(2, 0, room: nil), event(3, 0, room: nil)], keeping: 1)
        try feed.subscribe(7, after: 0, room: "r", endsWithRoom: true, now: start)
        #expect(sink.seqs(7).isEmpty)
        try feed.drained(7, now: start)
        try commit(feed, [event(4, 2, room: "r")])
        #expect(sink.written[7]?.joined().contains("events.truncated") == true)
        #expect(sink.seqs(7).last == 4)
    }

    @Test("a batch names the oldest and the newest event, and a reader of the whole log waits for the next one")
    func batches() throws {
        let feed = try feed((1...10).map { event($0, 0, room: $0 % 2 == 0 ? "r" : nil) }, keeping: 4)
        let box = BatchBox()
        func ask(_ after: UInt64, _ stream: String?) throws {
            try feed.batch(
                EventBatchRequest(reader: "e", after: after, stream: stream, limit: 3) { box.batches.append($0) })
        }
        try ask(0, nil)
        try ask(0, "r")
        try ask(0, "")
        try ask(10, "r")
        #expect(box.batches.map { $0.events.map(\.seq) } == [[7, 8, 9], [8, 10], [7, 9], []])
        #expect(box.batches.allSatisfy { $0.oldest == 7 && $0.newest == 10 })
        try ask(10, nil)
        try ask(10, nil)
        #expect(box.batches.count == 4)
        try commit(feed, [event(11, 0, room: nil)])
        #expect(box.batches.count == 5 && box.batches.last?.events.map(\.seq) == [11])
        try commit(feed, [event(12, 0, room: nil)])
        #expect(box.batches.count == 5)
    }

    private final class BatchBox: @unchecked Sendable {
        // @unchecked: used on the test's thread only.
        var batches: [EventBatch] = []
    }

    @Test("retention by size lets go of the oldest, a bounded number at once, and knows the size after a restart")
    func size() throws {
        var entry = JournalEntry(turn: 1)
        entry.events = (1...30_000).map { event($0, 0, room: nil) }
        let bytes = entry.events.suffix(5_000).reduce(0) { $0 + Int64($1.json.count) }
        try journal.store([entry])
        var retention = JournalRetention()
        retention.byteCount = bytes
        #expect(try journal.truncate(to: retention, lastSeq: 30_000, nowMs: 1_000))
        #expect(try journal.oldestSeq() == 10_001)
        let again = try Journal(path: file.path, bootID: "b")
        #expect(try again.truncate(to: retention, lastSeq: 30_000, nowMs: 1_000))
        #expect(try !again.truncate(to: retention, lastSeq: 30_000, nowMs: 1_000))
        #expect(try again.oldestSeq() == 25_001)
        #expect(try again.contents().lastSeq == 30_000)
    }

    @Test("a transaction that fails does not count") func failedStore() throws {
        var entry = JournalEntry(turn: 1)
        entry.events = (1...10).map { event($0, 0, room: nil) }
        try journal.store([entry])
        for _ in 0..<5 { #expect(throws: SQLiteError.self) { try journal.store([entry]) } }
        var retention = JournalRetention()
        retention.byteCount = entry.events.reduce(0) { $0 + Int64($1.json.count) }
        try journal.truncate(to: retention, lastSeq: 10, nowMs: 1_000)
        #expect(try journal.oldestSeq() == 1)
        retention.byteCount -= 1
        try journal.truncate(to: retention, lastSeq: 10, nowMs: 1_000)
        #expect(try journal.oldestSeq() == 2)
    }

    @Test("a stream in the legacy dialect gets calls only, under the log's numbers, and closes with its room")
    func legacy()
        throws
    {
        let feed = try feed([], keeping: 100_000)
        func ended(_ seq: UInt64) -> JournalEvent {
            var event = event(seq, 2, room: "r", type: "call.ended")
            event.json = Array(
                "{\"seq\":\(seq),\"roomId\":\"r\",\"data\":{\"outcome\":\"busy\",\"durationMs\":0,\"call\":{}}}".utf8)
            return event
        }
        try feed.subscribe(7, after: 0, room: "r", endsWithRoom: true, dialect: .legacy, now: start)
        try feed.drained(7, now: start)
        try feed.subscribe(8, after: 0, room: nil, endsWithRoom: false, now: start)
        try feed.drained(8, now: start)
        try commit(feed, (1...600).map { event($0, $0, room: "r") } + [ended(601)])
        #expect(sink.seqs(7) == [601])
        #expect(sink.written[7]?.last?.contains("event: onOutgoingCallRejected\n") == true)
        #expect(sink.seqs(8).count == 256)
        var request = EventPageRequest(request: 3, after: 0, room: nil, limit: 50, until: start + .seconds(9))
        request.dialect = .legacy
        try feed.page(request, now: start)
        #expect(sink.answers[3]?.contains("\"next\":601") == true)
        request.after = 601
        try feed.page(request, now: start)
        try feed.drained(7, now: start)
        try commit(feed, [event(602, 3, room: "r", type: "room.closed")])
        #expect(sink.closed == [7] && feed.streamCount == 1)
    }
}
