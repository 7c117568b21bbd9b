import Foundation
import RelayCore
import Testing

@testable import MediaRelay

@Suite("Configuration") struct ConfigurationTests {
    private func options(
        _ file: String?, _ arguments: [String] = [], _ environment: [String: String] = [:]
    ) throws -> ServeOptions {
        try ServeOptions(
            arguments: (file == nil ? [] : ["--config", "relay.json5"]) + arguments,
            environment: ["HOME": "/h"].merging(environment) { $1 }, processors: 4,
            readFile: { path in path == "relay.json5" ? file.map { Array($0.utf8) } : nil })
    }

    private func refusal(_ file: String?, _ arguments: [String] = [], _ environment: [String: String] = [:]) -> String {
        do {
            _ = try options(file, arguments, environment)
            return ""
        } catch { return "\(error)" }
    }

    @Test("every option has one row in the table, and each name is a row") func table() {
        #expect(NodeOption.all.map(\.name.rawValue).sorted() == OptionName.allCases.map(\.rawValue).sorted())
        for option in NodeOption.all { #expect((option.value.isEmpty) == (option.form == .on), "\(option.name)") }
    }

    @Test("the defaults that the table tells are the ones that hold") func defaults() throws {
        let options = try options(nil)
        for option in NodeOption.all where UInt64(option.standard) != nil || option.form == .on {
            #expect(options.values(of: option.name) == [option.standard], "\(option.name)")
        }
        for option in NodeOption.all {
            if case .word(let words) = option.form { #expect(words.contains(option.standard)) }
        }
        #expect(options.values(of: .http) == ["127.0.0.1:8080"] && options.values(of: .mediaTCP) == ["same"])
        #expect(options.values(of: .media).joined(separator: ", ") == NodeOption.of(.media).standard)
    }

    @Test("a file of JSON5 gives options by their names, with comments and trailing commas") func file() throws {
        let options = try options(
            """
            // A node
            {
              http: ["127.0.0.1:1", "[::1]:2"], /* two
                 lines */ announce: '192.0.2.1',
              "max-token-lifetime": 3600,
              demo: true, key: ["k:@/etc/key"], "media-tcp": 443, prompts: null,
            }
            """)
        #expect(options.http.map(\.text) == ["127.0.0.1:1", "[::1]:2"])
        #expect(options.announce == ["192.0.2.1"] && options.maxTokenLifetimeSeconds == 3_600 && options.demo)
        #expect(options.keys == ["k:@/etc/key"] && options.mediaTCP == .ports(first: 443) && options.prompts == nil)
        #expect(options.given[.maxTokenLifetime]?.source == .file(path: "relay.json5", line: 5))
    }

    @Test("flags win over the environment, the environment over the file") func precedence() throws {
        let file = "{workers: 2, demo: true, \"log-level\": 'debug', http: ['127.0.0.1:1', '127.0.0.1:2']}"
        let options = try options(
            file, ["--workers", "4", "--demo=false"], ["MEDIA_RELAY_WORKERS": "3", "MEDIA_RELAY_LOG_LEVEL": "error"])
        #expect(options.workers == 4 && !options.demo && options.logLevel == .error && options.http.count == 2)
        #expect(options.given[.workers]?.source == .flag && options.given[.logLevel]?.source == .environment)
    }

    @Test("the environment can name the file, and a flag another one") func fileByEnvironment() throws {
        let read = { (path: String) in Array((path == "/a" ? "{workers: 2}" : "{workers: 3}").utf8) }
        let environment = ["HOME": "/h", "MEDIA_RELAY_CONFIG": "/a"]
        #expect(try ServeOptions(arguments: [], environment: environment, processors: 4, readFile: read).workers == 2)
        let other = try ServeOptions(
            arguments: ["--config", "/b"], environment: environment, processors: 4, readFile: read)
        #expect(other.workers == 3 && other.configFile == "/b")
    }

    @Test(
        "what a file says wrong is refused with its line, name, value and limit",
        arguments: [
            ("{\n  colour: 1}", "relay.json5 line 2: colour: unknown option"),
            ("{workers: \"2\"}", "relay.json5 line 1: workers \"2\": a number in 1…64 is needed"),
            ("{\n\n workers: 0}", "relay.json5 line 3: workers 0: not a number in 1…64 (processes)"),
            ("{demo: 1}", "relay.json5 line 1: demo 1: true or false is needed"),
            ("{http: [1]}", "relay.json5 line 1: http 1: a text is needed, or a list of them"),
            ("{data: ['/a']}", "relay.json5 line 1: data […]: a text is needed"),
            ("{log: 'xml'}", "relay.json5 line 1: log xml: not one of: text, json"),
            ("{announce: 'here'}", "relay.json5 line 1: announce here: not one of: an IP address"),
            ("{workers: 2,\nworkers: 3}", "relay.json5 line 2: workers: stands twice"),
            ("{config: '/b'}", "relay.json5 line 1: config: unknown option"),
            ("{\"work\\u0065rs\": 2}", "relay.json5 line 1: work\\u0065rs: unknown option"),
        ])
    func wrong(_ file: String, _ words: String) { #expect(refusal(file) == words) }

    @Test("a file that is no JSON5 object, or is not there, is refused by its name") func noObject() {
        for file in ["", "[]", "{workers: }", "{workers: 2", "1"] {
            #expect(refusal(file).hasPrefix("relay.json5: not one JSON5 object"), "\(file)")
        }
        for (file, line) in [
            ("{\n  workers: 2,\n  : 3\n}", 3), ("{\n  'demo: true\n}", 2), ("{ /*\n}", 1), ("{\n http: [\n 'a'\n", 4),
            ("{\n http: [\n 'a' 'b'\n]}", 3), ("{demo: true}\n}", 2), ("{demo: \"\\", 1), ("/", 1),
        ] { #expect(refusal(file) == "relay.json5: not one JSON5 object (line \(line))", "\(file)") }
        #expect(refusal(nil, ["--config", "/none"]).hasPrefix("--config /none: cannot be read"))
    }

    @Test("no refusal shows a secret") func secrets() {
        #expect(refusal("{key: 4711}") == "relay.json5 line 1: key: a text is needed, or a list of them")
        #expect(!refusal("{'webhook-secret': {a: 'whsec_x'}}").contains("whsec"))
        #expect(refusal(nil, ["--kez=k:secret"]) == "--kez: unknown option (see media-relay serve --help)")
    }

    @Test("an error names the variable or the flag that it comes from") func labels() {
        #expect(refusal(nil, [], ["MEDIA_RELAY_WORKERS": "0"]).hasPrefix("MEDIA_RELAY_WORKERS 0: not a number in 1…64"))
        #expect(refusal(nil, [], ["MEDIA_RELAY_DEMO": "perhaps"]).hasPrefix("MEDIA_RELAY_DEMO perhaps: not one of"))
        #expect(refusal(nil, ["--workers=65"]).hasPrefix("--workers 65: not a number in 1…64"))
    }

    @Test("a single value in the environment may contain spaces") func spaces() throws {
        #expect(try options(nil, [], ["MEDIA_RELAY_DATA": "/a b"]).data == "/a b")
    }

    @Test("the printed configuration is a file that gives the same configuration") func roundTrip() throws {
        let first = try options(
            "{announce: ['192.0.2.1'], workers: 2}",
            [
                "--key", "k:@/etc/key", "--webhook", "a=https://a.example", "--webhook-secret", "a=@/s", "--admin",
                "off",
                "--media-tcp", "443", "--retain-hours", "2", "--log", "json", "--media", "[::1]:4000",
            ])
        let text = ConfigurationText.print(first)
        let second = try options(text)
        #expect(second.differences(from: first).isEmpty)
        #expect(text.contains("From: --media-tcp") && text.contains("From: relay.json5 line 1"))
        #expect(text.contains("From: default"))
    }

    @Test("printing shows no secret: ids, files and hosts only") func redaction() throws {
        let text = ConfigurationText.print(
            try options(
                nil,
                [
                    "--key", "k:0123456789abcdef0123456789abcdef", "--key", "no colon at all", "--webhook",
                    "a=https://a.example/hook?token=hidden", "--webhook-secret", "a=whsec_aGlkZGVu",
                ]))
        for secret in ["0123456789abcdef", "no colon", "hidden", "aGlkZGVu", "example/hook"] {
            #expect(!text.contains(secret))
        }
        #expect(text.contains("\"k:redacted\"") && text.contains("a=https://a.example/redacted"))
    }

    @Test("help and reference name every option with its range") func texts() {
        for option in NodeOption.all {
            #expect(ConfigurationText.help.contains("  \(option.name.flag)"))
            #expect(ConfigurationText.reference.contains("| `\(option.name.rawValue)` |"))
        }
        #expect(ConfigurationText.help.split(separator: "\n").allSatisfy { $0.count <= 132 })
    }

    @Test("docs/configuration.md is what the code says: media-relay config reference > docs/configuration.md")
    func reference() throws {
        let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("docs/configuration.md")
        #expect(try String(contentsOf: path, encoding: .utf8) == ConfigurationText.reference)
    }

    @Test("a reload takes up what is live, and tells what waits for a restart") func reload() throws {
        let old = try options("{workers: 2, 'log-level': 'info', 'retain-hours': 5, 'tls-cert': 'a', 'tls-key': 'b'}")
        let new = try options("{workers: 3, 'log-level': 'debug', 'retain-hours': 6, 'tls-cert': 'c', 'tls-key': 'b'}")
        var changes = ReloadChanges(from: old, to: new)
        #expect(changes.live == [.retainHours, .logLevel] && changes.waiting == [.workers, .tlsCertificate])
        changes.read(.webhookSecret)
        changes.keep(.retainHours)
        #expect(changes.changed == [.logLevel, .webhookSecret] && changes.waiting.last == .retainHours)
        var taken = old
        for name in changes.live { taken.take(name, from: new) }
        #expect(taken.logLevel == .debug && taken.retention.ageMs == old.retention.ageMs && taken.workers == 2)
    }

    @Test("every live option can be taken over alone") func live() throws {
        let old = try options(nil)
        let new = try options(
            nil,
            [
                "--admission", "off", "--overload-cpu", "50", "--overload-backlog", "7", "--overload-packets", "7",
                "--overload-memory", "7", "--prompts", "/p", "--key", "k:@/k", "--max-token-lifetime", "60",
                "--requests-per-second", "7",
                "--webhook", "a=https://a", "--webhook-secret", "a=@/s", "--webhook-insecure-http", "--retain-hours",
                "1",
                "--retain-events", "1000", "--retain-mebibytes", "1", "--log-level", "error",
            ])
        let live = NodeOption.all.filter(\.isLive).map(\.name).filter { $0 != .tlsCertificate && $0 != .tlsKey }
        #expect(new.differences(from: old) == live)
        for name in live {
            var one = old
            one.take(name, from: new)
            #expect(one.differences(from: old) == [name])
        }
    }

    @Test("config check reads what the options name, and says what may not be meant") func check() throws {
        var (out, errors) = ("", "")
        func run(_ arguments: [String], _ environment: [String: String] = [:]) -> Int32 {
            (out, errors) = ("", "")
            return ConfigCommand.run(
                arguments: arguments, environment: ["HOME": "/h"].merging(environment) { $1 }, output: { out += $0 },
                errors: { errors += $0 })
        }
        #expect(run(["check"], ["MEDIA_RELAY_WORKER": "1"]) == 0)
        #expect(out.contains("a random one") && out.contains("MEDIA_RELAY_WORKER is not") && out.contains("good"))
        #expect(run(["check", "--key", "k:@/none"]) == 2 && errors.contains("--key k"))
        #expect(
            run(["check", "--tls-cert", "/none", "--tls-key", "/none"]) == 2 && errors.contains("--tls-cert /none"))
        #expect(run(["check", "--webhook", "a=ftp://a"]) == 2 && errors.contains("--webhook a"))
        #expect(run([]) == 2 && run(["chekc"]) == 2 && run(["print", "--bogus"]) == 2 && errors.contains("--bogus"))
        #expect(run(["print"]) == 0 && out.contains("workers: "))
    }
}
