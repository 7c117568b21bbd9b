import RTPCore

/// What one webhook endpoint is owed, as a pure value: which event is sent next, what a failure means, when to try
/// again, where the endpoint stands on disk. It holds a bounded page of the log, never a queue: what fails becomes an
/// *arrear*, the cursor of one stream (a room, or the events without room) that is behind the endpoint's own cursor.
///
/// Promises: the events of a stream in order, one in flight; streams side by side up to a bound; each event until it
/// is taken or the log no longer has it, which is told as `events.truncated` before anything later. A stream that
/// fails delays no other one; an endpoint that fails for several streams, or cannot be reached, is tried with one
/// event at a time and growing waits.
///
/// What happens goes in by `receive`, what is to be done comes out of `advance`. It reads no clock.
package struct WebhookOutbox {
    package struct Limits: Sendable {
        /// Requests at once.
        package var parallel = 16
        /// Events of the log that are held.
        package var page = 256
        /// Events of a stream in arrears that are read at once.
        package var streamPage = 16
        /// Streams in arrears; with more, nothing new is sent until some have caught up.
        package var arrears = 1_000
        /// Different streams that fail in a row until the endpoint counts as down.
        package var streamsUntilDown = 3
        package var backoff = RetryBackoff()
        package var longestRetryAfter = Interval.seconds(3_600)
        /// How long progress may wait for being stored: what a crash repeats.
        package var saveInterval = Interval.milliseconds(100)
        package init() {}
    }

    package enum Action: Sendable, Equatable {
        /// `stream` nil: the whole log, answered when there is something after `after`; else what is there now.
        case read(stream: String?, after: UInt64, limit: Int)
        case post(WebhookPost)
        case save(WebhookProgress)
        case note(Note)
    }

    /// For the log.
    package enum Note: Sendable, Equatable {
        case down(cause: String)
        case up
        case gone
        case truncated(after: UInt64, oldest: UInt64)
    }

    struct Entry {
        var event: JournalEvent
        /// Delivered, not wanted, or left to its stream's arrear.
        var isPassed: Bool
    }

    struct Arrear {
        enum Phase { case idle, reading, loaded, inFlight }
        /// Everything of the stream below is delivered.
        var seq: UInt64
        /// The newest event of the stream that was left to the arrear.
        var upTo: UInt64
        var attempts = 0
        var due: Instant
        var phase = Phase.idle
        var page: [JournalEvent] = []
        /// The oldest event that the log had when it no longer had `seq`; told first.
        var truncatedTo: UInt64?
    }

    enum InFlight {
        case event(UInt64)
        case arrear(String)
        case streamNotice(String, oldest: UInt64)
        case notice(oldest: UInt64)
    }

    let name: String
    let dialect: EventDialect
    let limits: Limits
    var random: RandomSource

    /// Everything up to here is delivered or in arrears.
    package internal(set) var cursor: UInt64
    var arrears: [String: Arrear] = [:]
    /// Events after the cursor, without gap.
    var window: [Entry] = []
    /// Events of the window to send now, in order: the first open one of each stream without arrear.
    var ready: [UInt64] = []
    /// The later ones of these streams.
    var behind: [String: [UInt64]] = [:]
    var inFlight: [UInt64: InFlight] = [:]
    var nextToken: UInt64 = 1
    /// The `after` of the read that is under way.
    var reading: UInt64?
    /// The log has a gap behind the window: it is looked at again when the window is empty.
    var readsWhenEmpty = false
    /// The log lacks what follows `cursor`, up to this event: to be told before anything else.
    var truncatedTo: UInt64?
    var isNoticeInFlight = false
    var isArrearsTurn = false

    var isGone = false
    var downAttempts = 0
    var downUntil: Instant?
    /// How often each stream failed since the last success.
    var failedStreams: [String: Int] = [:]

    var changedStreams: Set<String> = []
    var saveDue: Instant?
    var notes: [Note] = []
    var counts: WebhookStatus

    /// Goes on from `progress`; with nil everything after `newest` is owed.
    package init(
        name: String, dialect: EventDialect, limits: Limits, progress: WebhookProgress?, newest: UInt64,
        random: RandomSource, now: Instant
    ) {
        self.name = name
        self.dialect = dialect
        self.limits = limits
        self.random = random
        cursor = min(progress?.cursor ?? newest, newest)
        counts = WebhookStatus(name: name)
        for arrear in progress?.arrears ?? [] {
            guard let seq = arrear.seq, seq <= newest else { continue }
            arrears[arrear.stream] = Arrear(seq: seq, upTo: cursor, due: now)
        }
        // A new endpoint's cursor counts from its first start.
        if progress == nil { saveDue = now }
    }

    package var status: WebhookStatus {
        var status = counts
        status.state = isGone ? .gone : downUntil == nil ? .up : .down
        status.cursor = cursor
        status.arrears = arrears.count
        status.inFlight = inFlight.count
        return status
    }

    /// Nothing is owed up to `seq`, or nothing can be done about it now.
    package func isSettled(upTo seq: UInt64) -> Bool {
        isGone || downUntil != nil || (inFlight.isEmpty && cursor >= seq && arrears.isEmpty)
    }

    var loadedTo: UInt64 { window.last?.event.seq ?? cursor }

    // MARK: What comes in

    /// The answer to `read`.
    package mutating func receive(_ batch: EventBatch, of stream: String?, now: Instant) {
        if let stream { return receive(batch, ofArrear: stream, now: now) }
        guard reading == batch.after else { return }
        reading = nil
        // What is read for an endpoint that went down meanwhile is read again when it is tried.
        guard !isGone, !isWaiting(now), truncatedTo == nil, batch.after == loadedTo else { return }
        let first = batch.events.first?.seq ?? batch.newest + 1
        guard first <= loadedTo + 1 else {
            // Told when all that came before is out of the way.
            if window.isEmpty { truncatedTo = first } else { readsWhenEmpty = true }
            return
        }
        for event in batch.events { load(event, now: now) }
        passFront(now: now)
    }

    private mutating func load(_ event: JournalEvent, now: Instant) {
        let stream = event.room ?? ""
        guard dialect.projected(event) != nil else {
            window.append(Entry(event: event, isPassed: true))
            return
        }
        if arrears[stream] != nil {
            arrears[stream]?.upTo = event.seq
            window.append(Entry(event: event, isPassed: true))
            return
        }
        window.append(Entry(event: event, isPassed: false))
        if behind[stream] == nil {
            behind[stream] = []
            ready.append(event.seq)
        } else {
            behind[stream]?.append(event.seq)
        }
    }

    private mutating func receive(_ batch: EventBatch, ofArrear stream: String, now: Instant) {
        guard var arrear = arrears[stream], arrear.phase == .reading else { return }
        arrear.phase = .idle
        arrear.due = now
        defer { if arrears[stream] != nil { arrears[stream] = arrear } }
        guard !isGone, !isWaiting(now) else { return }
        if batch.oldest > arrear.seq { arrear.truncatedTo = batch.oldest }
        let owed = batch.events.filter { $0.seq >= arrear.seq && $0.seq <= arrear.upTo }
        arrear.page = owed.filter { dialect.projected($0) != nil }
        if arrear.truncatedTo != nil || !arrear.page.isEmpty {
            arrear.phase = .loaded
        } else if let last = owed.last {
            arrear.seq = last.seq + 1
            change(stream, now: now)
        } else {
            finish(stream, now: now)
        }
    }

    /// The answer to `post`.
    package mutating func receive(_ result: WebhookResult, for token: UInt64, now: Instant) {
        guard let sent = inFlight.removeValue(forKey: token) else { return }
        if case .notice = sent { isNoticeInFlight = false }
        guard !isGone else { return }
        guard result == .delivered else { return fail(sent, result, now: now) }
        counts.delivered += 1
        recover(now: now)
        switch sent {
        case .event(let seq): pass(seq, now: now)
        case .arrear(let stream):
            guard let event = arrears[stream]?.page.removeFirst() else { return }
            proceed(stream, to: event.seq + 1, now: now)
        case .streamNotice(let stream, let oldest):
            counts.truncated += 1
            arrears[stream]?.truncatedTo = nil
            proceed(stream, to: oldest, now: now)
        case .notice(let oldest):
            counts.truncated += 1
            truncatedTo = nil
            cursor = oldest - 1
            markDirty(now: now)
        }
    }

    private mutating func proceed(_ stream: String, to seq: UInt64, now: Instant) {
        guard var arrear = arrears[stream] else { return }
        arrear.seq = max(arrear.seq, seq)
        arrear.attempts = 0
        arrear.due = now
        arrear.phase = arrear.page.isEmpty ? .idle : .loaded
        arrears[stream] = arrear
        change(stream, now: now)
        if arrear.page.isEmpty, arrear.seq > arrear.upTo { finish(stream, now: now) }
    }

    private mutating func finish(_ stream: String, now: Instant) {
        arrears[stream] = nil
        change(stream, now: now)
    }

    // MARK: The window

    private mutating func pass(_ seq: UInt64, now: Instant) {
        guard let index = index(of: seq) else { return }
        window[index].isPassed = true
        let stream = window[index].event.room ?? ""
        if let next = behind[stream]?.first {
            behind[stream]?.removeFirst()
            ready.append(next)
        } else {
            behind[stream] = nil
        }
        passFront(now: now)
    }

    private mutating func passFront(now: Instant) {
        let count = window.firstIndex { !$0.isPassed } ?? window.count
        guard count > 0 else { return }
        cursor = window[count - 1].event.seq
        window.removeFirst(count)
        markDirty(now: now)
    }

    func index(of seq: UInt64) -> Int? {
        guard let first = window.first?.event.seq, seq >= first, seq - first < UInt64(window.count) else { return nil }
        return Int(seq - first)
    }

    /// The stream of an event of the window falls behind: its events there become an arrear.
    mutating func fallBehind(_ seq: UInt64, attempts: Int, due: Instant, now: Instant) {
        guard let index = index(of: seq) else { return }
        let stream = window[index].event.room ?? ""
        let later = behind.removeValue(forKey: stream) ?? []
        for seq in [seq] + later {
            if let index = self.index(of: seq) { window[index].isPassed = true }
        }
        ready.removeAll { $0 == seq }
        arrears[stream] = Arrear(seq: seq, upTo: later.last ?? seq, attempts: attempts, due: due)
        change(stream, now: now)
        passFront(now: now)
    }

    /// Lets go of the page. What was delivered ahead of the cursor is not sent again: the streams that it overtook
    /// become arrears. Nothing of the window may be in flight, or it is sent again.
    package mutating func shed(now: Instant) {
        if let last = window.lastIndex(where: \.isPassed) {
            let open = window[...last].filter { !$0.isPassed }
            var overtaken: [String: [UInt64]] = [:]
            for entry in open { overtaken[entry.event.room ?? "", default: []].append(entry.event.seq) }
            for (stream, seqs) in overtaken {
                arrears[stream] = Arrear(seq: seqs[0], upTo: seqs[seqs.count - 1], due: now)
                change(stream, now: now)
            }
            cursor = window[last].event.seq
            markDirty(now: now)
        }
        window = []
        ready = []
        behind = [:]
        reading = nil
    }

    mutating func change(_ stream: String, now: Instant) {
        changedStreams.insert(stream)
        markDirty(now: now)
    }

    mutating func markDirty(now: Instant) {
        if saveDue == nil { saveDue = now + limits.saveInterval }
    }
}
