import MediaRelay
import RTPCore
import RelayLoadKit

/// Rooms of eight with everybody's sound and picture to everybody: the worker's CPU against what forwarding alone predicts. That is
/// what the limit process uses for the same packets to the same seven receivers, times what the relay costs beside the limit in calls
/// of two at the same rate: whatever choosing, slots and reports of a group cost on top shows.
enum GroupScenario {
    private static let size = 8

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let rooms = max(1, Int((options.rate ?? (options.isShort ? 1 : 22_400)) / Double(size * (size - 1) * 200)))
        let rate = Double(rooms * size * (size - 1) * 200)
        let calls = options.isShort ? nil : try await callsOfTwo(loop, options, report, rate: rate)
        let rig = try await MediaRig(loop, options, report)
        do {
            let count = rooms * size
            try await rig.fleet.grow(
                to: count, in: MediaFleet.Room(kind: "group", media: .video, size: size), concurrency: 2)
            rig.pin()
            let (relay, limit) = (try rig.relay(), try await rig.limit())
            var duel = rig.duel(.audioVideo, 0..<count)
            duel.receivers = size - 1
            // Slots are filled, and pictures begin.
            duel.seconds = options.isShort ? 1 : 4
            _ = duel.window(relay, seed: 1)
            duel.seconds = options.isShort ? 0.5 : 2
            let result = await duel.measure(relay, limit, pairs: options.count ?? (options.isShort ? 1 : 7))
            tell(report, rooms, rate, result, calls)
        } catch {
            await rig.stop()
            throw error
        }
        await rig.stop()
    }

    /// Relay and limit in calls of two that make so many packets a second.
    static func callsOfTwo(
        _ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport, rate: Double, spins: Bool = true
    ) async throws -> DuelResult {
        let rig = try await MediaRig(loop, options, report, spins: spins)
        do {
            let count = Int(rate) / MediaProfile.audioVideo.packetsPerSecond & ~1
            try await rig.prepare(clients: count, .audioVideo)
            let duel = rig.duel(.audioVideo, 0..<count)
            let result = await duel.measure(try rig.relay(), try await rig.limit(), pairs: options.count ?? 7)
            await rig.stop()
            return result
        } catch {
            await rig.stop()
            throw error
        }
    }

    private static func tell(
        _ report: LoadReport, _ rooms: Int, _ rate: Double, _ result: DuelResult, _ calls: DuelResult?
    ) {
        func ns(_ windows: [LoadWindow]) -> Double { DuelResult.median(windows, \.nanosecondsPerPacket) }
        let came = DuelResult.median(result.relay, \.packetsPerSecond)
        report.line(
            "group: \(rooms) rooms of \(size), \(LoadReport.number(came)) of \(LoadReport.number(rate)) packets/s came: relay "
                + "\(LoadReport.number(ns(result.relay))) ns a packet, limit with the same receivers \(LoadReport.number(ns(result.limit))), "
                + "ratio \(LoadReport.short(result.ratio))")
        let context = [("rooms", "\(rooms)"), ("packets_per_second", LoadReport.number(came))]
        report.figure("group_cpu_ns_per_fwd", ns(result.relay), "ns", context)
        report.figure("group_cpu_ratio_to_limit", result.ratio, "ratio", context)
        report.figure("group_came_share", came / rate, "ratio", context)
        if let calls {
            let predicted = ns(result.limit) * calls.ratio
            let off = ns(result.relay) / max(1, predicted)
            report.line(
                "group: calls of two at that rate cost \(LoadReport.number(ns(calls.relay))) ns, \(LoadReport.short(calls.ratio)) of the "
                    + "limit: predicted \(LoadReport.number(predicted)) ns a packet, measured \(LoadReport.short(off)) of that"
            )
            report.figure(
                "group_cpu_to_predicted", off, "ratio",
                context + [
                    ("predicted_ns", LoadReport.number(predicted)), ("calls_ns", LoadReport.number(ns(calls.relay))),
                ])
        }
        let isRight = result.unopened == 0 && came > 0.9 * rate
        report.count(
            "group", passed: isRight ? 1 : 0, failed: isRight ? 0 : 1,
            faults: isRight
                ? []
                : [
                    "\(result.unopened) packets did not open, \(LoadReport.number(came)) of \(LoadReport.number(rate)) came"
                ])
    }
}
