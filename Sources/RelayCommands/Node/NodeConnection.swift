import MediaRelay
import RelayClient

/// Which node a command talks to and how it proves that it may: flags, then environment, then the node's configuration, then the
/// defaults of a node on this machine. Refuses to guess a key.
struct NodeConnection {
    var url: String
    var key: SigningKey
    var authorities: String?
    /// Of the tokens that it mints, seconds.
    var tokenLifetimeSeconds: Int64

    init(_ line: Arguments, _ environment: [String: String]) throws {
        let file = line["config"] ?? Self.set(environment["MEDIA_RELAY_CONFIG"])
        let given = try Self.key(of: [line["key"]].compactMap { $0 }, label: "--key")
        let url = line["url"] ?? Self.set(environment["MEDIA_RELAY_URL"])
        // What is known needs no configuration: it may be of no use here, or not readable.
        let node: ServeOptions? =
            if given != nil, url != nil {
                nil
            } else {
                try ServeOptions(
                    arguments: file.map { ["--config", $0] } ?? [], environment: environment, processors: 1)
            }
        guard let key = try given ?? Self.key(of: node?.keys ?? [], label: "key") else {
            throw UsageError("no key: give --key, MEDIA_RELAY_KEY, or the node's configuration by --config")
        }
        self.key = key
        self.url = url ?? node.map(Self.url) ?? "http://127.0.0.1:8080"
        guard self.url.hasPrefix("http://") || self.url.hasPrefix("https://") else {
            throw UsageError("the URL of a node begins with http:// or https://, not as \(self.url)")
        }
        authorities = line["ca"] ?? Self.set(environment["MEDIA_RELAY_CA"])
        tokenLifetimeSeconds = min(300, node?.maxTokenLifetimeSeconds ?? 300)
    }

    private static func set(_ text: String?) -> String? { text.flatMap { $0.isEmpty ? nil : $0 } }

    /// The first that signs: public keys verify only.
    private static func key(of texts: [String], label: String) throws -> SigningKey? {
        guard !texts.isEmpty else { return nil }
        let keys = try KeyLoader.keys(texts)
        guard let key = keys.first(where: { TokenMint.server(expirySeconds: 1, key: $0) != nil }) else {
            throw UsageError("\(label): a public key does not sign")
        }
        return key
    }

    /// Where a node with these options is reached from its own machine.
    static func url(of node: ServeOptions) -> String {
        var endpoint = node.http[0]
        switch endpoint.address {
        case "0.0.0.0": endpoint.address = "127.0.0.1"
        case "::": endpoint.address = "::1"
        default: break
        }
        return (node.tlsCertificate == nil ? "http://" : "https://") + endpoint.text
    }

    var client: RelayClient {
        var options = RelayClient.Options()
        options.tokenLifetimeSeconds = tokenLifetimeSeconds
        options.authorities = authorities
        return RelayClient(url: url, key: key, options: options)
    }
}
