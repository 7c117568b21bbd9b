import RelayClient

// The commands that start and stop recordings.

extension NodeCommands {
    func startRecording(of id: String) async throws {
        var body: [String: RelayClient.JSON] = ["video": .bool(!line.has("audio-only")), "mix": .bool(line.has("mix"))]
        for name in ["minutes", "mebibytes"] {
            if let value = try line.integer(name, 1...1_048_576) { body[name] = .integer(Int64(value)) }
        }
        let made = try await client.ask("POST", "/v1/rooms/\(Self.escaped(id))/recordings", body: .object(body))
        tell(
            made,
            "\(id) is recorded as \(made["recordingId"]?.string ?? ""), into the folder \(made["folder"]?.string ?? "")"
        )
    }

    func stopRecording(of id: String) async throws {
        let path = "/v1/rooms/\(Self.escaped(id))"
        guard let recording = try await client.ask("GET", path)["recording"],
            let name = recording["recordingId"]?.string
        else { throw NotFound(description: "\(id) is not recorded") }
        _ = try await client.ask("DELETE", "\(path)/recordings/\(Self.escaped(name))")
        tell(recording, "the recording \(name) of \(id) ends; recording.ended tells when its files are whole")
    }

    private func tell(_ value: RelayClient.JSON, _ words: String) {
        output(line.has("json") ? Self.text(of: value) + "\n" : Terminal.printable(words) + "\n")
    }
}
