import RelayCore

// What a node keeps and reads: data folder, certificate, keys, webhooks.

extension Doctor {
    static func files(_ options: ServeOptions, _ facts: HostFacts) -> [Finding] {
        [data(options, facts)] + recordings(options, facts) + certificate(options, facts) + keys(options, facts)
            + webhooks(options)
    }

    private static func data(_ options: ServeOptions, _ facts: HostFacts) -> Finding {
        let folder = facts.data
        if let fault = folder.fault {
            return Finding(
                "data", .fail, "\(folder.path) \(fault)",
                advice: "give it to the user that runs the node, mode 0700, or name another by --data")
        }
        let free = folder.freeByteCount >> 20
        let words = "\(folder.path)\(folder.exists ? "" : " (made at the start)"), \(free) MiB free"
        switch folder.filesystem {
        case .network:
            return Finding(
                "data", .fail, words + ", on a network file system: the journal's locks do not hold there",
                advice: "name a folder on a local disk by --data")
        case .memory:
            return Finding(
                "data", .warn, words + ", in memory: events and calls' records are gone after a restart of the machine",
                advice: "name a folder on a disk by --data")
        case .local: break
        }
        guard free >= 64 else {
            return Finding("data", .fail, words, advice: "make room: nothing is told that cannot be stored")
        }
        // The log at its largest, and call records for a while.
        let wanted = (options.retention.byteCount >> 20) + 1_024
        guard free >= wanted || folder.exists && facts.runningProcess != nil else {
            return Finding(
                "data", .warn, words + "; a full log takes \(options.retention.byteCount >> 20) MiB, call records more",
                advice: "make room, or keep less by --retain-mebibytes")
        }
        return Finding("data", .ok, words)
    }

    private static func recordings(_ options: ServeOptions, _ facts: HostFacts) -> [Finding] {
        guard let folder = facts.recordings else { return [] }
        if let fault = folder.fault {
            return [
                Finding(
                    "recordings", .fail, "\(folder.path) \(fault)",
                    advice: "give it to the user that runs the node, mode 0700, or name another by --recordings")
            ]
        }
        let free = folder.freeByteCount >> 20
        let words = "\(folder.path)\(folder.exists ? "" : " (made at the first recording)"), \(free) MiB free"
        let wanted = min(options.recordingsByteLimit >> 20, options.recordingBounds.mebibytes)
        guard free >= wanted else {
            return [
                Finding(
                    "recordings", .warn, words + "; one recording may take \(wanted) MiB",
                    advice: "make room, or record less by --recording-mebibytes: a full disk ends recordings")
            ]
        }
        guard folder.filesystem != .memory else {
            return [
                Finding(
                    "recordings", .warn, words + ", in memory: they are gone after a restart of the machine",
                    advice: "name a folder on a disk by --recordings")
            ]
        }
        return [Finding("recordings", .ok, words)]
    }

    private static func certificate(_ options: ServeOptions, _ facts: HostFacts) -> [Finding] {
        guard let certificate = facts.certificate else {
            let isOpen = options.http.contains { !ServeOptions.isLoopback($0.address) }
            return isOpen
                ? [
                    Finding(
                        "certificate", .warn, "plain HTTP beyond loopback (--insecure-http)",
                        advice: "only behind a proxy that does TLS; else --tls-cert and --tls-key")
                ] : []
        }
        if let fault = certificate.fault {
            return [Finding("certificate", .fail, fault, advice: "change --tls-cert or --tls-key")]
        }
        guard certificate.matchesKey else {
            return [
                Finding(
                    "certificate", .fail, "certificate and key do not belong together",
                    advice: "name the key that the certificate was made for by --tls-key")
            ]
        }
        let now = facts.wallClockMs / 1_000
        let until = "good until \(Timestamp.text(ofMs: certificate.notAfter * 1_000).prefix(10))"
        let days = (certificate.notAfter - now) / 86_400
        if now < certificate.notBefore {
            return [Finding("certificate", .fail, "not good yet", advice: "look at the clock, or wait")]
        }
        if now >= certificate.notAfter {
            return [Finding("certificate", .fail, "expired, \(until)", advice: "renew it, then send SIGHUP")]
        }
        if days < 14 {
            return [
                Finding(
                    "certificate", .warn, "\(until): \(days) days",
                    advice: "renew it, then send SIGHUP: nothing is interrupted")
            ]
        }
        return [Finding("certificate", .ok, until)]
    }

    private static func keys(_ options: ServeOptions, _ facts: HostFacts) -> [Finding] {
        var findings: [Finding] = []
        do throws(KeyLoader.Failure) {
            let keys = try KeyLoader.keys(options.keys)
            if keys.isEmpty {
                findings.append(
                    Finding(
                        "keys", .warn, "none: a random one at each start, which no signaling server knows",
                        advice: "--key KID:@FILE, with a secret of 32 bytes or more"))
            } else {
                let words = keys.map { "\($0.id) (\($0.algorithm))" }.joined(separator: ", ")
                findings.append(Finding("keys", .ok, words))
            }
        } catch {
            findings.append(Finding("keys", .fail, error.description, advice: "change --key"))
        }
        let isShown = [OptionName.key, .webhookSecret].contains { name in
            options.given[name]?.source == .flag
                && options.values(of: name).contains { !$0.contains(":@") && !$0.contains("=@") }
        }
        if isShown {
            findings.append(
                Finding(
                    "keys", .warn, "a secret is an argument: every user of the machine can read it",
                    advice: "put it into a file: KID:@FILE, NAME=@FILE"))
        }
        for file in facts.keyFiles where file.isOpenToOthers {
            findings.append(
                Finding("keys", .warn, "\(file.path) can be read by everybody", advice: "chmod 0600 \(file.path)"))
        }
        return findings
    }

    private static func webhooks(_ options: ServeOptions) -> [Finding] {
        guard !options.webhooks.isEmpty || !options.webhookSecrets.isEmpty else { return [] }
        do throws(WebhookEndpoint.Failure) {
            let names = try WebhookEndpoint.endpoints(of: options).map(\.name).joined(separator: ", ")
            return [Finding("webhooks", .ok, names)]
        } catch {
            return [Finding("webhooks", .fail, error.description, advice: "change the options of this webhook")]
        }
    }
}
