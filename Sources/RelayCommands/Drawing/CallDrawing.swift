import RelayClient

/// Call records as humans read them: a list, and one call with its timeline, what happened when, and both legs. Pure.
enum CallDrawing {
    typealias JSON = RelayClient.JSON

    static func list(_ calls: [JSON], on terminal: Terminal) -> String {
        guard !calls.isEmpty else { return "no calls\n" }
        let hasViews = calls.contains { $0["view"] != nil }
        var columns: [TextTable.Column] = [
            .init("ENDED (UTC)"), .init("ID"), .init("MEDIA"), .init("CALL"), .init("OUTCOME"),
            .init("TALKED", right: true), .init("ENDED BY"),
        ]
        if hasViews { columns.append(.init("VIEW")) }
        var table = TextTable(columns)
        for call in calls {
            let outcome = call["outcome"]?.string ?? "?"
            var row: [TextTable.Cell] = [
                .init(Quantity.time(call["endedAt"]?.string ?? "?")), .init(call["roomId"]?.string ?? "?"),
                .init("\(call["kind"]?.string ?? "?") \(call["media"]?.string ?? "?")"), .init(who(call)),
                .init(outcome, colour(of: outcome)),
                .init(Quantity.duration(ofMs: call["durationMs"]?.integer ?? 0)), .init(endedBy(call)),
            ]
            if hasViews { row.append(.init(view(call["view"]))) }
            table.rows.append(row)
        }
        return table.text(on: terminal)
    }

    static func one(_ call: JSON, on terminal: Terminal) -> String {
        let moments = CallMoments(call)
        var text = head(call, on: terminal)
        text += "\n" + CallTimeline(call, moments).text(on: terminal)
        text += "\n" + moments.text(on: terminal)
        let legs = call["participants"]?.array ?? []
        guard !legs.isEmpty else { return text + "\nNobody was in.\n" }
        text += "\n" + CallLegs.text(legs, on: terminal)
        let series = CallSeries(call, moments)
        for part in [series.when(on: terminal), series.text(on: terminal)] where !part.isEmpty { text += "\n" + part }
        if let omitted = call["omittedParticipants"]?.integer {
            text += "\n\(Quantity.count(omitted)) earlier stays are not in the record.\n"
        }
        if call["complete"]?.bool == false {
            text += "\nThe last figures of somebody never came, or have not yet: what a leg shows may lack up to 2 s.\n"
        }
        return text
    }

    private static func head(_ call: JSON, on terminal: Terminal) -> String {
        let outcome = call["outcome"]?.string ?? "?"
        var text =
            terminal.paint(Terminal.printable(call["roomId"]?.string ?? "?"), .bold) + "  "
            + Terminal.printable("\(call["kind"]?.string ?? "?"), \(call["media"]?.string ?? "?")  ")
            + terminal.paint(Terminal.printable(outcome), colour(of: outcome))
        if let reason = call["reason"]?.string { text += " (\(Terminal.printable(reason)))" }
        text += "\n"
        func line(_ name: String, _ words: String) {
            text += RoomDrawing.pad(name, 10) + Terminal.printable(words) + "\n"
        }
        line("call", who(call))
        line("begun", Quantity.time(call["createdAt"]?.string ?? "?") + " UTC")
        line("talked", Quantity.duration(ofMs: call["durationMs"]?.integer ?? 0))
        line("ended by", endedBy(call))
        for missing in call["missing"]?.array ?? [] {
            line("missing", "\(missing["uid"]?.string ?? "?"): \(missing["reason"]?.string ?? "?")")
        }
        return text
    }

    /// Who called whom; without a ring, who was in.
    private static func who(_ call: JSON) -> String {
        if let ring = call["ring"] { return RoomDrawing.call(ring) }
        var uids: [String] = []
        for leg in call["participants"]?.array ?? [] {
            if let uid = leg["uid"]?.string, !uids.contains(uid) { uids.append(uid) }
        }
        let shown = uids.prefix(4).joined(separator: ", ")
        return uids.count > 4 ? shown + " and \(uids.count - 4) more" : shown
    }

    private static func endedBy(_ call: JSON) -> String {
        guard let cause = call["endedBy"], let kind = cause["kind"]?.string else { return call["reason"]?.string ?? "" }
        guard let uid = cause["uid"]?.string else {
            return [kind, call["reason"]?.string].compactMap { $0 }.joined(separator: ", ")
        }
        let device = cause["device"]?.string.map { " (\($0))" } ?? ""
        return kind == "participant" ? uid + device : "\(kind) for \(uid)"
    }

    private static func view(_ view: JSON?) -> String {
        [view?["direction"]?.string ?? view?["role"]?.string, view?["status"]?.string].compactMap { $0 }
            .joined(separator: " ")
    }

    static func colour(of outcome: String) -> Terminal.Colour? {
        switch outcome {
        case "ended": .green
        case "failed", "lost", "node-lost": .red
        case "rejected", "busy", "cancelled", "unanswered", "unreachable", "expired", "drained": .yellow
        default: nil
        }
    }

    /// `alice (web)`.
    static func name(of leg: JSON) -> String {
        Terminal.printable("\(leg["uid"]?.string ?? "?") (\(leg["device"]?.string ?? "?"))")
    }
}

/// What happened when, in order.
struct CallMoments {
    struct Moment: Equatable {
        var ms: Int64
        var words: String
    }
    /// When the room was made; what times are counted from.
    let beginMs: Int64
    let endMs: Int64
    private(set) var moments: [Moment] = []

    init(_ call: RelayClient.JSON) {
        beginMs = Quantity.ms(of: call["createdAt"]?.string) ?? 0
        endMs = max(beginMs, Quantity.ms(of: call["endedAt"]?.string) ?? beginMs)
        let ring = call["ring"]
        note(call["createdAt"], ring == nil ? "the room is made" : "\(ring?["caller"]?.string ?? "?") calls")
        for callee in ring?["callees"]?.array ?? [] {
            let uid = callee["uid"]?.string ?? "?"
            for push in callee["pushes"]?.array ?? [] {
                note(push["at"], "push for \(uid) (\(push["device"]?.string ?? "?"))")
            }
            note(callee["ringingAt"], "\(uid) rings")
            note(callee["answeredAt"], "\(uid) answers" + (callee["device"]?.string.map { " (\($0))" } ?? ""))
        }
        for leg in call["participants"]?.array ?? [] {
            let name = CallDrawing.name(of: leg)
            note(leg["createdAt"], "\(name) prepares")
            note(leg["preparedAt"], "\(name) is prepared")
            note(leg["joinedAt"], "\(name) has joined")
            note(leg["firstAudioAt"], "first sound of \(name)")
            note(leg["firstVideoAt"], "first picture of \(name)")
            let detail = leg["detail"]?.string.map { ", \($0)" } ?? ""
            note(leg["leftAt"], "\(name) is out: \(leg["reason"]?.string ?? "?")\(detail)")
        }
        note(call["talkingSince"], "they talk")
        note(call["endedAt"], "the end: \(call["outcome"]?.string ?? "?")")
        // Stable: what is told at the same instant stays in this order.
        moments = moments.enumerated().sorted { ($0.element.ms, $0.offset) < ($1.element.ms, $1.offset) }.map(\.element)
    }

    private mutating func note(_ time: RelayClient.JSON?, _ words: String) {
        guard let ms = Quantity.ms(of: time?.string) else { return }
        moments.append(Moment(ms: ms, words: Terminal.printable(words)))
    }

    func text(on terminal: Terminal) -> String {
        let offsets = moments.map { Quantity.offset(ofMs: $0.ms - beginMs) }
        let width = offsets.map(\.count).max() ?? 0
        return zip(moments, offsets).map { moment, offset in
            "  " + terminal.paint(String(repeating: " ", count: width - offset.count) + offset + " s", .grey)
                + "  \(moment.words)\n"
        }.joined()
    }
}

/// Each leg as a bar over the time of the call.
struct CallTimeline {
    private struct Bar {
        var name: String
        /// From, to, which mark.
        var spans: [(Int64, Int64, Mark)]
    }
    private enum Mark { case ringing, connecting, prepared, joined }

    private var bars: [Bar] = []
    private let beginMs: Int64
    private let endMs: Int64

    init(_ call: RelayClient.JSON, _ moments: CallMoments) {
        (beginMs, endMs) = (moments.beginMs, moments.endMs)
        if let ring = call["ring"] {
            for callee in ring["callees"]?.array ?? [] {
                guard let ringing = Quantity.ms(of: callee["ringingAt"]?.string) else { continue }
                let until =
                    Quantity.ms(of: callee["answeredAt"]?.string) ?? Quantity.ms(of: call["startedAt"]?.string) ?? endMs
                let uid = Terminal.printable(callee["uid"]?.string ?? "?")
                bars.append(Bar(name: "\(uid) rings", spans: [(ringing, max(ringing, until), .ringing)]))
            }
        }
        for leg in call["participants"]?.array ?? [] {
            let created = Quantity.ms(of: leg["createdAt"]?.string) ?? beginMs
            let left = Quantity.ms(of: leg["leftAt"]?.string) ?? endMs
            let prepared = Quantity.ms(of: leg["preparedAt"]?.string) ?? left
            let joined = Quantity.ms(of: leg["joinedAt"]?.string) ?? left
            bars.append(
                Bar(
                    name: CallDrawing.name(of: leg),
                    spans: [
                        (created, min(prepared, joined), .connecting), (min(prepared, joined), joined, .prepared),
                        (joined, left, .joined),
                    ]))
        }
    }

    func text(on terminal: Terminal) -> String {
        guard !bars.isEmpty else { return "" }
        let nameWidth = max(10, bars.map(\.name.count).max() ?? 0)
        let width = max(20, min(100, terminal.width) - nameWidth - 4)
        let total = max(1, endMs - beginMs)
        var text = "  " + RoomDrawing.pad("", nameWidth) + "  " + scale(width, total) + "\n"
        for bar in bars {
            var line = [Mark?](repeating: nil, count: width)
            for (from, to, mark) in bar.spans where to > from {
                let first = place(from, width, total)
                for at in first...max(first, place(to - 1, width, total)) { line[at] = mark }
            }
            text += "  " + RoomDrawing.pad(bar.name, nameWidth) + "  " + painted(line, terminal) + "\n"
        }
        let legend: [(Mark, String)] = [
            (.ringing, "ringing"), (.connecting, "connecting"), (.prepared, "prepared"), (.joined, "joined"),
        ]
        return text + "  " + RoomDrawing.pad("", nameWidth) + "  "
            + legend.map { painted([$0.0, $0.0], terminal) + " \($0.1)" }.joined(separator: "  ") + "\n"
    }

    private func place(_ ms: Int64, _ width: Int, _ total: Int64) -> Int {
        min(width - 1, max(0, Int(Double(ms - beginMs) / Double(total) * Double(width))))
    }

    /// `0 s` at the left, the length at the right.
    private func scale(_ width: Int, _ total: Int64) -> String {
        let end = Quantity.duration(ofMs: total)
        return "0 s" + String(repeating: " ", count: max(1, width - 3 - end.count)) + end
    }

    private func painted(_ line: [Mark?], _ terminal: Terminal) -> String {
        var text = ""
        var rest = line[...]
        while let mark = rest.first {
            let run = rest.prefix { $0 == mark }
            rest = rest.dropFirst(run.count)
            guard let mark else {
                text += String(repeating: " ", count: run.count)
                continue
            }
            let (glyph, colour) = Self.glyph(mark, terminal)
            text += terminal.paint(String(repeating: glyph, count: run.count), colour)
        }
        while text.hasSuffix(" ") { text.removeLast() }
        return text
    }

    private static func glyph(_ mark: Mark, _ terminal: Terminal) -> (Character, Terminal.Colour) {
        switch mark {
        case .ringing: (terminal.hasUnicode ? "░" : "~", .blue)
        case .connecting: (terminal.hasUnicode ? "·" : ".", .yellow)
        case .prepared: (terminal.hasUnicode ? "─" : "-", .yellow)
        case .joined: (terminal.hasUnicode ? "━" : "=", .green)
        }
    }
}
