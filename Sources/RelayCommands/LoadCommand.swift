import Dispatch
import Foundation
import MediaRelay
import RelayClient
import RelayLoadKit

/// `media-relay load`: calls by the hundred to the server that the user names, and what they showed.
struct LoadCommand {
    /// Some people did not get in, or something that came was not theirs: scripts see it by the exit code.
    struct Incomplete: Error, CustomStringConvertible {
        var description: String
    }

    let plan: LoadPlan
    let isJSON: Bool
    let terminal: Terminal
    let output: @Sendable (String) -> Void

    init(
        _ line: Arguments, _ environment: [String: String], _ terminal: Terminal,
        output: @escaping @Sendable (String) -> Void
    ) throws {
        guard let scenario = LoadPlan.Scenario(rawValue: line.operands[0]) else {
            throw UsageError("\(line.operands[0]): no such scenario")
        }
        var plan = LoadPlan(scenario: scenario, server: try Self.server(line, environment))
        plan.authorities = line["ca"] ?? environment["MEDIA_RELAY_CA"].flatMap { $0.isEmpty ? nil : $0 }
        plan.mayLeaveMachine = line.has("yes-remote")
        guard plan.mayLeaveMachine || LoadPlan.isLoopback(url: plan.server.url) else {
            throw UsageError(
                "\(plan.server.url) is not this machine's loopback: a load on somebody else's server needs --yes-remote"
            )
        }
        if case .whip = plan.server, scenario == .group { throw UsageError("a WHIP endpoint has no rooms: no group") }
        if let size = try line.integer("size", 2...16) {
            guard scenario == .group else { throw UsageError("--size is for group: the others are calls of two") }
            plan.roomSize = Int(size)
        }
        if let rooms = try line.integer("rooms", 1...5_000) {
            guard scenario != .storm else { throw UsageError("--rooms is not for storm: its people come by --rate") }
            plan.rooms = Int(rooms)
        }
        if let rate = try line.integer("rate", 1...2_000) { plan.rate = Double(rate) }
        if let seconds = try line.integer("seconds", 1...86_400) { plan.seconds = Double(seconds) }
        if let seconds = try line.integer("call-seconds", 1...3_600) {
            guard scenario == .churn else { throw UsageError("--call-seconds is for churn") }
            plan.callSeconds = Double(seconds)
        }
        self.plan = plan
        isJSON = line.has("json")
        self.terminal = terminal
        self.output = output
    }

    private static func server(_ line: Arguments, _ environment: [String: String]) throws -> LoadPlan.Server {
        guard let url = line["whip"] else {
            guard !line.has("token") else { throw UsageError("--token is for --whip: a relay's are minted by its key") }
            let connection = try NodeConnection(line, environment)
            return .relay(connection.client, url: connection.url)
        }
        guard !line.has("url"), !line.has("key"), !line.has("config") else {
            throw UsageError("--whip names the whole endpoint: --url, --key and --config do not go with it")
        }
        guard url.hasPrefix("http://") || url.hasPrefix("https://"), URL(string: url)?.host != nil else {
            throw UsageError("--whip: not an http or https URL")
        }
        guard let token = line["token"] else { return .whip(url: url, token: nil) }
        guard token.hasPrefix("@") else { return .whip(url: url, token: token) }
        guard let text = try? String(contentsOfFile: String(token.dropFirst()), encoding: .utf8) else {
            throw UsageError("--token: the file cannot be read")
        }
        return .whip(url: url, token: text.trimmingCharacters(in: .whitespacesAndNewlines))
    }

    func run(progress: @escaping @Sendable (String) -> Void) async throws {
        if case .relay(let client, _) = plan.server {
            // Whether it is there and takes the key is known before anybody comes.
            _ = try await client.ask("GET", "/v1/rooms?status=ongoing&limit=1")
        }
        let load = try LoadRun(plan) { progress("load: \($0)\n") }
        // Rooms and sessions are ended at the server, too.
        signal(SIGINT, SIG_IGN)
        let interrupt = DispatchSource.makeSignalSource(signal: SIGINT)
        interrupt.setEventHandler { Task { await load.interrupt() } }
        interrupt.resume()
        defer { interrupt.cancel() }
        let summary = try await load.run()
        output(isJSON ? LoadDrawing.json(summary) + "\n" : LoadDrawing.text(summary, on: terminal))
        guard summary.failed == 0, summary.unopened == 0, summary.joined > 0 || summary.wasInterrupted else {
            throw Incomplete(
                description: "\(summary.failed) people did not get in, \(summary.unopened) packets did not open")
        }
    }
}
