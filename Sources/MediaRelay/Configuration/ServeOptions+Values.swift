import RelayCore

// The effective values as texts, in the form in which they are given: for `config print`, and to tell what a reload changes.

import RelayCore

extension ServeOptions {
    /// The values that hold for an option; none where there is nothing (no certificate, no webhook).
    package func values(of name: OptionName) -> [String] {
        switch name {
        case .config: configFile.map { [$0] } ?? []
        case .http: http.map(\.text)
        case .admin: [admin?.text ?? "off"]
        case .media: media.map(\.text)
        case .mediaTCP: [mediaTCP.text]
        case .announce: announce
        case .data: [data]
        case .workers: ["\(workers)"]
        case .gather: [gather.rawValue]
        case .transportsPerWorker: ["\(transportsPerWorker)"]
        case .admission: [admission.isOn ? "on" : "off"]
        case .overloadCPU: ["\(admission.cpuPercent)"]
        case .overloadBacklog: ["\(admission.backlogMs)"]
        case .overloadPackets: ["\(admission.packetsPerSecond)"]
        case .overloadMemory: ["\(admission.mebibytes)"]
        case .upgradeDeadline: ["\(upgradeDeadlineSeconds)"]
        case .prompts: prompts.map { [$0] } ?? []
        case .recordings: recordings.map { [$0] } ?? []
        case .recordingMinutes: ["\(recordingBounds.minutes)"]
        case .recordingMebibytes: ["\(recordingBounds.mebibytes)"]
        case .recordingsMebibytes: ["\(recordingsByteLimit >> 20)"]
        case .demo: ["\(demo)"]
        case .key: keys
        case .maxTokenLifetime: ["\(maxTokenLifetimeSeconds)"]
        case .requestsPerSecond: ["\(requestsPerSecond)"]
        case .tlsCertificate: tlsCertificate.map { [$0] } ?? []
        case .tlsKey: tlsKey.map { [$0] } ?? []
        case .insecureHTTP: ["\(insecureHTTP)"]
        case .webhook: webhooks
        case .webhookSecret: webhookSecrets
        case .webhookDialect: webhookDialects
        case .webhookAuthorities: webhookAuthorities.map { [$0] } ?? []
        case .webhookInsecureHTTP: ["\(webhookInsecureHTTP)"]
        case .retainHours: ["\(retention.ageMs / 3_600_000)"]
        case .retainEvents: ["\(retention.events)"]
        case .retainMebibytes: ["\(retention.byteCount >> 20)"]
        case .log: [logFormat.rawValue]
        case .logLevel: [logLevel.name]
        }
    }

    /// The same without secrets: what names a file or a webhook stays, what must not be seen is `redacted`.
    package func shownValues(of name: OptionName) -> [String] {
        values(of: name).map { value in
            switch name {
            case .key: Self.redacted(value, behind: ":")
            case .webhookSecret: Self.redacted(value, behind: "=")
            case .webhook: Self.redactedURL(value)
            default: value
            }
        }
    }

    /// `KID:@FILE` stays, of `KID:SECRET` the id. What has no id could be anything.
    private static func redacted(_ value: String, behind mark: Character) -> String {
        guard let end = value.firstIndex(of: mark) else { return "redacted" }
        let rest = value[value.index(after: end)...]
        return rest.hasPrefix("@") ? value : value[...end] + "redacted"
    }

    /// A webhook's URL may hold a secret in its path or query: scheme and host stay.
    private static func redactedURL(_ value: String) -> String {
        guard let equals = value.firstIndex(of: "="),
            let host = value[equals...].firstRange(of: "://")?.upperBound
        else { return redacted(value, behind: "=") }
        guard let path = value[host...].firstIndex(where: { "/?".contains($0) }),
            value.index(after: path) != value.endIndex
        else { return value }
        return value[...path] + "redacted"
    }

    /// Takes over one option's value: of those that a running node can take up.
    package mutating func take(_ name: OptionName, from other: ServeOptions) {
        switch name {
        case .admission: admission.isOn = other.admission.isOn
        case .overloadCPU: admission.cpuPercent = other.admission.cpuPercent
        case .overloadBacklog: admission.backlogMs = other.admission.backlogMs
        case .overloadPackets: admission.packetsPerSecond = other.admission.packetsPerSecond
        case .overloadMemory: admission.mebibytes = other.admission.mebibytes
        case .prompts: prompts = other.prompts
        case .key: keys = other.keys
        case .maxTokenLifetime: maxTokenLifetimeSeconds = other.maxTokenLifetimeSeconds
        case .requestsPerSecond: requestsPerSecond = other.requestsPerSecond
        case .webhook: webhooks = other.webhooks
        case .webhookSecret: webhookSecrets = other.webhookSecrets
        case .webhookInsecureHTTP: webhookInsecureHTTP = other.webhookInsecureHTTP
        case .retainHours: retention.ageMs = other.retention.ageMs
        case .retainEvents: retention.events = other.retention.events
        case .retainMebibytes: retention.byteCount = other.retention.byteCount
        case .logLevel: logLevel = other.logLevel
        default: preconditionFailure("\(name) is not taken up while running")
        }
    }

    /// What differs in `other`, in the table's order.
    package func differences(from other: ServeOptions) -> [OptionName] {
        NodeOption.all.map(\.name).filter { values(of: $0) != other.values(of: $0) }
    }
}
