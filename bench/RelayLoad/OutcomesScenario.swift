import Foundation
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// Calls without media behind the real conductor, journal and HTTP: simulated workers answer at once. First at a fixed rate,
/// then as fast as it goes, then at that rate again beside 9,500 calls that stay.
enum OutcomesScenario {
    /// With those that come and go a node's limit of 10,000 rooms is nearly reached.
    private static let heldCalls = 9_500
    private static let offer: [UInt8] = {
        var options = SimulatedClient.Options()
        options.dialect = .libwebrtc
        options.hasVideo = false
        return SimulatedClient(options, address: .none).offer()
    }()

    private final class State: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var running = 0
        var done = 0
        var failed = 0
        var next = 0
        /// Calls that talk until the end.
        var held = 0
        var faults: [String] = []
        var outcome = Samples()
        var isMeasuring = false

        func fail(_ error: any Error) {
            failed += 1
            if faults.count < 20 { faults.append("\(error)") }
        }
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let bench = try await LoadBench(
            loop, options, report, binary: own, workers: 3, serving: ["--transports-per-worker", "8192"])
        do {
            let state = State()
            try await atRate(bench, state)
            try await saturated(bench, state)
            let held = try await hold(bench, state, options.isShort ? 100 : heldCalls)
            try await atRate(bench, state, beside: held)
            report.count(
                "outcomes", passed: state.done, failed: state.failed + bench.log.faultCount + state.running,
                faults: state.faults + bench.log.faults)
        } catch {
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    private struct Reading {
        var at: Instant
        var events: Double
        var cpu: Double
        var text: String
    }

    private static func read(_ bench: LoadBench) async throws -> Reading {
        let text = try await bench.http.metrics()
        return Reading(
            at: MonotonicClock.now(), events: Double(bench.log.eventCount),
            cpu: ProcessStatus.cpuSeconds(bench.relay.processID), text: text)
    }

    /// Calls that talk and are not hung up while what follows is measured, so that its cost beside many rooms is seen.
    private static func hold(_ bench: LoadBench, _ state: State, _ count: Int) async throws -> Int {
        let (began, failed) = (MonotonicClock.now(), state.failed)
        while state.held < count, state.failed == failed {
            while state.running < 64, state.held + state.running < count {
                state.running += 1
                bench.loop.spawn {
                    do {
                        _ = try await answered(bench, take(state))
                        state.held += 1
                    } catch {
                        state.fail(error)
                    }
                    state.running -= 1
                }
            }
            await bench.loop.sleep(for: .milliseconds(1))
            bench.report.progress(MonotonicClock.now(), "outcomes: \(state.held) of \(count) calls to stay")
        }
        let seconds = Double((MonotonicClock.now() - began).nanoseconds) / 1e9
        bench.report.line("outcomes: \(state.held) calls stay from here on (set up in \(LoadReport.number(seconds)) s)")
        return state.held
    }

    private static func take(_ state: State) -> Int {
        defer { state.next += 1 }
        return state.next
    }

    private static func atRate(_ bench: LoadBench, _ state: State, beside held: Int = 0) async throws {
        let rate = bench.options.rate ?? (bench.options.isShort ? 100 : 500)
        let seconds = bench.options.seconds(short: 4, long: 30)
        let total = Int(rate * (seconds + 1))
        let start = MonotonicClock.now()
        var before = try await read(bench)
        for number in 0..<total {
            await bench.loop.sleep(until: start + .nanoseconds(Int64(Double(number) / rate * 1e9)))
            if number == Int(rate) {
                state.isMeasuring = true
                before = try await read(bench)
            }
            begin(bench, state, talk: .milliseconds(300))
            bench.report.progress(
                MonotonicClock.now(),
                "outcomes: \(number) of \(total) started, \(state.running) going on, \(state.failed) failed")
        }
        let after = try await read(bench)
        state.isMeasuring = false
        await drain(bench, state)
        let lasted = Double((after.at - before.at).nanoseconds) / 1e9
        let events = after.events - before.events
        let commit = MetricHistogram("media_relay_commit_seconds", in: after.text)
            .since(MetricHistogram("media_relay_commit_seconds", in: before.text))
        let (p50, p99) = (state.outcome.quantile(0.5), state.outcome.quantile(0.99))
        let cost = (after.cpu - before.cpu) / max(1, events) * 1e6
        bench.report.line(
            "outcomes: \(LoadReport.number(rate)) calls/s with simulated transport, beside \(held) calls that stay")
        bench.report.line(
            "  \(LoadReport.number(events / lasted)) events/s, \(LoadReport.number(cost)) µs of control's CPU per event; "
                + "hang-up → call.ended at the caller's stream p50 \(LoadReport.ms(p50)) p99 \(LoadReport.ms(p99)); "
                + "commit p50 \(LoadReport.ms(commit.quantile(0.5))) p99 \(LoadReport.ms(commit.quantile(0.99))), "
                + "\(LoadReport.number(events / Double(max(1, commit.count)))) events each")
        let context = [("calls_per_second", LoadReport.number(rate)), ("calls_held", "\(held)")]
        bench.report.figure("journal_events_per_second", events / lasted, "events/s", context)
        bench.report.figure("control_us_per_event", cost, "us", context)
        bench.report.figure("simulated_outcome_ms_p50", p50, "ms", context)
        bench.report.figure("simulated_outcome_ms_p99", p99, "ms", context)
        bench.report.figure("simulated_commit_ms_p99", commit.quantile(0.99), "ms", context)
    }

    private static func saturated(_ bench: LoadBench, _ state: State) async throws {
        let seconds = bench.options.isShort ? 2.0 : 10
        let before = try await read(bench)
        let limit = before.at + .nanoseconds(Int64(seconds * 1e9))
        while MonotonicClock.now() < limit {
            while state.running < (bench.options.isShort ? 64 : 400) { begin(bench, state, talk: .zero) }
            await bench.loop.sleep(for: .milliseconds(1))
        }
        let after = try await read(bench)
        await drain(bench, state)
        let lasted = Double((after.at - before.at).nanoseconds) / 1e9
        let events = after.events - before.events
        let cost = (after.cpu - before.cpu) / max(1, events) * 1e6
        bench.report.line(
            "  as fast as it goes: \(LoadReport.number(events / lasted)) events/s (target ≥ 8000: "
                + "\(events / lasted >= 8_000 ? "met" : "MISSED")), \(LoadReport.number(cost)) µs of control's CPU per event"
        )
        bench.report.figure("journal_events_per_second_max", events / lasted, "events/s", [("target", "8000")])
        bench.report.figure("control_us_per_event_max", cost, "us")
    }

    private static func drain(_ bench: LoadBench, _ state: State) async {
        let limit = MonotonicClock.now() + .seconds(60)
        while state.running > 0, MonotonicClock.now() < limit { await bench.loop.sleep(for: .milliseconds(5)) }
    }

    private static func begin(_ bench: LoadBench, _ state: State, talk: Interval) {
        let number = take(state)
        state.running += 1
        let isMeasured = state.isMeasuring
        bench.loop.spawn {
            do {
                let time = try await call(bench, number, talk: talk)
                if isMeasured { state.outcome.add(time) }
                state.done += 1
            } catch {
                state.fail(error)
            }
            state.running -= 1
        }
    }

    private final class Seen: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var endedAt: Instant?
        var outcomes: [String] = []
    }

    /// A call that was answered: its room, and the callee's session.
    private struct Answered {
        var room: String
        var session: String
    }

    private static func answered(
        _ bench: LoadBench, _ number: Int, whenCreated: (_ room: String) async throws -> Void = { _ in }
    ) async throws -> Answered {
        let (caller, callee) = ("caller\(number)", "callee\(number)")
        let created = try await bench.createRing(caller: caller, callee: callee)
        try LoadBench.expect(created, 201, of: "create")
        guard let room = created.field("id") else { throw LoadFailure("a room without id") }
        let (callersToken, calleesToken) = (bench.http.token(caller, room), bench.http.token(callee, room))
        try await whenCreated(room)
        func prepare(_ token: String, _ query: String) async throws -> String {
            let reply = try await bench.http.ask(
                "POST", "/v1/rooms/\(room)/sessions?\(query)", token: token, type: "application/sdp", body: offer)
            try LoadBench.expect(reply, 201, of: "prepare")
            return reply.location ?? ""
        }
        _ = try await prepare(callersToken, "state=prepared&join=on-answer")
        _ = try await bench.http.json("POST", "/v1/rooms/\(room)/ringing", token: calleesToken, "")
        let session = try await prepare(calleesToken, "state=prepared")
        try LoadBench.expect(
            try await bench.http.json("POST", session + "/join", token: calleesToken, ""), 200, of: "join")
        return Answered(room: room, session: session)
    }

    /// From the hang-up's request to the outcome at the caller's stream.
    private static func call(_ bench: LoadBench, _ number: Int, talk: Interval) async throws -> Interval {
        let seen = Seen()
        var follower: EventFollower?
        defer { follower?.stop() }
        let call = try await answered(bench, number) { room in
            let stream = EventFollower(
                bench.http, path: "/v1/rooms/\(room)/events", token: bench.http.token("caller\(number)", room),
                after: nil
            ) {
                guard $0.type == "call.ended" else { return }
                seen.endedAt = $0.receivedAt
                seen.outcomes.append($0.outcome ?? "")
            }
            follower = stream
            try await stream.open()
        }
        let room = call.room
        if talk > .zero { await bench.loop.sleep(for: talk) }
        let bye = try await bench.http.ask("DELETE", call.session, token: bench.http.token("callee\(number)", room))
        try LoadBench.expect(bye, 200, of: "hang-up")
        guard let trace = await bench.log.trace(of: room, { $0.isClosed }), trace.outcomes == ["ended"] else {
            throw LoadFailure("\(room): the log does not tell one end")
        }
        bench.log.forget(room)
        let limit = MonotonicClock.now() + .seconds(10)
        while follower?.hasEnded == false, MonotonicClock.now() < limit {
            await bench.loop.sleep(for: .milliseconds(2))
        }
        guard seen.outcomes == ["ended"], let endedAt = seen.endedAt else {
            throw LoadFailure("\(room): the caller's stream told \(seen.outcomes)")
        }
        return endedAt - bye.sentAt
    }
}
