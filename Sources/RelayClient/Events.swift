import Foundation

extension RelayClient {
    /// Follows the log after `cursor`, for ever: an absence of the relay, or of the connection, is waited out with
    /// growing waits and resumed without loss. A number that is missing is an error, never passed over in silence.
    ///
    /// An event may come twice over restarts of the caller: drop it by `id`. `events.truncated` comes as an event
    /// when the log no longer has what follows the cursor.
    /// - Parameters:
    ///   - cursor: the `seq` of the last event that was dealt with; 0: from the beginning of what is kept.
    ///   - room: this room's events only.
    public func events(after cursor: UInt64, room: String? = nil, dialect: Dialect = .current) -> Events {
        Events(client: self, cursor: cursor, room: room, dialect: dialect)
    }

    /// The events that follow a cursor. Ends only by an error or by the task's cancellation (`Failure.cancelled`).
    public struct Events: AsyncSequence, Sendable {
        public typealias Element = Event
        let client: RelayClient
        let cursor: UInt64
        let room: String?
        let dialect: Dialect

        public func makeAsyncIterator() -> Iterator {
            Iterator(client: client, room: room, dialect: dialect, cursor: cursor)
        }
    }

    public struct Iterator: AsyncIteratorProtocol {
        private static let pageCount = 500
        private static let waitSeconds = 25
        private static let longestPauseMs = 10_000

        let client: RelayClient
        let room: String?
        let dialect: Dialect
        /// Where to go on: of the last page, which may reach further than its last event.
        private var cursor: UInt64
        private var page: ArraySlice<Event> = []
        private var check: ContinuityCheck
        private var failures = 0

        init(client: RelayClient, room: String?, dialect: Dialect, cursor: UInt64) {
            self.client = client
            self.room = room
            self.dialect = dialect
            self.cursor = cursor
            check = ContinuityCheck(cursor: cursor, isOfRoom: room != nil, isWhole: dialect == .current)
        }

        public mutating func next() async throws(Failure) -> Event? {
            while page.isEmpty {
                if Task.isCancelled { throw .cancelled }
                try await fetch()
            }
            let event = page.removeFirst()
            try check.take(event)
            return event
        }

        private mutating func fetch() async throws(Failure) {
            struct Page: Decodable {
                var events: [Event]
                var next: UInt64
            }
            var path = "/v1/events?after=\(cursor)&limit=\(Self.pageCount)&wait=\(Self.waitSeconds)"
            if let room { path += "&room=\(RelayClient.escaped(room))" }
            if dialect != .current { path += "&dialect=\(dialect.rawValue)" }
            do throws(Failure) {
                let timeoutMs = Self.waitSeconds * 1_000 + client.options.timeoutMs
                let answer: Page = try client.decode(try await client.send("GET", path, timeoutMs: timeoutMs))
                page = answer.events[...]
                cursor = answer.next
                failures = 0
            } catch .unreachable {
                try await pause(nil)
            } catch .problem(let problem) where problem.status >= 500 || problem.status == 429 {
                try await pause(problem.retryAfterSeconds)
            }
        }

        private mutating func pause(_ seconds: Int?) async throws(Failure) {
            failures += 1
            let whole = min(250 << min(failures - 1, 10), Self.longestPauseMs)
            let ms = max(whole / 2 + Int.random(in: 0...whole / 2), (seconds ?? 0) * 1_000)
            do {
                try await Task.sleep(for: .milliseconds(ms))
            } catch {
                throw .cancelled
            }
        }
    }
}

/// Whether events follow each other without a gap. A pure value.
struct ContinuityCheck {
    private var last: UInt64
    private let isOfRoom: Bool
    /// The whole of the log is told, not a dialect's part of it.
    private let isWhole: Bool
    private var lastOfRoom: UInt64?

    init(cursor: UInt64, isOfRoom: Bool, isWhole: Bool) {
        last = cursor
        self.isOfRoom = isOfRoom
        self.isWhole = isWhole
    }

    mutating func take(_ event: RelayClient.Event) throws(RelayClient.Failure) {
        if event.isTruncation {
            last = event.seq
            lastOfRoom = nil
            return
        }
        guard event.seq > last else { throw .gap(expected: last + 1, got: event.seq) }
        if isWhole, !isOfRoom, event.seq != last + 1 { throw .gap(expected: last + 1, got: event.seq) }
        if isWhole, isOfRoom, let lastOfRoom, event.roomSeq != lastOfRoom + 1 {
            throw .gap(expected: lastOfRoom + 1, got: event.roomSeq)
        }
        last = event.seq
        lastOfRoom = event.roomSeq
    }
}
