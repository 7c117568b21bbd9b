import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

/// Keeps what a feed writes, as text, by stream.
final class RecordingSink: EventSink {
    var written: [UInt64: [String]] = [:]
    var closed: [UInt64] = []
    var answers: [UInt64: String] = [:]
    func write(_ stream: UInt64, _ bytes: [UInt8]) {
        written[stream, default: []].append(String(decoding: bytes, as: UTF8.self))
    }
    func close(_ stream: UInt64) { closed.append(stream) }
    func answer(_ request: UInt64, _ json: [UInt8]) { answers[request] = String(decoding: json, as: UTF8.self) }

    /// The numbers of the events that a stream was given, in order.
    func seqs(_ stream: UInt64) -> [UInt64] {
        (written[stream] ?? []).joined().split(separator: "\n").compactMap { line in
            line.hasPrefix("id: ") ? UInt64(line.dropFirst(4)) : nil
        }
    }
}

@Suite("Event feed") struct EventFeedTests {
    private let file = JournalFile()
    private let sink = RecordingSink()
    private let journal: Journal
    private let feed: EventFeed
    private let start = Instant(nanoseconds: 0)

    init() throws {
        journal = try Journal(path: file.path, bootID: "b")
        feed = EventFeed(journal: journal, lastSeq: 0, sink: sink)
    }

    private func commit(_ events: [JournalEvent], at now: Instant? = nil) throws {
        var entry = JournalEntry(turn: 1)
        entry.events = events
        try journal.store([entry])
        try feed.committed(events, now: now ?? start)
    }

    /// Subscribes a reader that takes the opening line at once.
    private func subscribe(_ stream: UInt64, after seq: UInt64?, room: String? = nil) throws {
        try feed.subscribe(stream, after: seq, room: room, endsWithRoom: room != nil, now: start)
        try feed.drained(stream, now: start)
    }

    private func drainAll(_ stream: UInt64) throws {
        for _ in 0..<100 { try feed.drained(stream, now: start) }
    }

    @Test("a stream without a cursor gets what comes from now on") func live() throws {
        try commit([journalEvent(1)])
        try subscribe(7, after: nil)
        try commit([journalEvent(2), journalEvent(3)])
        #expect(sink.seqs(7) == [2, 3])
    }

    @Test("an event is told with its number, type and JSON on one line each") func format() throws {
        try subscribe(7, after: nil)
        try commit([journalEvent(1, type: "participant.joined")])
        #expect(sink.written[7]?.last == "id: 1\nevent: participant.joined\ndata: {\"seq\":1}\n\n")
    }

    @Test("a stream resumes behind its cursor without gap or repetition") func resume() throws {
        try commit((1...5).map { journalEvent($0) })
        try feed.subscribe(7, after: 2, room: nil, endsWithRoom: false, now: start)
        try drainAll(7)
        try commit([journalEvent(6)])
        try drainAll(7)
        #expect(sink.seqs(7) == [3, 4, 5, 6])
    }

    @Test("a reader that does not read gets no second page until the first has left") func backPressure() throws {
        try subscribe(7, after: 0)
        try commit([journalEvent(1)])
        try commit([journalEvent(2)])
        #expect(sink.seqs(7) == [1])
        try feed.drained(7, now: start)
        #expect(sink.seqs(7) == [1, 2])
    }

    @Test("a stream of a room gets what comes long after its last event, and what came while it did not read")
    func quietRoom() throws {
        try subscribe(7, after: nil, room: "quiet")
        try commit([journalEvent(1, room: "quiet")])
        try feed.drained(7, now: start)
        // More than is remembered: nothing of this is the stream's.
        for seq in UInt64(2)...20_001 { try feed.committed([journalEvent(seq, room: "loud")], now: start) }
        try feed.committed([journalEvent(20_002, room: "quiet")], now: start)
        try feed.committed([journalEvent(20_003, room: "loud"), journalEvent(20_004, room: "quiet")], now: start)
        #expect(sink.seqs(7) == [1, 20_002])
        try feed.drained(7, now: start)
        #expect(sink.seqs(7) == [1, 20_002, 20_004])
    }

    @Test("a stream that has ended is written to no more") func afterTheEnd() throws {
        try subscribe(7, after: nil, room: "a")
        try subscribe(8, after: nil, room: "a")
        feed.unsubscribe(7)
        try commit([journalEvent(1, room: "a")])
        #expect(sink.seqs(7) == [])
        #expect(sink.seqs(8) == [1])
    }

    @Test("not even the opening line or a comment is written on top of what has not left") func oneWrite() throws {
        try feed.subscribe(7, after: nil, room: nil, endsWithRoom: false, now: start)
        try commit([journalEvent(1)])
        try feed.advance(to: start + .seconds(60))
        #expect(sink.written[7] == ["retry: 1000\n\n"])
        try feed.drained(7, now: start)
        #expect(sink.seqs(7) == [1])
    }

    @Test("a page of long events ends before it exceeds what the server's queue takes, and the rest follows")
    func longEvents() throws {
        let events = (1...40 as ClosedRange<UInt64>).map { seq in
            var event = journalEvent(seq)
            event.json = [UInt8](repeating: 0x61, count: 5_000)
            return event
        }
        try commit(events)
        try feed.subscribe(7, after: 0, room: nil, endsWithRoom: false, now: start)
        try drainAll(7)
        #expect(sink.seqs(7) == Array(1...40 as ClosedRange<UInt64>))
        #expect(sink.written[7]?.allSatisfy { $0.utf8.count <= 50_000 } == true)
        #expect(sink.written[7]?.count == 5)
    }

    @Test("a slow reader does not hold back a quick one") func independence() throws {
        try subscribe(1, after: 0)
        try subscribe(2, after: 0)
        for seq in 1...20 as ClosedRange<UInt64> {
            try commit([journalEvent(seq)])
            try feed.drained(2, now: start)
        }
        #expect(sink.seqs(1) == [1])
        #expect(sink.seqs(2) == Array(1...20))
    }

    @Test("twenty thousand events behind the ring are read from disk, all of them") func fromDisk() throws {
        for base in stride(from: UInt64(0), to: 20_000, by: 500) {
            try commit((1...500).map { journalEvent(base + $0) })
        }
        try feed.subscribe(7, after: 0, room: nil, endsWithRoom: false, now: start)
        try drainAll(7)
        #expect(sink.seqs(7) == Array(1...20_000))
    }

    @Test("a room's stream gets its room only and ends with it") func room() throws {
        try subscribe(7, after: 0, room: "a")
        try commit([
            journalEvent(1, room: "a"), journalEvent(2, room: "b"), journalEvent(3),
            journalEvent(4, room: "a", type: "room.closed"),
        ])
        #expect(sink.seqs(7) == [1, 4])
        #expect(sink.closed == [7])
        #expect(feed.streamCount == 0)
    }

    @Test("a stream of a room that has ended gets its history and ends") func endedRoom() throws {
        try commit([journalEvent(1, room: "a"), journalEvent(2, room: "a", type: "room.closed")])
        try feed.subscribe(7, after: 0, room: "a", endsWithRoom: true, now: start)
        #expect(sink.seqs(7) == [1, 2])
        #expect(sink.closed == [7])
    }

    @Test("an idle stream gets a comment each 15 s") func comments() throws {
        try subscribe(7, after: nil)
        #expect(feed.deadline == start + .seconds(15))
        try feed.advance(to: start + .milliseconds(14_999))
        let before = sink.written[7]?.count ?? 0
        try feed.advance(to: start + .seconds(15))
        #expect(sink.written[7]?.count == before + 1)
        #expect(sink.written[7]?.last?.hasPrefix(":") == true)
    }

    @Test("a page is answered at once when there is something") func page() throws {
        try commit((1...5).map { journalEvent($0) })
        try feed.page(
            EventPageRequest(request: 9, after: 1, room: nil, limit: 2, until: start + .seconds(30)), now: start)
        #expect(sink.answers[9] == "{\"events\":[{\"seq\":2},{\"seq\":3}],\"next\":3}")
    }

    @Test("a long poll waits for the next event") func longPoll() throws {
        try feed.page(
            EventPageRequest(request: 9, after: 0, room: nil, limit: 10, until: start + .seconds(30)), now: start)
        #expect(sink.answers[9] == nil)
        #expect(feed.deadline == start + .seconds(30))
        try commit([journalEvent(1)])
        #expect(sink.answers[9] == "{\"events\":[{\"seq\":1}],\"next\":1}")
    }

    @Test("a long poll that nothing happens for is answered empty at its end, with its own cursor") func emptyPoll()
        throws
    {
        try commit((1...4).map { journalEvent($0) })
        try feed.page(
            EventPageRequest(request: 9, after: 4, room: nil, limit: 10, until: start + .seconds(30)), now: start)
        try feed.advance(to: start + .milliseconds(29_999))
        #expect(sink.answers[9] == nil)
        try feed.advance(to: start + .seconds(30))
        #expect(sink.answers[9] == "{\"events\":[],\"next\":4}")
    }

    @Test("a reader that is gone is written to no more") func gone() throws {
        try feed.subscribe(7, after: 0, room: nil, endsWithRoom: false, now: start)
        feed.unsubscribe(7)
        try commit([journalEvent(1)])
        #expect(sink.seqs(7).isEmpty)
    }
}
