import RTPCore

/// Where an event stream is written to: the HTTP server, by the id of the open answer.
package protocol EventSink: AnyObject {
    func write(_ stream: UInt64, _ bytes: [UInt8])
    func close(_ stream: UInt64)
    /// One answered page request.
    func answer(_ request: UInt64, _ json: [UInt8])
}

/// One page of the log, asked for over HTTP.
package struct EventPageRequest: Sendable {
    package var request: UInt64
    package var after: UInt64
    package var room: String?
    /// 1…1,000.
    package var limit: Int
    /// When to answer with an empty page.
    package var until: Instant
    package init(request: UInt64, after: UInt64, room: String?, limit: Int, until: Instant) {
        self.request = request
        self.after = after
        self.room = room
        self.limit = limit
        self.until = until
    }
}

/// Follows the log for everybody who reads it: each reader has a cursor, and gets its next page when its last one has left.
/// So a slow reader costs one page of memory and delays nobody; one that resumes from far back is served from disk, the others
/// from a ring of recent events. Confined to the journal thread.
package final class EventFeed {
    private struct Stream {
        var cursor: UInt64
        var room: String?
        /// What was written last has left the server's queue: at most one write is on its way.
        var isReady = true
        var nextComment: Instant
        /// A room's own stream ends with the room.
        var endsWithRoom: Bool
    }

    private static let ringCapacity = 8_192
    private static let pageCount = 256
    /// A page ends before the event that would make it longer, bytes: the server's queue for a stream takes 64 KiB.
    private static let pageByteCount = 48 * 1024
    /// The same for an answered page request, bytes: the server's answers end at 1 MiB.
    private static let answerByteCount = 768 * 1024
    private static let commentInterval = Interval.seconds(15)

    private let journal: Journal
    private let sink: any EventSink
    private var streams: [UInt64: Stream] = [:]
    private var waiting: [EventPageRequest] = []
    /// The newest committed events, without gap up to `lastSeq`.
    private var ring: [JournalEvent] = []
    private var lastSeq: UInt64

    package init(journal: Journal, lastSeq: UInt64, sink: any EventSink) {
        self.journal = journal
        self.lastSeq = lastSeq
        self.sink = sink
    }

    package var streamCount: Int { streams.count }

    /// When `advance` is wanted: a comment or a long poll is due.
    package var deadline: Instant {
        let comment = streams.values.reduce(Instant.distantFuture) { min($0, $1.nextComment) }
        return waiting.reduce(comment) { min($0, $1.until) }
    }

    /// Follows for the open stream `id` after `seq` (nil: from now on).
    package func subscribe(_ id: UInt64, after seq: UInt64?, room: String?, endsWithRoom: Bool, now: Instant)
        throws(SQLiteError)
    {
        streams[id] = Stream(
            cursor: seq ?? lastSeq, room: room, nextComment: now + Self.commentInterval, endsWithRoom: endsWithRoom)
        var opening = Array("retry: 1000\n\n".utf8)
        if let seq, room == nil {
            let oldest = try journal.oldestSeq()
            if seq + 1 < oldest { opening += Self.truncated(asked: seq, oldest: oldest) }
        }
        if try !pump(id, now: now, opening: opening) { write(id, opening) }
    }

    package func unsubscribe(_ id: UInt64) { streams[id] = nil }

    package func drained(_ id: UInt64, now: Instant) throws(SQLiteError) {
        streams[id]?.isReady = true
        _ = try pump(id, now: now)
    }

    /// These events are on disk now, in order behind the last ones.
    package func committed(_ events: [JournalEvent], now: Instant) throws(SQLiteError) {
        guard let last = events.last else { return }
        precondition(events[0].seq == lastSeq + 1, "the log has a gap before \(events[0].seq)")
        lastSeq = last.seq
        ring.append(contentsOf: events)
        if ring.count > 2 * Self.ringCapacity { ring.removeFirst(ring.count - Self.ringCapacity) }
        for id in Array(streams.keys) { _ = try pump(id, now: now) }
        try answerPages(now: now)
    }

    /// Answers now or at `until`.
    package func page(_ request: EventPageRequest, now: Instant) throws(SQLiteError) {
        if try !answer(request, evenEmpty: now >= request.until) { waiting.append(request) }
    }

    package func advance(to now: Instant) throws(SQLiteError) {
        try answerPages(now: now)
        for (id, stream) in streams where now >= stream.nextComment {
            streams[id]?.nextComment = now + Self.commentInterval
            // A comment to a reader that has not taken its page yet would only make its queue longer.
            if stream.isReady { write(id, Array(": still here\n\n".utf8)) }
        }
    }

    // MARK: Streams

    /// Writes the next page, behind `opening`, when there is one and the last one has left. True when it wrote.
    private func pump(_ id: UInt64, now: Instant, opening: [UInt8] = []) throws(SQLiteError) -> Bool {
        guard var stream = streams[id], stream.isReady, stream.cursor < lastSeq else { return false }
        let events = try read(after: stream.cursor, room: stream.room, limit: Self.pageCount)
        guard var last = events.first else {
            // Nothing of its room up to here: the next commit continues from there.
            streams[id]?.cursor = lastSeq
            return false
        }
        var bytes = opening
        for event in events {
            let end = bytes.count + event.json.count + 64
            guard bytes.count == opening.count || end <= Self.pageByteCount else { break }
            bytes.append(contentsOf: "id: \(event.seq)\nevent: \(event.type)\ndata: ".utf8)
            bytes.append(contentsOf: event.json)
            bytes.append(contentsOf: "\n\n".utf8)
            last = event
        }
        stream.cursor = last.seq
        stream.nextComment = now + Self.commentInterval
        streams[id] = stream
        write(id, bytes)
        if stream.endsWithRoom, last.type == "room.closed" {
            streams[id] = nil
            sink.close(id)
        }
        return true
    }

    private func write(_ id: UInt64, _ bytes: [UInt8]) {
        streams[id]?.isReady = false
        sink.write(id, bytes)
    }

    /// Events after `cursor` from the ring when it reaches back that far, else from disk.
    private func read(after cursor: UInt64, room: String?, limit: Int) throws(SQLiteError) -> [JournalEvent] {
        guard let first = ring.first, cursor + 1 >= first.seq else {
            return try journal.events(after: cursor, room: room, limit: limit)
        }
        var found: [JournalEvent] = []
        for event in ring[Int(cursor + 1 - first.seq)...] where room == nil || event.room == room {
            found.append(event)
            if found.count == limit { break }
        }
        return found
    }

    private static func truncated(asked: UInt64, oldest: UInt64) -> [UInt8] {
        Array(
            """
            event: events.truncated
            data: {"type":"events.truncated","data":{"after":\(asked),"oldest":\(oldest)}}


            """.utf8)
    }

    // MARK: Pages

    private func answerPages(now: Instant) throws(SQLiteError) {
        var left: [EventPageRequest] = []
        for request in waiting where try !answer(request, evenEmpty: now >= request.until) { left.append(request) }
        waiting = left
    }

    private func answer(_ request: EventPageRequest, evenEmpty: Bool) throws(SQLiteError) -> Bool {
        let events = try read(after: request.after, room: request.room, limit: request.limit)
        guard !events.isEmpty || evenEmpty else { return false }
        var json = Array("{\"events\":[".utf8)
        var next = request.after
        for (index, event) in events.enumerated() {
            guard index == 0 || json.count + event.json.count + 64 <= Self.answerByteCount else { break }
            if index > 0 { json.append(UInt8(ascii: ",")) }
            json.append(contentsOf: event.json)
            next = event.seq
        }
        json.append(contentsOf: "],\"next\":\(next)}".utf8)
        sink.answer(request.request, json)
        return true
    }
}
