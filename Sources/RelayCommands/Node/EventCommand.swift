import RelayClient

/// `media-relay events`: the log up to now, or on and on.
struct EventCommand {
    let commands: NodeCommands

    func run() async throws {
        let (client, line) = (commands.client, commands.line)
        let after = try line.integer("after", 0...UInt64(Int64.max))
        // The first answer comes at once or not at all: a node that is not there is no node to wait for.
        let newest = UInt64(clamping: try await client.ask("GET", "/v1/rooms?limit=1")["seq"]?.integer ?? 0)
        if line.has("follow") {
            for try await event in client.events(after: after ?? newest, room: line["room"]) { tell(event) }
        } else {
            try await tellKept(after: after ?? 0, upTo: newest)
        }
    }

    /// Page by page, to where the log stood when the command began.
    private func tellKept(after: UInt64, upTo newest: UInt64) async throws {
        var cursor = after
        let room = commands.line["room"].map { "&room=\(NodeCommands.escaped($0))" } ?? ""
        while cursor < newest {
            let page = try await commands.client.ask("GET", "/v1/events?after=\(cursor)&limit=500\(room)")
            let events = page["events"]?.array ?? []
            for json in events {
                let event = try RelayClient.Event(json: Array(NodeCommands.text(of: json).utf8))
                guard event.seq <= newest || event.isTruncation else { return }
                tell(event)
            }
            let next = UInt64(clamping: page["next"]?.integer ?? 0)
            guard !events.isEmpty, next > cursor else { return }
            cursor = next
        }
    }

    private func tell(_ event: RelayClient.Event) {
        commands.output(
            commands.line.has("json")
                ? NodeCommands.text(of: event) + "\n" : Self.text(of: event, on: commands.terminal) + "\n")
    }

    /// `412  18:04:11.218  c-81  call.ended  rejected  by=bob durationMs=0 outcome=rejected`.
    static func text(of event: RelayClient.Event, on terminal: Terminal) -> String {
        var words = [
            terminal.paint(RoomDrawing.pad("\(event.seq)", 7), .grey),
            terminal.paint(Quantity.clock(event.time), .grey),
            RoomDrawing.pad(Terminal.printable(event.roomId ?? "-"), 16),
            terminal.paint(RoomDrawing.pad(Terminal.printable(event.type), 23), colour(of: event.type)),
        ]
        if let uid = event.uid {
            words.append(Terminal.printable(event.device.map { "\(uid) (\($0))" } ?? uid))
        }
        if let reason = event.reason { words.append(terminal.paint(Terminal.printable(reason), .yellow)) }
        if case .object(let fields) = event.data {
            for (name, value) in fields.sorted(by: { $0.key < $1.key }) {
                let shown = value.string ?? NodeCommands.text(of: value)
                words.append(Terminal.printable("\(name)=\(shown)"))
            }
        }
        return words.joined(separator: "  ")
    }

    private static func colour(of type: String) -> Terminal.Colour? {
        if type.hasSuffix(".ended") || type.hasSuffix(".closed") || type.hasSuffix(".left") { return .grey }
        if type == "events.truncated" || type == "participant.quality" { return .yellow }
        if type.hasPrefix("call.") { return .green }
        if type.hasPrefix("participant.") { return .cyan }
        return nil
    }
}
