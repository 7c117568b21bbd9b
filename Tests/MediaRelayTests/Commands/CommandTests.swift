import RelayCore
import Testing

@testable import MediaRelay
@testable import RelayClient
@testable import RelayCommands

@Suite("Commands") struct CommandTests {
    private let secret = "k1:0123456789abcdef0123456789abcdef"

    /// Runs a command that asks no node.
    private func run(
        _ arguments: [String], _ environment: [String: String] = [:]
    ) -> (code: ExitCode, out: String, errors: String) {
        let out = Collected()
        var errors = ""
        let code = Commands.run(
            arguments, environment: ["HOME": "/h"].merging(environment) { $1 }, terminal: Terminal(),
            output: { out.append($0) }, errors: { errors += $0 })
        return (code, out.text, errors)
    }

    private func arguments(_ words: [String], _ path: [String]) throws -> Arguments {
        try Arguments(words, for: try #require(Command.named(path)))
    }

    @Test("each command stands once in the table, with a summary, and names no option twice") func table() {
        #expect(Set(Command.all.map(\.name)).count == Command.all.count)
        for command in Command.all {
            #expect(!command.summary.isEmpty && Set(command.options.map(\.name)).count == command.options.count)
            for option in command.options { #expect(option.shown.isEmpty == (option.value == .none), "\(option.name)") }
        }
    }

    @Test("every command explains itself, with its options, and the program lists them all") func help() {
        let all = run(["--help"])
        #expect(all.code == .done && all.out.contains("Exit codes:"))
        for command in Command.all {
            let help = run(command.path + ["--help"])
            #expect(help.code == .done && help.out.hasPrefix("usage: media-relay \(command.name)"))
            for option in command.options { #expect(help.out.contains("--\(option.name)")) }
            #expect(all.out.contains("  \(command.name) ") != command.isHidden, "\(command.name)")
        }
        #expect(run(["help", "calls", "show"]).out == run(["calls", "show", "-h"]).out)
        #expect(run(["rooms", "--help"]).out.contains("rooms show"))
        #expect(run(["serve", "--help"]).out.contains("--requests-per-second N"))
    }

    @Test("without a command the help goes to standard error") func nothing() {
        let result = run([])
        #expect(result.code == .usage && result.out.isEmpty && result.errors.contains("usage: media-relay COMMAND"))
    }

    @Test(
        "wrong arguments are refused in words, with code 2 and nothing on standard output",
        arguments: [
            (["bogus"], "bogus: no such command"), (["rooms", "bogus"], "rooms bogus: no such command"),
            (["config"], "one of print, check, default is needed"), (["kick", "r"], "UID is missing"),
            (["end"], "ROOM is missing"),
            (["end", "r", "s"], "s: one word too many"), (["rooms", "--colour", "red"], "--colour: unknown option"),
            (["rooms", "-x"], "-x: unknown option"),
            (["rooms", "--status", "odd"], "--status odd: not one of initiated"),
            (["rooms", "--uid"], "--uid: its value is missing"), (["rooms", "--uid="], "--uid: its value is missing"),
            (["rooms", "--json=yes"], "--json: takes no value"),
            (["rooms", "--uid", "a", "--uid", "b"], "--uid: given twice"),
            (["completion", "csh"], "csh: not one of bash, zsh, fish"), (["rooms"], "no key: give --key"),
            (["token", "--server"], "no key: give --key"), (["help", "bogus"], "bogus: no such command"),
            (["rooms", "--key", "k:short"], "at least 32"), (["rooms", "--config", "/none"], "/none: cannot be read"),
        ])
    func wrong(_ words: [String], _ text: String) {
        let result = run(words)
        #expect(result.code == .usage && result.out.isEmpty)
        #expect(result.errors.contains(text), "\(result.errors)")
    }

    @Test("options stand before, behind and between operands; behind -- everything is an operand") func order() throws {
        for words in [["--json", "r", "u"], ["r", "--json", "u"], ["r", "u", "--json"]] {
            let arguments = try arguments(words, ["kick"])
            #expect(arguments.operands == ["r", "u"] && arguments.has("json"))
        }
        #expect(try arguments(["r", "--", "-u"], ["kick"]).operands == ["r", "-u"])
        #expect(try arguments(["--limit=7"], ["rooms", "list"]).integer("limit", 1...10) == 7)
        #expect(throws: UsageError.self) { try arguments(["--limit=0"], ["rooms", "list"]).integer("limit", 1...10) }
    }

    @Test("a list's verb may be left out") func shortForm() throws {
        guard case .command(let command, let rest) = try Arguments.choose(["rooms", "--json"]) else {
            Issue.record("no command")
            return
        }
        #expect(command.path == ["rooms", "list"] && rest == ["--json"])
    }

    // MARK: Which node

    private func connection(_ words: [String], _ environment: [String: String] = [:]) throws -> NodeConnection {
        try NodeConnection(
            try arguments(words, ["rooms", "list"]), ["HOME": "/h"].merging(environment) { $1 })
    }

    @Test("a node is found by flags, then by the environment, then by what a node here would listen on") func node()
        throws
    {
        let environment = ["MEDIA_RELAY_KEY": secret]
        #expect(try connection([], environment).url == "http://127.0.0.1:8080")
        let listening = ["MEDIA_RELAY_HTTP": "[::]:9", "MEDIA_RELAY_INSECURE_HTTP": "true"].merging(environment) { $1 }
        #expect(try connection([], listening).url == "http://[::1]:9")
        let named = ["MEDIA_RELAY_URL": "https://a.example"].merging(listening) { $1 }
        #expect(try connection([], named).url == "https://a.example")
        let given = try connection(["--url", "http://b.example", "--key", "k2:" + secret.dropFirst(3)], named)
        #expect(given.url == "http://b.example" && given.key.id == "k2")
        #expect(throws: UsageError.self) { try connection(["--url", "b.example"], environment) }
    }

    @Test("tokens live no longer than the node's configuration allows") func lifetime() throws {
        let environment = ["MEDIA_RELAY_KEY": secret, "MEDIA_RELAY_MAX_TOKEN_LIFETIME": "60"]
        #expect(try connection([], environment).tokenLifetimeSeconds == 60)
        #expect(try connection([], ["MEDIA_RELAY_KEY": secret]).tokenLifetimeSeconds == 300)
    }

    @Test("each kind of failure has its exit code") func codes() {
        func problem(_ status: Int) -> RelayClient.Failure {
            .problem(RelayClient.Problem(status: status, code: "c", detail: "d"))
        }
        #expect(Commands.code(of: problem(404)) == .notFound && Commands.code(of: problem(409)) == .failed)
        #expect(Commands.code(of: RelayClient.Failure.unreachable(cause: "")) == .unreachable)
        #expect(Commands.code(of: RelayClient.Failure.malformed(detail: "")) == .failed)
        #expect(Commands.code(of: NotFound(description: "")) == .notFound)
        #expect(Commands.code(of: UsageError("")) == .usage)
    }

    // MARK: Tokens

    @Test("the token command mints what the verifier takes") func participantToken() throws {
        let result = run(["token", "--room", "r", "--uid", "alice", "--key", secret])
        let verifier = TokenVerifier(keys: try KeyLoader.keys([secret]), maxLifetimeSeconds: 43_200)
        let claims = try verifier.verify(Array(result.out.dropLast().utf8), nowSeconds: WallClock.nowMs / 1_000)
        guard case .participant(let identity) = claims.principal else {
            Issue.record("not a participant's token")
            return
        }
        #expect(identity.uid == "alice" && identity.device == "default" && identity.room.text == "r")
    }

    @Test("the token command takes the key from the environment and makes server tokens") func serverToken() throws {
        let result = run(["token", "--server"], ["MEDIA_RELAY_KEY": secret])
        let verifier = TokenVerifier(keys: try KeyLoader.keys([secret]), maxLifetimeSeconds: 43_200)
        let claims = try verifier.verify(Array(result.out.dropLast().utf8), nowSeconds: WallClock.nowMs / 1_000)
        #expect(claims.principal == .server(keyID: "k1"))
    }

    @Test("a token needs room and user, or is the server's, not both") func tokenArguments() {
        for words in [["--room", "r"], ["--uid", "u"], ["--server", "--room", "r"], ["--room", "r/", "--uid", "u"]] {
            #expect(run(["token", "--key", secret] + words).code == .usage, "\(words)")
        }
        #expect(run(["token", "--key", secret, "--server", "--ttl", "0"]).errors.contains("--ttl 0"))
    }

    // MARK: What is made of the table

    @Test("completion scripts know every command and option", arguments: ["bash", "zsh", "fish"])
    func completion(_ shell: String) {
        let script = run(["completion", shell]).out
        for command in Command.all where !command.isHidden {
            for word in command.path { #expect(script.contains(word)) }
            for option in Completion.options(of: command) { #expect(script.contains(option.name), "\(option.name)") }
        }
        #expect(script.contains("initiated") && script.contains("retain-mebibytes"))
    }

    @Test("a drain's deadline is seconds, or a number with a unit, up to a week") func deadlines() throws {
        for (text, seconds) in [("0", 0), ("90", 90), ("90s", 90), ("10m", 600), ("2h", 7_200), ("7d", 604_800)] {
            #expect(try DrainCommand.seconds(of: text) == UInt64(seconds))
        }
        for text in ["", "m", "-1", "8d", "604801", "1w", "1.5h", "99999999999999999999h"] {
            #expect(throws: UsageError.self) { try DrainCommand.seconds(of: text) }
        }
    }

    @Test("the state of a drain is one sentence") func drainSentences() {
        func sentence(_ fields: [String: RelayClient.JSON]) -> String { DrainCommand.sentence(of: .object(fields)) }
        #expect(sentence(["draining": .bool(false), "rooms": .integer(3)]) == "takes new rooms")
        #expect(
            sentence([
                "draining": .bool(true), "rooms": .integer(1), "deadline": .string("2026-12-01T05:40:02.123Z"),
            ]) == "draining: 1 room is left, until 2026-12-01 05:40:02 at the latest")
        #expect(
            sentence([
                "draining": .bool(true), "rooms": .integer(0), "drainedAt": .string("…"), "ended": .integer(2),
            ]) == "drained: no room is left, 2 ended at the deadline")
    }

    @Test("the configuration to begin with names every option and sets none") func defaultFile() throws {
        let text = run(["config", "default"]).out
        let options = try ServeOptions(
            arguments: ["--config", "f"], environment: ["HOME": "/h"], processors: 2,
            readFile: { _ in Array(text.utf8) })
        #expect(Set(options.given.keys) == [.config])
        for option in NodeOption.all where option.name != .config { #expect(text.contains(option.name.rawValue)) }
    }

    @Test("the manual page has every command, option and exit code, and no line that roff would take for its own")
    func manual() {
        let page = run(["man"]).out
        for command in Command.all where !command.isHidden {
            #expect(page.contains(".SS media\\-relay \(ManualPage.escaped(command.name))"))
        }
        for option in NodeOption.all { #expect(page.contains("\\fB" + ManualPage.escaped(option.name.flag))) }
        for code in ExitCode.allCases { #expect(page.contains("\\fB\(code.rawValue)\\fR")) }
        let requests: Set<Substring> = [".TH", ".SH", ".SS", ".TP", ".PP", ".br", ".nf", ".fi"]
        for line in page.split(separator: "\n") where line.hasPrefix(".") || line.hasPrefix("'") {
            #expect(requests.contains(line.prefix { $0 != " " }), "\(line)")
        }
        #expect(ManualPage.escaped(".x") == "\\&.x" && ManualPage.escaped("a-b\\c") == "a\\-b\\ec")
    }
}

/// What a command wrote, from whichever thread.
final class Collected: @unchecked Sendable {
    // @unchecked: guarded by the lock.
    private let lock = Lock()
    private var parts = ""
    func append(_ text: String) { lock.withLock { parts += text } }
    var text: String { lock.withLock { parts } }
}
