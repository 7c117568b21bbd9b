import Foundation
import RTPCore
import RelayCore

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
    package var dialect = EventDialect.current
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
        /// It was told everything up to here. With `hasAll` nothing of its room came since.
        var cursor: UInt64
        /// It waits for the next event of its room: not looked at by commits that have none.
        var hasAll = false
        var room: String?
        /// What was written last has left the server's queue: at most one write is on its way.
        var isReady = true
        var nextComment: Instant
        /// A room's own stream ends with the room.
        var endsWithRoom: Bool
        var dialect: EventDialect
        /// What comes next may not be what follows the cursor: it is told where the log goes on.
        var mayLack: Bool
    }

    private static let ringCapacity = 8_192
    private static let pageCount = 256
    /// Events of the ring that are looked at for those of one room.
    private static let ringSearch: UInt64 = 256
    /// A page ends before the event that would make it longer, bytes: the server's queue for a stream takes 64 KiB.
    private static let pageByteCount = 48 * 1024
    /// The same for an answered page request, bytes: the server's answers end at 1 MiB.
    private static let answerByteCount = 768 * 1024
    /// The same for a reader in this process, bytes.
    private static let batchByteCount = 512 * 1024
    private static let commentInterval = Interval.seconds(15)
    private static let commentPause = Interval.seconds(1)

    private let journal: Journal
    private let sink: any EventSink
    private var streams: [UInt64: Stream] = [:]
    /// Who follows a room; those who follow everything by nil.
    private var followers: [String?: Set<UInt64>] = [:]
    /// No comment is due before.
    private var nextComments = Instant.distantFuture
    private var waiting: [EventPageRequest] = []
    private var isReleasing = false
    /// Readers in this process that wait for something new.
    private var batches: [String: EventBatchRequest] = [:]
    /// The newest committed events, without gap up to `lastSeq`.
    private var ring: [JournalEvent] = []
    private var lastSeq: UInt64
    /// The disk has refused somebody's page: everybody is looked at again with the next `advance`.
    private var owesPages = false

    package init(journal: Journal, lastSeq: UInt64, sink: any EventSink) {
        self.journal = journal
        self.lastSeq = lastSeq
        self.sink = sink
    }

    package var streamCount: Int { streams.count }
    /// The newest event on disk.
    package var newest: UInt64 { lastSeq }

    /// How many events the stream lacks that is furthest behind.
    package var largestLag: UInt64 {
        streams.values.reduce(0) { $1.hasAll ? $0 : max($0, lastSeq - min(lastSeq, $1.cursor)) }
    }

    /// When `advance` is wanted: a comment or a long poll may be due.
    package var deadline: Instant { waiting.reduce(nextComments) { min($0, $1.until) } }

    /// Follows for the open stream `id` after `seq` (nil: from now on). Closes it when the disk refuses: its reader comes again.
    package func subscribe(
        _ id: UInt64, after seq: UInt64?, room: String?, endsWithRoom: Bool, dialect: EventDialect = .current,
        now: Instant
    ) throws(SQLiteError) {
        do throws(SQLiteError) {
            try open(id, after: seq, room: room, endsWithRoom: endsWithRoom, dialect: dialect, now: now)
        } catch {
            unsubscribe(id)
            sink.close(id)
            throw error
        }
    }

    private func open(
        _ id: UInt64, after seq: UInt64?, room: String?, endsWithRoom: Bool, dialect: EventDialect, now: Instant
    ) throws(SQLiteError) {
        var stream = Stream(
            cursor: seq ?? lastSeq, room: room, nextComment: now + Self.commentInterval, endsWithRoom: endsWithRoom,
            dialect: dialect, mayLack: false)
        if let seq {
            // A cursor from the future is one of another log.
            if seq > lastSeq { stream.cursor = 0 }
            stream.mayLack = try lacks(after: seq)
        }
        streams[id] = stream
        followers[room, default: []].insert(id)
        nextComments = min(nextComments, stream.nextComment)
        let opening = Array("retry: 1000\n\n".utf8)
        if try !pump(id, now: now, opening: opening) { write(id, opening) }
    }

    private func lacks(after seq: UInt64) throws(SQLiteError) -> Bool {
        if seq > lastSeq { return true }
        guard seq < lastSeq else { return false }
        return try seq + 1 < oldest()
    }

    /// The oldest event that is kept; one after the newest when there is none.
    private func oldest() throws(SQLiteError) -> UInt64 {
        let oldest = try journal.oldestSeq()
        return oldest == 0 ? lastSeq + 1 : oldest
    }

    /// What a reader with this cursor is told before `next`, the first event that there is for it; nil: it lacks nothing.
    private func truncation(
        after cursor: UInt64, room: String?, before next: JournalEvent?
    ) throws(SQLiteError) -> TruncationNotice? {
        // A room's reader lacks something if the room's first event is not the first one that there is.
        if room != nil, next.map({ Self.roomSeq(of: $0) == 1 }) ?? true { return nil }
        return TruncationNotice(after: cursor, oldest: try oldest(), room: room, timeMs: WallClock.nowMs)
    }

    /// From the head of its JSON, which begins with `seq` and `roomSeq`.
    private static func roomSeq(of event: JournalEvent) -> UInt64 {
        let head = String(decoding: event.json.prefix(64), as: UTF8.self)
        guard let field = head.range(of: "\"roomSeq\":") else { return 1 }
        return UInt64(head[field.upperBound...].prefix { $0.isNumber }) ?? 1
    }

    package func unsubscribe(_ id: UInt64) {
        guard let stream = streams.removeValue(forKey: id) else { return }
        followers[stream.room]?.remove(id)
        if followers[stream.room]?.isEmpty ?? false { followers[stream.room] = nil }
    }

    package func drained(_ id: UInt64, now: Instant) throws(SQLiteError) {
        streams[id]?.isReady = true
        do throws(SQLiteError) {
            _ = try pump(id, now: now)
        } catch {
            owesPages = true
            throw error
        }
    }

    /// These events are on disk now, in order behind the last ones.
    package func committed(_ events: [JournalEvent], now: Instant) throws(SQLiteError) {
        guard let last = events.last else { return }
        precondition(events[0].seq == lastSeq + 1, "the log has a gap before \(events[0].seq)")
        let before = lastSeq
        lastSeq = last.seq
        ring.append(contentsOf: events)
        if ring.count > 2 * Self.ringCapacity { ring.removeFirst(ring.count - Self.ringCapacity) }
        // Before anything is read: whoever had everything has it no longer, whatever the disk says to others.
        let rooms = Set(events.map { $0.room ?? "" })
        for room in rooms {
            for id in followers[room] ?? [] where streams[id]?.hasAll ?? false {
                streams[id]?.cursor = before
                streams[id]?.hasAll = false
            }
        }
        try serve(followers[nil, default: []].union(rooms.flatMap { followers[$0] ?? [] }), now: now)
    }

    /// Gives these streams, and everybody who waits, what there is. One whose page the disk refuses keeps nobody else from theirs.
    private func serve(_ ids: Set<UInt64>, now: Instant) throws(SQLiteError) {
        var refusal: SQLiteError?
        func attempt(_ body: () throws(SQLiteError) -> Void) {
            do throws(SQLiteError) { try body() } catch { refusal = error }
        }
        for id in ids { attempt { () throws(SQLiteError) in _ = try pump(id, now: now) } }
        attempt { () throws(SQLiteError) in try answerPages(now: now) }
        for request in batches.values { attempt { () throws(SQLiteError) in try batch(request) } }
        owesPages = refusal != nil
        if let refusal { throw refusal }
    }

    /// Answers now or at `until`.
    package func page(_ request: EventPageRequest, now: Instant) throws(SQLiteError) {
        do throws(SQLiteError) {
            if try !answer(request, evenEmpty: isReleasing || now >= request.until) { waiting.append(request) }
        } catch {
            waiting.append(request)
            throw error
        }
    }

    /// Whoever waits for a page gets it as it is, now and from now on: this feed ends, and another one goes on.
    package func releasePages(now: Instant) throws(SQLiteError) {
        isReleasing = true
        try answerPages(now: .distantFuture)
    }

    package func advance(to now: Instant) throws(SQLiteError) {
        if owesPages { try serve(Set(streams.keys), now: now) } else { try answerPages(now: now) }
        guard now >= nextComments else { return }
        nextComments = .distantFuture
        for (id, stream) in streams {
            var due = stream.nextComment
            if now >= due {
                due = now + Self.commentInterval
                streams[id]?.nextComment = due
                // A comment to a reader that has not taken its page yet would only make its queue longer.
                if stream.isReady { write(id, Array(": still here\n\n".utf8)) }
            }
            nextComments = min(nextComments, due)
        }
        // Everybody is looked at once a second at most.
        nextComments = max(nextComments, now + Self.commentPause)
    }

    // MARK: Streams

    /// Writes the next page, behind `opening`, when there is one and the last one has left. True when it wrote.
    private func pump(_ id: UInt64, now: Instant, opening: [UInt8] = []) throws(SQLiteError) -> Bool {
        guard var stream = streams[id], stream.isReady, !stream.hasAll else { return false }
        guard stream.cursor < lastSeq || stream.mayLack else {
            streams[id]?.hasAll = stream.room != nil
            return false
        }
        var bytes = opening
        var isOver = false
        repeat {
            let events = try read(after: stream.cursor, room: stream.room, limit: Self.pageCount)
            // The log is gapless: retention has overtaken a reader that stood still.
            if stream.room == nil, let first = events.first, first.seq > stream.cursor + 1 { stream.mayLack = true }
            if stream.mayLack, !events.isEmpty || stream.room == nil {
                stream.mayLack = false
                if let notice = try truncation(after: stream.cursor, room: stream.room, before: events.first) {
                    Self.append(notice.seq, RelayEventType.eventsTruncated.rawValue, notice.json, to: &bytes)
                    stream.cursor = max(stream.cursor, notice.seq)
                }
            }
            guard !events.isEmpty else {
                // Nothing of its room up to here. What it may lack is told before its room's next event.
                stream.cursor = max(stream.cursor, lastSeq)
                break
            }
            for event in events {
                guard bytes.count == opening.count || bytes.count + event.json.count + 64 <= Self.pageByteCount else {
                    isOver = true
                    break
                }
                if let told = stream.dialect.projected(event) {
                    Self.append(told.seq, told.type, told.json, to: &bytes)
                }
                stream.cursor = event.seq
                if stream.endsWithRoom, event.type == RelayEventType.roomClosed.rawValue {
                    unsubscribe(id)
                    if !bytes.isEmpty { sink.write(id, bytes) }
                    sink.close(id)
                    return true
                }
            }
            // A dialect may have nothing of a whole page.
            isOver = isOver || bytes.count > opening.count
        } while !isOver && stream.cursor < lastSeq
        if bytes.count > opening.count { stream.nextComment = now + Self.commentInterval }
        stream.hasAll = stream.room != nil && !stream.mayLack && stream.cursor >= lastSeq
        streams[id] = stream
        guard !bytes.isEmpty else { return false }
        write(id, bytes)
        return true
    }

    private static func append(_ seq: UInt64, _ type: String, _ json: [UInt8], to bytes: inout [UInt8]) {
        bytes.append(contentsOf: "id: \(seq)\nevent: \(type)\ndata: ".utf8)
        bytes.append(contentsOf: json)
        bytes.append(contentsOf: "\n\n".utf8)
    }

    private func write(_ id: UInt64, _ bytes: [UInt8]) {
        streams[id]?.isReady = false
        sink.write(id, bytes)
    }

    /// Events after `cursor` from the ring when it reaches back that far, else from disk, which finds a room's few among many.
    private func read(after cursor: UInt64, room: String?, limit: Int) throws(SQLiteError) -> [JournalEvent] {
        guard let first = ring.first, cursor + 1 >= first.seq, room == nil || lastSeq - cursor <= Self.ringSearch else {
            return try journal.events(after: cursor, room: room, limit: limit)
        }
        var found: [JournalEvent] = []
        for event in ring[Int(cursor + 1 - first.seq)...] where room == nil || (event.room ?? "") == room {
            found.append(event)
            if found.count == limit { break }
        }
        return found
    }

    // MARK: Pages

    private func answerPages(now: Instant) throws(SQLiteError) {
        var left: [EventPageRequest] = []
        var refusal: SQLiteError?
        for request in waiting {
            do throws(SQLiteError) {
                if try !answer(request, evenEmpty: now >= request.until) { left.append(request) }
            } catch {
                left.append(request)
                refusal = error
            }
        }
        waiting = left
        if let refusal { throw refusal }
    }

    private func answer(_ request: EventPageRequest, evenEmpty: Bool) throws(SQLiteError) -> Bool {
        var json = Array("{\"events\":[".utf8)
        var next = request.after
        var count = 0
        func append(_ text: [UInt8]) {
            if count > 0 { json.append(UInt8(ascii: ",")) }
            json.append(contentsOf: text)
            count += 1
        }
        if request.after > lastSeq { next = 0 }
        var mayLack = try lacks(after: request.after)
        pages: repeat {
            let events = try read(after: next, room: request.room, limit: request.limit)
            if mayLack, !events.isEmpty || request.room == nil {
                mayLack = false
                if let notice = try truncation(after: request.after, room: request.room, before: events.first) {
                    append(notice.json)
                    next = max(next, notice.seq)
                }
            }
            guard !events.isEmpty else { break }
            for event in events {
                guard count < request.limit,
                    count == 0 || json.count + event.json.count + 64 <= Self.answerByteCount
                else { break pages }
                if let told = request.dialect.projected(event) { append(told.json) }
                next = event.seq
            }
            // A dialect may have nothing of a whole page.
        } while count == 0 && next < lastSeq
        guard count > 0 || evenEmpty else { return false }
        json.append(contentsOf: "],\"next\":\(next)}".utf8)
        sink.answer(request.request, json)
        return true
    }

    // MARK: Readers in this process

    /// Answers now, or for the whole log with the next event.
    package func batch(_ request: EventBatchRequest) throws(SQLiteError) {
        guard request.stream != nil || request.after < lastSeq else {
            batches[request.reader] = request
            return
        }
        var events = try read(after: request.after, room: request.stream, limit: request.limit)
        let oldest = try oldest()
        if request.stream == nil { batches[request.reader] = nil }
        var byteCount = 0
        let fitting = events.prefix { event in
            byteCount += event.json.count
            return byteCount <= Self.batchByteCount
        }
        events.removeLast(events.count - max(min(1, events.count), fitting.count))
        request.deliver(EventBatch(after: request.after, events: events, oldest: oldest, newest: lastSeq))
    }
}
