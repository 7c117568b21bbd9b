import Foundation
import RelayClient

/// What a command did not find at the node.
struct NotFound: Error, CustomStringConvertible {
    var description: String
}

/// The commands that look at a running node or act on it, through its public API. What they show is drawn elsewhere.
struct NodeCommands: Sendable {
    let client: RelayClient
    let line: Arguments
    let terminal: Terminal
    let output: @Sendable (String) -> Void
    var nowMs: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1_000) }

    private var wantsJSON: Bool { line.has("json") }

    func run(_ command: Command) async throws {
        switch command.name {
        case "rooms list": try await listRooms()
        case "rooms show": try await showRoom(line.operands[0])
        case "calls list": try await listCalls()
        case "calls show": try await showCall(line.operands[0])
        case "events": try await EventCommand(commands: self).run()
        case "kick": try await kick(line.operands[1], from: line.operands[0])
        case "end": try await end(line.operands[0])
        case "capture": try await capture(line.operands[0])
        case "record start": try await startRecording(of: line.operands[0])
        case "record stop": try await stopRecording(of: line.operands[0])
        case "drain": try await DrainCommand(commands: self).drain()
        case "undrain": try await DrainCommand(commands: self).undrain()
        default: preconditionFailure("\(command.name) does not talk to a node")
        }
    }

    // MARK: Rooms

    private func listRooms() async throws {
        let limit = try self.limit()
        var rooms: [RelayClient.JSON] = []
        for status in line["status"].map({ [$0] }) ?? ["initiated", "ongoing"] where rooms.count < limit {
            let query = [("status", status)] + (line["uid"].map { [("uid", $0)] } ?? [])
            rooms += try await pages("/v1/rooms", query, of: "rooms", limit: limit - rooms.count)
        }
        show(rooms) { RoomDrawing.list($0, nowMs: nowMs(), on: terminal) }
    }

    private func showRoom(_ id: String) async throws {
        let room = try await client.ask("GET", "/v1/rooms/\(Self.escaped(id))")
        output(wantsJSON ? Self.text(of: room) + "\n" : RoomDrawing.one(room, nowMs: nowMs(), on: terminal))
    }

    private func kick(_ uid: String, from id: String) async throws {
        let path = "/v1/rooms/\(Self.escaped(id))"
        let room = try await client.ask("GET", path)
        let all = (room["participants"]?.array ?? []).filter { $0["state"]?.string != "left" }
        let meant = all.filter {
            $0["uid"]?.string == uid && (line["device"] == nil || $0["device"]?.string == line["device"])
        }
        guard !meant.isEmpty else {
            let others = all.map(CallDrawing.name).joined(separator: ", ")
            throw NotFound(
                description: "\(uid) is not in \(id)" + (others.isEmpty ? ": nobody is" : "; in it: \(others)"))
        }
        for participant in meant {
            guard let participantID = participant["id"]?.string else { continue }
            _ = try await client.ask("DELETE", "\(path)/participants/\(Self.escaped(participantID))")
            output(wantsJSON ? Self.text(of: participant) + "\n" : "\(CallDrawing.name(of: participant)) is out\n")
        }
    }

    private func end(_ id: String) async throws {
        let path = "/v1/rooms/\(Self.escaped(id))"
        _ = try await client.ask("DELETE", path + (line["reason"].map { "?reason=\(Self.escaped($0))" } ?? ""))
        let room = try await client.ask("GET", path)
        let words = [room["outcome"]?.string, room["reason"]?.string.map { "(\($0))" }].compactMap { $0 }
        output(
            wantsJSON
                ? Self.text(of: room) + "\n"
                : Terminal.printable("\(id) has ended: \(words.joined(separator: " "))") + "\n")
    }

    // MARK: Calls

    private func listCalls() async throws {
        let query = ["uid", "from", "to", "outcome"].compactMap { name in line[name].map { (name, $0) } }
        show(try await pages("/v1/calls", query, of: "calls", limit: try limit())) {
            CallDrawing.list($0, on: terminal)
        }
    }

    private func showCall(_ id: String) async throws {
        let call = try await client.ask("GET", "/v1/calls/\(Self.escaped(id))")
        output(wantsJSON ? Self.text(of: call) + "\n" : CallDrawing.one(call, on: terminal))
    }

    // MARK: Pages and forms

    private func limit() throws -> Int { Int(try line.integer("limit", 1...100_000) ?? 100) }

    /// Items of as many pages as are needed.
    private func pages(
        _ path: String, _ query: [(String, String)], of name: String, limit: Int
    ) async throws -> [RelayClient.JSON] {
        var items: [RelayClient.JSON] = []
        var cursor: String?
        repeat {
            var parts = query + [("limit", "\(min(limit - items.count, 100))")]
            if let cursor { parts.append(("cursor", cursor)) }
            let text = parts.map { "\($0)=\(Self.escaped($1))" }.joined(separator: "&")
            let page = try await client.ask("GET", "\(path)?\(text)")
            items += page[name]?.array ?? []
            cursor = page["next"]?.string
        } while cursor != nil && items.count < limit
        return Array(items.prefix(limit))
    }

    private func show(_ items: [RelayClient.JSON], drawn: ([RelayClient.JSON]) -> String) {
        output(wantsJSON ? items.map { Self.text(of: $0) + "\n" }.joined() : drawn(items))
    }

    /// One line, fields in the order of their names.
    static func text(of value: some Encodable) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(value) else { return "null" }
        return String(decoding: data, as: UTF8.self)
    }

    static func escaped(_ text: String) -> String {
        // Bytes, not characters: `alphanumerics` knows letters of every script.
        text.utf8.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: String(UnicodeScalar(byte))
            default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
    }
}
