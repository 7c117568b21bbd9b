import Foundation
import RelayLoadKit

/// What a load showed, for humans and for programs. Pure.
enum LoadDrawing {
    static func json(_ summary: LoadSummary) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(summary) else { preconditionFailure("plain values encode") }
        return String(decoding: data, as: UTF8.self)
    }

    static func text(_ summary: LoadSummary, on terminal: Terminal) -> String {
        let people = summary.joined + summary.failed
        var rows: [(String, String)] = [("joined", "\(summary.joined) of \(people)")]
        for (reason, count) in summary.failures.sorted(by: { $0.value > $1.value }) {
            rows.append(("", "\(count): \(Terminal.printable(reason))"))
        }
        rows.append(("offer → answer", times(summary.answer)))
        rows.append(("offer → keys", times(summary.setUp)))
        if summary.roomSize > 1 { rows.append(("to first packet", times(summary.firstPacket))) }
        rows.append(("sent", amount(summary.packetsSent, summary.megabitsSent, summary.seconds)))
        if summary.roomSize > 1 {
            rows.append(("received", amount(summary.packetsReceived, summary.megabitsReceived, summary.seconds)))
            rows.append(("lost", "\(number(summary.lost)) (\(decimal(summary.lostShare * 100, 3)) %)"))
            rows.append(("did not open", number(summary.unopened)))
            rows.append(("from client to client", times(summary.latency)))
        }
        rows.append(("round trip (RTCP)", times(summary.roundTrip)))
        rows.append(("lost on the way there", number(summary.lostOnTheWayThere)))
        rows.append(
            (
                "this program",
                "\(decimal(summary.generatorCore * 100, 0)) % of a core, late by \(decimal(summary.generatorLate, 1)) ms at most, "
                    + "\(number(summary.generatorDropped)) datagrams dropped"
            ))
        for (reason, count) in summary.notEnded.sorted(by: { $0.value > $1.value }) {
            rows.append(("not ended", "\(count): \(Terminal.printable(reason))"))
        }
        let width = rows.map(\.0.count).max() ?? 0
        let size = summary.roomSize > 1 ? "rooms of \(summary.roomSize)" : "publishers"
        let head =
            "\(summary.scenario), \(size) at \(Terminal.printable(summary.url)), \(decimal(summary.seconds, 1)) s"
            + (summary.wasInterrupted ? ", interrupted" : "")
        return terminal.paint(head, .bold) + "\n"
            + rows.map { "  \($0.0.padding(toLength: width, withPad: " ", startingAt: 0))  \($0.1)\n" }.joined()
    }

    private static func times(_ times: LoadSummary.Times?) -> String {
        guard let times else { return "–" }
        return "p50 \(decimal(times.p50, 2)) ms, p99 \(decimal(times.p99, 2)) ms, worst \(decimal(times.worst, 2)) ms "
            + "(\(number(times.count)))"
    }

    private static func amount(_ packets: Int, _ megabits: Double, _ seconds: Double) -> String {
        "\(number(packets)) packets, \(number(Int(Double(packets) / max(0.001, seconds)))) a second, "
            + "\(decimal(megabits, 1)) Mbit/s"
    }

    private static func number(_ count: Int) -> String { Quantity.count(Int64(count)) }
    private static func decimal(_ value: Double, _ digits: Int) -> String { Quantity.decimal(value, digits: digits) }
}
