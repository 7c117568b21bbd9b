import RTPCore

// What failures mean, and what is done next.

extension WebhookOutbox {
    /// Down, and the time of the next try has not come.
    func isWaiting(_ now: Instant) -> Bool { downUntil.map { now < $0 } ?? false }

    /// It takes something. What failed again and again with no success between failed for the endpoint's sake: it is back, and
    /// these streams need not wait out what they waited for it. One that fails while others succeed does.
    mutating func recover(now: Instant) {
        for (stream, failures) in failedStreams where failures > 1 || downUntil != nil {
            guard let arrear = arrears[stream], arrear.phase == .idle, arrear.attempts > 0 else { continue }
            let attempts = min(arrear.attempts, Self.attemptsAfterRecovery)
            arrears[stream]?.due = min(arrear.due, now + limits.backoff.delay(attempt: attempts, random: &random))
        }
        failedStreams = [:]
        guard downUntil != nil else { return }
        downUntil = nil
        downAttempts = 0
        notes.append(.up)
    }

    /// Bounds the wait of a stream when its endpoint is back: 8 to 16 s.
    private static let attemptsAfterRecovery = 6

    mutating func fail(_ sent: InFlight, _ result: WebhookResult, now: Instant) {
        counts.failed += 1
        let cause: String
        var retryAfter: Interval?
        var isEndpoints = false
        switch result {
        case .delivered: preconditionFailure("a delivery is no failure")
        case .gone:
            isGone = true
            notes.append(.gone)
            return
        case .refused(let status, let after):
            cause = "status \(status)"
            retryAfter = after.map { min($0, limits.longestRetryAfter) }
            isEndpoints = retryAfter != nil && (status == 429 || status == 503)
        case .timedOut: cause = "timed out"
        case .broken(let text): cause = text
        case .unreachable(let text):
            cause = text
            isEndpoints = true
        }
        let isBlamed = !isEndpoints
        if let stream = stream(of: sent) { failedStreams[stream, default: 0] += 1 } else { isEndpoints = true }
        if isEndpoints || failedStreams.count >= limits.streamsUntilDown || downUntil != nil {
            goDown(cause: cause, retryAfter: retryAfter, now: now)
        }
        put(back: sent, isBlamed: isBlamed, retryAfter: retryAfter, now: now)
    }

    private func stream(of sent: InFlight) -> String? {
        switch sent {
        case .event(let seq): index(of: seq).map { window[$0].event.room ?? "" } ?? ""
        case .arrear(let stream), .streamNotice(let stream, _): stream
        case .notice: nil
        }
    }

    private mutating func put(back sent: InFlight, isBlamed: Bool, retryAfter: Interval?, now: Instant) {
        switch sent {
        case .event(let seq):
            if isBlamed {
                fallBehind(seq, attempts: 1, due: now + wait(1, retryAfter), now: now)
            } else {
                ready.insert(seq, at: 0)
            }
        case .arrear(let stream), .streamNotice(let stream, _):
            guard var arrear = arrears[stream] else { return }
            // Read again when it is due: the log may have lost it, and pages are not held while waiting.
            arrear.phase = .idle
            arrear.page = []
            arrear.truncatedTo = nil
            arrear.due = now
            if isBlamed {
                arrear.attempts += 1
                arrear.due = now + wait(arrear.attempts, retryAfter)
            }
            arrears[stream] = arrear
        case .notice: truncatedTo = nil
        }
    }

    private mutating func wait(_ attempt: Int, _ retryAfter: Interval?) -> Interval {
        max(limits.backoff.delay(attempt: attempt, random: &random), retryAfter ?? .zero)
    }

    private mutating func goDown(cause: String, retryAfter: Interval?, now: Instant) {
        if downUntil == nil { notes.append(.down(cause: cause)) }
        if !isWaiting(now) {
            downAttempts += 1
            downUntil = now + wait(downAttempts, retryAfter)
        } else if let retryAfter, let until = downUntil {
            // One of those that were in flight with the one that made it wait.
            downUntil = max(until, now + retryAfter)
        }
    }

    // MARK: What goes out

    /// When `advance` is wanted again, if nothing is received before: after `now`, at which it was called last.
    package func deadline(after now: Instant) -> Instant {
        var deadline = saveDue ?? .distantFuture
        guard !isGone else { return deadline }
        if let downUntil, now < downUntil { return min(deadline, downUntil) }
        // What is due already waits for a free place.
        for arrear in arrears.values where arrear.phase == .idle && now < arrear.due {
            deadline = min(deadline, arrear.due)
        }
        return deadline
    }

    /// What to do at `now`. `wallClockMs`: the time in an `events.truncated`.
    package mutating func advance(to now: Instant, wallClockMs: Int64) -> [Action] {
        var actions: [Action] = []
        if !isGone, !isWaiting(now) {
            pick(into: &actions, now: now, wallClockMs: wallClockMs)
            readLog(into: &actions)
        } else if inFlight.isEmpty, !window.isEmpty {
            shed(now: now)
        }
        if let due = saveDue, due <= now { actions.append(.save(takeProgress())) }
        actions += notes.map(Action.note)
        notes = []
        return actions
    }

    /// Where it stands, to be stored.
    package mutating func takeProgress() -> WebhookProgress {
        saveDue = nil
        defer { changedStreams = [] }
        return WebhookProgress(
            endpoint: name, cursor: cursor,
            arrears: changedStreams.sorted().map { .init(stream: $0, seq: arrears[$0]?.seq) })
    }

    private mutating func pick(into actions: inout [Action], now: Instant, wallClockMs: Int64) {
        let allowed = downUntil == nil ? limits.parallel : 1
        var busy = inFlight.count + arrears.values.reduce(0) { $0 + ($1.phase == .reading ? 1 : 0) }
        while busy < allowed, !isNoticeInFlight {
            if let oldest = truncatedTo {
                let notice = TruncationNotice(after: cursor, oldest: oldest, room: nil, timeMs: wallClockMs)
                isNoticeInFlight = true
                notes.append(.truncated(after: cursor, oldest: oldest))
                actions.append(post(notice.id, notice.json, .notice(oldest: oldest)))
                return
            }
            let isFull = arrears.count >= limits.arrears
            let fresh = isFull ? nil : ready.first
            let overdue = fresh == nil || isArrearsTurn ? dueArrear(now) : nil
            if let overdue {
                actions.append(workOff(overdue, wallClockMs: wallClockMs))
            } else if let fresh {
                actions.append(sendFirst(fresh))
            } else {
                return
            }
            isArrearsTurn.toggle()
            busy += 1
        }
    }

    /// The stream in arrears to go on with: one whose page is there, before one that must be read.
    private func dueArrear(_ now: Instant) -> String? {
        var best: (stream: String, isLoaded: Bool, due: Instant, seq: UInt64)?
        for (stream, arrear) in arrears where arrear.due <= now {
            guard arrear.phase == .idle || arrear.phase == .loaded else { continue }
            let isLoaded = arrear.phase == .loaded
            if let best, (best.isLoaded ? 0 : 1, best.due, best.seq) <= (isLoaded ? 0 : 1, arrear.due, arrear.seq) {
                continue
            }
            best = (stream, isLoaded, arrear.due, arrear.seq)
        }
        return best?.stream
    }

    private mutating func workOff(_ stream: String, wallClockMs: Int64) -> Action {
        guard let arrear = arrears[stream] else { preconditionFailure("an arrear that is due is there") }
        guard arrear.phase == .loaded else {
            arrears[stream]?.phase = .reading
            return .read(stream: stream, after: arrear.seq - 1, limit: limits.streamPage)
        }
        arrears[stream]?.phase = .inFlight
        if let oldest = arrear.truncatedTo {
            let notice = TruncationNotice(
                after: arrear.seq - 1, oldest: oldest, room: stream.isEmpty ? nil : stream, timeMs: wallClockMs)
            notes.append(.truncated(after: arrear.seq - 1, oldest: oldest))
            return post(notice.id, notice.json, .streamNotice(stream, oldest: oldest))
        }
        return post(arrear.page[0], .arrear(stream))
    }

    private mutating func sendFirst(_ seq: UInt64) -> Action {
        guard let index = index(of: seq) else { preconditionFailure("what is ready is in the window") }
        ready.removeFirst()
        return post(window[index].event, .event(seq))
    }

    private mutating func post(_ event: JournalEvent, _ sent: InFlight) -> Action {
        guard let projected = dialect.projected(event) else {
            preconditionFailure("only what its dialect has is put in line")
        }
        return post(event.id, projected.json, sent)
    }

    private mutating func post(_ id: String, _ body: [UInt8], _ sent: InFlight) -> Action {
        let token = nextToken
        nextToken += 1
        inFlight[token] = sent
        return .post(WebhookPost(token: token, id: id, body: body))
    }

    private mutating func readLog(into actions: inout [Action]) {
        guard reading == nil, truncatedTo == nil, arrears.count < limits.arrears else { return }
        guard !readsWhenEmpty || window.isEmpty else { return }
        let isProbing = downUntil != nil
        guard isProbing ? window.isEmpty && inFlight.isEmpty : window.count <= limits.page / 2 else { return }
        readsWhenEmpty = false
        reading = loadedTo
        actions.append(.read(stream: nil, after: loadedTo, limit: isProbing ? 1 : limits.page - window.count))
    }
}
