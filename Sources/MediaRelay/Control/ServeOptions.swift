import Glibc
import RTPCore

/// What `media-relay serve` is told, by flags or by environment (`--http` is `MEDIA_RELAY_HTTP`; several values separated by
/// spaces). Refuses what it does not know or what would be unsafe: a secret under 32 bytes, plain HTTP beyond loopback.
package struct ServeOptions: Sendable {
    package struct Endpoint: Hashable, Sendable {
        package var address: String
        package var port: UInt16
    }

    package var http: [Endpoint] = []
    package var admin: Endpoint?
    package var media: [Endpoint] = []
    package var mediaTCP = MediaTCP.mediaPort
    package var announce: [String] = []
    package var data = ""
    /// `KID:SECRET` or `KID:@FILE`.
    package var keys: [String] = []
    package var workers = 1
    package var demo = false
    package var tlsCertificate: String?
    package var tlsKey: String?
    package var insecureHTTP = false
    package var logLevel = Log.Level.info
    package var logFormat = Log.Format.text
    package var maxTokenLifetimeSeconds: Int64 = 12 * 3_600
    package var requestsPerSecond: Int64 = 100
    package var gather = WorkerOptions.Gather.auto
    /// `NAME=URL`; `NAME=whsec_…` or `NAME=@FILE`; `NAME=legacy`.
    package var webhooks: [String] = []
    package var webhookSecrets: [String] = []
    package var webhookDialects: [String] = []
    package var webhookAuthorities: String?
    package var webhookInsecureHTTP = false
    /// Where sounds for prompts lie; nil: tones only.
    package var prompts: String?
    package var retention = JournalRetention()

    package struct Refusal: Error, CustomStringConvertible, Equatable {
        package var description: String
        package init(_ description: String) { self.description = description }
    }

    package static let usage = """
        usage: media-relay serve [options]

          --http ADDR:PORT        where the API listens (default 127.0.0.1:8080); repeatable
          --admin ADDR:PORT       metrics and node state without a key (default 127.0.0.1:8081, or none: --admin off)
          --media ADDR:PORT       where media arrives (default: all addresses, port 40000); repeatable
          --media-tcp PORT|off    TCP for media where UDP is blocked (default: the same port; off: none)
          --announce IP           what clients are told instead of the bound addresses; repeatable
          --data DIR              journal and link socket (default: the user's state folder)
          --key KID:SECRET        signing key, HS256; KID:@FILE reads a secret or a PEM key (ES256); repeatable
          --workers N             media processes (default: CPUs less one, at least 1)
          --demo                  serve the demo page, with tokens for anybody
          --tls-cert FILE         with --tls-key FILE: HTTPS
          --insecure-http         allow plain HTTP on addresses that are not loopback
          --log text|json         form of the log (default text)
          --log-level LEVEL       debug, info, warning, error (default info)
          --max-token-lifetime S  longest life of a token, seconds (default 43200)
          --requests-per-second N per participant token (default 100)
          --webhook NAME=URL      POST every event there; repeatable
          --webhook-secret NAME=whsec_…  signs its requests; NAME=@FILE reads them, one a line; repeatable
          --webhook-dialect NAME=legacy  in the words of the earlier ringing dialect
          --webhook-ca FILE       authorities for webhooks, PEM (default: the system's)
          --webhook-insecure-http allow plain HTTP to webhooks that are not on loopback
          --prompts DIR           sounds for prompts, NAME.opus (Ogg Opus); read at the start
          --retain-hours N        age of the oldest event in the log (default 168)
          --retain-events N       events in the log (default 1000000)
          --retain-mebibytes N    size of the events in the log (default 2048)
          --gather auto|on|off    bounded wait for more packets under load (default auto)

        Each option can also be given by the environment: MEDIA_RELAY_HTTP, MEDIA_RELAY_MAX_TOKEN_LIFETIME and so on.

        """

    private static let names: Set<String> = [
        "--http", "--admin", "--media", "--media-tcp", "--announce", "--data", "--key", "--workers", "--demo",
        "--tls-cert", "--tls-key",
        "--insecure-http", "--log", "--log-level", "--max-token-lifetime", "--requests-per-second", "--gather",
        "--webhook", "--webhook-secret", "--webhook-dialect", "--webhook-ca", "--webhook-insecure-http",
        "--prompts", "--retain-hours", "--retain-events", "--retain-mebibytes",
    ]
    private static let switches: Set<String> = ["--demo", "--insecure-http", "--webhook-insecure-http"]

    /// Flags win over the environment, option by option.
    package init(arguments: [String], environment: [String: String], processors: Int) throws(Refusal) {
        workers = max(1, processors - 1)
        var given: [String: [String]] = [:]
        var rest = arguments[...]
        while let name = rest.popFirst() {
            guard Self.names.contains(name) else {
                throw Refusal("\(name): unknown option (see media-relay serve --help)")
            }
            if Self.switches.contains(name) {
                given[name, default: []].append("true")
            } else {
                guard let value = rest.popFirst() else { throw Refusal("\(name): its value is missing") }
                given[name, default: []].append(value)
            }
        }
        for name in Self.names where given[name] == nil {
            let variable = "MEDIA_RELAY_" + name.dropFirst(2).uppercased().map { $0 == "-" ? "_" : $0 }
            guard let value = environment[variable], !value.isEmpty else { continue }
            given[name] = value.split(separator: " ").map(String.init)
        }
        for (name, values) in given.sorted(by: { $0.key < $1.key }) { try set(name, values) }
        try finish(environment, adminGiven: given["--admin"] != nil)
    }

    private mutating func set(_ name: String, _ values: [String]) throws(Refusal) {
        func single() throws(Refusal) -> String {
            guard values.count == 1 else { throw Refusal("\(name): given \(values.count) times, possible once") }
            return values[0]
        }
        switch name {
        case "--http": http = try values.map { value throws(Refusal) in try Self.endpoint(name, value) }
        case "--media": media = try values.map { value throws(Refusal) in try Self.endpoint(name, value) }
        case "--media-tcp":
            guard let tcp = MediaTCP(try single()) else { throw Refusal("--media-tcp: a port, same or off") }
            mediaTCP = tcp
        case "--admin": admin = try single() == "off" ? nil : try Self.endpoint(name, try single())
        case "--announce": announce = values
        case "--data": data = try single()
        case "--key": keys = values
        case "--workers": workers = Int(try Self.number(name, try single(), 1...64))
        case "--demo": demo = try single() == "true"
        case "--insecure-http": insecureHTTP = try single() == "true"
        case "--tls-cert": tlsCertificate = try single()
        case "--tls-key": tlsKey = try single()
        case "--max-token-lifetime": maxTokenLifetimeSeconds = try Self.number(name, try single(), 60...31_536_000)
        case "--requests-per-second": requestsPerSecond = try Self.number(name, try single(), 1...1_000_000)
        case "--log":
            guard let format = Log.Format(rawValue: try single()) else { throw Refusal("--log: text or json") }
            logFormat = format
        case "--log-level":
            let text = try single()
            guard let level = Log.Level.allCases.first(where: { $0.name == text }) else {
                throw Refusal("--log-level: debug, info, warning or error")
            }
            logLevel = level
        case "--webhook": webhooks = values
        case "--webhook-secret": webhookSecrets = values
        case "--webhook-dialect": webhookDialects = values
        case "--webhook-ca": webhookAuthorities = try single()
        case "--webhook-insecure-http": webhookInsecureHTTP = try single() == "true"
        case "--prompts": prompts = try single()
        case "--retain-hours": retention.ageMs = try Self.number(name, try single(), 1...8_760) * 3_600_000
        case "--retain-events": retention.events = Int(try Self.number(name, try single(), 1_000...1_000_000_000))
        case "--retain-mebibytes":
            retention.byteCount = try Self.number(name, try single(), 1...1_048_576) << 20
        case "--gather":
            guard let gather = WorkerOptions.Gather(rawValue: try single()) else {
                throw Refusal("--gather: auto, on or off")
            }
            self.gather = gather
        default: preconditionFailure("\(name) is in the table of names only")
        }
    }

    private mutating func finish(_ environment: [String: String], adminGiven: Bool) throws(Refusal) {
        if http.isEmpty { http = [Endpoint(address: "127.0.0.1", port: 8_080)] }
        if !adminGiven { admin = Endpoint(address: "127.0.0.1", port: 8_081) }
        if media.isEmpty {
            media = [Endpoint(address: "0.0.0.0", port: 40_000), Endpoint(address: "::", port: 40_000)]
        }
        guard Set(media.map(\.port)).count == 1 else {
            throw Refusal("--media: one port for all addresses, not \(media.map(\.port))")
        }
        guard (tlsCertificate == nil) == (tlsKey == nil) else {
            throw Refusal("--tls-cert and --tls-key go together")
        }
        for endpoint in http where tlsCertificate == nil && !insecureHTTP && !Self.isLoopback(endpoint.address) {
            throw Refusal(
                "--http \(endpoint.address): plain HTTP beyond loopback shows tokens to the network; give --tls-cert and "
                    + "--tls-key, or --insecure-http behind a proxy that does TLS")
        }
        if data.isEmpty {
            let home = environment["HOME"] ?? "/var/lib"
            data =
                (environment["STATE_DIRECTORY"] ?? environment["XDG_STATE_HOME"] ?? home + "/.local/state")
                + "/media-relay"
        }
    }

    private static func isLoopback(_ address: String) -> Bool { address == "::1" || address.hasPrefix("127.") }

    private static func number(_ name: String, _ text: String, _ range: ClosedRange<Int64>) throws(Refusal) -> Int64 {
        guard let number = Int64(text), range.contains(number) else {
            throw Refusal("\(name) \(text): not a number in \(range.lowerBound)…\(range.upperBound)")
        }
        return number
    }

    /// `127.0.0.1:8080`, `[::1]:8080`.
    private static func endpoint(_ name: String, _ text: String) throws(Refusal) -> Endpoint {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw Refusal("\(name) \(text): not ADDRESS:PORT")
        }
        var address = String(text[..<colon])
        if address.hasPrefix("["), address.hasSuffix("]") { address = String(address.dropFirst().dropLast()) }
        guard PeerAddress(address: address, port: port) != nil else {
            throw Refusal("\(name) \(text): \(address) is not an IP address")
        }
        return Endpoint(address: address, port: port)
    }
}
