import RTPCore

/// Many seeds, some at a time, each in a simulation of its own.
public struct SeedRun: Sendable {
    public struct Result: Sendable {
        public var passed = 0
        /// By seed, the first violation of each.
        public var failures: [(seed: UInt64, what: String)] = []
        public var tally = RelaySimulation.Tally()
        public init() {}
        mutating func add(_ other: Result) {
            passed += other.passed
            failures += other.failures
            tally.add(other.tally)
        }
    }

    public var seeds: Range<UInt64>
    public var threads: Int
    /// Called from any thread.
    public var progress: @Sendable () -> Void = {}
    public var options: @Sendable (UInt64) -> RelaySimulation.Options

    public init(
        seeds: Range<UInt64>, threads: Int, options: @escaping @Sendable (UInt64) -> RelaySimulation.Options
    ) {
        self.seeds = seeds
        self.threads = threads
        self.options = options
    }

    public func run() async -> Result {
        var result = Result()
        await withTaskGroup(of: Result.self) { group in
            for thread in 0..<threads { group.addTask { runShare(of: thread) } }
            for await share in group { result.add(share) }
        }
        result.failures.sort { $0.seed < $1.seed }
        return result
    }

    private func runShare(of thread: Int) -> Result {
        var result = Result()
        let identities = ClientIdentities()
        for seed in seeds where Int(seed % UInt64(threads)) == thread {
            let simulation = RelaySimulation(options(seed), identities: identities)
            simulation.run()
            if let first = simulation.violations.first {
                result.failures.append((seed, first))
            } else {
                result.passed += 1
            }
            result.tally.add(simulation.tally)
            progress()
        }
        return result
    }
}

extension RelaySimulation.Options {
    /// Half a minute with a handful of clients, in which much goes wrong.
    public static func short(_ seed: UInt64) -> RelaySimulation.Options {
        var options = RelaySimulation.Options()
        options.seed = seed
        options.duration = .seconds(30)
        options.callInterval = .milliseconds(4_500)
        options.misfortuneInterval = .seconds(6)
        return options
    }

    /// Twenty minutes with hundreds of clients, in which something goes wrong now and then.
    public static func long(_ seed: UInt64) -> RelaySimulation.Options {
        var options = RelaySimulation.Options()
        options.seed = seed
        options.duration = .seconds(1_200)
        options.callInterval = .seconds(5)
        options.misfortuneInterval = .seconds(30)
        options.userCount = 60
        options.audioInterval = .milliseconds(500)
        options.talk = .seconds(20)
        return options
    }
}
