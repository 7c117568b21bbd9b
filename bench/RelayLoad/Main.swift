import Foundation
import MediaRelay
import RTPCore
import RelayCore

// `RelayLoad SCENARIO… [options]`: real calls against a real relay, and what they show. As `RelayLoad serve` and
// `RelayLoad worker` it is the relay's own control process with a simulated worker, for `outcomes`.

@main
struct Main {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        switch arguments.first {
        case "serve":
            exit(
                ServeProcess.run(
                    arguments: Array(arguments.dropFirst()), environment: ProcessInfo.processInfo.environment))
        case "worker": exit(SimulatedWorker.run(arguments: Array(arguments.dropFirst())))
        default: break
        }
        let report = LoadReport(isJSON: arguments.contains("--json"))
        guard let options = LoadOptions(arguments) else {
            report.say(LoadOptions.usage)
            exit(2)
        }
        raiseOpenFileLimit()
        Interrupts.install()
        do {
            let loop = try EventLoop()
            loop.run { await run(loop, options, report) }
        } catch {
            report.say("RelayLoad: \(error)")
            exit(1)
        }
        report.line("load: \(report.passed) passed, \(report.failed) failed")
        exit(report.failed == 0 && report.passed > 0 ? 0 : 1)
    }

    private static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async {
        for name in options.scenarios {
            report.say("== \(name), seed \(options.seed)")
            do {
                switch name {
                case "calls": try await CallsScenario.run(loop, options, report)
                case "outcomes": try await OutcomesScenario.run(loop, options, report)
                case "memory": try await MemoryScenario.run(loop, options, report)
                case "cycles": try CyclesScenario.run(loop, options, report)
                case "crossings": try await CrossingsScenario.run(loop, options, report)
                case "kill9": try await KillScenario.run(loop, options, report)
                case "upgrade": try await UpgradeScenario.run(loop, options, report)
                case "cost": try await CostScenario.run(loop, options, report)
                case "capacity": try await CapacityScenario.run(loop, options, report)
                case "footprint": try await FootprintScenario.run(loop, options, report)
                case "storm": try await StormScenario.run(loop, options, report)
                case "overload": try await OverloadScenario.run(loop, options, report)
                case "soak": try await SoakScenario.run(loop, options, report)
                case "group": try await GroupScenario.run(loop, options, report)
                case GuestScenario.name: try await GuestScenario.run(loop, options, report)
                case JoinStorm.name: try await JoinStorm.run(loop, options, report)
                default: preconditionFailure("\(name) is in the table of names only")
                }
            } catch {
                report.count(name, passed: 0, failed: 1, faults: ["\(error) (seed \(options.seed))"])
            }
        }
    }

    /// Every client and every stream has a descriptor.
    private static func raiseOpenFileLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
