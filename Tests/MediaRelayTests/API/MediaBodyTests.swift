import RelayCore
import Testing

@testable import MediaRelay

@Suite("Bodies of mute, hold, rights and video") struct MediaBodyTests {
    private func field<Value>(_ read: ([UInt8]) throws(Problem) -> Value, _ text: String) -> JSONValue? {
        do throws(Problem) {
            _ = try read(Array(text.utf8))
            return nil
        } catch {
            #expect(error.status == 400)
            return error.members.first { $0.name == "field" }?.value ?? .string(error.code)
        }
    }

    @Test("any subset of own mute and hold is read") func own() throws {
        #expect(try MediaBody.own(Array("{}".utf8)) == MediaChange())
        #expect(
            try MediaBody.own(Array(#"{"audio":"muted","video":"on","held":true}"#.utf8))
                == MediaChange(audio: .muted, video: .on, isHeld: true))
        #expect(try MediaBody.own(Array(#"{"held":false}"#.utf8)) == MediaChange(isHeld: false))
    }

    @Test("what is no word of a client's is refused by its name") func ownRefused() {
        #expect(field(MediaBody.own, #"{"audio":"off"}"#) == .string("audio"))
        #expect(field(MediaBody.own, #"{"video":true}"#) == .string("video"))
        #expect(field(MediaBody.own, #"{"held":"yes"}"#) == .string("held"))
        #expect(field(MediaBody.own, #"{"grants":{}}"#) == .string("grants"))
        #expect(field(MediaBody.own, "[]") == .string("malformed-json"))
    }

    @Test("the server's mute and rights are read") func server() throws {
        #expect(
            try MediaBody.server(
                Array(#"{"audio":"muted","grants":{"publish":["audio"],"subscribe":false,"end":true}}"#.utf8))
                == ServerMediaChange(audio: .muted, publish: [.audio], subscribe: false, end: true))
        #expect(try MediaBody.server(Array(#"{"grants":{"publish":[]}}"#.utf8)) == ServerMediaChange(publish: []))
    }

    @Test("what is no word of the server's is refused by its name") func serverRefused() {
        #expect(field(MediaBody.server, #"{"held":true}"#) == .string("held"))
        #expect(field(MediaBody.server, #"{"grants":[]}"#) == .string("grants"))
        #expect(field(MediaBody.server, #"{"grants":{"publish":["screen"]}}"#) == .string("grants.publish"))
        #expect(field(MediaBody.server, #"{"grants":{"publish":"audio"}}"#) == .string("grants.publish"))
        #expect(field(MediaBody.server, #"{"grants":{"kick":true}}"#) == .string("grants.kick"))
        #expect(field(MediaBody.server, #"{"grants":{"end":1}}"#) == .string("end"))
    }

    @Test("each word on the way to video is read, with the user for whom the server speaks") func video() throws {
        for word in VideoWord.allCases {
            #expect(try MediaBody.video(Array(#"{"video":"\#(word.rawValue)"}"#.utf8)).word == word)
        }
        #expect(try MediaBody.video(Array(#"{"video":"accept","uid":"ben"}"#.utf8)).uid == "ben")
        for text in ["{}", #"{"video":"on"}"#, #"{"video":1}"#] {
            #expect(field(MediaBody.video, text) == .string("video"))
        }
        #expect(field(MediaBody.video, #"{"video":"accept","uid":"a b"}"#) == .string("uid"))
        #expect(field(MediaBody.video, #"{"video":"accept","device":"x"}"#) == .string("device"))
    }

    @Test("a participant's view shows mute, hold and who muted") func view() throws {
        var view = ParticipantView(
            id: try #require(ParticipantID("p_1")), uid: "ada", device: "phone", state: .joined, createdAtMs: 0)
        func fields() -> [String: JSONValue] {
            guard case .object(let fields) = ViewJSON.participant(view) else { return [:] }
            return Dictionary(uniqueKeysWithValues: fields.map { ($0.name, $0.value) })
        }
        #expect(fields()["audio"] == .string("on") && fields()["video"] == .string("on"))
        #expect(fields()["held"] == .bool(false) && fields()["mutedByServer"] == .array([]))
        #expect(fields()["grants"] == nil)
        view.media.apply(MediaChange(audio: .muted, isHeld: true))
        view.media.apply(ServerMediaChange(publish: [.audio], end: false))
        #expect(fields()["audio"] == .string("muted") && fields()["video"] == .string("muted"))
        #expect(fields()["held"] == .bool(true) && fields()["mutedByServer"] == .array([.string("video")]))
        #expect(
            fields()["grants"]
                == .object([
                    .init("publish", .array([.string("audio")])), .init("subscribe", .bool(true)),
                    .init("end", .bool(false)),
                ]))
        view.videoUnsupported = true
        #expect(fields()["video"] == .string("unsupported"))
    }
}
