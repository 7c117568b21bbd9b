import Foundation
import RTPCore

/// What the load program is told.
struct LoadOptions: Sendable {
    var scenarios: [String] = []
    var isShort = false
    var isJSON = false
    var seed: UInt64 = 1
    var binary = ""
    /// Calls per second; nil: the scenario's own.
    var rate: Double?
    /// Seconds of load; nil: the scenario's own.
    var seconds: Double?
    /// Runs, kills or cycles; nil: the scenario's own.
    var count: Int?
    /// Multiplies every long form's own count.
    var scale = 1.0

    /// The worker's and the limit's waiting policy.
    var gather = "auto"
    /// Where a scenario that is run as a process of its own finds its relay.
    var httpPort: UInt16?

    static let names =
        ["calls", "outcomes", "crossings", "kill9", "memory", "cycles", "overload", "soak"] + measurements
    /// Those that measure, beside the limit: they want the machine for themselves.
    static let measurements = ["cost", "capacity", "footprint", "storm", "group"]

    static let usage = """
        usage: RelayLoad SCENARIO… [options]       (all: every scenario)

          calls      calls over HTTP with real ICE, DTLS and SRTP clients: how fast the outcome reaches the caller
          outcomes   the same with a simulated worker behind the real conductor, journal and HTTP: events per second
          crossings  every race of CALLS.md, fired at once from two threads: one outcome, consistent answers
          kill9      calls while control is killed again and again: no event lost or doubled, one outcome a call
          upgrade    the program is replaced under calls: no packet lost, no request refused, every outcome right
          memory     ring, answer and hang up for ever: resident memory, descriptors, threads
          cycles     the same on conductor and engine in this process, in virtual time
          overload   running calls until the worker takes nobody new: 503, and nothing lost by those who run
          soak       mixed calls over a bad network, --seconds long: a sample each few seconds (bench/soak.py draws them)
          cost       CPU of the worker per forwarded packet and added latency, beside the limit process
          capacity   how many calls a core carries without loss, relay and limit, and the latency at half of it
          footprint  memory of prepared participants and joined calls, cost of idling, CPU of a set-up
          storm      forwarding latency while 200 people join a second
          group      rooms of eight: the worker's CPU against what forwarding alone predicts
          measure    the last five
          guests     a room of six of these clients and two that whoever runs this brings (Tests/lab): the worker's CPU against the same

          --short      the form that `make test` runs: seconds instead of minutes
          --json       one JSON object per line on standard output
          --seed N     of every random choice (printed when something fails)
          --relay PATH the relay's binary (default: media-relay beside this program)
          --rate N     calls per second; packets per second (cost, storm, group)
          --seconds N  how long (calls, outcomes, soak)
          --count N    how many runs of each crossing, kills, cycles, pairs of windows, prepared participants
          --gather X   auto, on or off: the relay's waiting policy, and the limit's
          --scale X    multiplies the long form's counts (default 1)

        """

    init?(_ arguments: [String]) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--short": isShort = true
            case "--json": isJSON = true
            case "--seed": guard let value = rest.popFirst().flatMap({ UInt64($0) }) else { return nil }; seed = value
            case "--relay": guard let value = rest.popFirst() else { return nil }; binary = value
            case "--rate": guard let value = Self.positive(rest.popFirst()) else { return nil }; rate = value
            case "--seconds": guard let value = Self.positive(rest.popFirst()) else { return nil }; seconds = value
            case "--scale": guard let value = Self.positive(rest.popFirst()) else { return nil }; scale = value
            case "--count":
                guard let value = rest.popFirst().flatMap({ Int($0) }), value > 0 else { return nil }
                count = value
            case "--gather":
                guard let value = rest.popFirst(), ["auto", "on", "off"].contains(value) else { return nil }
                gather = value
            case "--http":
                guard let value = rest.popFirst().flatMap({ UInt16($0) }) else { return nil }
                httpPort = value
            case "all": scenarios = Self.names
            case "measure": scenarios += Self.measurements
            case JoinStorm.name, GuestScenario.name, "upgrade": scenarios.append(argument)
            default:
                guard Self.names.contains(argument) else { return nil }
                scenarios.append(argument)
            }
        }
        guard !scenarios.isEmpty else { return nil }
        // Its parts are those of `cost`, and the machine of a test decides what it finds.
        if isShort, scenarios == Self.names { scenarios.removeAll { $0 == "capacity" } }
        // Its length is its own (make soak MINUTES=…).
        if !isShort, scenarios == Self.names { scenarios.removeAll { $0 == "soak" } }
        if binary.isEmpty { binary = Self.beside("media-relay") }
    }

    /// A program beside this one.
    static func beside(_ name: String) -> String { (ownPath as NSString).deletingLastPathComponent + "/" + name }
    static var ownPath: String {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    }
    var limitBinary: String { Self.beside("RelayLimit") }

    private static func positive(_ text: String?) -> Double? {
        text.flatMap { Double($0) }.flatMap { $0 > 0 && $0.isFinite ? $0 : nil }
    }

    /// The count that was asked for, or the form's own.
    func count(short: Int, long: Int) -> Int { count ?? (isShort ? short : max(1, Int(Double(long) * scale))) }
    func seconds(short: Double, long: Double) -> Double { seconds ?? (isShort ? short : long * scale) }
}
