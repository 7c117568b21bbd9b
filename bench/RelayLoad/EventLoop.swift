import Glibc
import MediaRelay
import RTPCore
import RelayLoadKit

/// What a descriptor in the loop belongs to.
protocol LoopHandler: AnyObject {
    /// What arrives is timed: handled before everything else that is ready, and looked for again between handshakes.
    var isTimed: Bool { get }
    func ready(_ event: Poller.Event, now: Instant)
}

/// Something with a deadline of its own that the loop keeps.
protocol LoopTicker: AnyObject {
    var deadline: Instant { get }
    func advance(to now: Instant)
}

/// The load program's one thread: runs the tasks of all calls, and waits for their sockets and times in between. A scenario is
/// plain `async` code in `spawn`ed tasks; everything that such tasks share is confined to this thread.
final class EventLoop: TaskExecutor, @unchecked Sendable {
    // @unchecked: `jobs` is touched under `lock`, everything else on the loop's thread only.
    let poller: Poller
    var ticker: (any LoopTicker)?
    private let wakeUp: WakeUp
    private let lock = Lock()
    private var jobs: [UnownedJob] = []
    private var batch: [UnownedJob] = []
    private var handlers: [UInt64: any LoopHandler] = [:]
    private var lastToken: UInt64 = 0
    private var sleepers = Heap<Sleeper>()
    private var sleeperCount: UInt64 = 0
    private let thread = pthread_self()

    private struct Sleeper: Comparable {
        var until: Instant
        var order: UInt64
        var continuation: UnsafeContinuation<Void, Never>
        static func < (a: Sleeper, b: Sleeper) -> Bool { (a.until, a.order) < (b.until, b.order) }
        static func == (a: Sleeper, b: Sleeper) -> Bool { a.order == b.order }
    }

    init() throws(SystemError) {
        poller = try Poller()
        wakeUp = try WakeUp()
        try poller.add(wakeUp.descriptor, token: 0, for: .reading)
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let wasEmpty = lock.withLock {
            jobs.append(job)
            return jobs.count == 1
        }
        if wasEmpty, pthread_equal(thread, pthread_self()) == 0 { wakeUp.signal() }
    }

    /// Starts a task on this thread.
    @discardableResult
    func spawn(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        Task(executorPreference: self) { await body() }
    }

    /// Suspends the calling task until then.
    func sleep(until: Instant) async {
        await withUnsafeContinuation { continuation in
            sleeperCount += 1
            sleepers.insert(Sleeper(until: until, order: sleeperCount, continuation: continuation))
        }
    }

    func sleep(for interval: Interval) async { await sleep(until: MonotonicClock.now() + interval) }

    func add(_ handler: any LoopHandler, _ descriptor: Int32, for interest: Poller.Interest) throws(SystemError)
        -> UInt64
    {
        lastToken += 1
        try poller.add(descriptor, token: lastToken, for: interest)
        handlers[lastToken] = handler
        return lastToken
    }

    /// Before the descriptor is closed.
    func remove(_ token: UInt64, _ descriptor: Int32) {
        guard handlers.removeValue(forKey: token) != nil else { return }
        poller.remove(descriptor)
    }

    /// Runs `main` and all that it spawns, until it is done.
    func run(_ main: @escaping @Sendable () async -> Void) {
        let flag = Flag()
        spawn {
            await main()
            flag.isSet = true
        }
        while !flag.isSet { turn() }
    }

    private final class Flag: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var isSet = false
    }

    private func turn() {
        let start = MonotonicClock.now()
        runJobs()
        var now = MonotonicClock.now()
        while let first = sleepers.first, first.until <= now {
            _ = sleepers.removeFirst()
            first.continuation.resume()
        }
        if let ticker, ticker.deadline <= now { ticker.advance(to: now) }
        let isBusy = lock.withLock { !jobs.isEmpty }
        let deadline = isBusy ? now : min(sleepers.first?.until ?? .distantFuture, ticker?.deadline ?? .distantFuture)
        let count = poller.wait(until: deadline, now: now)
        Interrupts.exitIfSet()
        let worked = now - start
        let woken = MonotonicClock.now()
        var untimedSince = woken
        for isTimed in [true, false] {
            if !isTimed { untimedSince = MonotonicClock.now() }
            // Half of the time at least, or a relay that is away and asked again and again would starve them.
            let share = max(Self.untimedShare, worked + (untimedSince - woken))
            for index in 0..<count {
                now = MonotonicClock.now()
                // What is still ready is so at the next look, behind what is timed.
                if !isTimed, now - untimedSince > share { return }
                let event = poller.event(at: index)
                if event.token == 0 {
                    if isTimed { _ = wakeUp.clear() }
                } else if let handler = handlers[event.token], handler.isTimed == isTimed {
                    handler.ready(event, now: now)
                }
            }
        }
    }

    /// For clients' packets, before HTTP is looked at again: a handshake's step takes up to a millisecond.
    private static let untimedShare = Interval.microseconds(200)

    private func runJobs() {
        lock.withLock { swap(&jobs, &batch) }
        let executor = asUnownedTaskExecutor()
        for job in batch { job.runSynchronously(on: executor) }
        batch.removeAll(keepingCapacity: true)
    }
}
