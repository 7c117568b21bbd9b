import RTPCore
import RelayCore

/// The worker's second thread: every OpenSSL object lives there. Takes requests from the media loop and posts
/// results back, both through bounded mailboxes.
final class HandshakerThread {
    /// As many as the engine lets wait; what is over is counted and repeated by the clients.
    static let mailboxCapacity = 4_096

    /// A handshake is a millisecond of arithmetic that nobody hears; a packet or a decision that waits for it is heard.
    private static let nice: Int32 = 5

    private let shared: Shared
    private let thread: Thread
    /// Requests that must not get lost (begin, close) while the mailbox was full; in order.
    private var deferred: [HandshakeRequest] = []

    /// What the two threads share.
    private final class Shared: @unchecked Sendable {
        // @unchecked: mailboxes are made for sharing, the rest is touched under `lock` only.
        let requests: Mailbox<HandshakeRequest>
        let results: Mailbox<HandshakeResult>
        let lock = Lock()
        var isStopping = false
        var counters = HandshakeCounters()
        /// Requests carried out and turns made.
        var steps: UInt64 = 0

        init() throws(SystemError) {
            requests = try Mailbox(capacity: HandshakerThread.mailboxCapacity)
            results = try Mailbox(capacity: 4 * HandshakerThread.mailboxCapacity)
        }
    }

    init(identity: sending DTLSIdentity, limits: HandshakeLimits) throws(SystemError) {
        let shared = try Shared()
        self.shared = shared
        let poller = try Poller()
        try poller.add(shared.requests.wakeUp.descriptor, token: 0, for: .reading)
        let start = Start(identity: identity, limits: limits, poller: poller)
        let body: @Sendable () -> Void = { Self.run(start, shared) }
        thread = try Thread(named: "handshaker", nice: Self.nice, body)
    }

    /// Everything that moves to the thread when it starts.
    private struct Start: @unchecked Sendable {
        // @unchecked: handed over as a whole; the starting thread keeps nothing of it.
        let identity: DTLSIdentity
        let limits: HandshakeLimits
        let poller: Poller
    }

    // MARK: - Media loop's side

    /// Readable when results wait.
    var resultDescriptor: Int32 { shared.results.wakeUp.descriptor }
    var counters: HandshakeCounters { shared.lock.withLock { shared.counters } }
    /// Rises by one a second at least while the thread lives: its poller never waits longer.
    var steps: UInt64 { shared.lock.withLock { shared.steps } }
    var refusedCount: UInt64 { shared.requests.refusedCount + shared.results.refusedCount }

    func post(_ requests: [HandshakeRequest]) {
        guard !requests.isEmpty || !deferred.isEmpty else { return }
        let waiting = deferred + requests
        deferred = []
        let accepted = shared.requests.post(contentsOf: waiting)
        for request in waiting.dropFirst(accepted) {
            if case .records = request { continue }
            deferred.append(request)
        }
    }

    func takeResults(into batch: inout [HandshakeResult]) {
        shared.results.wakeUp.clear()
        shared.results.take(into: &batch)
    }

    /// Lets the thread finish what was posted, and waits for its end. Its last results can be taken
    /// afterwards.
    func stop() {
        shared.lock.withLock { shared.isStopping = true }
        shared.requests.wakeUp.signal()
        thread.join()
    }

    // MARK: - The thread

    private static func run(_ start: Start, _ shared: Shared) {
        let handshaker = Handshaker(identity: start.identity, limits: start.limits)
        var batch: [HandshakeRequest] = []
        while true {
            _ = start.poller.wait(until: handshaker.deadline, now: MonotonicClock.now())
            shared.requests.wakeUp.clear()
            // Read before the mailbox is emptied: what was posted before the stop is still carried out.
            let isStopping = shared.lock.withLock { shared.isStopping }
            shared.requests.take(into: &batch)
            for request in batch {
                handshaker.receive(request, now: MonotonicClock.now())
                shared.results.post(contentsOf: handshaker.takeResults())
                shared.lock.withLock { shared.steps &+= 1 }
            }
            handshaker.advance(to: MonotonicClock.now())
            shared.results.post(contentsOf: handshaker.takeResults())
            let counters = handshaker.counters
            shared.lock.withLock {
                shared.counters = counters
                shared.steps &+= 1
            }
            if isStopping { return }
        }
    }
}
