import Foundation
import MediaRelay
import RTPCore
import RelayLoadKit

/// What a forwarded packet costs the whole worker process, and how much later it comes, beside the limit process with the same
/// waiting policy: windows of 2 s in turn.
enum CostScenario {
    private struct Row {
        var profile: MediaProfile
        var rate: Int
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let rates = options.rate.map { [Int($0)] } ?? (options.isShort ? [4_000] : [20_000, 50_000])
        var checked = (passed: 0, failed: 0, faults: [String]())
        report.line(
            "cost: CPU of the whole process per forwarded packet, and added latency; medians of windows in turn\n"
                + "  profile  packets/s   relay ns  limit ns  ratio (quartiles)    packets a wake   p50 µs       p99 µs       p99.9 µs   lost"
        )
        for profile in options.isShort ? [.audioVideo] : MediaProfile.allCases {
            let rig = try await MediaRig(loop, options, report)
            do {
                for rate in rates { try await run(Row(profile: profile, rate: rate), rig, &checked) }
            } catch {
                await rig.stop()
                throw error
            }
            await rig.stop()
        }
        report.count("cost", passed: checked.passed, failed: checked.failed, faults: checked.faults)
    }

    private static func run(
        _ row: Row, _ rig: MediaRig, _ checked: inout (passed: Int, failed: Int, faults: [String])
    ) async throws {
        let isShort = rig.bench.options.isShort
        let count = max(2, row.rate / row.profile.packetsPerSecond & ~1)
        try await rig.prepare(clients: count, row.profile)
        var duel = rig.duel(row.profile, 0..<count)
        duel.seconds = isShort ? 0.5 : 2
        let pairs = rig.bench.options.count ?? (isShort ? 1 : 7)
        let result = await duel.measure(try rig.relay(), try await rig.limit(), pairs: pairs)
        tell(row, result, rig.bench.report)
        let came = result.relay.reduce(0.0) { $0 + $1.packetsPerSecond } / Double(pairs)
        let isRight = result.unopened == 0 && came > 0.8 * Double(row.rate)
        if isRight {
            checked.passed += 1
        } else {
            checked.failed += 1
            checked.faults.append(
                "\(row.profile.rawValue) at \(row.rate): \(result.unopened) packets did not open or were others', "
                    + "\(LoadReport.number(came)) packets/s came")
        }
    }

    private static func tell(_ row: Row, _ result: DuelResult, _ report: LoadReport) {
        func ns(_ windows: [LoadWindow]) -> Double { DuelResult.median(windows, \.nanosecondsPerPacket) }
        func pair(_ value: ([LoadWindow]) -> Double) -> String {
            "\(LoadReport.number(value(result.relay)))/\(LoadReport.number(value(result.limit)))"
        }
        let ratios = result.ratios
        let spread =
            "\(LoadReport.short(result.ratio)) (\(LoadReport.short(ratios.quantile(0.25)))–\(LoadReport.short(ratios.quantile(0.75))))"
        let lost = result.relay.reduce(0) { $0 + $1.lost }
        let limitLost = result.limit.reduce(0) { $0 + $1.lost }
        report.line(
            "  " + row.profile.rawValue.padding(to: 9) + "\(row.rate)".padding(to: 12)
                + LoadReport.number(ns(result.relay)).padding(to: 10)
                + LoadReport.number(ns(result.limit)).padding(to: 10)
                + spread.padding(to: 21) + pair { DuelResult.median($0, \.packetsPerTurn) }.padding(to: 17)
                + pair { DuelResult.latency($0, 0.5) }.padding(to: 13)
                + pair { DuelResult.latency($0, 0.99) }.padding(to: 13)
                + pair { DuelResult.latency($0, 0.999) }.padding(to: 11) + "\(lost)/\(limitLost)")
        let context = [("profile", "\"\(row.profile.rawValue)\""), ("packets_per_second", "\(row.rate)")]
        report.figure(
            "cpu_ratio", result.ratio, "ratio",
            context + [
                ("low", LoadReport.number(ratios.quantile(0.25))), ("high", LoadReport.number(ratios.quantile(0.75))),
            ])
        for (name, windows) in [("relay", result.relay), ("limit", result.limit)] {
            let context = context + [("forwarder", "\"\(name)\"")]
            report.figure("cpu_ns_per_fwd", ns(windows), "ns", context)
            report.figure("packets_per_wake", DuelResult.median(windows, \.packetsPerTurn), "packets", context)
            for (label, q) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
                report.figure("added_latency_us_\(label)", DuelResult.latency(windows, q), "us", context)
            }
            report.figure("lost", Double(windows.reduce(0) { $0 + $1.lost }), "packets", context)
        }
    }
}

extension LoadReport {
    static func short(_ ratio: Double) -> String { String(format: "%.2f", ratio) }
}
