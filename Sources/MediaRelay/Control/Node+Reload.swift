import RelayCore
import RelayHTTP

// SIGHUP: the file of options and every file that options name are read again. What a running node can take up it does, all or
// nothing; what it cannot is named in the log and waits for a restart.

extension Node {
    /// `read` gives the options as a start would find them now.
    func reload(_ read: () throws(ServeOptions.Refusal) -> ServeOptions) {
        do {
            let report = try takeUp(try read())
            log.write(
                .info, report.changed.isEmpty ? "reloaded: nothing has changed" : "reloaded",
                .init("changed", .array(report.changed.map { .string($0) })))
            guard !report.waiting.isEmpty else { return }
            log.write(
                .warning, "changed, and taken up at the next start only",
                .init("options", .array(report.waiting.map { .string($0) })))
        } catch {
            log.write(.error, "nothing was reloaded, all stays as it was: \(error)")
        }
    }

    private func takeUp(_ next: ServeOptions) throws -> (changed: [String], waiting: [String]) {
        // Everything that can be refused comes first.
        let keys = try KeyLoader.keys(next.keys)
        let named = try WebhookEndpoint.endpoints(of: next)
        let (library, faults) = SoundFolder.library(folder: next.prompts)
        try server.reloadTLS()
        var changes = ReloadChanges(from: options, to: next)
        let read = options.tlsCertificate.flatMap { ConfigurationInput.contents(of: $0) }
        if read != certificate { changes.read(.tlsCertificate) }
        certificate = read
        use(keys, &changes)
        use(named, &changes)
        api.verifier.maxLifetimeSeconds = next.maxTokenLifetimeSeconds
        api.requestsPerSecond = next.requestsPerSecond
        router.use(api)
        journalThread.post(.retain(next.retention))
        mailbox.post(.admission(next.admission))
        log.use(level: next.logLevel)
        for fault in faults { log.write(.warning, "a prompt's file is left out: \(fault)") }
        if library != sounds {
            sounds = library
            mailbox.post(.sounds(library))
            changes.read(.prompts)
        }
        for name in changes.live { options.take(name, from: next) }
        return (changes.changed.map(\.rawValue), changes.waiting.map(\.rawValue))
    }

    private func use(_ keys: [SigningKey], _ changes: inout ReloadChanges) {
        guard !keys.isEmpty else {
            // A node without keys has drawn one; one that had keys does not go on with a key that nobody knows.
            if !options.keys.isEmpty { changes.keep(.key) }
            return
        }
        let old = api.verifier.keys
        if old.count != keys.count || !zip(old, keys).allSatisfy({ $0.isSame(as: $1) }) { changes.read(.key) }
        api.verifier.keys = keys
        if options.demo {
            api.demoKey = keys[0]
            answers.use(demoKey: keys[0])
        }
    }

    /// URLs and secrets of the webhooks that run. Their set and their dialects are bound to places in the log.
    private func use(_ next: [WebhookEndpoint], _ changes: inout ReloadChanges) {
        let old = endpoints
        endpoints = old.map { endpoint in
            guard var named = next.first(where: { $0.name == endpoint.name }) else { return endpoint }
            named.dialect = endpoint.dialect
            return named
        }
        if zip(old, endpoints).contains(where: { $0.secrets != $1.secrets }) { changes.read(.webhookSecret) }
        if Set(old.map(\.name)) != Set(next.map(\.name)) { changes.keep(.webhook) }
        webhooks.use(endpoints)
    }
}

/// What a reload changes and what it leaves to the next start. A pure value.
struct ReloadChanges {
    private(set) var live: [OptionName]
    /// Values that changed, and files that were read again.
    private(set) var changed: [OptionName]
    private(set) var waiting: [OptionName]

    init(from old: ServeOptions, to new: ServeOptions) {
        let all = old.differences(from: new)
        // Of the certificate the files are read again; their paths are the server's.
        waiting = all.filter { !NodeOption.of($0).isLive || $0 == .tlsCertificate || $0 == .tlsKey }
        live = all.filter { NodeOption.of($0).isLive && $0 != .tlsCertificate && $0 != .tlsKey }
        changed = live
    }

    mutating func read(_ name: OptionName) {
        if !changed.contains(name) { changed.append(name) }
    }

    /// Not taken up after all.
    mutating func keep(_ name: OptionName) {
        live.removeAll { $0 == name }
        changed.removeAll { $0 == name }
        if !waiting.contains(name) { waiting.append(name) }
    }
}

extension WebhookEndpoint {
    static func endpoints(of options: ServeOptions) throws(Failure) -> [WebhookEndpoint] {
        try endpoints(
            urls: options.webhooks, secrets: options.webhookSecrets, dialects: options.webhookDialects,
            allowsPlainHTTP: options.webhookInsecureHTTP)
    }
}
