import RTPCore
import RelayHTTP
import Testing

@testable import MediaRelay
@testable import RelayCore

@Suite("Bodies of prompts") struct PromptBodyTests {
    private func refusal(_ text: String) -> JSONValue? {
        do throws(Problem) {
            _ = try PromptBody.specification(Array(text.utf8))
            return nil
        } catch {
            #expect(error.status == 400)
            return error.members.first { $0.name == "field" }?.value ?? .string(error.code)
        }
    }

    @Test("a tone is played once to everybody unless the body says otherwise") func reads() throws {
        func read(_ text: String) throws -> PromptSpecification { try PromptBody.specification(Array(text.utf8)) }
        #expect(try read(#"{"tone":"busy"}"#) == PromptSpecification(SoundName(.tone, "busy")))
        #expect(
            try read(#"{"file":"hello","to":["a","b"],"times":3,"pauseMs":250}"#)
                == PromptSpecification(
                    SoundName(.file, "hello"), to: ["a", "b"], times: 3, pause: .milliseconds(250)))
        #expect(try read(#"{"tone":"ringback","loop":true}"#).loops)
        #expect(try read(#"{"tone":"ringback","loop":false,"times":2}"#).times == 2)
    }

    @Test(
        "what cannot be a prompt is refused by its field",
        arguments: [
            (#"{}"#, "tone"), (#"{"tone":1}"#, "tone"), (#"{"tone":"a b"}"#, "tone"),
            (#"{"tone":"busy","file":"hello"}"#, "file"), (#"{"file":"../etc/passwd"}"#, "file"),
            (#"{"tone":"busy","to":[]}"#, "to"), (#"{"tone":"busy","to":"a"}"#, "to"),
            (#"{"tone":"busy","to":["a",1]}"#, "to[1]"), (#"{"tone":"busy","to":["a","a"]}"#, "to[1]"),
            (#"{"tone":"busy","times":0}"#, "times"), (#"{"tone":"busy","times":1001}"#, "times"),
            (#"{"tone":"busy","times":2,"loop":true}"#, "times"), (#"{"tone":"busy","loop":1}"#, "loop"),
            (#"{"tone":"busy","pauseMs":-1}"#, "pauseMs"), (#"{"tone":"busy","pauseMs":600001}"#, "pauseMs"),
            (#"{"tone":"busy","volume":1}"#, "volume"), (#"[]"#, "malformed-json"),
        ])
    func refuses(_ body: String, _ field: String) { #expect(refusal(body) == .string(field)) }

    @Test("more users than the bound are refused") func tooMany() {
        let users = (0...100).map { "\"u\($0)\"" }.joined(separator: ",")
        #expect(refusal(#"{"tone":"busy","to":[\#(users)]}"#) == .string("to"))
    }

    @Test("a prompt shows what was asked for and who hears it") func view() throws {
        let id = try #require(PromptID("s_1"))
        let view = PromptView(
            id: id, roomID: try #require(RoomID("r")),
            specification: PromptSpecification(SoundName(.tone, "busy"), times: 0), startedAtMs: 0,
            listeners: [try #require(ParticipantID("p_1"))])
        let text = String(decoding: JSONText.of(ViewJSON.prompt(view)), as: UTF8.self)
        #expect(
            text
                == #"{"promptId":"s_1","tone":"busy","loop":true,"startedAt":"1970-01-01T00:00:00.000Z","#
                + #""listeners":["p_1"]}"#)
        let response = Answers.response(to: .prompt(view), in: nil)
        #expect(response.status == 201)
        #expect(response.headers.contains { $0.name == "Location" && $0.value == "/v1/rooms/r/prompts/s_1" })
    }
}
