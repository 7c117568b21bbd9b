import RelayClient

/// `media-relay drain` and `undrain`: ask the node, and where wanted wait until nobody is left.
struct DrainCommand {
    let commands: NodeCommands
    /// How often the node is looked at while it is waited for.
    private static let interval = Duration.milliseconds(500)

    func drain() async throws {
        let (client, line) = (commands.client, commands.line)
        let seconds = try line["deadline"].map(Self.seconds)
        let body = seconds.map { RelayClient.JSON.object(["deadlineSeconds": .integer(Int64($0))]) }
        var state = try await client.ask("POST", "/v1/node/drain", body: body)
        if line.has("wait") {
            while state["draining"]?.bool == true, state["drainedAt"] == nil {
                try await Task.sleep(for: Self.interval)
                state = Self.state(ofNode: try await client.ask("GET", "/v1/node"))
            }
        }
        tell(state)
    }

    func undrain() async throws { tell(try await commands.client.ask("DELETE", "/v1/node/drain")) }

    /// What `/v1/node` says, as the drain's own answer.
    private static func state(ofNode node: RelayClient.JSON) -> RelayClient.JSON {
        var fields: [String: RelayClient.JSON] = [:]
        if case .object(let drain)? = node["drain"] { fields = drain }
        let rooms = node["rooms"]
        fields["rooms"] = .integer((rooms?["initiated"]?.integer ?? 0) + (rooms?["ongoing"]?.integer ?? 0))
        fields["draining"] = node["draining"] ?? .bool(false)
        return .object(fields)
    }

    private func tell(_ state: RelayClient.JSON) {
        commands.output(
            commands.line.has("json") ? NodeCommands.text(of: state) + "\n" : Self.sentence(of: state) + "\n")
    }

    static func sentence(of state: RelayClient.JSON) -> String {
        let rooms = state["rooms"]?.integer ?? 0
        guard state["draining"]?.bool == true else { return "takes new rooms" }
        if state["drainedAt"] != nil {
            let ended = state["ended"]?.integer ?? 0
            return "drained: no room is left" + (ended > 0 ? ", \(ended) ended at the deadline" : "")
        }
        let left = rooms == 1 ? "1 room is left" : "\(rooms) rooms are left"
        return "draining: \(left), until \(Quantity.time(state["deadline"]?.string ?? "?")) at the latest"
    }

    /// `90`, `90s`, `10m`, `2h`, `1d`.
    static func seconds(of text: String) throws -> UInt64 {
        let units: [Character: UInt64] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400]
        let unit = text.last.flatMap { units[$0] }
        let longest: UInt64 = 7 * 86_400
        guard let number = UInt64(unit == nil ? text[...] : text.dropLast()), number <= longest,
            number * (unit ?? 1) <= longest
        else { throw UsageError("--deadline \(text): not a time like 90s, 10m or 2h, at most 7d") }
        return number * (unit ?? 1)
    }
}
