import CLimit
import MediaRelay
import RTPCore
import RelayLoadKit

/// 200 people join a second while a worker forwards 20,000 packets: how much later those come than before. The joiners are a
/// process of their own; windows with and without them take turns. Nothing is pinned; the clients whose packets are timed run under
/// SCHED_FIFO where permitted and sleep between packets, so that they are no part of what they time.
enum StormScenario {
    static let joinsPerSecond = 200.0

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let rig = try await MediaRig(loop, options, report, spins: false)
        do {
            try await measure(rig)
        } catch {
            _ = limit_set_real_time(0, 0)
            await rig.stop()
            throw error
        }
        await rig.stop()
    }

    private static func measure(_ rig: MediaRig) async throws {
        let options = rig.bench.options
        let rate = Int(options.rate ?? (options.isShort ? 2_000 : 20_000))
        let count = max(2, rate / MediaProfile.audioVideo.packetsPerSecond & ~1)
        try await rig.fleet.grow(to: count, in: MediaFleet.Room(media: .video))
        let relay = try rig.relay()
        var duel = rig.duel(.audioVideo, 0..<count)
        duel.seconds = options.isShort ? 0.7 : 3
        duel.isRealTime = false
        let pairs = options.count ?? (options.isShort ? 1 : 5)
        var windows: (quiet: [LoadWindow], storm: [LoadWindow]) = ([], [])
        var joiners: [JoinStorm.Outcome] = []
        let isRealTime = limit_set_real_time(0, 1) == 0
        _ = limit_set_real_time(0, 0)
        for pair in 0..<pairs {
            windows.quiet.append(window(duel, relay, pair))
            let storm = try JoinStorm.start(
                rig.bench, rate: options.isShort ? 50 : joinsPerSecond, seconds: duel.seconds + 1)
            // It is at its rate after half a second.
            rig.mill.use(relay.legs)
            await rig.bench.loop.sleep(for: .milliseconds(500))
            windows.storm.append(window(duel, relay, pair))
            joiners.append(try await storm.wait(rig.bench))
            rig.bench.report.progress(
                MonotonicClock.now(),
                "storm: pair \(pair + 1) of \(pairs), p99 \(LoadReport.number(windows.quiet[pair].latency(0.99))) and "
                    + "\(LoadReport.number(windows.storm[pair].latency(0.99))) µs")
        }
        tell(rig, rate, windows.quiet, windows.storm, joiners, isRealTime)
    }

    private static func window(_ duel: Duel, _ relay: Forwarder, _ seed: Int) -> LoadWindow {
        _ = limit_set_real_time(0, 1)
        let window = duel.window(relay, seed: UInt64(seed))
        _ = limit_set_real_time(0, 0)
        return window
    }

    private static func tell(
        _ rig: MediaRig, _ rate: Int, _ quiet: [LoadWindow], _ storm: [LoadWindow], _ joiners: [JoinStorm.Outcome],
        _ isRealTime: Bool
    ) {
        let report = rig.bench.report
        let joins = joiners.reduce(0) { $0 + $1.joined }
        let seconds = joiners.reduce(0.0) { $0 + $1.seconds }
        let lost = (storm.reduce(0) { $0 + $1.lost }, quiet.reduce(0) { $0 + $1.lost })
        func all(_ windows: [LoadWindow]) -> String {
            [0.5, 0.99, 0.999].map { LoadReport.number(DuelResult.latency(windows, $0)) }.joined(separator: "/")
        }
        report.line(
            "storm: \(LoadReport.number(Double(joins) / max(seconds, 0.001))) joins/s at \(rate) packets/s: added latency p50/p99/p99.9 µs "
                + "\(all(quiet)) before, \(all(storm)) during; lost \(lost.1) and \(lost.0)")
        let first = joiners.map(\.firstPacketP50).median
        report.line(
            "storm: join request → first packet of the other side p50 \(LoadReport.number(first)) ms "
                + "(handshake and 20 ms between packets included)")
        let context = [
            ("packets_per_second", "\(rate)"),
            ("joins_per_second", LoadReport.number(Double(joins) / max(seconds, 0.001))),
            ("real_time_clients", "\(isRealTime)"),
        ]
        for (label, q) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
            let (before, during) = (DuelResult.latency(quiet, q), DuelResult.latency(storm, q))
            report.figure(
                "storm_latency_over_quiet_us_\(label)", during - before, "us",
                context + [("quiet", LoadReport.number(before)), ("storm", LoadReport.number(during))])
        }
        report.figure("storm_lost", Double(lost.0), "packets", context)
        report.figure("storm_first_packet_ms_p50", first, "ms", context)
        let unopened = (quiet + storm).reduce(0) { $0 + $1.unopened }
        let failed = joiners.reduce(0) { $0 + $1.failed }
        let isRight = unopened == 0 && failed == 0 && joins > 0
        report.count(
            "storm", passed: isRight ? 1 : 0, failed: isRight ? 0 : 1,
            faults: isRight ? [] : ["\(unopened) packets did not open, \(failed) joins failed, \(joins) joined"])
    }
}
