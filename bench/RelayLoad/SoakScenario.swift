import Foundation
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// Mixed calls for as long as it is told, over a bad network: rings of every outcome, calls with sound and with pictures, groups whose
/// people come and go, one call that must not notice anything. Each few seconds a sample of both processes, of the relay's counters and
/// of how long things take, as a line of JSON; `bench/soak.py` holds them to their bounds and draws them.
enum SoakScenario {
    private static let ringsPerSecond = 2.0
    private static let audioCalls = 8
    private static let videoCalls = 3
    private static let groups = 2
    private static let steadyGapLimit = Interval.seconds(1)

    final class State: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var isStopping = false
        var running = 0
        var ended = 0
        private(set) var failed = 0
        private(set) var faults: [String] = []
        /// Since the last sample.
        var figures = CallFigures()
        let began = MonotonicClock.now()

        func fail(_ fault: String) {
            failed += 1
            if faults.count < 20 { faults.append(fault) }
        }
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let seconds = options.seconds(short: 12, long: 1_200)
        let lifetime = Int64(seconds) + 7_200
        let bench = try await LoadBench(
            loop, options, report, serving: ["--admission", "on", "--max-token-lifetime", "\(max(43_200, lifetime))"],
            tokenSeconds: lifetime)
        do {
            try await run(bench, seconds: seconds)
        } catch {
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    private static func run(_ bench: LoadBench, seconds: Double) async throws {
        let (loop, state, rings) = (bench.loop, State(), ChurnState())
        guard let worker = bench.relay.workerIDs().first else { throw LoadFailure("no worker runs") }
        let steady = try await TalkingCall(bench, 0)
        bench.fleet.quality = .mobile
        loop.spawn { await bench.follower.follow() }
        rings.running += 1
        loop.spawn {
            await Churn.run(bench, rings, rate: ringsPerSecond)
            rings.running -= 1
        }
        let life = SoakLife(bench: bench, state: state)
        for number in 0..<audioCalls + videoCalls + groups {
            state.running += 1
            loop.spawn {
                await life.live(number < audioCalls ? .audio : number < audioCalls + videoCalls ? .video : .group)
                state.running -= 1
            }
        }
        state.running += 1
        loop.spawn {
            await life.measure()
            state.running -= 1
        }
        var sampler = SoakSampler(bench: bench, state: state, rings: rings, worker: worker)
        let every = bench.options.isShort ? 1.0 : min(10, max(5, seconds / 1_000))
        let end = state.began + .nanoseconds(Int64(seconds * 1e9))
        var next = state.began
        while MonotonicClock.now() < end {
            next += .nanoseconds(Int64(every * 1e9))
            await loop.sleep(until: next)
            try await sampler.take(steady)
        }
        state.isStopping = true
        rings.isStopping = true
        let limit = MonotonicClock.now() + .seconds(60)
        while state.running + rings.running > 0, MonotonicClock.now() < limit {
            await loop.sleep(for: .milliseconds(20))
        }
        await judge(bench, state, rings, sampler, steady, seconds)
    }

    private static func judge(
        _ bench: LoadBench, _ state: State, _ rings: ChurnState, _ sampler: SoakSampler, _ steady: TalkingCall,
        _ seconds: Double
    ) async {
        var faults = state.faults + rings.faults + bench.log.faults + sampler.faults
        var failed = state.failed + rings.failed + bench.log.faultCount + sampler.faults.count
        let gap = steady.longestGap
        if let fault = await steady.end(steadyGapLimit) {
            failed += 1
            faults.append(fault)
        }
        if state.running + rings.running > 0 {
            failed += 1
            faults.append("\(state.running + rings.running) calls did not end")
        }
        if state.ended == 0 || rings.passed == 0 {
            failed += 1
            faults.append("\(state.ended) calls and \(rings.passed) rings ended well")
        }
        bench.report.line(
            "  \(LoadReport.number(seconds)) s: \(state.ended) calls and groups, rings \(rings.told); \(bench.log.eventCount) events "
                + "without a gap, \(bench.fleet.link.lost) of \(bench.fleet.link.carried) datagrams lost on the way; longest gap of the "
                + "call that must not notice \(gap.milliseconds) ms")
        bench.report.object([
            "soak": [
                "seconds": seconds, "calls": state.ended, "rings": rings.passed, "events": bench.log.eventCount,
                "failed": failed, "faults": faults, "carried": bench.fleet.link.carried, "lost": bench.fleet.link.lost,
                "steadyGapMs": gap.milliseconds,
            ] as [String: Any]
        ])
        bench.report.count("soak", passed: state.ended + rings.passed, failed: failed, faults: faults)
    }
}

/// What both processes, the relay's counters and the clients say, each few seconds. Confined to the loop's thread.
struct SoakSampler {
    let bench: LoadBench
    let state: SoakScenario.State
    let rings: ChurnState
    let worker: Int32
    private let control: Int32
    private(set) var faults: [String] = []

    init(bench: LoadBench, state: SoakScenario.State, rings: ChurnState, worker: Int32) {
        self.bench = bench
        self.state = state
        self.rings = rings
        self.worker = worker
        control = bench.relay.processID
    }

    mutating func take(_ steady: TalkingCall) async throws {
        let text = try await bench.http.metrics()
        let now = MonotonicClock.now()
        if bench.relay.workerIDs() != [worker], faults.isEmpty {
            faults.append("worker \(worker) is gone: \(bench.relay.workerIDs()) run")
        }
        var figures = state.figures
        state.figures = CallFigures()
        var sample: [String: Any] = [
            "t": seconds(now - state.began), "control": process(control), "worker": process(worker),
            "counters": counters(in: text), "events": bench.log.eventCount, "gaps": bench.log.faultCount,
            "calls": state.ended + rings.passed, "failed": state.failed + rings.failed,
            "clients": bench.fleet.clientCount, "steadyGapMs": steady.longestGap.milliseconds,
            "joined": HTTPClient.metric(#"media_relay_participants{state="joined"}"#, in: text),
            "cpuPercent": 100 * HTTPClient.metric(#"media_relay_worker_load_cpu_ratio{worker="0"}"#, in: text),
        ]
        let times: [(String, Double?)] = [
            ("created", figures.created.quantile(0.5)), ("outcome", figures.outcome.quantile(0.5)),
            ("outcomeWorst", figures.outcome.quantile(1)), ("media", figures.media.quantile(0.5)),
        ]
        for (name, value) in times { if let value { sample[name + "Ms"] = value } }
        bench.report.object(["sample": sample])
        bench.report.progress(
            now,
            "soak: \(Int(seconds(now - state.began))) s, \(state.ended + rings.passed) calls, \(bench.fleet.clientCount) clients, "
                + "\(bench.log.eventCount) events, \(state.failed + rings.failed + bench.log.faultCount) failed")
    }

    private func seconds(_ interval: Interval) -> Double { (Double(interval.nanoseconds) / 1e6).rounded() / 1e3 }

    private func process(_ id: Int32) -> [String: Any] {
        let status = ProcessStatus(id)
        return [
            "bytes": status.residentBytes, "descriptors": status.descriptors ?? 0, "threads": status.threads,
            "cpu": ProcessStatus.cpuSeconds(id),
        ]
    }

    /// The worker's drops and errors by reason, those that are not 0, and refused sessions.
    private func counters(in text: String) -> [String: Int] {
        var found: [String: Int] = [:]
        for line in text.split(separator: "\n") {
            for (family, key) in [
                ("worker_drops_total", "drops"), ("worker_send_errors_total", "send_errors"),
                ("worker_send_drops_total", "send_drops"), ("sessions_refused_total", "sessions_refused_total"),
            ] {
                guard line.hasPrefix("media_relay_\(family){"), let start = line.range(of: "reason=\"") else {
                    continue
                }
                let reason = line[start.upperBound...].prefix { $0 != "\"" }
                let value = line.split(separator: " ").last.flatMap { Int($0) } ?? 0
                if value > 0 { found["\(key):\(reason)"] = value }
            }
            for name in ["mailbox_refusals", "news_dropped", "receive_overflows"]
            where line.hasPrefix("media_relay_worker_\(name)_total{") {
                let value = line.split(separator: " ").last.flatMap { Int($0) } ?? 0
                if value > 0 { found[name] = value }
            }
        }
        return found
    }
}
