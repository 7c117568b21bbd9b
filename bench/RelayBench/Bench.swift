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
        if let handshakes = options.handshakes { return try HandshakeBench.run(handshakes, isJSON: options.isJSON) }
        raiseOpenFileLimit()
        report.begin()
        var results: [ForwardingResult] = []
        let grid = options.grid
        for (i, workload) in grid.enumerated() {
            report.progress(
                "[\(i + 1)/\(grid.count)] \(workload.packetByteCount) B, batch \(workload.batch), "
                    + "\(workload.participants) participants, burst \(workload.burst), \(workload.receivers) receivers")
            let bench = ForwardingBench(rounds: options.rounds, only: options.contender)
            let result = try bench.run(workload) { fleet in
                try RelayContender(fleet: fleet, now: ForwardingBench.start)
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
    /// This contender alone, for profilers.
    var contender: String?
    /// This row alone.
    var row: Workload?
    var rounds = 400
    /// So many handshakes, nothing else.
    var handshakes: Int?

    static let usage = """
        usage: RelayBench [--quick] [--json] [--rounds N] [--row BYTES/BATCH/PARTICIPANTS/BURST[/RECEIVERS]]
                          [--only NAME] [--handshakes N]
          --quick     only batch 64, 20 participants beside the largest row, and fewer rounds
          --json      one JSON object per line on standard output
          --rounds N  timed rounds per row (20 or more)
          --row       one row, e.g. 1150/64/2000/1 (as many participants as fill rooms of RECEIVERS + 1)
          --handshakes N  N DTLS handshakes of the handshaker instead, for profilers
          --only      one contender, for profilers: relay, L0, L1 or L1g
        """

    init?(_ arguments: [String]) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--json": isJSON = true
            case "--quick":
                isQuick = true
                rounds = 150
            case "--only":
                guard let name = rest.popFirst(), ["relay", "L0", "L1", "L1g"].contains(name) else { return nil }
                contender = name
            case "--row":
                let numbers = rest.popFirst()?.split(separator: "/").compactMap { Int($0) } ?? []
                let size = (numbers.count == 5 ? numbers[4] : 1) + 1
                guard (4...5).contains(numbers.count), (40...1_180).contains(numbers[0]), (1...64).contains(numbers[1]),
                    (2...8_000).contains(numbers[2]), (2...8).contains(size), numbers[2].isMultiple(of: size),
                    (1...64).contains(numbers[3])
                else { return nil }
                row = Workload(
                    packetByteCount: numbers[0], batch: numbers[1], participants: numbers[2], burst: numbers[3],
                    receivers: size - 1)
            case "--handshakes":
                guard let count = rest.popFirst().flatMap({ Int($0) }), count > 0 else { return nil }
                handshakes = count
            case "--rounds":
                guard let count = rest.popFirst().flatMap({ Int($0) }), count >= 20 else { return nil }
                rounds = count
            default: return nil
            }
        }
    }

    var grid: [Workload] {
        if let row { return [row] }
        var rows: [Workload] = []
        for byteCount in [120, 1_150] {
            for batch in isQuick ? [64] : [64, 8] {
                for participants in isQuick ? [20] : [20, 2_000] {
                    for burst in [1, 4] {
                        rows.append(
                            Workload(
                                packetByteCount: byteCount, batch: batch, participants: participants,
                                burst: burst))
                    }
                }
            }
        }
        if isQuick {
            rows.append(Workload(packetByteCount: 1_150, batch: 64, participants: 2_000, burst: 1))
            rows.append(Workload(packetByteCount: 120, batch: 64, participants: 20, burst: 1, receivers: 3))
            return rows
        }
        for byteCount in [120, 1_150] {
            for participants in [20, 2_000] {
                rows.append(
                    Workload(
                        packetByteCount: byteCount, batch: 64, participants: participants, burst: 1, receivers: 3))
            }
        }
        return rows
    }
}
