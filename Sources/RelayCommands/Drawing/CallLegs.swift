import RelayClient

/// What each leg of a call measured, uplink and downlink apart: side by side for a peer call, else a row each; and where it was
/// bad. Pure.
enum CallLegs {
    typealias JSON = RelayClient.JSON

    static func text(_ legs: [JSON], on terminal: Terminal) -> String {
        let figures = legs.count <= 3 ? sideBySide(legs) : rows(legs)
        return figures.text(on: terminal) + "\n" + verdict(legs, on: terminal)
    }

    // MARK: Side by side

    private static func sideBySide(_ legs: [JSON]) -> TextTable {
        var table = TextTable(
            [.init("LEG")] + legs.map { .init(CallDrawing.name(of: $0), right: true) })
        func row(_ name: String, _ value: (JSON) -> TextTable.Cell) {
            let cells = legs.map(value)
            if cells.contains(where: { !$0.text.isEmpty }) { table.rows.append([.init(name)] + cells) }
        }
        row("left") { .init($0["reason"]?.string ?? "?") }
        row("to the relay: packets") { packets($0["uplink"]) }
        row("  lost") { lost($0["uplink"]) }
        row("  jitter, largest") { jitter($0["uplink"]) }
        row("  longest time without sound") { gap($0["uplink"]?["largestAudioGapMs"]) }
        row("  longest time without picture") { gap($0["uplink"]?["largestVideoGapMs"]) }
        row("from the relay: packets") { packets($0["downlink"]) }
        row("  lost") { lost($0["downlink"]) }
        row("  jitter, largest") { jitter($0["downlink"]) }
        row("round trip, mean (least…most)") { roundTrip($0["roundTripMs"]) }
        row("interruptions") { interruptions($0) }
        row("changes of path") { .init(Quantity.count($0["pathChanges"]?.integer ?? 0)) }
        return table
    }

    private static func packets(_ way: JSON?) -> TextTable.Cell {
        let bytes = Quantity.bytes(way?["bytes"]?.integer ?? 0)
        return .init("\(Quantity.count(way?["packets"]?.integer ?? 0)), \(bytes)")
    }

    private static func lost(_ way: JSON?) -> TextTable.Cell {
        let percent = way?["lossPercent"]?.double ?? 0
        return .init(
            "\(Quantity.count(way?["lost"]?.integer ?? 0)), \(Quantity.decimal(percent, digits: 2)) %",
            percent >= 5 ? .red : percent >= 1 ? .yellow : nil)
    }

    private static func jitter(_ way: JSON?) -> TextTable.Cell {
        let largest = way?["largestJitterMs"]?.double ?? 0
        return .init(
            "\(Quantity.decimal(way?["jitterMs"]?.double ?? 0, digits: 1)), \(Quantity.decimal(largest, digits: 1)) ms",
            largest >= 100 ? .red : largest >= 50 ? .yellow : nil)
    }

    private static func gap(_ ms: JSON?) -> TextTable.Cell {
        guard let ms = ms?.integer, ms > 0 else { return "" }
        return .init("\(Quantity.count(ms)) ms", ms >= 1_000 ? .yellow : nil)
    }

    private static func roundTrip(_ value: JSON?) -> TextTable.Cell {
        guard let value else { return "" }
        func ms(_ name: String) -> String { Quantity.decimal(value[name]?.double ?? 0, digits: 0) }
        return .init("\(ms("mean")) (\(ms("smallest"))…\(ms("largest"))) ms")
    }

    private static func interruptions(_ leg: JSON) -> TextTable.Cell {
        let count = leg["interruptions"]?.integer ?? 0
        guard count > 0 else { return .init("0") }
        return .init("\(count), \(Quantity.duration(ofMs: leg["interruptedMs"]?.integer ?? 0))", .yellow)
    }

    // MARK: A row each

    private static func rows(_ legs: [JSON]) -> TextTable {
        var table = TextTable([
            .init("LEG"), .init("LEFT"), .init("LOST UP", right: true), .init("JITTER UP", right: true),
            .init("LOST DOWN", right: true), .init("JITTER DOWN", right: true), .init("RTT", right: true),
            .init("INTERRUPTED", right: true),
        ])
        for leg in legs {
            table.rows.append([
                .init(CallDrawing.name(of: leg)), .init(leg["reason"]?.string ?? "?"), lost(leg["uplink"]),
                jitter(leg["uplink"]), lost(leg["downlink"]), jitter(leg["downlink"]), roundTrip(leg["roundTripMs"]),
                interruptions(leg),
            ])
        }
        return table
    }

    // MARK: Where it was bad

    /// Uplinks and downlinks that lost much, arrived unevenly or were away, the worst first.
    static func findings(_ legs: [JSON]) -> [String] {
        var found: [(weight: Double, words: String)] = []
        for leg in legs {
            let name = CallDrawing.name(of: leg)
            for (way, from, to) in [("uplink", name, "the relay"), ("downlink", "the relay", name)] {
                let loss = leg[way]?["lossPercent"]?.double ?? 0
                if loss >= 1 {
                    found.append((loss, "\(from) to \(to): \(Quantity.decimal(loss, digits: 2)) % lost"))
                }
                let jitter = leg[way]?["largestJitterMs"]?.double ?? 0
                if jitter >= 50 {
                    let ms = Quantity.decimal(jitter, digits: 0)
                    found.append((jitter / 20, "\(from) to \(to): jitter of up to \(ms) ms"))
                }
            }
            let away = leg["interruptedMs"]?.integer ?? 0
            if away > 0 { found.append((Double(away) / 200, "\(name) was away for \(Quantity.duration(ofMs: away))")) }
        }
        return found.sorted { $0.weight > $1.weight }.map(\.words)
    }

    private static func verdict(_ legs: [JSON], on terminal: Terminal) -> String {
        let findings = findings(legs)
        guard !findings.isEmpty else { return "No leg lost 1 %, had a jitter of 50 ms, or was away.\n" }
        return "Where it was bad, the worst first:\n"
            + findings.map { "  " + terminal.paint($0, .yellow) + "\n" }.joined()
    }
}
