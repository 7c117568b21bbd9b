import CMediaCrypto
import Foundation

// What the bench prints: a table for people, or one JSON object per line for programs. Progress goes to
// standard error.

struct Report {
    var isJSON: Bool

    static let target = 1.10

    func progress(_ text: String) { write(text + "\n", to: .standardError) }

    func begin() {
        guard !isJSON else { return }
        write(
            """

            Forwarding, CPU nanoseconds per packet in one thread (medians over the rounds)
            L0: kernel I/O only. L1: and AES-128-GCM (\(String(cString: mc_backend_name()))). L1g: and UDP GSO.
            Ratios are relay to limit, round by round: median (quartiles). Timers: reports, feedback, checks.

            """ + header() + "\n", to: .standardOutput)
    }

    private func header() -> String {
        row(
            [
                "bytes", "batch", "people", "burst", "to", "L0", "L1", "L1g", "relay", "timers", "relay/L1",
                "relay/L1g",
            ])
    }

    func add(_ result: ForwardingResult) {
        isJSON ? writeJSON(result) : writeRow(result)
    }

    private func writeRow(_ result: ForwardingResult) {
        let w = result.workload
        func ns(_ name: String) -> String { result.median(name).map { String(format: "%.0f", $0) } ?? "-" }
        func ratio(_ other: String) -> String {
            result.ratio("relay", to: other).map {
                String(format: "%.2f (%.2f-%.2f)", $0.median, $0.low, $0.high)
            } ?? "-"
        }
        let line = row([
            "\(w.packetByteCount)", "\(w.batch)", "\(w.participants)", "\(w.burst)", "\(w.receivers)", ns("L0"),
            ns("L1"),
            ns("L1g"),
            ns("relay"), result.timers.map { String(format: "%.0f", $0) } ?? "-", ratio("L1"), ratio("L1g"),
        ])
        write(line + (result.isSteady ? "" : "  speed changed") + "\n", to: .standardOutput)
    }

    private func row(_ cells: [String]) -> String {
        let widths = [6, 6, 7, 6, 4, 7, 7, 7, 7, 7, 18, 18]
        return zip(cells, widths).map { cell, width in
            String(repeating: " ", count: max(1, width - cell.count)) + cell
        }.joined()
    }

    private func writeJSON(_ result: ForwardingResult) {
        for name in result.names {
            guard let value = result.median(name) else { continue }
            object("fwd_ns_\(name.lowercased())", value, "ns/packet", context(result))
        }
        if let timers = result.timers { object("fwd_ns_timers", timers, "ns/packet", context(result)) }
        for (metric, other) in [("fwd_ratio", "L1"), ("fwd_ratio_l1g", "L1g"), ("fwd_ratio_l0", "L0")] {
            guard let ratio = result.ratio("relay", to: other) else { continue }
            object(
                metric, ratio.median, "ratio",
                context(result) + [("low", number(ratio.low)), ("high", number(ratio.high))])
        }
    }

    private func context(_ result: ForwardingResult) -> [(String, String)] {
        let w = result.workload
        return [
            ("packet_bytes", "\(w.packetByteCount)"), ("receivers", "\(w.receivers)"), ("batch", "\(w.batch)"),
            ("participants", "\(w.participants)"), ("burst", "\(w.burst)"), ("rounds", "\(result.rounds)"),
            ("crypto", "\"\(String(cString: mc_backend_name()))\""), ("steady", "\(result.isSteady)"),
            ("opened_by_libsrtp2", "\(result.openedByOracle)"),
        ]
    }

    /// CPU of the relay's side of each handshake, ns.
    func addHandshakes(_ samples: [Double]) {
        let median = samples.median
        guard !isJSON else {
            return object("handshake_ns", median, "ns", [("handshakes", "\(samples.count)")])
        }
        write(
            String(format: "%d handshakes: median %.0f µs of the relay's side\n", samples.count, median / 1_000),
            to: .standardOutput)
    }

    private func object(_ metric: String, _ value: Double, _ unit: String, _ context: [(String, String)]) {
        let fields = context.map { "\"\($0)\":\($1)" }.joined(separator: ",")
        write(
            "{\"metric\":\"\(metric)\",\"value\":\(number(value)),\"unit\":\"\(unit)\",\"context\":{\(fields)}}\n",
            to: .standardOutput)
    }

    private func number(_ value: Double) -> String { String(format: "%.4g", value) }

    /// The last line: the headline against its target.
    func end(_ results: [ForwardingResult]) {
        let headline = results.filter {
            $0.workload.batch == 64 && $0.workload.burst == 1 && $0.workload.receivers == 1
        }
        let ratios = headline.compactMap { result in result.ratio("relay", to: "L1")?.median }
        guard let worst = ratios.max() else { return }
        if isJSON {
            object("fwd_ratio_worst", worst, "ratio", [("target", number(Self.target)), ("batch", "64")])
            return
        }
        let verdict = worst <= Self.target ? "met" : "MISSED"
        write(
            String(
                format:
                    "\nfwd_ratio (batch 64, one receiver, burst 1): worst of %d rows %.2f, target <= %.2f: ",
                ratios.count, worst, Self.target) + verdict + "\n", to: .standardOutput)
    }

    private func write(_ text: String, to handle: FileHandle) { handle.write(Data(text.utf8)) }
}
