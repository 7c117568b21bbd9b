import Foundation
import MediaRelay
import RTPCore

/// Tells when the machine took its processors away from everybody: a shared virtual machine is held for 10 to 80 ms now and
/// then without any steal time shown (measured: the same work takes 15 times its processor time for 20 ms, each 1.5 s under
/// load). A thread does the same 50 µs of work every 2 ms and looks at the processor time that it took, in which waiting for
/// other threads does not count: so the program's own load, and the relay's, can not look like a hold.
final class MachineProbe: @unchecked Sendable {
    // @unchecked: everything mutable is touched under `lock` only.
    private let lock = NSLock()
    private var slow: [Instant] = []
    private var rounds = 0
    private var isStopped = false

    private static let every = Interval.milliseconds(2)
    /// Work that took this many times its usual processor time was held.
    private static let factor = 2.5
    /// What queued up in a hold takes this long to be worked off.
    private static let after = Interval.milliseconds(50)
    private static let multiplications = 25_000

    /// Starts the thread; it ends at `stop`.
    init() {
        let thread = Thread { [self] in run() }
        thread.name = "machine-probe"
        thread.start()
    }

    func stop() { lock.withLock { isStopped = true } }

    /// Whether the machine was held while something went on, or so shortly before that it found a queue.
    func wasHeld(from start: Instant, to end: Instant) -> Bool {
        lock.withLock {
            var (low, high) = (0, slow.count)
            while low < high {
                let middle = (low + high) / 2
                if slow[middle] < start - Self.after { low = middle + 1 } else { high = middle }
            }
            return low < slow.count && slow[low] <= end
        }
    }

    /// The share of the probe's rounds that were held.
    var heldShare: Double { lock.withLock { Double(slow.count) / Double(max(rounds, 1)) } }

    private func run() {
        let usual = (0..<200).map { _ in work() }.sorted()[100]
        var next = MonotonicClock.now()
        while !lock.withLock({ isStopped }) {
            let took = work()
            let now = MonotonicClock.now()
            lock.withLock {
                rounds += 1
                if took > Self.factor * usual { slow.append(now) }
            }
            next = max(next + Self.every, now)
            Thread.sleep(forTimeInterval: Double((next - now).nanoseconds) / 1e9)
        }
    }

    /// Processor time of the thread, seconds.
    private func work() -> Double {
        let start = Self.processorTime()
        var value: UInt64 = 1
        for _ in 0..<Self.multiplications {
            value = value &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            value ^= value >> 13
        }
        precondition(value != 0)
        return Self.processorTime() - start
    }

    private static func processorTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
