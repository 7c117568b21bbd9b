import CLinuxIO
import Foundation
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
        let probe = MachineProbe()
        // This program stands for hundreds of other machines: it yields to the relay, which has this one.
        lio_set_thread_nice(10)
        defer { probe.stop() }
        do {
            try await measure(bench, probe, rate: rate, seconds: seconds, of: .outcome)
            // How fast a gate opens is asked of a relay that is not short of processors.
            try await measure(bench, probe, rate: 20, seconds: seconds / 2, of: .gate)
        } catch {
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    /// What a run of calls is held to.
    private enum Target { case outcome, gate }

    /// The first second warms up and is not measured.
    private static func measure(
        _ bench: LoadBench, _ probe: MachineProbe, rate: Double, seconds: Double, of target: Target
    ) async throws {
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
            let call = OrdinaryCall(bench: bench, number: bench.nextCall(), talk: talk, isMeasured: number >= warm)
            bench.loop.spawn { await run(call, state) }
            bench.report.progress(
                MonotonicClock.now(),
                "calls: \(number) of \(total) started, \(state.running) going on, \(state.failed) failed")
        }
        let lasted = MonotonicClock.now() - began
        let limit = MonotonicClock.now() + .seconds(40)
        while state.running > 0, MonotonicClock.now() < limit { await bench.loop.sleep(for: .milliseconds(10)) }
        let after = try await bench.http.metrics()
        tell(bench, state, probe, target, rate: rate, seconds: Double(lasted.nanoseconds) / 1e9, before, after)
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
        _ bench: LoadBench, _ state: State, _ probe: MachineProbe, _ target: Target, rate: Double, seconds: Double,
        _ before: String, _ after: String
    ) {
        let report = bench.report
        func histogram(_ name: String) -> MetricHistogram {
            MetricHistogram(name, in: after).since(MetricHistogram(name, in: before))
        }
        let commit = histogram("media_relay_commit_seconds")
        let gate = histogram("media_relay_join_seconds")
        let held = String(format: "%.1f %%", probe.heldShare * 100)
        report.line(
            "calls: \(LoadReport.number(rate)) calls/s with real DTLS, \(state.figures.outcome.count) measured; the machine "
                + "was held in \(held) of the probe's rounds (last column: without calls that met it)")
        func row(_ name: String, _ metric: String, _ histogram: MetricHistogram, _ note: String = "") {
            let (p50, p99) = (histogram.quantile(0.5), histogram.quantile(0.99))
            report.line("  \(name.padding(to: 58)) p50 \(LoadReport.ms(p50))  p99 \(LoadReport.ms(p99))\(note)")
            figures(metric, p50, p99)
        }
        func figures(_ metric: String, _ p50: Double?, _ p99: Double?, _ whole99: Double? = nil) {
            let context = [("calls_per_second", LoadReport.number(rate))]
            report.figure("\(metric)_p50", p50, "ms", context)
            report.figure("\(metric)_p99", p99, "ms", context)
            report.figure("\(metric)_p99_whole", whole99, "ms", context)
        }
        func row(_ name: String, _ metric: String, _ samples: Samples, _ isMet: ((Double, Double) -> String)? = nil) {
            var (all, whole) = (samples, samples.whole(probe))
            let (p50, p99, whole99) = (all.quantile(0.5), all.quantile(0.99), whole.quantile(0.99))
            report.line(
                "  \(name.padding(to: 58)) p50 \(LoadReport.ms(p50))  p99 \(LoadReport.ms(p99))  "
                    + "\(LoadReport.ms(whole99))\(isMet?(p50 ?? .infinity, whole99 ?? .infinity) ?? "")")
            figures(metric, p50, p99, whole99)
        }
        row("hang-up request → call.ended at the caller's stream", "ring_outcome_ms", state.figures.outcome) {
            guard target == .outcome else { return "" }
            let isMet = $0 <= 5 && $1 <= (commit.quantile(0.99) ?? 0) + 3
            return "  (p50 ≤ 5, p99 ≤ commit's + 3: \(isMet ? "met" : "MISSED"))"
        }
        row("join request → call.answered at the caller's stream", "ring_answered_ms", state.figures.answered)
        row("the journal's commit", "journal_commit_ms", commit)
        row("decision → on disk", "journal_stored_ms", histogram("media_relay_stored_seconds"))
        let isFast = (gate.quantile(0.99) ?? .infinity) <= 1
        row(
            "join request read → gate open", "ring_gate_ms", gate,
            target == .gate ? "  (p99 ≤ 1: \(isFast ? "met" : "MISSED"))" : "")
        row("join request → first packet at either side (20 ms audio)", "ring_first_packet_ms", state.figures.media)
        row("hang-up request → its answer", "ring_hangup_answer_ms", state.figures.hangUp)
        row("create request → both sides prepared", "ring_prepared_ms", state.figures.prepared)
        row("create request → its answer", "ring_create_ms", state.figures.created)
        let events =
            HTTPClient.metric("media_relay_events_total", in: after)
            - HTTPClient.metric("media_relay_events_total", in: before)
        report.line("  \(LoadReport.number(events / seconds)) events/s")
        let unknown = #"media_relay_worker_drops_total{worker="0",reason="stun-unknown-ufrag"}"#
        let early = HTTPClient.metric(unknown, in: after) - HTTPClient.metric(unknown, in: before)
        // A few come after the end of a call, from a client that has not heard of it.
        if early > max(2, Double(state.done) / 200) {
            bench.log.note("\(early) checks came before the worker knew their client")
        }
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
