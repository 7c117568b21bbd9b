import RelayClient

/// A call's legs over time: a line of bars for each figure, and which leg lost what and when. Pure.
struct CallSeries {
    typealias JSON = RelayClient.JSON

    /// One leg's rows, as the record tells them.
    struct Leg {
        let name: String
        let beginMs: Int64
        let spans: [Int64]
        let series: JSON

        init?(_ leg: JSON) {
            guard let series = leg["series"], let begin = Quantity.ms(of: series["from"]?.string),
                let spans = series["spanMs"]?.array?.map({ max(0, $0.integer ?? 0) }), !spans.isEmpty
            else { return nil }
            name = CallDrawing.name(of: leg)
            beginMs = begin
            self.spans = spans
            self.series = series
        }

        /// As many as there are spans, whatever was told.
        func values(_ path: String...) -> [Double] {
            var value: JSON? = series
            for name in path { value = value?[name] }
            let told = (value?.array ?? []).map { $0.double ?? 0 }
            return spans.indices.map { $0 < told.count ? told[$0] : 0 }
        }
    }

    private let legs: [Leg]
    private let beginMs: Int64
    private let endMs: Int64

    init(_ call: JSON, _ moments: CallMoments) {
        legs = (call["participants"]?.array ?? []).compactMap(Leg.init)
        beginMs = legs.map(\.beginMs).min() ?? moments.beginMs
        endMs = max(beginMs + 1, legs.map { $0.beginMs + $0.spans.reduce(0, +) }.max() ?? moments.endMs)
    }

    /// Of at most three legs, which a terminal has room for; empty without any.
    func text(on terminal: Terminal) -> String {
        guard !legs.isEmpty, legs.count <= 3 else { return "" }
        let (label, tail) = (26, 16)
        let width = max(20, min(60, terminal.width - label - tail - 4))
        let length = Quantity.duration(ofMs: endMs - beginMs)
        var text =
            "  " + RoomDrawing.pad("OVER TIME", label) + "0 s"
            + String(repeating: " ", count: max(1, width - 3 - length.count)) + length + "\n"
        for leg in legs {
            text += "  " + terminal.paint(leg.name, .bold) + "\n"
            func line(_ name: String, _ values: [Double], _ scale: Scale, _ unit: String) {
                let bars = bars(of: leg, values, width, scale, terminal)
                let most = Quantity.decimal(values.max() ?? 0, digits: scale.digits)
                text += "  " + RoomDrawing.pad("  " + name, label) + bars + "  \(most) \(unit)\n"
            }
            line("to the relay: lost", leg.values("uplink", "lossPercent"), .loss, "%")
            line("  jitter", leg.values("uplink", "jitterMs"), .jitter, "ms")
            line("  rate", leg.values("uplink", "kbps"), .rate, "kbit/s")
            line("from the relay: lost", leg.values("downlink", "lossPercent"), .loss, "%")
            line("  jitter", leg.values("downlink", "jitterMs"), .jitter, "ms")
            line("  rate", leg.values("downlink", "kbps"), .rate, "kbit/s")
            line("round trip", leg.values("roundTripMs"), .roundTrip, "ms")
        }
        return text + "  " + RoomDrawing.pad("", label)
            + "full height: 10 % lost, 80 ms jitter, 400 ms round trip; rate: "
            + "its own most\n"
    }

    // MARK: Bars

    struct Scale {
        /// What is full height; nil: the largest value.
        var full: Double?
        /// From where it is fair, and poor.
        var fair: Double?
        var poor: Double?
        var digits: Int
        // As quality is judged (docs/call-records.md).
        static let loss = Scale(full: 10, fair: 2, poor: 10, digits: 1)
        static let jitter = Scale(full: 80, fair: 30, poor: 80, digits: 0)
        static let roundTrip = Scale(full: 400, fair: 200, poor: 400, digits: 0)
        static let rate = Scale(digits: 0)
    }

    private func bars(of leg: Leg, _ values: [Double], _ width: Int, _ scale: Scale, _ terminal: Terminal) -> String {
        let full = scale.full ?? max(1, values.max() ?? 1)
        var columns = [Double?](repeating: nil, count: width)
        var at = leg.beginMs
        for (span, value) in zip(leg.spans, values) {
            let (first, last) = (place(at, width), place(max(at, at + span - 1), width))
            for column in first...max(first, last) { columns[column] = max(columns[column] ?? 0, value) }
            at += span
        }
        return columns.map { value in
            guard let value else { return " " }
            let glyph = Self.glyph(value / full, isZero: value == 0, terminal)
            guard let fair = scale.fair, let poor = scale.poor, value >= fair else { return String(glyph) }
            return terminal.paint(String(glyph), value >= poor ? .red : .yellow)
        }.joined()
    }

    private func place(_ ms: Int64, _ width: Int) -> Int {
        min(width - 1, max(0, Int(Double(ms - beginMs) / Double(endMs - beginMs) * Double(width))))
    }

    private static func glyph(_ part: Double, isZero: Bool, _ terminal: Terminal) -> Character {
        let glyphs = Array(terminal.hasUnicode ? "▁▂▃▄▅▆▇█" : ".:-=+*%#")
        if isZero { return terminal.hasUnicode ? "·" : " " }
        return glyphs[min(glyphs.count - 1, max(0, Int(part * Double(glyphs.count))))]
    }

    // MARK: Which leg, and when

    struct Finding: Equatable {
        var fromMs: Int64
        var toMs: Int64
        var words: String
    }

    /// Stretches in which a leg lost 2 % or more, had a jitter of 30 ms or a round trip of 200 ms, or the relay itself lost
    /// something, in the order of time.
    func findings() -> [Finding] {
        legs.flatMap(findings).sorted { ($0.fromMs, $0.words) < ($1.fromMs, $1.words) }
    }

    private func findings(of leg: Leg) -> [Finding] {
        var found: [Finding] = []
        func stretches(_ values: [Double], from bound: Double, _ words: (Range<Int>) -> String) {
            var start: Int?
            for index in 0...values.count {
                let isBad = index < values.count && values[index] >= bound
                if isBad, start == nil { start = index }
                guard !isBad, let first = start else { continue }
                start = nil
                let from = leg.beginMs + leg.spans[..<first].reduce(0, +)
                let to = from + leg.spans[first..<index].reduce(0, +)
                found.append(Finding(fromMs: from - beginMs, toMs: to - beginMs, words: words(first..<index)))
            }
        }
        for (way, place) in [("uplink", "\(leg.name)'s uplink"), ("downlink", "\(leg.name)'s downlink")] {
            let lost = leg.values(way, "lost")
            let loss = leg.values(way, "lossPercent")
            stretches(loss, from: 2) { rows in
                let count = Quantity.count(Int64(lost[rows].reduce(0, +)))
                return "\(place) lost \(count) packets, up to \(Quantity.decimal(loss[rows].max() ?? 0, digits: 1)) %"
            }
            let jitter = leg.values(way, "jitterMs")
            stretches(jitter, from: 30) { rows in
                "\(place) had a jitter of up to \(Quantity.decimal(jitter[rows].max() ?? 0, digits: 0)) ms"
            }
        }
        let trips = leg.values("roundTripMs")
        stretches(trips, from: 200) { rows in
            "\(leg.name)'s round trip took up to \(Quantity.decimal(trips[rows].max() ?? 0, digits: 0)) ms"
        }
        let discarded = leg.values("discarded")
        stretches(discarded, from: 1) { rows in
            "the relay did not send \(Quantity.count(Int64(discarded[rows].reduce(0, +)))) packets to \(leg.name)"
        }
        let overflowed = leg.values("overflowed")
        stretches(overflowed, from: 1) { rows in
            "the relay's own socket was full: \(Quantity.count(Int64(overflowed[rows].reduce(0, +)))) datagrams lost, "
                + "whoever they came from; \(leg.name)'s uplink may be innocent"
        }
        return found
    }

    func when(on terminal: Terminal) -> String {
        let findings = findings()
        guard !findings.isEmpty else { return "" }
        var text = "Which leg, and when (from the first join):\n"
        for finding in findings.prefix(20) {
            let (from, to) = (Quantity.duration(ofMs: finding.fromMs), Quantity.duration(ofMs: finding.toMs))
            text += "  " + RoomDrawing.pad("\(from) – \(to)", 26) + terminal.paint(finding.words, .yellow) + "\n"
        }
        if findings.count > 20 { text += "  and \(findings.count - 20) more\n" }
        return text
    }
}
