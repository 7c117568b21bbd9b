import Foundation
import Glibc
import RTPCore
import RelaySimulation
import Synchronization

/// Runs the simulation of the whole relay (`make simulate`): one seed told move by move, or many with their count.
@main
struct Simulate {
    static let usage = """
        simulate [--seed N] [--seeds COUNT] [--long] [--threads N]
          --seed N      this seed alone, told move by move; with --seeds: the first of them
          --seeds COUNT so many seeds
          --long        twenty minutes with hundreds of clients each, instead of half a minute with a few
          --threads N   seeds at a time
        """

    static func main() async {
        var seed: UInt64 = 1
        var count: UInt64?
        var isLong = false
        var threads = ProcessInfo.processInfo.activeProcessorCount
        var hasSeed = false
        var arguments = CommandLine.arguments.dropFirst()
        while let argument = arguments.popFirst() {
            switch argument {
            case "--long": isLong = true
            case "--seed", "--seeds", "--threads":
                guard let text = arguments.popFirst(), let number = UInt64(text) else {
                    refuse("\(argument) needs a number")
                }
                switch argument {
                case "--seed": (seed, hasSeed) = (number, true)
                case "--seeds": count = number
                default: threads = max(1, Int(number))
                }
            default: refuse("\(argument) is not known")
            }
        }
        let isLongMix = isLong
        let mix: @Sendable (UInt64) -> RelaySimulation.Options = { seed in
            isLongMix ? RelaySimulation.Options.long(seed) : RelaySimulation.Options.short(seed)
        }
        if hasSeed, count == nil { exit(tell(mix(seed)) ? 0 : 1) }
        let isGood = await run(seed..<seed + (count ?? 1_000), threads: threads, mix)
        exit(isGood ? 0 : 1)
    }

    private static func refuse(_ what: String) -> Never {
        print("simulate: \(what)\n\(usage)")
        exit(2)
    }

    private static func tell(_ options: RelaySimulation.Options) -> Bool {
        var options = options
        options.tells = { print($0) }
        let began = Date()
        let simulation = RelaySimulation(options)
        simulation.run()
        for violation in simulation.violations { print("seed \(options.seed), \(violation)") }
        summarize(simulation.tally, seconds: Date().timeIntervalSince(began))
        print(simulation.violations.isEmpty ? "1 passed, 0 failed" : "0 passed, 1 failed")
        return simulation.violations.isEmpty
    }

    private static func run(
        _ seeds: Range<UInt64>, threads: Int, _ mix: @escaping @Sendable (UInt64) -> RelaySimulation.Options
    ) async -> Bool {
        let began = Date()
        let done = Counter()
        let total = seeds.count
        let step = max(1, total / 20)
        var run = SeedRun(seeds: seeds, threads: threads, options: mix)
        run.progress = {
            let count = done.value.add(1, ordering: .relaxed).newValue
            guard count % step == 0 else { return }
            print("   \(count) of \(total) seeds, \(Int(Date().timeIntervalSince(began))) s")
        }
        let result = await run.run()
        for failure in result.failures.prefix(10) { print("seed \(failure.seed) failed \(failure.what)") }
        summarize(result.tally, seconds: Date().timeIntervalSince(began))
        print("\(result.passed) passed, \(result.failures.count) failed")
        return result.failures.isEmpty
    }

    private static func summarize(_ tally: RelaySimulation.Tally, seconds: Double) {
        let virtual = Double(tally.virtualTime.milliseconds) / 1_000
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        let cpu = Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
        print(
            """
               \(tally.calls) calls, \(tally.clients) clients, \(tally.handshakes) handshakes, \(tally.datagrams) datagrams
               \(tally.requests) requests, \(tally.acknowledged) answered, \(tally.repeated) of them repeated; \
            \(tally.events) events, \(tally.syncs) syncs
               \(tally.controlCrashes) crashes of control, \(tally.powerLosses) losses of power, \
            \(tally.workerCrashes) of workers, \(tally.linkCuts) cuts of a link, \(tally.diskFaults) faults of the disk; \
            \(tally.mediaChecks) calls heard over an outage
               \(tally.outcomes.sorted { $0.key < $1.key }.map { "\($0.key.dropFirst(8)) \($0.value)" }.joined(separator: ", "))
               \(Int(virtual)) s of virtual time in \(String(format: "%.1f", seconds)) s, \(String(format: "%.1f", cpu)) s of \
            one core: \(Int(virtual / max(cpu, 0.001))) times real time
            """)
    }
}

private final class Counter: Sendable {
    let value = Atomic(0)
}
