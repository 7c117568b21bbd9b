import RelayCore

extension NodeOption {
    /// The one table. Its order is that of `--help` and of the reference.
    package static let all: [NodeOption] = addresses + node + recordings + access + webhooks + retention + log

    private static let addresses: [NodeOption] = [
        NodeOption(
            name: .http, group: .addresses, form: .endpoint, value: "ADDR:PORT", standard: "127.0.0.1:8080",
            isRepeatable: true, summary: "where the API listens (TCP)"),
        NodeOption(
            name: .admin, group: .addresses, form: .endpointOrOff, value: "ADDR:PORT|off", standard: "127.0.0.1:8081",
            summary: "where metrics and the node's state are shown without a key; off: nowhere"),
        NodeOption(
            name: .media, group: .addresses, form: .endpoint, value: "ADDR:PORT", standard: "0.0.0.0:40000, [::]:40000",
            isRepeatable: true,
            summary: "where media arrives (UDP), one port for all addresses; N workers use 2 N ports from there on"),
        NodeOption(
            name: .mediaTCP, group: .addresses, form: .port(["same", "off"]), value: "PORT|same|off", standard: "same",
            summary: "first TCP port for media where UDP is blocked; same: the numbers of the UDP ports; off: none"),
        NodeOption(
            name: .announce, group: .addresses, form: .address, value: "IP",
            standard: "the bound addresses; with a wildcard, every address of this host", isRepeatable: true,
            summary: "what clients are told when it is not the bound address (NAT)"),
    ]

    private static let node: [NodeOption] = [
        NodeOption(
            name: .config, group: .node, form: .file, value: "FILE", standard: "none",
            summary: "JSON5 file of options, by their names without dashes; flags and environment win over it"),
        NodeOption(
            name: .data, group: .node, form: .folder, value: "DIR",
            standard: "media-relay in $STATE_DIRECTORY, $XDG_STATE_HOME or ~/.local/state",
            summary: "journal and link socket; one node at a time"),
        NodeOption(
            name: .workers, group: .node, form: .number(1...64), value: "N", unit: "processes",
            standard: "CPUs less one, at least 1", summary: "media processes, one for each media core"),
        NodeOption(
            name: .gather, group: .node, form: .word(["auto", "on", "off"]), value: "auto|on|off", standard: "auto",
            summary: "bounded wait for more packets under load"),
        NodeOption(
            name: .transportsPerWorker, group: .node, form: .number(1...Int64(EngineConfiguration().maxTransports)),
            value: "N", unit: "sessions", standard: "2000", summary: "what a worker takes before new ones get 503"),
        NodeOption(
            name: .admission, group: .node, form: .word(["on", "off"]), value: "on|off", standard: "on", reload: .live,
            summary: "new sessions get 503 while no worker is under its overload bounds; off: only their number counts"),
        NodeOption(
            name: .overloadCPU, group: .node, form: .number(1...100), value: "N", unit: "percent of a core",
            standard: "85", reload: .live,
            summary:
                "what a worker's media loop uses when it closes; it opens again under 82 % of that, as of all bounds"),
        NodeOption(
            name: .overloadBacklog, group: .node, form: .number(0...10_000), value: "N", unit: "milliseconds",
            standard: "100", reload: .live,
            summary: "how long a worker is behind its sockets when it closes; 0: any"),
        NodeOption(
            name: .overloadPackets, group: .node, form: .number(0...100_000_000), value: "N",
            unit: "packets per second",
            standard: "0", reload: .live, summary: "what a worker receives when it closes; 0: any"),
        NodeOption(
            name: .overloadMemory, group: .node, form: .number(0...1_048_576), value: "N", unit: "MiB",
            standard: "4096",
            reload: .live, summary: "memory that a worker holds when it closes; 0: any"),
        NodeOption(
            name: .upgradeDeadline, group: .node, form: .number(0...2_592_000), value: "S", unit: "seconds",
            standard: "14400",
            summary: "how long a worker may carry its calls on after an upgrade; what is left ends as drained"),
        NodeOption(
            name: .prompts, group: .node, form: .folder, value: "DIR", standard: "none: tones only",
            reload: .liveNote("what is being played goes on as it was"),
            summary: "sounds for prompts, NAME.opus (Ogg Opus)"),
        NodeOption(
            name: .demo, group: .node, form: .on, value: "", standard: "false",
            summary: "serve the demo page, with tokens for anybody"),
    ]

    private static let recordings: [NodeOption] = [
        NodeOption(
            name: .recordings, group: .recordings, form: .folder, value: "DIR", standard: "none: nothing is recorded",
            summary: "where recordings are kept, a folder for each (made with mode 0700)"),
        NodeOption(
            name: .recordingMinutes, group: .recordings, form: .number(1...10_080), value: "N", unit: "minutes",
            standard: "240", summary: "longest recording"),
        NodeOption(
            name: .recordingMebibytes, group: .recordings, form: .number(1...1_048_576), value: "N", unit: "MiB",
            standard: "4096", summary: "largest recording, all its files together"),
        NodeOption(
            name: .recordingsMebibytes, group: .recordings, form: .number(1...1_073_741_824), value: "N", unit: "MiB",
            standard: "65536", summary: "size of the whole folder at which recordings end; looked at every 10 s"),
    ]

    private static let access: [NodeOption] = [
        NodeOption(
            name: .key, group: .access, form: .text, value: "KID:SECRET|KID:@FILE",
            standard: "a random one, with a server token printed once", isRepeatable: true, isSecret: true,
            reload: .liveNote("files are read again, too"),
            summary: "signing key: a secret of at least 32 bytes (HS256), or a file with one or with a PEM key (ES256)"),
        NodeOption(
            name: .maxTokenLifetime, group: .access, form: .number(60...31_536_000), value: "S", unit: "seconds",
            standard: "43200", reload: .live, summary: "longest life of a token"),
        NodeOption(
            name: .requestsPerSecond, group: .access, form: .number(1...1_000_000), value: "N",
            unit: "requests per second", standard: "100", reload: .live,
            summary: "what one participant's token may ask"),
        NodeOption(
            name: .tlsCertificate, group: .access, form: .file, value: "FILE", standard: "none: plain HTTP",
            reload: .liveNote("the file is read again; another path needs a restart"),
            summary: "certificate and its chain (PEM) for HTTPS, with tls-key"),
        NodeOption(
            name: .tlsKey, group: .access, form: .file, value: "FILE", standard: "none",
            reload: .liveNote("the file is read again; another path needs a restart"),
            summary: "the certificate's private key (PEM)"),
        NodeOption(
            name: .insecureHTTP, group: .access, form: .on, value: "", standard: "false",
            summary: "allow plain HTTP on addresses that are not loopback, behind a proxy that does TLS"),
    ]

    private static let webhooks: [NodeOption] = [
        NodeOption(
            name: .webhook, group: .webhooks, form: .text, value: "NAME=URL", standard: "none", isRepeatable: true,
            isSecret: true, reload: .liveNote("URLs of known names; a new or missing name needs a restart"),
            summary: "POST every event there; at most 16"),
        NodeOption(
            name: .webhookSecret, group: .webhooks, form: .text, value: "NAME=whsec_…|NAME=@FILE",
            standard: "none: each webhook needs one", isRepeatable: true, isSecret: true,
            reload: .liveNote("files are read again, too"),
            summary: "signs the requests of a webhook; a file has one a line"),
        NodeOption(
            name: .webhookDialect, group: .webhooks, form: .text, value: "NAME=current|NAME=legacy",
            standard: "current", isRepeatable: true,
            summary: "legacy: in the words of the earlier ringing dialect"),
        NodeOption(
            name: .webhookAuthorities, group: .webhooks, form: .file, value: "FILE", standard: "the system's",
            summary: "authorities that webhooks' certificates are verified by (PEM)"),
        NodeOption(
            name: .webhookInsecureHTTP, group: .webhooks, form: .on, value: "", standard: "false", reload: .live,
            summary: "allow plain HTTP to webhooks that are not on loopback"),
    ]

    private static let retention: [NodeOption] = [
        NodeOption(
            name: .retainHours, group: .retention, form: .number(1...8_760), value: "N", unit: "hours",
            standard: "168", reload: .live, summary: "age of the oldest event in the log"),
        NodeOption(
            name: .retainEvents, group: .retention, form: .number(1_000...1_000_000_000), value: "N", unit: "events",
            standard: "1000000", reload: .live, summary: "how many events the log holds"),
        NodeOption(
            name: .retainMebibytes, group: .retention, form: .number(1...1_048_576), value: "N", unit: "MiB",
            standard: "2048", reload: .live, summary: "size of the events in the log"),
    ]

    private static let log: [NodeOption] = [
        NodeOption(
            name: .log, group: .log, form: .word(["text", "json"]), value: "text|json", standard: "text",
            summary: "form of the log"),
        NodeOption(
            name: .logLevel, group: .log, form: .word(["debug", "info", "warning", "error"]), value: "LEVEL",
            standard: "info", reload: .live, summary: "the least important entry that is written"),
    ]
}
