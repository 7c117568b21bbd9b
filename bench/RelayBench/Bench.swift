import CMediaCrypto
import Glibc
import RelayCore

// `RelayBench [--quick] [--json] [--limit-only] [--rounds N]`: the relay beside the C limit loop, in one
// process.

@main
struct Bench {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        guard let options = Options(arguments) else {
            Report(isJSON: false).progress(Options.usage)
            exit(2)
        }
        do {
            try run(options)
        } catch {
            Report(isJSON: options.isJSON).progress("RelayBench: \(error)")
            exit(1)
        }
    }

    private static func run(_ options: Options) throws {
        let report = Report(isJSON: options.isJSON)
        try SRTPSelfTest.run()
        raiseOpenFileLimit()
        report.begin()
        var results: [ForwardingResult] = []
        let grid = options.grid
        for (i, workload) in grid.enumerated() {
            report.progress(
                "[\(i + 1)/\(grid.count)] \(workload.packetByteCount) B, batch \(workload.batch), "
                    + "\(workload.participants) participants, burst \(workload.burst)")
            let bench = ForwardingBench(rounds: options.rounds)
            let result = try bench.run(workload) { fleet in
                options.isLimitOnly ? nil : try RelayContender(fleet: fleet, now: ForwardingBench.start)
            }
            report.add(result)
            results.append(result)
        }
        report.end(results)
    }

    /// 2,000 clients have a socket each.
    private static func raiseOpenFileLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}

struct Options {
    var isJSON = false
    var isQuick = false
    /// Without the relay: what the machine can do.
    var isLimitOnly = false
    var rounds = 400

    static let usage = """
        usage: RelayBench [--quick] [--json] [--limit-only] [--rounds N]
          --quick       only batch 64 and fewer rounds
          --json        one JSON object per line on standard output
          --limit-only  the C limit loop alone
          --rounds N    timed rounds per row (20 or more)
        """

    init?(_ arguments: [String]) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--json": isJSON = true
            case "--quick":
                isQuick = true
                rounds = 150
            case "--limit-only": isLimitOnly = true
            case "--rounds":
                guard let count = rest.popFirst().flatMap({ Int($0) }), count >= 20 else { return nil }
                rounds = count
            default: return nil
            }
        }
    }

    var grid: [Workload] {
        var rows: [Workload] = []
        for byteCount in [120, 1_150] {
            for batch in isQuick ? [64] : [64, 8] {
                for participants in [20, 2_000] {
                    for burst in [1, 4] {
                        rows.append(
                            Workload(
                                packetByteCount: byteCount, batch: batch, participants: participants,
                                burst: burst))
                    }
                }
            }
        }
        return rows
    }
}
