import Glibc

/// `media-relay config print|check|default|reference`: shows or judges what `serve` with the same options would take. Starts nothing.
package enum ConfigCommand {
    /// Exit codes: 0; 2 for what a node would refuse.
    package static func run(
        arguments: [String], environment: [String: String],
        output: (String) -> Void = { ServeProcess.print($0, to: 1) },
        errors: (String) -> Void = { ServeProcess.print($0, to: 2) }
    ) -> Int32 {
        guard let verb = arguments.first, ["print", "check", "default", "reference"].contains(verb) else {
            errors("media-relay config: print, check, default or reference is needed (see media-relay config --help)\n")
            return 2
        }
        if verb == "reference" || verb == "default" {
            output(verb == "default" ? ConfigurationText.template : ConfigurationText.reference)
            return 0
        }
        do {
            let options = try ServeOptions(
                arguments: Array(arguments.dropFirst()), environment: environment,
                processors: sysconf(Int32(_SC_NPROCESSORS_ONLN)))
            if verb == "print" {
                output(ConfigurationText.print(options))
                return 0
            }
            let notes = try check(options, environment)
            for note in notes { output("note: \(note)\n") }
            output("The configuration is good.\n")
            return 0
        } catch {
            errors("media-relay config: \(error)\n")
            return 2
        }
    }

    /// Reads everything that the options name, as a start would. Returns what is allowed but may not be meant.
    package static func check(_ options: ServeOptions, _ environment: [String: String]) throws -> [String] {
        let keys = try KeyLoader.keys(options.keys)
        _ = try WebhookEndpoint.endpoints(
            urls: options.webhooks, secrets: options.webhookSecrets, dialects: options.webhookDialects,
            allowsPlainHTTP: options.webhookInsecureHTTP)
        for (name, path) in [
            (OptionName.tlsCertificate, options.tlsCertificate), (.tlsKey, options.tlsKey),
            (.webhookAuthorities, options.webhookAuthorities),
        ] {
            guard let path, access(path, R_OK) != 0 else { continue }
            throw ServeOptions.Refusal("\(name.flag) \(path): \(Syscall.text(of: errno))")
        }
        if let certificate = options.tlsCertificate, let key = options.tlsKey {
            let facts = CertificateFacts(certificate: certificate, key: key)
            if let fault = facts.fault { throw ServeOptions.Refusal("--tls-cert, --tls-key: \(fault)") }
            guard facts.matchesKey else {
                throw ServeOptions.Refusal("--tls-key \(key): not the key of the certificate \(certificate)")
            }
        }
        var notes = SoundFolder.library(folder: options.prompts).faults.map { "a prompt's file is left out: \($0)" }
        if keys.isEmpty { notes.append("no key: a random one is made at each start") }
        let known = Set(OptionName.allCases.map(\.variable)).union(["MEDIA_RELAY_URL", "MEDIA_RELAY_CA"])
        for name in environment.keys.sorted() where name.hasPrefix("MEDIA_RELAY_") && !known.contains(name) {
            notes.append("\(name) is not the name of an option")
        }
        return notes
    }
}
