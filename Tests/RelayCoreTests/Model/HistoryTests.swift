import Foundation
import RTPCore
import RelayCore
import Testing

/// Random histories by the thousand. `HISTORIES=1000000` runs that many (in release: minutes), `SEED=7` begins at another
/// seed, and `SEED=7 HISTORIES=1` tells one history move by move.
@Suite("Model: histories")
struct HistoryTests {
    static let environment = ProcessInfo.processInfo.environment
    static let count = environment["HISTORIES"].flatMap { Int($0) } ?? 1_000
    static let firstSeed = environment["SEED"].flatMap { UInt64($0) } ?? 1

    @Test("no history of calls breaks a promise, whoever does what in whatever order")
    func histories() async {
        if Self.count == 1 { return tell(Self.firstSeed) }
        let progress = Progress(total: Self.count)
        let threadCount = min(ProcessInfo.processInfo.activeProcessorCount, 8)
        var failures: [(seed: UInt64, what: String)] = []
        var seen: [String: Int] = [:]
        await withTaskGroup { group in
            for thread in 0..<threadCount {
                group.addTask { Self.run(thread: thread, of: threadCount, progress) }
            }
            for await result in group {
                failures += result.failures
                seen.merge(result.seen, uniquingKeysWith: +)
            }
        }
        for failure in failures.sorted(by: { $0.seed < $1.seed }).prefix(3) {
            Issue.record("SEED=\(failure.seed) HISTORIES=1: \(failure.what)")
        }
        if Self.count > 10_000 {
            for (what, count) in seen.sorted(by: { $0.key < $1.key }) { print("    \(what): \(count)") }
        }
        #expect(Self.missing(in: seen) == [], "histories never got there")
    }

    @Test("one seed is one history")
    func replay() {
        func trace(_ seed: UInt64) -> [String]? {
            let history = History(seed: seed, traced: true)
            _ = history.run()
            return history.trace
        }
        #expect(trace(11) == trace(11))
        #expect(trace(11) != trace(12))
    }

    private static func run(
        thread: Int, of threadCount: Int, _ progress: Progress
    ) -> (failures: [(seed: UInt64, what: String)], seen: [String: Int]) {
        var failures: [(UInt64, String)] = []
        var seen: [String: Int] = [:]
        for index in stride(from: thread, to: count, by: threadCount) where failures.count < 3 {
            let history = History(seed: firstSeed &+ UInt64(index))
            if let failure = history.run() { failures.append((history.seed, failure)) }
            seen.merge(history.rules.seen, uniquingKeysWith: +)
            progress.step()
        }
        return (failures, seen)
    }

    private func tell(_ seed: UInt64) {
        let history = History(seed: seed, traced: true)
        let failure = history.run()
        for line in history.trace ?? [] { print(line) }
        #expect(failure == nil)
    }

    /// What some history has to come to, or the test would prove less than it says; of few ones only what is common.
    private static func missing(in seen: [String: Int]) -> [String] {
        let outcomes = [
            "ended", "rejected", "busy", "cancelled", "unanswered", "unreachable", "failed", "lost", "drained",
            "node-lost",
        ].map { "outcome \($0)" }
        let reasons = ["idle", "alone", "max-duration", "expired", "empty", "hangup"].map { "closed \($0)" }
        let codes = [
            "409 glare", "409 answered-elsewhere", "409 already-joined", "409 session-already-active", "410 rejected",
            "410 cancelled", "410 unanswered", "403 forbidden", "422 idempotency-key-reused",
        ]
        let all = count < 5_000 ? Array(outcomes[0...5]) : outcomes + reasons + codes
        return all.filter { seen[$0] == nil }
    }
}

/// Says how far it is, in a long run only.
private final class Progress: @unchecked Sendable {
    // @unchecked: guarded by the lock.
    private let lock = NSLock()
    private let total: Int
    private var done = 0
    private let start = Date()

    init(total: Int) { self.total = total }

    func step() {
        lock.withLock {
            done += 1
            guard total > 10_000, done % max(1, total / 50) == 0 else { return }
            let rate = Double(done) / max(0.001, Date().timeIntervalSince(start))
            print("    \(done) of \(total) histories, \(Int(rate)) a second")
        }
    }
}
