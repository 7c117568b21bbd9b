import RTPCore
import RelayCore

@testable import MediaRelay

/// An outbox, a log and an endpoint in virtual time.
struct OutboxWorld {
    var log: [JournalEvent] = []
    /// The oldest event that the log still has.
    var oldest: UInt64 = 1
    var outbox: WebhookOutbox
    var now = Instant(nanoseconds: 1_000_000_000)
    /// What a restart would find.
    var saved = WebhookProgress(endpoint: "e", cursor: 0, arrears: [])
    /// How long the endpoint takes, and what it says when it is done.
    var latency = Interval.milliseconds(10)
    var answer: (WebhookPost, Instant) -> WebhookResult = { _, _ in .delivered }
    /// Every try that has ended, and the ones that were taken, in order.
    var tries: [(at: Instant, id: String, result: WebhookResult)] = []
    var taken: [WebhookPost] = []
    var notes: [WebhookOutbox.Note] = []
    var mostInFlight = 0
    var mostHeld = 0
    private var pending: [(at: Instant, post: WebhookPost)] = []
    private var waitingRead: (after: UInt64, limit: Int)?
    private let limits: WebhookOutbox.Limits
    private let dialect: EventDialect

    init(limits: WebhookOutbox.Limits = .init(), dialect: EventDialect = .current, seed: UInt64 = 1) {
        self.limits = limits
        self.dialect = dialect
        outbox = WebhookOutbox(
            name: "e", dialect: dialect, limits: limits, progress: nil, newest: 0, random: .seeded(seed), now: now)
    }

    /// The process is killed and started again: what was not saved is forgotten.
    mutating func restart(seed: UInt64 = 2) {
        pending = []
        waitingRead = nil
        outbox = WebhookOutbox(
            name: "e", dialect: dialect, limits: limits, progress: saved, newest: UInt64(log.count),
            random: .seeded(seed), now: now)
    }

    /// The process stops in order.
    mutating func stop() {
        outbox.shed(now: now)
        save(outbox.takeProgress())
    }

    mutating func happen(_ room: String?, type: String = "participant.joined") {
        log.append(journalEvent(UInt64(log.count) + 1, room: room, type: type))
    }

    mutating func run(_ time: Interval) {
        let end = now + time
        while true {
            while step() {}
            let next = min(outbox.deadline(after: now), pending.map(\.at).min() ?? .distantFuture)
            guard next <= end else { break }
            precondition(next >= now, "time runs backwards")
            now = next
        }
        now = end
    }

    /// Everything that is to be done now; false when there was nothing.
    private mutating func step() -> Bool {
        var isBusy = false
        while let index = pending.firstIndex(where: { $0.at <= now }) {
            let post = pending.remove(at: index).post
            let result = answer(post, now)
            tries.append((now, post.id, result))
            if result == .delivered { taken.append(post) }
            outbox.receive(result, for: post.token, now: now)
            isBusy = true
        }
        if let read = waitingRead, read.after < UInt64(log.count) {
            waitingRead = nil
            outbox.receive(batch(after: read.after, stream: nil, limit: read.limit), of: nil, now: now)
            isBusy = true
        }
        for action in outbox.advance(to: now, wallClockMs: 0) {
            isBusy = true
            switch action {
            case .read(nil, let after, let limit): waitingRead = (after, limit)
            case .read(let stream?, let after, let limit):
                outbox.receive(batch(after: after, stream: stream, limit: limit), of: stream, now: now)
            case .post(let post): pending.append((now + latency, post))
            case .save(let progress): save(progress)
            case .note(let note): notes.append(note)
            }
        }
        mostInFlight = max(mostInFlight, pending.count)
        mostHeld = max(mostHeld, outbox.window.count + outbox.arrears.values.reduce(0) { $0 + $1.page.count })
        return isBusy
    }

    private func batch(after: UInt64, stream: String?, limit: Int) -> EventBatch {
        let found = log.filter { event in
            event.seq > after && event.seq >= oldest && (stream.map { $0 == event.room ?? "" } ?? true)
        }
        return EventBatch(
            after: after, events: Array(found.prefix(limit)), oldest: oldest, newest: UInt64(log.count))
    }

    private mutating func save(_ progress: WebhookProgress) {
        saved.cursor = progress.cursor
        for arrear in progress.arrears {
            saved.arrears.removeAll { $0.stream == arrear.stream }
            if arrear.seq != nil { saved.arrears.append(arrear) }
        }
    }

    /// The numbers of the events that were taken, of one room, each at its first time.
    func taken(of room: String?) -> [UInt64] {
        var seen: Set<String> = []
        return taken.compactMap { post in
            guard let seq = Int(post.id.dropFirst(4)), log[seq - 1].room == room, seen.insert(post.id).inserted else {
                return nil
            }
            return UInt64(seq)
        }
    }

    func all(of room: String?) -> [UInt64] { log.filter { $0.room == room }.map(\.seq) }

    func triesOf(_ seq: UInt64) -> [Instant] { tries.filter { $0.id == "evt_\(seq)" }.map(\.at) }
}
