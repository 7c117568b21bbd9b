import CLinuxIO
import RTPCore
import RelayCore

// The headline: the relay's step and the limit's step on the same packets, rotated batch by batch in one
// thread, so that noise of the machine hits both alike. Phases: feed and drain untimed, step timed by the
// thread's CPU clock.

/// CPU nanoseconds per forwarded packet of each contender, one value a round.
struct ForwardingResult {
    var workload: Workload
    var rounds: Int
    var names: [String]
    var samples: [[Double]]
    /// CPU nanoseconds of the relay's timers per forwarded packet, at the workload's packet rate.
    var timers: Double?
    /// Packets that libsrtp2 opened, over all contenders.
    var openedByOracle: Int

    func median(_ name: String) -> Double? { names.firstIndex(of: name).map { samples[$0].median } }

    /// Median and quartiles of the ratio of two contenders, round by round.
    func ratio(_ name: String, to other: String) -> Spread? {
        guard let a = names.firstIndex(of: name), let b = names.firstIndex(of: other) else { return nil }
        return Spread(zip(samples[a], samples[b]).map { $0 / $1 })
    }

    /// Whether the machine changed its speed meanwhile: the limit's first and last third differ by more than
    /// 20 %.
    var isSteady: Bool {
        guard let limit = names.firstIndex(of: LimitContender.Level.crypto.name) else { return true }
        let third = samples[limit].count / 3
        let first = Array(samples[limit].prefix(third)).median
        let last = Array(samples[limit].suffix(third)).median
        return abs(first - last) <= 0.2 * min(first, last)
    }
}

struct ForwardingBench {
    /// Where the contenders' clock starts: they are handed the time.
    static let start = Instant(nanoseconds: 1_000_000_000_000)
    var rounds: Int
    /// The only contender, all when nil.
    var only: String?

    /// Runs one cell. `makeRelay` is called once per cell.
    func run(_ workload: Workload, makeRelay: (Fleet) throws -> any Relay) throws -> ForwardingResult {
        let fleet = try Fleet(workload)
        var contenders: [any Contender] = try LimitContender.Level.allCases.map {
            try LimitContender($0, fleet: fleet)
        }
        contenders.append(try makeRelay(fleet))
        if let only { contenders.removeAll { $0.name != only } }
        let verifiers = try contenders.map { $0.seals ? try Verifier(fleet: fleet) : nil }
        fleet.discardAll()

        var result = ForwardingResult(
            workload: workload, rounds: rounds, names: contenders.map(\.name),
            samples: contenders.map { _ in [] }, timers: nil, openedByOracle: 0)
        var now = Self.start
        let perRound = Interval.nanoseconds(
            Int64(workload.batch) * 1_000_000_000 / Int64(workload.participants * workload.packetsPerSecond))
        var timerNanoseconds: Int64 = 0
        let warmUp = workload.warmUpRounds
        for round in 0..<warmUp + rounds {
            now += perRound
            fleet.makeBatch()
            for offset in contenders.indices {
                let position = (round + offset) % contenders.count
                let contender = contenders[position]
                try fleet.feed(port: contender.port)
                let begin = lio_thread_cpu_ns()
                timedStep(contender, now: now)
                let end = lio_thread_cpu_ns()
                let count = try fleet.drain { receiver, packet in
                    try verifiers[position]?.check(receiver: receiver, packet: packet)
                }
                guard count == workload.batch * workload.receivers || round < warmUp && contender is any Relay else {
                    let drops = (contender as? any Relay)?.drops ?? ""
                    throw BenchFailure(
                        description:
                            "\(contender.name) forwarded \(count) of \(workload.batch * workload.receivers) packets \(drops)"
                    )
                }
                let timersBegin = lio_thread_cpu_ns()
                contender.settle(now: now)
                let timersEnd = lio_thread_cpu_ns()
                guard round >= warmUp else { continue }
                result.samples[position].append(Double(end - begin) / Double(workload.batch * workload.receivers))
                if contender is any Relay { timerNanoseconds += timersEnd - timersBegin }
            }
        }
        if contenders.contains(where: { $0 is any Relay }) {
            result.timers = Double(timerNanoseconds) / Double(rounds * workload.batch * workload.receivers)
        }
        result.openedByOracle = verifiers.reduce(0) { $0 + ($1?.openedByOracle ?? 0) }
        return result
    }
}

/// What is timed, under a name of its own for profilers: `bench/instructions.py` counts what is done in here.
@inline(never) func timedStep(_ contender: any Contender, now: Instant) { contender.step(now: now) }

/// The contender that is the product.
protocol Relay: Contender {
    /// Its drop counters, to explain a count that is not what was fed.
    var drops: String { get }
}
