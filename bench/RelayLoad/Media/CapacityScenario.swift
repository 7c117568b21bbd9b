import MediaRelay
import RTPCore
import RelayLoadKit

/// How many calls of two a core carries without losing a packet, by the worker and by the limit: a ladder of constant loads, each
/// forwarder up to where it fails three times. Then the added latency of both at half of what the relay carries, in turn.
enum CapacityScenario {
    /// Between two rungs, and where the ladder begins, packets per second.
    private static let step = 1.12
    private static let first = 30_000.0
    /// Added latency, µs, beyond which a load does not count as carried.
    private static let latencyLimit = 10_000.0
    private static let tries = 3

    private struct Ladder {
        var calls = 0
        var rate = 0.0
        var busy = 0.0
        var ended = ""
        /// Share of a core, by calls.
        var loads: [Int: Double] = [:]
        var isDone: Bool { !ended.isEmpty }
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        var (passed, failed) = (0, 0)
        report.line("capacity: calls of two on one core without a lost packet, p99 of the added latency under 10 ms")
        for profile in options.isShort ? [.audioVideo] : MediaProfile.allCases {
            let rig = try await MediaRig(loop, options, report)
            do {
                if try await climb(rig, profile) { passed += 1 } else { failed += 1 }
            } catch {
                await rig.stop()
                throw error
            }
            await rig.stop()
        }
        report.count(
            "capacity", passed: passed, failed: failed,
            faults: failed > 0 ? ["a forwarder did not carry the ladder's first rung"] : [])
    }

    /// Whether both carried something.
    private static func climb(_ rig: MediaRig, _ profile: MediaProfile) async throws -> Bool {
        let isShort = rig.bench.options.isShort
        var ladders = [Ladder(), Ladder()]
        var rate = isShort ? 2_000 : first
        while ladders.contains(where: { !$0.isDone }) {
            let calls = max(1, Int(rate) / profile.packetsPerCall)
            guard 2 * calls <= 8_000, !isShort || rate < 5_000 else {
                for index in ladders.indices where !ladders[index].isDone { ladders[index].ended = "top" }
                break
            }
            try await rig.prepare(clients: 2 * calls, profile)
            let forwarders = [try rig.relay(), try await rig.limit()]
            for index in ladders.indices where !ladders[index].isDone {
                let outcome = await climbed(rig, profile, calls, forwarders[index])
                if let window = outcome.window {
                    ladders[index].calls = calls
                    ladders[index].rate = window.packetsPerSecond
                    ladders[index].busy = window.busy
                    ladders[index].loads[calls] = window.busy
                } else {
                    ladders[index].ended = outcome.reason
                }
            }
            rate *= isShort ? 3 : step
        }
        try await tell(rig, profile, ladders[0], ladders[1])
        return ladders.allSatisfy { $0.calls > 0 }
    }

    /// The window in which it carried that many calls; nil when it never did, with what failed.
    private static func climbed(
        _ rig: MediaRig, _ profile: MediaProfile, _ calls: Int, _ forwarder: Forwarder
    ) async -> (window: LoadWindow?, reason: String) {
        let isShort = rig.bench.options.isShort
        var duel = rig.duel(profile, 0..<2 * calls)
        duel.seconds = isShort ? 0.5 : 4
        var reason = ""
        for attempt in 0..<(isShort ? 1 : tries) {
            let window = duel.window(forwarder, seed: UInt64(attempt) &+ 1)
            let p99 = window.latency(0.99)
            rig.bench.report.say(
                "     \(profile.rawValue), \(calls) calls (\(LoadReport.number(duel.rate)) packets/s), \(forwarder.name): "
                    + "\(window.lost) lost, p99 \(LoadReport.number(p99 / 1_000)) ms, "
                    + "\(LoadReport.number(window.busy * 100)) % of a core")
            await rig.bench.loop.sleep(for: .milliseconds(200))
            // The short form runs on machines that do other things as well.
            if isShort { return window.unopened == 0 ? (window, "") : (nil, "unopened") }
            if window.lost == 0, window.gaps == 0, p99 < latencyLimit, window.sentShare > 0.99 { return (window, "") }
            // A generator that is late, or does not take what came, says nothing of the forwarder.
            reason =
                window.sentShare <= 0.99 || window.overflows > 0 || window.busy < 0.9 && p99 >= latencyLimit
                ? "generator" : window.lost > 0 ? "loss" : "latency"
        }
        return (nil, reason)
    }

    private static func tell(
        _ rig: MediaRig, _ profile: MediaProfile, _ relay: Ladder, _ limit: Ladder
    ) async throws {
        let report = rig.bench.report
        for (name, ladder) in [("relay", relay), ("limit", limit)] {
            // What it would carry if its core were full at the same cost per packet.
            let whole = ladder.busy > 0 ? Double(ladder.calls) / ladder.busy : 0
            let end = ladder.ended == "generator" ? ", where the generator was at its end" : ""
            report.line(
                "  \(profile.rawValue), \(name): \(ladder.calls) calls (\(LoadReport.number(ladder.rate)) packets/s, "
                    + "\(LoadReport.number(ladder.busy * 100)) % of the core)\(end); extrapolated \(Int(whole))")
            let context = [
                ("profile", "\"\(profile.rawValue)\""), ("forwarder", "\"\(name)\""),
                ("ended_by", "\"\(ladder.ended)\""),
                ("busy", LoadReport.number(ladder.busy)),
            ]
            report.figure("calls_per_core_zero_loss", Double(ladder.calls), "calls", context)
            report.figure("calls_per_core_extrapolated", whole, "calls", context)
        }
        let (ratio, common) = ratio(relay, limit)
        report.figure(
            "calls_per_core_ratio", ratio, "ratio",
            [("profile", "\"\(profile.rawValue)\""), ("generator_bound", "\(common > 0)"), ("at_calls", "\(common)")])
        guard relay.calls > 1, !rig.bench.options.isShort else { return }
        let half = max(1, relay.calls / 2)
        var duel = rig.duel(profile, 0..<2 * half)
        duel.seconds = 2
        let forwarder = try rig.relay()
        let isRealTime = forwarder.setRealTime(true)
        let result = await duel.measure(
            forwarder, try await rig.limit(), pairs: rig.bench.options.count ?? 7)
        report.line(
            "  added latency at half load (\(half) calls, \(isRealTime ? "SCHED_FIFO" : "ordinary scheduling")), µs: relay "
                + "\(quantiles(result.relay)), limit \(quantiles(result.limit))")
        for (label, q) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
            let (ours, theirs) = (DuelResult.latency(result.relay, q), DuelResult.latency(result.limit, q))
            let context = [
                ("profile", "\"\(profile.rawValue)\""), ("calls", "\(half)"), ("real_time", "\(isRealTime)"),
                ("relay", LoadReport.number(ours)), ("limit", LoadReport.number(theirs)),
            ]
            report.figure("half_load_latency_over_limit_us_\(label)", ours - theirs, "us", context)
        }
    }

    /// Calls to calls. Where the generator was at its end before a forwarder was, what both would carry if their cores were full, by
    /// the most calls that both carried; these are the second number then.
    private static func ratio(_ relay: Ladder, _ limit: Ladder) -> (Double, Int) {
        let isBound = [relay, limit].contains { ["generator", "top"].contains($0.ended) }
        guard isBound, let common = relay.loads.keys.filter({ limit.loads[$0] != nil }).max(),
            let ours = relay.loads[common], let theirs = limit.loads[common]
        else { return (Double(relay.calls) / Double(max(1, limit.calls)), 0) }
        return (theirs / ours, common)
    }

    private static func quantiles(_ windows: [LoadWindow]) -> String {
        [0.5, 0.99, 0.999].map { LoadReport.number(DuelResult.latency(windows, $0)) }.joined(separator: "/")
    }
}
