import MediaRelay
import RelayCore
import RelayLoadKit

extension Command {
    /// Every command, in the order of `--help`.
    static let all: [Command] = running + looking + acting + recording + draining + tools

    static func named(_ path: [String]) -> Command? { all.first { $0.path == path } }

    /// What leads to a running node.
    private static let connection: [Option] = [
        Option(
            name: "url", shown: "URL", value: .text,
            summary: "the node's API (MEDIA_RELAY_URL; default: the http of the configuration, http://127.0.0.1:8080)"),
        Option(
            name: "key", shown: "KID:SECRET|KID:@FILE", value: .text,
            summary: "one of the node's keys, to sign with (MEDIA_RELAY_KEY; default: the key of the configuration)"),
        Option(name: "config", shown: "FILE", value: .file, summary: "the node's configuration (MEDIA_RELAY_CONFIG)"),
        Option(
            name: "ca", shown: "FILE", value: .file,
            summary: "authorities that its certificate is verified by, PEM (MEDIA_RELAY_CA; default: the system's)"),
    ]
    private static let json = Option(name: "json", summary: "as JSON, for programs")
    private static let jsonLines = Option(name: "json", summary: "as JSON, one object a line, for programs")
    private static let room = Operand(name: "ROOM", summary: "the room's id")

    private static let running: [Command] = [
        Command(
            path: ["serve"], summary: "run a node",
            details: [
                "SIGTERM and SIGINT end all calls and the node. SIGHUP reads the configuration file, and the files that it names, "
                    + "again; where the program was replaced, the new one takes over, and calls go on. SIGUSR2 lets the program "
                    + "take over from itself, with all of its options read anew."
            ],
            examples: ["media-relay serve --config /etc/media-relay/media-relay.json5"], takesNodeOptions: true),
        Command(path: ["worker"], summary: "a media process, started by serve", isHidden: true),
        Command(
            path: ["trial"], summary: "whether this program could take over a node, asked by serve", isHidden: true),
        Command(
            path: ["config", "print"], summary: "show the configuration that holds, and where each value comes from",
            details: ["It is a configuration file itself. Secrets are redacted."], takesNodeOptions: true),
        Command(
            path: ["config", "check"], summary: "say whether a node would take the configuration",
            details: ["Reads the files that it names, too. Starts nothing."], takesNodeOptions: true),
        Command(
            path: ["config", "default"], summary: "write a configuration file with every option as a comment",
            examples: ["media-relay config default > /etc/media-relay/media-relay.json5"]),
        Command(path: ["config", "reference"], summary: "write docs/configuration.md", isHidden: true),
        Command(path: ["metrics", "reference"], summary: "write docs/metrics.md", isHidden: true),
    ]

    private static let looking: [Command] = [
        Command(
            path: ["rooms", "list"], summary: "the rooms of a running node",
            options: [
                Option(
                    name: "status", shown: "STATUS", value: .words(["initiated", "ongoing", "ended"]),
                    summary: "of this state only (default: initiated and ongoing)"),
                Option(name: "uid", shown: "UID", value: .text, summary: "with this user"), limit, jsonLines,
            ] + connection, examples: ["media-relay rooms list --status ongoing"]),
        Command(
            path: ["rooms", "show"], summary: "one room with everybody in it", operands: [room],
            options: [json] + connection),
        Command(
            path: ["calls", "list"], summary: "ended calls, the latest first",
            options: [
                Option(name: "uid", shown: "UID", value: .text, summary: "of this user, with its own view"),
                Option(name: "from", shown: "TIME", value: .text, summary: "ended then or later, RFC 3339"),
                Option(name: "to", shown: "TIME", value: .text, summary: "ended before then"),
                Option(name: "outcome", shown: "OUTCOME", value: .words(outcomes), summary: "that ended so"), limit,
                jsonLines,
            ] + connection,
            details: ["missed, as an outcome, needs the uid of who missed them."],
            examples: ["media-relay calls list --uid alice --outcome missed --limit 10"]),
        Command(
            path: ["calls", "show"], summary: "one ended call: when what happened, and what each leg measured",
            operands: [Operand(name: "ID", summary: "the id of the call's room")], options: [json] + connection,
            examples: ["media-relay calls show call-4711"]),
        Command(
            path: ["events"], summary: "the node's log of events",
            options: [
                Option(name: "follow", summary: "go on with what happens, until interrupted"),
                Option(
                    name: "after", shown: "SEQ", value: .text,
                    summary: "those behind this number (default: all that are kept; with --follow: from now on)"),
                Option(name: "room", shown: "ROOM", value: .text, summary: "of this room only"), jsonLines,
            ] + connection,
            details: ["With --follow an absence of the node is waited out, and nothing is missed."],
            examples: ["media-relay events --follow --room call-4711"]),
    ]

    private static let capture = Command(
        path: ["capture"], summary: "the headers of a room's packets, as a pcapng file for Wireshark", operands: [room],
        options: [
            Option(name: "out", shown: "FILE", value: .file, summary: "where to write it (needed)"),
            Option(name: "seconds", shown: "N", value: .text, summary: "how long, 1…300 (default 60)"),
            Option(name: "kibibytes", shown: "N", value: .text, summary: "at most so large, 16…16384 (default 4096)"),
            json,
        ] + connection,
        details: [
            "RTP, RTCP, STUN and DTLS headers in and out, with times and true lengths: no media, no reports, no keys. It ends "
                + "early when everybody has left. One capture a worker at a time; the log says that it ran."
        ], examples: ["media-relay capture call-4711 --out call.pcapng --seconds 20"])

    private static let outcomes = RoomOutcome.allCases.map(\.rawValue) + ["missed"]

    private static let limit = Option(
        name: "limit", shown: "N", value: .text, summary: "at most so many, 1…100000 (default 100)")

    private static let acting: [Command] = [
        capture,
        Command(
            path: ["kick"], summary: "put a user out of a room",
            operands: [room, Operand(name: "UID", summary: "the user")],
            options: [
                Option(name: "device", shown: "DEVICE", value: .text, summary: "on this device only"), jsonLines,
            ] + connection),
        Command(
            path: ["end"], summary: "end a room for everybody", operands: [room],
            options: [
                Option(
                    name: "reason", shown: "WORD", value: .text, summary: "told with the end, [A-Za-z0-9._-]{1,128}"),
                json,
            ] + connection),
    ]

    private static let recording: [Command] = [
        Command(
            path: ["record", "start"], summary: "record a room, into files on the node", operands: [room],
            options: [
                Option(name: "audio-only", summary: "sound without pictures"),
                Option(name: "mix", summary: "and a file of all voices together, made at the end"),
                Option(
                    name: "minutes", shown: "N", value: .text, summary: "at most so long (default: as the node allows)"),
                Option(
                    name: "mebibytes", shown: "N", value: .text,
                    summary: "at most so large (default: as the node allows)"),
                json,
            ] + connection,
            details: [
                "The node needs --recordings. One recording of a room at a time; it ends when nobody is in any more."
            ],
            examples: ["media-relay record start call-4711 --mix"]),
        Command(
            path: ["record", "stop"], summary: "stop the recording of a room", operands: [room],
            options: [json] + connection),
    ]

    private static let draining: [Command] = [
        Command(
            path: ["drain"], summary: "let what runs finish, take no new rooms",
            options: [
                Option(
                    name: "deadline", shown: "TIME", value: .text,
                    summary: "then what is left ends as drained: 90s, 10m, 2h or seconds, at most 7d (default 10m)"),
                Option(name: "wait", summary: "come back when no room is left"), json,
            ] + connection,
            details: [
                "/readyz answers 503 from then on, so that load balancers send new rooms elsewhere. A call that rings is still "
                    + "answered, one that runs goes on. Given again, it moves the deadline. It outlives a crash of the control "
                    + "process; a node that was stopped in order takes rooms after its next start."
            ], examples: ["media-relay drain --deadline 30m --wait"]),
        Command(
            path: ["undrain"], summary: "take new rooms again", options: [json] + connection),
    ]

    private static let scenarios = LoadPlan.Scenario.allCases.map(\.rawValue)

    private static let tools: [Command] = [
        Command(
            path: ["doctor"], summary: "say what is wrong with this host for a node with the same options",
            options: [
                Option(
                    name: "stun", shown: "HOST:PORT", value: .text,
                    summary: "a STUN server to ask from which address this host is seen (default: nobody is asked)"),
                json,
            ],
            details: [
                "Looks at ports, announced addresses, socket buffers, open files, clock, cipher, kernel, data folder, recordings, certificate "
                    + "and keys. Each finding is ok, warn (could be better) or FAIL (does not work), with what to do. Changes "
                    + "nothing; a running node is not disturbed."
            ], examples: ["media-relay doctor --config /etc/media-relay/media-relay.json5"], takesNodeOptions: true),
        Command(
            path: ["load"], summary: "put calls on a server, and say how it bore them",
            operands: [
                Operand(
                    name: "SCENARIO", summary: "what kind of calls: \(scenarios.joined(separator: ", "))",
                    words: scenarios)
            ],
            options: [
                Option(
                    name: "rooms", shown: "N", value: .text,
                    summary:
                        "calls, groups or publishers at a time, 1…5000 (default: audio 50, video 10, churn 20, group 2)"
                ),
                Option(name: "size", shown: "N", value: .text, summary: "group: people in each, 2…16 (default 4)"),
                Option(
                    name: "rate", shown: "N", value: .text,
                    summary: "people who come in a second, 1…2000 (default 50; storm 100)"),
                Option(
                    name: "seconds", shown: "N", value: .text,
                    summary:
                        "how long they talk once all are there; churn and storm: how long people come (default 20; storm 5)"
                ),
                Option(
                    name: "call-seconds", shown: "N", value: .text, summary: "churn: how long a call lasts (default 5)"),
                Option(
                    name: "whip", shown: "URL", value: .text,
                    summary: "instead of a node: any server's WHIP endpoint, at which each client publishes"),
                Option(
                    name: "token", shown: "TOKEN|@FILE", value: .text, summary: "with --whip: the bearer token"),
                Option(name: "yes-remote", summary: "the URL may be another machine's, and so may its media addresses"),
                json,
            ] + connection,
            details: [
                "Clients of this program do ICE, DTLS and SRTP as browsers do, and send sound (50 packets a second) or sound and "
                    + "video (1.4 Mbit/s). audio and video: calls of two that stay. churn: calls that come and go. storm: calls of two "
                    + "whose people leave once they have heard each other. group: rooms of several, with video.",
                "At a node each packet that comes is looked at for gaps, each fifth opened, compared with what was sent, and timed. At "
                    + "a WHIP endpoint nothing comes back: set-up, and what the server's RTCP reports say, is all there is.",
                "Asks and sends to nothing but the named server and the media address in its answers; without --yes-remote both "
                    + "have to be this machine's loopback, and --yes-remote is for servers of one's own. Ctrl-C ends the calls, then the "
                    + "program. It exits with 1 when somebody did not get in.",
            ],
            examples: [
                "media-relay load video --rooms 100", "media-relay load storm --rate 200 --seconds 10",
                "media-relay load audio --whip http://127.0.0.1:8889/stream/whip --rooms 10 --json",
            ]),
        Command(
            path: ["token"], summary: "mint a token",
            options: [
                Option(name: "server", summary: "the server's token: it sees and does everything"),
                Option(name: "room", shown: "ROOM", value: .text, summary: "a participant's token for this room"),
                Option(name: "uid", shown: "UID", value: .text, summary: "the participant's user"),
                Option(
                    name: "device", shown: "DEVICE", value: .text, summary: "which of its devices (default: default)"),
                Option(
                    name: "ttl", shown: "SECONDS", value: .text,
                    summary: "how long it is good, at most the node's max-token-lifetime (default 3600)"),
                Option(name: "record", summary: "it may start and stop recordings of the room"),
                connection[1], connection[2],
            ],
            examples: ["media-relay token --room call-4711 --uid alice", "media-relay token --server"]),
        Command(
            path: ["completion"], summary: "print a completion script for a shell",
            operands: [Operand(name: "SHELL", summary: "bash, zsh or fish", words: ["bash", "zsh", "fish"])],
            examples: ["media-relay completion bash > /etc/bash_completion.d/media-relay"]),
        Command(path: ["man"], summary: "print the manual page (roff)", examples: ["media-relay man | man -l -"]),
        Command(path: ["version"], summary: "print the version"),
    ]
}
