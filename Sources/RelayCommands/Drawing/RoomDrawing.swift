import RelayClient

/// Rooms as humans read them. Pure.
enum RoomDrawing {
    static func list(_ rooms: [RelayClient.JSON], nowMs: Int64, on terminal: Terminal) -> String {
        guard !rooms.isEmpty else { return "no rooms\n" }
        var table = TextTable([
            .init("ROOM"), .init("KIND"), .init("MEDIA"), .init("STATUS"), .init("AGE", right: true), .init("CALL"),
        ])
        for room in rooms {
            let status = room["status"]?.string ?? "?"
            table.rows.append([
                .init(room["id"]?.string ?? "?"), .init(room["kind"]?.string ?? "?"),
                .init(room["media"]?.string ?? "?"), .init(status, colour(of: status)),
                .init(age(room["createdAt"]?.string, nowMs)), .init(call(room["ring"])),
            ])
        }
        return table.text(on: terminal)
    }

    static func one(_ room: RelayClient.JSON, nowMs: Int64, on terminal: Terminal) -> String {
        let status = room["status"]?.string ?? "?"
        var text =
            terminal.paint(Terminal.printable(room["id"]?.string ?? "?"), .bold) + "  "
            + Terminal.printable("\(room["kind"]?.string ?? "?"), \(room["media"]?.string ?? "?")  ")
            + terminal.paint(status, colour(of: status))
        if let outcome = room["outcome"]?.string { text += " " + Terminal.printable(outcome) }
        if let reason = room["reason"]?.string { text += " (\(Terminal.printable(reason)))" }
        text += "\n"
        for (name, field) in [("created", "createdAt"), ("started", "startedAt"), ("ended", "endedAt")] {
            guard let time = room[field]?.string else { continue }
            text += "\(pad(name, 10))\(Quantity.time(time)) UTC, \(age(time, nowMs)) ago\n"
        }
        if let ring = room["ring"] {
            text += "\(pad("call", 10))\(call(ring))\n"
            for callee in ring["callees"]?.array ?? [] {
                text += "\(pad("", 10))\(Terminal.printable(words(of: callee)))\n"
            }
        }
        let participants = room["participants"]?.array ?? []
        guard !participants.isEmpty else { return text + "\nnobody is in\n" }
        return text + "\n" + table(of: participants, nowMs).text(on: terminal)
    }

    private static func table(of participants: [RelayClient.JSON], _ nowMs: Int64) -> TextTable {
        var table = TextTable([
            .init("USER"), .init("DEVICE"), .init("STATE"), .init("SINCE", right: true), .init("AUDIO"),
            .init("VIDEO"), .init("QUALITY"), .init("LOST UP", right: true), .init("LOST DOWN", right: true),
            .init("RTT", right: true),
        ])
        for one in participants {
            let statistics = one["statistics"]
            let state = one["state"]?.string ?? "?"
            let isInterrupted = one["interrupted"]?.bool == true
            let quality = [one["quality"]?.string ?? "good", one["leg"]?.string].compactMap { $0 }.joined(
                separator: " ")
            table.rows.append([
                .init(one["uid"]?.string ?? "?"), .init(one["device"]?.string ?? "?"),
                .init(isInterrupted ? state + ", interrupted" : state, isInterrupted ? .yellow : colour(of: state)),
                .init(age((one["joinedAt"] ?? one["preparedAt"] ?? one["createdAt"])?.string, nowMs)),
                .init(media(one, "audio")), .init(media(one, "video")),
                .init(quality, quality.hasPrefix("good") ? nil : quality.hasPrefix("poor") ? .red : .yellow),
                .init(lost(up: statistics)),
                .init(percent(statistics?["remoteLossPercent"]?.double)),
                .init(statistics?["roundTripMs"]?.double.map { "\(Quantity.decimal($0, digits: 0)) ms" } ?? ""),
            ])
        }
        return table
    }

    private static func media(_ participant: RelayClient.JSON, _ kind: String) -> String {
        let word = participant[kind]?.string ?? "?"
        return participant["held"]?.bool == true ? word + ", held" : word
    }

    private static func lost(up statistics: RelayClient.JSON?) -> String {
        guard let got = statistics?["packetsReceived"]?.integer, let lost = statistics?["packetsLost"]?.integer,
            got + lost > 0
        else { return "" }
        return percent(100 * Double(lost) / Double(got + lost))
    }

    private static func percent(_ number: Double?) -> String {
        number.map { "\(Quantity.decimal($0, digits: 1)) %" } ?? ""
    }

    private static func words(of callee: RelayClient.JSON) -> String {
        var words = "\(callee["uid"]?.string ?? "?"): \(callee["outcome"]?.string ?? callee["state"]?.string ?? "?")"
        if let device = callee["device"]?.string { words += " (\(device))" }
        return words
    }

    /// `alice → bob, carol`.
    static func call(_ ring: RelayClient.JSON?) -> String {
        guard let caller = ring?["caller"]?.string else { return "" }
        let callees = (ring?["callees"]?.array ?? []).compactMap { $0["uid"]?.string ?? $0.string }
        return Terminal.printable("\(caller) → \(callees.joined(separator: ", "))")
    }

    static func age(_ time: String?, _ nowMs: Int64) -> String {
        guard let ms = Quantity.ms(of: time) else { return "?" }
        return Quantity.age(ofMs: max(0, nowMs - ms))
    }

    private static func colour(of state: String) -> Terminal.Colour? {
        switch state {
        case "ongoing", "joined": .green
        case "initiated", "prepared", "connecting": .yellow
        case "ended", "left": .grey
        default: nil
        }
    }

    static func pad(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

extension RelayClient.JSON {
    /// A number of either kind.
    var double: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }
}
