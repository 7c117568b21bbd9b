import MediaRelay
import RelayClient
import RelayCore

/// `media-relay token`: mints a token as a signaling server would, for trying the API out. Asks nobody.
enum TokenCommand {
    static func token(_ line: Arguments, _ environment: [String: String], nowSeconds: Int64) throws -> String {
        let lifetime = Int64(try line.integer("ttl", 1...31_536_000) ?? 3_600)
        let key = try key(line, environment)
        let token: String?
        if line.has("server") {
            guard !line.has("room"), !line.has("uid"), !line.has("device"), !line.has("record") else {
                throw UsageError("--server is a token without room and user, and may do everything")
            }
            token = TokenMint.server(expirySeconds: nowSeconds + lifetime, key: key)
        } else {
            let names = [line["room"] ?? "", line["uid"] ?? "", line["device"] ?? "default"]
            guard names.allSatisfy(isIdentifier) else {
                throw UsageError("--room and --uid (or --server) are needed, each [A-Za-z0-9._-]{1,128}")
            }
            token = TokenMint.participant(
                uid: names[1], device: names[2], room: names[0], expirySeconds: nowSeconds + lifetime,
                grants: TokenGrants(record: line.has("record")), key: key)
        }
        guard let token else { throw UsageError("--key: a public key does not sign") }
        return token
    }

    private static func key(_ line: Arguments, _ environment: [String: String]) throws -> SigningKey {
        if let given = line["key"] { return try KeyLoader.keys([given])[0] }
        let options = try ServeOptions(
            arguments: line["config"].map { ["--config", $0] } ?? [], environment: environment, processors: 1)
        guard let first = options.keys.first else {
            throw UsageError("no key: give --key, MEDIA_RELAY_KEY, or the node's configuration by --config")
        }
        return try KeyLoader.keys([first])[0]
    }
}
