import RTPCore
import RelayCore

/// The thread that delivers webhooks: it moves events from the journal to the endpoints as each one's `WebhookOutbox`
/// says, and their progress back. Nothing waits for it.
package final class WebhookThread: @unchecked Sendable {
    // @unchecked: mailbox and statuses are shared and guarded; everything else is used on the thread only, or before
    // it starts.
    private enum Message: Sendable {
        case batch(endpoint: Int, stream: String?, EventBatch)
        case use([WebhookEndpoint])
        case stop(until: Instant, newest: UInt64)
    }

    package struct Options: Sendable {
        package var outbox = WebhookOutbox.Limits()
        package var connect = Interval.seconds(2)
        package var total = Interval.seconds(5)
        /// A PEM file; nil: the system's authorities.
        package var authorities: String?
        package init() {}
    }

    private var endpoints: [WebhookEndpoint]
    private let options: Options
    private let journal: @Sendable (JournalCommand) -> Bool
    private let log: Log
    private let mailbox: Mailbox<Message>
    private let lock = Lock()
    private var sharedStatuses: [WebhookStatus] = []
    private var outboxes: [WebhookOutbox]
    private var stopping: (until: Instant, newest: UInt64)?
    private var thread: Thread?

    /// - Parameters:
    ///   - known: where the endpoints stand, from the journal; a new one starts behind `newest`.
    ///   - journal: posts to the journal's thread; false when that has too much to do.
    package init(
        endpoints: [WebhookEndpoint], options: Options, known: [WebhookProgress], newest: UInt64,
        journal: @escaping @Sendable (JournalCommand) -> Bool, log: Log
    ) throws(SystemError) {
        self.endpoints = endpoints
        self.options = options
        self.journal = journal
        self.log = log
        mailbox = try Mailbox(capacity: 4_096)
        let now = MonotonicClock.now()
        outboxes = endpoints.map { endpoint in
            WebhookOutbox(
                name: endpoint.name, dialect: endpoint.dialect, limits: options.outbox,
                progress: known.first { $0.endpoint == endpoint.name }, newest: newest, random: .system, now: now)
        }
        sharedStatuses = outboxes.map(\.status)
    }

    package func start() throws(SystemError) {
        guard !endpoints.isEmpty else { return }
        thread = try Thread(named: "webhooks") { [self] in run() }
    }

    /// Where requests go and what signs them from now on: the same names and dialects in the same order.
    package func use(_ endpoints: [WebhookEndpoint]) { mailbox.post(.use(endpoints)) }

    /// Ends the thread: at once, or when everything up to `newest` is delivered, or after `grace`. What is not
    /// delivered then is delivered after the next start. Progress is posted before it returns.
    package func stop(newest: UInt64, grace: Interval) {
        mailbox.post(.stop(until: MonotonicClock.now() + grace, newest: newest))
        thread?.join()
        thread = nil
    }

    package var statuses: [WebhookStatus] { lock.withLock { sharedStatuses } }

    private func run() {
        var limits = WebhookTransport.Limits()
        limits.connect = options.connect
        limits.total = options.total
        limits.authorities = options.authorities
        let transport = WebhookTransport(limits: limits, connections: endpoints.count * options.outbox.parallel)
        var batch: [Message] = []
        while true {
            let now = MonotonicClock.now()
            _ = mailbox.wakeUp.clear()
            mailbox.take(into: &batch)
            for message in batch { receive(message, now: now) }
            for ended in transport.perform() {
                outboxes[ended.endpoint].receive(ended.result, for: ended.token, now: now)
            }
            for index in outboxes.indices { advance(index, transport, now: now) }
            let statuses = outboxes.map(\.status)
            lock.withLock { sharedStatuses = statuses }
            if let stopping, now >= stopping.until || outboxes.allSatisfy({ $0.isSettled(upTo: stopping.newest) }) {
                break
            }
            let deadline = outboxes.reduce(stopping?.until ?? .distantFuture) { min($0, $1.deadline(after: now)) }
            transport.wait(for: mailbox.wakeUp.descriptor, until: deadline, now: MonotonicClock.now())
        }
        for index in outboxes.indices {
            outboxes[index].shed(now: MonotonicClock.now())
            _ = journal(.progress(outboxes[index].takeProgress()))
        }
    }

    private func receive(_ message: Message, now: Instant) {
        switch message {
        case .batch(let endpoint, let stream, let batch): outboxes[endpoint].receive(batch, of: stream, now: now)
        case .use(let next):
            precondition(next.map(\.name) == endpoints.map(\.name), "other webhooks than at the start")
            endpoints = next
        case .stop(let until, let newest): stopping = (until, newest)
        }
    }

    private func advance(_ index: Int, _ transport: WebhookTransport, now: Instant) {
        for action in outboxes[index].advance(to: now, wallClockMs: WallClock.nowMs) {
            switch action {
            case .read(let stream, let after, let limit):
                let mailbox = mailbox
                let request = EventBatchRequest(
                    reader: endpoints[index].name, after: after, stream: stream, limit: limit
                ) { batch in
                    mailbox.post(.batch(endpoint: index, stream: stream, batch))
                }
                precondition(journal(.batch(request)), "the journal does not keep up with 65,536 commands")
            case .post(let post): transport.post(request(post, to: index))
            case .save(let progress):
                precondition(journal(.progress(progress)), "the journal does not keep up with 65,536 commands")
            case .note(let note): tell(note, of: endpoints[index].name)
            }
        }
    }

    private func request(_ post: WebhookPost, to index: Int) -> WebhookTransport.Request {
        let endpoint = endpoints[index]
        let timestamp = WallClock.nowMs / 1_000
        let signature = WebhookSignature.header(
            secrets: endpoint.secrets, id: post.id, timestamp: timestamp, body: post.body)
        return WebhookTransport.Request(
            endpoint: index, token: post.token, url: endpoint.url,
            headers: [
                "Content-Type: application/json", "User-Agent: media-relay/\(Version.text)", "Expect:",
                "webhook-id: \(post.id)", "webhook-timestamp: \(timestamp)", "webhook-signature: \(signature)",
            ], body: post.body, isLoopback: endpoint.isLoopback)
    }

    private func tell(_ note: WebhookOutbox.Note, of name: String) {
        let endpoint = JSONValue.Field("webhook", .string(name))
        switch note {
        case .down(let cause):
            log.write(
                .warning, "webhook fails, tried again with growing waits", endpoint, .init("cause", .string(cause)))
        case .up: log.write(.info, "webhook takes events again", endpoint)
        case .gone: log.write(.error, "webhook answered 410: nothing is sent to it before the next start", endpoint)
        case .truncated(let after, let oldest):
            log.write(
                .error, "webhook lost events: the log no longer has them", endpoint,
                .init("after", .integer(Int64(clamping: after))), .init("oldest", .integer(Int64(clamping: oldest))))
        }
    }
}
