import CLinuxIO
import Foundation
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// The joiners: this program once more, against a relay that runs. Each room has two people who join at once, hear each other, and
/// leave with the room.
enum JoinStorm {
    /// As a scenario, of which the usage says nothing.
    static let name = "join-storm"

    struct Outcome: Sendable {
        var joined = 0
        var failed = 0
        var seconds = 0.0
        var firstPacketP50 = 0.0
    }

    final class Running {
        let processID: Int32
        let output: String
        init(processID: Int32, output: String) {
            self.processID = processID
            self.output = output
        }

        func wait(_ bench: LoadBench) async throws -> Outcome {
            let limit = MonotonicClock.now() + .seconds(60)
            var status: Int32 = 0
            while lio_reap(processID, &status) == 0 {
                guard MonotonicClock.now() < limit else {
                    kill(processID, SIGKILL)
                    throw LoadFailure("the joiners did not end")
                }
                await bench.loop.sleep(for: .milliseconds(10))
            }
            let text = String(decoding: ProcessStatus.read(output), as: UTF8.self)
            guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("joined ") }) else {
                throw LoadFailure("the joiners said: \(text.suffix(500))")
            }
            let numbers = line.split(separator: " ").compactMap { Double($0) }
            guard numbers.count == 4 else { throw LoadFailure("the joiners said: \(line)") }
            return Outcome(
                joined: Int(numbers[0]), failed: Int(numbers[1]), seconds: numbers[2], firstPacketP50: numbers[3])
        }
    }

    static func start(_ bench: LoadBench, rate: Double, seconds: Double) throws -> Running {
        let output = bench.relay.folder + "/joiners"
        let file = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        defer { Glibc.close(file) }
        let program = LoadOptions.ownPath
        let arguments = [
            program, name, "--http", "\(bench.relay.httpPort)", "--rate", "\(rate)", "--seconds", "\(seconds)",
            "--seed",
            "\(bench.nextCall() + 1_000)",
        ]
        let result = try RelayProcess.spawn(arguments, output: file)
        return Running(processID: result, output: output)
    }

    private final class State: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var running = 0
        var joined = 0
        var failed = 0
        var fault = ""
        var firstPackets: [Double] = []
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        guard let port = options.httpPort else { throw LoadFailure("\(name): --http PORT of a relay that runs") }
        // These people have machines of their own, elsewhere.
        lio_set_thread_nice(10)
        let key = try SigningKey(id: "load", secret: Array(RelayProcess.secret.utf8))
        let http = try HTTPClient(loop, port: port, key: key)
        let fleet = ClientFleet(loop, seed: options.seed)
        let state = State()
        let rate = (options.rate ?? StormScenario.joinsPerSecond) / 2
        let rooms = max(1, Int(rate * options.seconds(short: 1, long: 5)))
        let start = MonotonicClock.now()
        for number in 0..<rooms {
            await loop.sleep(until: start + .nanoseconds(Int64(Double(number) / rate * 1e9)))
            state.running += 1
            loop.spawn {
                do {
                    try await room(number, loop, http, fleet, state, seed: options.seed)
                } catch {
                    state.failed += 2
                    state.fault = "\(error)"
                }
                state.running -= 1
            }
        }
        let lasted = Double((MonotonicClock.now() - start).nanoseconds) / 1e9
        let limit = MonotonicClock.now() + .seconds(20)
        while state.running > 0, MonotonicClock.now() < limit { await loop.sleep(for: .milliseconds(5)) }
        if state.failed > 0 { report.say(state.fault) }
        http.closeIdle()
        report.line("joined \(state.joined) \(state.failed) \(lasted) \(state.firstPackets.median)")
        report.count(name, passed: state.joined, failed: state.failed, faults: [])
    }

    private static func room(
        _ number: Int, _ loop: EventLoop, _ http: HTTPClient, _ fleet: ClientFleet, _ state: State, seed: UInt64
    ) async throws {
        let reply = try await http.json("POST", "/v1/rooms", token: http.server, #"{"kind":"peer","media":"audio"}"#)
        try LoadBench.expect(reply, 201, of: "create")
        guard let id = reply.field("id") else { throw LoadFailure("a room without id") }
        let clients = [try fleet.make(), try fleet.make()]
        defer { for client in clients { client.close() } }
        var asked: [Instant] = []
        for (seat, client) in clients.enumerated() {
            asked.append(MonotonicClock.now())
            let reply = try await http.ask(
                "POST", "/v1/rooms/\(id)/sessions", token: http.token("j\(seed)-\(number)-\(seat)", id),
                type: "application/sdp", body: client.client.offer())
            try LoadBench.expect(reply, 201, of: "session")
            try client.accept(reply.body)
        }
        for client in clients {
            let hears = await client.wait(within: .seconds(10)) { $0.received.values.contains { $0.packetCount > 0 } }
            guard hears, let at = client.firstPacketAt else { throw LoadFailure("no media: \(client.state)") }
            // The second one's request is what both wait for.
            state.firstPackets.append(Double((at - asked[1]).nanoseconds) / 1e6)
            state.joined += 1
        }
        _ = try await http.ask("DELETE", "/v1/rooms/\(id)", token: http.server)
    }
}
