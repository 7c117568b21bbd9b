import MediaRelay
import RTPCore
import RelayCore

/// Calls at a fixed rate, whatever happens to those before: an open loop hides no delay.
enum CallsScenario {
    private final class State: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var figures = CallFigures()
        var running = 0
        var done = 0
        var faults: [String] = []
        var failed = 0
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let rate = options.rate ?? (options.isShort ? 40 : 100)
        let seconds = options.seconds(short: 5, long: 60)
        let bench = try await LoadBench(loop, options, report)
        do {
            try await measure(bench, rate: rate, seconds: seconds)
        } catch {
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    /// The first second warms up and is not measured.
    private static func measure(_ bench: LoadBench, rate: Double, seconds: Double) async throws {
        let state = State()
        let start = MonotonicClock.now()
        let total = Int(rate * (seconds + 1))
        let warm = Int(rate)
        var before = ""
        var began = start
        for number in 0..<total {
            await bench.loop.sleep(until: start + .nanoseconds(Int64(Double(number) / rate * 1e9)))
            if number == warm {
                before = try await bench.http.metrics()
                began = MonotonicClock.now()
            }
            state.running += 1
            let talk = Interval.milliseconds(Int64.random(in: 100...400, using: &bench.random))
            let call = OrdinaryCall(bench: bench, number: number, talk: talk, isMeasured: number >= warm)
            bench.loop.spawn { await run(call, state) }
            bench.report.progress(
                MonotonicClock.now(),
                "calls: \(number) of \(total) started, \(state.running) going on, \(state.failed) failed")
        }
        let lasted = MonotonicClock.now() - began
        let limit = MonotonicClock.now() + .seconds(40)
        while state.running > 0, MonotonicClock.now() < limit { await bench.loop.sleep(for: .milliseconds(10)) }
        let after = try await bench.http.metrics()
        tell(bench, state, rate: rate, seconds: Double(lasted.nanoseconds) / 1e9, before, after)
    }

    private static func run(_ call: OrdinaryCall, _ state: State) async {
        // Figures are the loop's thread's; the call adds to a copy of its own, since others go on meanwhile.
        var own = CallFigures()
        do {
            try await call.run(&own)
            state.figures.merge(own)
            state.done += 1
        } catch {
            state.failed += 1
            if state.faults.count < 20 { state.faults.append("\(error)") }
        }
        state.running -= 1
    }

    private static func tell(
        _ bench: LoadBench, _ state: State, rate: Double, seconds: Double, _ before: String, _ after: String
    ) {
        let report = bench.report
        func histogram(_ name: String) -> MetricHistogram {
            MetricHistogram(name, in: after).since(MetricHistogram(name, in: before))
        }
        let (commit, stored, gate) = (
            histogram("media_relay_commit_seconds"), histogram("media_relay_stored_seconds"),
            histogram("media_relay_gate_seconds")
        )
        var figures = state.figures
        let (p50, p99) = (figures.outcome.quantile(0.5), figures.outcome.quantile(0.99))
        let commit99 = commit.quantile(0.99)
        let isMet = (p50 ?? .infinity) <= 5 && (p99 ?? .infinity) <= (commit99 ?? 0) + 3
        report.line(
            "calls: \(LoadReport.number(rate)) calls/s with real DTLS, \(figures.outcome.values.count) measured")
        func row(_ name: String, _ metric: String, _ p50: Double?, _ p99: Double?, _ note: String = "") {
            let title = name.padding(to: 58)
            report.line("  \(title) p50 \(LoadReport.ms(p50))  p99 \(LoadReport.ms(p99))\(note)")
            let context = [("calls_per_second", LoadReport.number(rate))]
            report.figure("\(metric)_p50", p50, "ms", context)
            report.figure("\(metric)_p99", p99, "ms", context)
        }
        func row(_ name: String, _ metric: String, _ samples: inout Samples, _ note: String = "") {
            row(name, metric, samples.quantile(0.5), samples.quantile(0.99), note)
        }
        row(
            "hang-up request → call.ended at the caller's stream", "ring_outcome_ms", p50, p99,
            "  (p50 ≤ 5, p99 ≤ commit's + 3: \(isMet ? "met" : "MISSED"))")
        row("join request → call.answered at the caller's stream", "ring_answered_ms", &figures.answered)
        row("the journal's commit", "journal_commit_ms", commit.quantile(0.5), commit99)
        row("decision → on disk", "journal_stored_ms", stored.quantile(0.5), stored.quantile(0.99))
        let gateNote = "  (p99 ≤ 1: \((gate.quantile(0.99) ?? .infinity) <= 1 ? "met" : "MISSED"))"
        row("join request read → gate open", "ring_gate_ms", gate.quantile(0.5), gate.quantile(0.99), gateNote)
        row("join request → first packet at either side (20 ms audio)", "ring_first_packet_ms", &figures.media)
        row("hang-up request → its answer", "ring_hangup_answer_ms", &figures.hangUp)
        row("create request → both sides prepared", "ring_prepared_ms", &figures.prepared)
        row("create request → its answer", "ring_create_ms", &figures.created)
        let events =
            HTTPClient.metric("media_relay_events_total", in: after)
            - HTTPClient.metric("media_relay_events_total", in: before)
        report.line("  \(LoadReport.number(events / seconds)) events/s")
        if state.running > 0 { bench.log.note("\(state.running) calls were not over after 40 s") }
        report.count(
            "calls", passed: state.done, failed: state.failed + bench.log.faultCount + state.running,
            faults: state.faults + bench.log.faults)
    }
}

extension CallFigures {
    mutating func merge(_ other: CallFigures) {
        created.append(other.created)
        prepared.append(other.prepared)
        answered.append(other.answered)
        media.append(other.media)
        outcome.append(other.outcome)
        hangUp.append(other.hangUp)
    }
}

extension String {
    func padding(to count: Int) -> String { self + String(repeating: " ", count: max(0, count - self.count)) }
}
