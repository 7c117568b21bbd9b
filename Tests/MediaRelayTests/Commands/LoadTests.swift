import Foundation
import RTPCore
import RelayLoadKit
import Testing

@testable import RelayClient
@testable import RelayCommands

@Suite("Load") struct LoadTests {
    private let node = ["--url", "http://127.0.0.1:8080", "--key", "k:a secret of thirty-two bytes or more"]

    private func plan(_ words: String...) throws -> LoadPlan {
        let command = try #require(Command.named(["load"]))
        let line = try Arguments(
            words + (words.contains("--whip") || words.contains("--url") ? [] : node), for: command)
        return try LoadCommand(line, [:], Terminal(), output: { _ in }).plan
    }

    @Test(
        "a host is this machine's only by its own name or a loopback address",
        arguments: [
            ("http://127.0.0.1:8080", true), ("http://127.3.2.1", true), ("http://[::1]:80/x", true),
            ("https://LOCALHOST/", true),
            ("http://localhost.example.org", false), ("http://192.168.1.1", false), ("http://[2001:db8::1]", false),
            ("http://128.0.0.1", false), ("127.0.0.1", false), ("", false), ("http://127.0.0.1@example.org/", false),
        ])
    func loopback(url: String, expected: Bool) { #expect(LoadPlan.isLoopback(url: url) == expected) }

    @Test("other machines are left alone without leave, with it they are not")
    func remote() throws {
        let url = "http://192.0.2.1/whip"
        #expect(throws: UsageError.self) { try plan("audio", "--whip", url) }
        let allowed = try plan("audio", "--whip", url, "--yes-remote")
        #expect(allowed.mayLeaveMachine && allowed.roomSize == 1)
        #expect(throws: UsageError.self) {
            try plan("audio", "--url", "http://192.0.2.1", "--key", "k:a secret of thirty-two bytes or more")
        }
    }

    @Test(
        "what does not go together is refused, each with a word on why",
        arguments: [
            ["audio", "--size", "3"], ["storm", "--rooms", "2"], ["video", "--call-seconds", "2"],
            ["audio", "--token", "x"],
            ["group", "--whip", "http://127.0.0.1/w"], ["audio", "--whip", "127.0.0.1/w"], ["audio", "--seconds", "0"],
            ["audio", "--rate", "2001"], ["audio", "--whip", "http://127.0.0.1/w", "--key", "k:x"],
            ["audio", "--whip", "http://127.0.0.1/w", "--token", "@/does/not/exist"],
        ])
    func refused(words: [String]) throws {
        let command = try #require(Command.named(["load"]))
        #expect(throws: UsageError.self) {
            let line = try Arguments(words + (words.contains("--whip") ? [] : node), for: command)
            _ = try LoadCommand(line, [:], Terminal(), output: { _ in })
        }
    }

    @Test("a plan has a place for everybody who may be there at once")
    func capacity() throws {
        #expect(try plan("audio").capacity == 100)
        #expect(try plan("group", "--rooms", "3", "--size", "5").capacity == 15)
        #expect(try plan("churn", "--rooms", "4").capacity == 16)
        #expect(try plan("storm", "--rate", "10").capacity >= 120)
    }

    @Test(
        "a session is ended at its endpoint's host and nowhere else",
        arguments: [
            ("/session/1", "http://h.example:1/session/1"), ("1?x=2", "http://h.example:1/whip/1?x=2"),
            ("http://h.example:1/s", "http://h.example:1/s"), ("http://h.example/s", nil),
            ("https://h.example:1/s", nil),
            ("//other.example:1/s", nil), ("http://h.example.org:1/s", nil),
        ])
    func location(text: String, expected: String?) {
        #expect(WHIPClient.resolve(text, at: "http://h.example:1/whip/here") == expected)
    }
}
