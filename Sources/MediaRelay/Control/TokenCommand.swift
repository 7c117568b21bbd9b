import RelayCore

/// `media-relay token`: mints a token as a signaling server would, for trying the API out.
package enum TokenCommand {
    static let usage = """
        usage: media-relay token (--room ROOM --uid UID [--device DEVICE] | --server) [--key KID:SECRET] [--ttl SECONDS]

          --room, --uid     a participant's token for one room
          --device          which of the user's devices (default: default)
          --server          the server key's token instead
          --key             the node's signing key (default: MEDIA_RELAY_KEY)
          --ttl             how long it is good, seconds (default 3600, at most the node's --max-token-lifetime)

        """

    /// Prints the token. Exit codes: 0, 2 for bad arguments.
    package static func run(arguments: [String], environment: [String: String]) -> Int32 {
        if arguments.contains("--help") || arguments.contains("-h") {
            ServeProcess.print(usage, to: 1)
            return 0
        }
        do {
            ServeProcess.print(try token(arguments, environment) + "\n", to: 1)
            return 0
        } catch {
            ServeProcess.print("media-relay token: \(error)\n\n\(usage)", to: 2)
            return 2
        }
    }

    static func token(_ arguments: [String], _ environment: [String: String]) throws -> String {
        var values: [String: String] = [:]
        var rest = arguments[...]
        while let name = rest.popFirst() {
            if name == "--server" {
                values[name] = "true"
                continue
            }
            guard ["--room", "--uid", "--device", "--key", "--ttl"].contains(name) else {
                throw ServeOptions.Refusal("\(name): unknown option")
            }
            guard let value = rest.popFirst() else { throw ServeOptions.Refusal("\(name): its value is missing") }
            values[name] = value
        }
        guard
            let given = values["--key"] ?? environment["MEDIA_RELAY_KEY"]?.split(separator: " ").first.map(String.init)
        else { throw ServeOptions.Refusal("--key is missing") }
        let key = try KeyLoader.keys([given])[0]
        guard let lifetime = Int64(values["--ttl"] ?? "3600"), lifetime > 0 else {
            throw ServeOptions.Refusal("--ttl: not a positive number of seconds")
        }
        let expiry = WallClock.nowMs / 1_000 + lifetime
        let token: String?
        if values["--server"] != nil {
            token = TokenMint.server(expirySeconds: expiry, key: key)
        } else {
            guard let text = values["--room"], let room = RoomID(text), let uid = values["--uid"], isIdentifier(uid),
                isIdentifier(values["--device"] ?? "default")
            else { throw ServeOptions.Refusal("--room and --uid are needed, each [A-Za-z0-9._-]{1,128}") }
            token = TokenMint.participant(
                uid: uid, device: values["--device"] ?? "default", room: room, expirySeconds: expiry,
                grants: .standard, key: key)
        }
        guard let token else { throw ServeOptions.Refusal("--key: a public key does not sign") }
        return token
    }
}
