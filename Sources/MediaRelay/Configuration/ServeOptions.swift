import Glibc
import RTPCore
import RelayCore

/// What a node is told, by flags, environment or file, with every default filled in. What options there are says `NodeOption`; here
/// is what their values mean. Refuses what would be unsafe: plain HTTP beyond loopback without a word.
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
    package var transportsPerWorker = ConductorConfiguration().transportsPerWorker
    package var admission = AdmissionBounds()
    package var upgradeDeadlineSeconds: Int64 = 14_400
    /// `NAME=URL`; `NAME=whsec_…` or `NAME=@FILE`; `NAME=legacy`.
    package var webhooks: [String] = []
    package var webhookSecrets: [String] = []
    package var webhookDialects: [String] = []
    package var webhookAuthorities: String?
    package var webhookInsecureHTTP = false
    /// Where sounds for prompts lie; nil: tones only.
    package var prompts: String?
    package var retention = JournalRetention()
    /// Where recordings are kept; nil: nothing is recorded.
    package var recordings: String?
    package var recordingBounds = RecordingBounds(minutes: 240, mebibytes: 4_096)
    /// Of the whole folder.
    package var recordingsByteLimit: Int64 = 65_536 << 20

    package struct Refusal: Error, CustomStringConvertible, Equatable {
        package var description: String
        package init(_ description: String) { self.description = description }
    }

    /// Where each option that was given comes from; the others hold their defaults.
    package private(set) var given: [OptionName: GivenOption] = [:]
    /// The file that `--config` names.
    package var configFile: String?

    /// Flags win over the environment, the environment over the file, option by option.
    package init(
        arguments: [String], environment: [String: String], processors: Int,
        readFile: (String) -> [UInt8]? = ConfigurationInput.contents
    ) throws(Refusal) {
        let input = try ConfigurationInput(arguments: arguments, environment: environment, readFile: readFile)
        workers = min(64, max(1, processors - 1))
        given = input.options
        for name in OptionName.allCases {
            if let option = given[name] { try set(option) }
        }
        try finish(environment, adminGiven: given[.admin] != nil)
    }

    private mutating func set(_ given: GivenOption) throws(Refusal) {
        let values = given.values
        // Of an option that is given, sources bring one value at least.
        guard let value = values.first else { throw Refusal("\(given.label): its value is missing") }
        switch given.name {
        case .config: configFile = value
        case .http: http = try Self.endpoints(given)
        case .media: media = try Self.endpoints(given)
        case .mediaTCP:
            guard let tcp = MediaTCP(value) else { throw Self.refusal(given, value) }
            mediaTCP = tcp
        case .admin: admin = value == "off" ? nil : try Self.endpoints(given)[0]
        case .announce:
            for value in values where PeerAddress(address: value, port: 0) == nil { throw Self.refusal(given, value) }
            announce = values
        case .data: data = value
        case .key: keys = values
        case .workers: workers = Int(try Self.number(given))
        case .demo: demo = try Self.flag(given)
        case .insecureHTTP: insecureHTTP = try Self.flag(given)
        case .tlsCertificate: tlsCertificate = value
        case .tlsKey: tlsKey = value
        case .maxTokenLifetime: maxTokenLifetimeSeconds = try Self.number(given)
        case .requestsPerSecond: requestsPerSecond = try Self.number(given)
        case .upgradeDeadline: upgradeDeadlineSeconds = try Self.number(given)
        case .log:
            guard let format = Log.Format(rawValue: value) else { throw Self.refusal(given, value) }
            logFormat = format
        case .logLevel:
            guard let level = Log.Level.allCases.first(where: { $0.name == value }) else {
                throw Self.refusal(given, value)
            }
            logLevel = level
        case .webhook: webhooks = values
        case .webhookSecret: webhookSecrets = values
        case .webhookDialect: webhookDialects = values
        case .webhookAuthorities: webhookAuthorities = value
        case .webhookInsecureHTTP: webhookInsecureHTTP = try Self.flag(given)
        case .prompts: prompts = value
        case .recordings: recordings = value
        case .recordingMinutes: recordingBounds.minutes = try Self.number(given)
        case .recordingMebibytes: recordingBounds.mebibytes = try Self.number(given)
        case .recordingsMebibytes: recordingsByteLimit = try Self.number(given) << 20
        case .retainHours: retention.ageMs = try Self.number(given) * 3_600_000
        case .retainEvents: retention.events = Int(try Self.number(given))
        case .retainMebibytes: retention.byteCount = try Self.number(given) << 20
        case .gather:
            guard let gather = WorkerOptions.Gather(rawValue: value) else { throw Self.refusal(given, value) }
            self.gather = gather
        case .transportsPerWorker: transportsPerWorker = Int(try Self.number(given))
        case .admission:
            guard ["on", "off"].contains(value) else { throw Self.refusal(given, value) }
            admission.isOn = value == "on"
        case .overloadCPU: admission.cpuPercent = Int(try Self.number(given))
        case .overloadBacklog: admission.backlogMs = Int(try Self.number(given))
        case .overloadPackets: admission.packetsPerSecond = Int(try Self.number(given))
        case .overloadMemory: admission.mebibytes = Int(try Self.number(given))
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

    package static func isLoopback(_ address: String) -> Bool { address == "::1" || address.hasPrefix("127.") }

    /// Names option, value and what is possible.
    private static func refusal(_ given: GivenOption, _ value: String) -> Refusal {
        Refusal("\(given.label) \(value): not one of: \(NodeOption.of(given.name).range)")
    }

    private static func flag(_ given: GivenOption) throws(Refusal) -> Bool {
        switch given.values[0] {
        case "true", "1": return true
        case "false", "0": return false
        default: throw refusal(given, given.values[0])
        }
    }

    private static func number(_ given: GivenOption) throws(Refusal) -> Int64 {
        let option = NodeOption.of(given.name)
        guard case .number(let range) = option.form else { preconditionFailure("\(given.name) is no number") }
        guard let number = Int64(given.values[0]), range.contains(number) else {
            let unit = option.unit.map { " (\($0))" } ?? ""
            throw Refusal("\(given.label) \(given.values[0]): not a number in \(option.range)\(unit)")
        }
        return number
    }

    /// `127.0.0.1:8080`, `[::1]:8080`.
    private static func endpoints(_ given: GivenOption) throws(Refusal) -> [Endpoint] {
        var endpoints: [Endpoint] = []
        for text in given.values {
            guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
                throw Refusal("\(given.label) \(text): not ADDRESS:PORT")
            }
            var address = String(text[..<colon])
            if address.hasPrefix("["), address.hasSuffix("]") { address = String(address.dropFirst().dropLast()) }
            guard PeerAddress(address: address, port: port) != nil else {
                throw Refusal("\(given.label) \(text): \(address) is not an IP address")
            }
            endpoints.append(Endpoint(address: address, port: port))
        }
        return endpoints
    }
}

extension ServeOptions.Endpoint {
    /// As it is given: `[::1]:8080`.
    package var text: String { address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)" }
}
