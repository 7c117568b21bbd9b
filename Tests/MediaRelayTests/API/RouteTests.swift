import RTPCore
import RelayCore
import RelayHTTP
import Testing

@testable import MediaRelay

@Suite("Routes") struct RouteTests {
    private func route(_ target: String, _ method: String = "GET") -> Route? {
        Route(HTTPRequest(id: HTTPRequestID(rawValue: 1), method: method, target: target))
    }

    @Test("each path of the API is found") func paths() throws {
        let room = try #require(RoomID("r-1"))
        let participant = try #require(ParticipantID("p_1"))
        #expect(route("/") == .page("index.html"))
        #expect(route("/healthz") == .health)
        #expect(route("/readyz") == .ready)
        #expect(route("/metrics") == .metrics)
        #expect(route("/v1/rooms?status=ongoing") == .rooms)
        #expect(route("/v1/events") == .events)
        #expect(route("/v1/openapi.json") == .openAPI)
        #expect(route("/v1/rooms/r-1") == .room(room))
        #expect(route("/v1/rooms/r-1/sessions") == .sessions(room))
        #expect(route("/v1/rooms/r-1/sessions/p_1") == .session(room, participant))
        #expect(route("/v1/rooms/r-1/sessions/p_1/join") == .join(room, participant))
        #expect(route("/v1/rooms/r-1/sessions/p_1/slots") == .slots(room, participant))
        #expect(route("/v1/rooms/r-1/participants/p_1") == .participant(room, participant))
        #expect(route("/v1/rooms/r-1/events") == .roomEvents(room))
        #expect(route("/v1/rooms/r-1/ringing") == .ringing(room))
        #expect(route("/v1/rooms/r-1/answer") == .answer(room))
        #expect(route("/v1/rooms/r-1/end") == .end(room))
        #expect(route("/v1/rooms/r-1/pushed") == .pushed(room))
        #expect(route("/v1/rooms/r-1/media") == .media(room))
        #expect(route("/v1/rooms/r-1/prompts") == .prompts(room))
        #expect(route("/v1/rooms/r-1/prompts/s_1") == .prompt(room, try #require(PromptID("s_1"))))
        #expect(route("/v1/users/alice/sessions") == .userSessions("alice"))
    }

    @Test(
        "what is no path of the API is not found",
        arguments: [
            "/v1", "/v2/rooms", "/v1/rooms/", "/v1/rooms/a/b", "/v1/rooms/a%2Fb", "/v1/rooms/a%0d%0ab", "/v1/rooms/..",
            "/v1/rooms/r/sessions/p/leave", "/V1/rooms", "/v1//rooms", "/style.css/x", "/secret", "*",
        ])
    func unknown(_ target: String) { #expect(route(target) == nil) }

    @Test("an id of 128 characters is taken and one of 129 is not") func idLength() {
        #expect(route("/v1/rooms/" + String(repeating: "a", count: 128)) != nil)
        #expect(route("/v1/rooms/" + String(repeating: "a", count: 129)) == nil)
    }

    @Test("only health, readiness, the description and the demo are open") func access() {
        let all: [(String, Route.Access)] = [
            ("/healthz", .open), ("/readyz", .open), ("/v1/openapi.json", .open), ("/", .open),
            ("/demo/session", .open),
            ("/metrics", .server), ("/v1/node", .server), ("/v1/rooms", .server), ("/v1/events", .server),
            ("/v1/rooms/r/participants/p", .server), ("/v1/rooms/r/sessions", .participant),
            ("/v1/rooms/r/sessions/p", .participant), ("/v1/rooms/r/sessions/p/join", .participant),
            ("/v1/rooms/r", .either), ("/v1/rooms/r/events", .either), ("/v1/rooms/r/ringing", .participant),
            ("/v1/rooms/r/answer", .participant), ("/v1/rooms/r/end", .either), ("/v1/rooms/r/pushed", .server),
            ("/v1/rooms/r/prompts", .server), ("/v1/rooms/r/prompts/s", .server), ("/v1/rooms/r/media", .either),
            ("/v1/rooms/r/sessions/p/slots", .either),
            ("/v1/users/alice/sessions", .server),
        ]
        for (target, access) in all { #expect(route(target)?.access == access, "\(target)") }
    }

    @Test("a session takes no second offer: there is no renegotiation") func noRenegotiation() {
        let methods = route("/v1/rooms/r/sessions/p")?.methods ?? []
        #expect(!methods.contains("PUT") && !methods.contains("POST"))
    }

    @Test("a query names each parameter once") func queryTwice() {
        let request = HTTPRequest(id: HTTPRequestID(rawValue: 1), method: "GET", target: "/v1/rooms?uid=a&uid=b")
        #expect(throws: Problem.self) { try Query(request) }
    }
}

@Suite("Room bodies") struct RoomBodyTests {
    private func specification(_ text: String) throws -> RoomSpecification {
        try RoomBody.specification(Array(text.utf8))
    }

    private func problem(_ text: String) -> Problem? {
        do throws(Problem) {
            _ = try RoomBody.specification(Array(text.utf8))
            return nil
        } catch {
            return error
        }
    }

    @Test("an empty object is a peer room for video") func defaults() throws {
        let room = try specification("{}")
        #expect(room.id == nil && room.kind == .peer && room.media == .video && room.videoCodec == .vp8)
        #expect(room.maxParticipants == 2)
    }

    @Test("every field is read") func fields() throws {
        let room = try specification(
            #"{"id":"r.1","kind":"group","media":"audio","videoCodec":"H264","maxParticipants":8,"allowParallel":true,"red":true,"timeouts":{"preparedMs":1000,"emptyMs":2000},"metadata":{"a":[1]}}"#
        )
        #expect(room.id?.text == "r.1" && room.kind == .group && room.media == .audio && room.videoCodec == .h264)
        #expect(room.maxParticipants == 8 && room.allowParallel && room.red && room.metadata == #"{"a":[1]}"#)
        #expect(room.timeouts.prepared == .seconds(1) && room.timeouts.empty == .seconds(2))
    }

    @Test(
        "a wrong field is refused by name",
        arguments: [
            (#"{"id":"a b"}"#, "id"), (#"{"id":7}"#, "id"), (#"{"kind":"pair"}"#, "kind"), (#"{"media":1}"#, "media"),
            (#"{"videoCodec":"H265"}"#, "videoCodec"), (#"{"maxParticipants":3}"#, "maxParticipants"),
            (#"{"kind":"group","maxParticipants":101}"#, "maxParticipants"),
            (#"{"allowParallel":"no"}"#, "allowParallel"), (#"{"red":1}"#, "red"),
            (#"{"timeouts":{"preparedMs":99}}"#, "preparedMs"), (#"{"timeouts":{"bogusMs":1000}}"#, "bogusMs"),
            (#"{"bogus":1}"#, "bogus"),
        ])
    func wrong(_ text: String, _ field: String) {
        let problem = problem(text)
        #expect(problem?.status == 400)
        #expect(problem?.detail.contains(field) == true)
    }

    @Test("metadata over 4 KiB is refused with its size and the limit") func metadata() {
        let problem = problem(#"{"metadata":""# + String(repeating: "x", count: 4_095) + #""}"#)
        #expect(problem?.detail.contains("4097") == true && problem?.detail.contains("4096") == true)
    }

    @Test("a body that is no JSON object is refused with the place", arguments: ["", "[]", "{", "{\"a\":1,}"])
    func malformed(_ text: String) { #expect(problem(text)?.code == "malformed-json") }
}

@Suite("Ring bodies") struct RingBodyTests {
    private func problem(_ body: () throws(Problem) -> Void) -> Problem? {
        do throws(Problem) {
            try body()
            return nil
        } catch {
            return error
        }
    }

    @Test("a ring names caller, callees, window and what a push shows") func ring() throws {
        let room = try RoomBody.specification(
            Array(
                #"{"ring":{"caller":"alice","callees":["bob"],"windowMs":30000,"callerName":"Alice A.","callerAvatarUrl":"https://example.org/a.png","conversationId":"c 1"},"ifBusy":"refuse","timeouts":{"joinAfterClaimMs":10000}}"#
                    .utf8))
        #expect(room.ring?.caller == "alice" && room.ring?.callees == ["bob"])
        #expect(room.ring?.window == .seconds(30))
        #expect(room.ring?.callerName == "Alice A." && room.ring?.conversationID == "c 1")
        #expect(room.ifBusy == .refuse)
        #expect(room.timeouts.joinAfterClaim == .seconds(10))
    }

    @Test("without a window it rings 45 s, and whoever is busy is rung too") func defaults() throws {
        let room = try RoomBody.specification(Array(#"{"ring":{"caller":"a","callees":["b"]}}"#.utf8))
        #expect(room.ring?.window == .seconds(45))
        #expect(room.ifBusy == .ring)
    }

    @Test(
        "a wrong field of a ring is refused by name",
        arguments: [
            (#"{"ring":1}"#, "ring"), (#"{"ring":{"callees":["b"]}}"#, "ring.caller"),
            (#"{"ring":{"caller":"a","callees":[]}}"#, "ring.callees"),
            (#"{"ring":{"caller":"a","callees":["b","b"]}}"#, "ring.callees"),
            (#"{"ring":{"caller":"a","callees":["b c"]}}"#, "ring.callees"),
            (#"{"ring":{"caller":"a","callees":["b"],"windowMs":999}}"#, "ring.windowMs"),
            (#"{"ring":{"caller":"a","callees":["b"],"bogus":1}}"#, "ring.bogus"),
            (#"{"ifBusy":"maybe"}"#, "ifBusy"),
        ])
    func wrong(_ text: String, _ field: String) {
        let problem = problem { () throws(Problem) in _ = try RoomBody.specification(Array(text.utf8)) }
        #expect(problem?.status == 400)
        #expect(problem?.members.first?.value == .string(field))
    }

    @Test("an end says status, for whom, and whether one device or all") func end() throws {
        let whole = try RingBody.end(Array(#"{"status":"rejected","uid":"bob","scope":"device"}"#.utf8))
        #expect(whole.status == .rejected && whole.uid == "bob" && whole.scope == .device)
        let short = try RingBody.end(Array(#"{"status":"busy"}"#.utf8))
        #expect(short.status == .busy && short.uid == nil && short.scope == .user)
    }

    @Test(
        "an end without a known status, or with what is not known, is refused",
        arguments: ["{}", #"{"status":"gone"}"#, #"{"status":"busy","x":1}"#, #"{"status":"busy","scope":"all"}"#])
    func badEnd(_ text: String) {
        #expect(problem { () throws(Problem) in _ = try RingBody.end(Array(text.utf8)) }?.status == 400)
    }

    @Test("pushed names user and device") func pushed() throws {
        let body = try RingBody.pushed(Array(#"{"uid":"bob","device":"phone"}"#.utf8))
        #expect(body.uid == "bob" && body.device == "phone")
        #expect(problem { () throws(Problem) in _ = try RingBody.pushed(Array(#"{"uid":"bob"}"#.utf8)) } != nil)
    }
}

@Suite("Times and problems") struct ViewTests {
    @Test("times are RFC 3339 with milliseconds") func times() {
        #expect(Timestamp.text(ofMs: 1_796_000_000_007) == "2026-11-30T00:53:20.007Z")
        #expect(Timestamp.text(ofMs: 0) == "1970-01-01T00:00:00.000Z")
    }

    @Test("a problem document names status, code, detail and further members") func problem() {
        let problem = Problem(
            status: 410, code: "ended", detail: "It is over.", members: [.init("outcome", .string("ended"))])
        #expect(
            String(decoding: JSONText.of(ViewJSON.problem(problem)), as: UTF8.self)
                == #"{"type":"about:blank","title":"Gone","status":410,"detail":"It is over.","code":"ended","#
                + #""legacyCode":"ERR_CALL_ENDED","outcome":"ended"}"#)
    }

    @Test("an event is told in the fields of the contract") func event() {
        let event = RelayEvent(
            seq: 7, roomSeq: 2, type: .participantLeft, timeMs: 1_000, roomID: RoomID("r"), uid: "alice", device: "d",
            participantID: ParticipantID("p"), reason: "hangup", data: [.init("n", .integer(1))])
        #expect(
            String(decoding: JSONText.of(ViewJSON.event(event)), as: UTF8.self)
                == #"{"seq":7,"roomSeq":2,"id":"evt_7","type":"participant.left","time":"1970-01-01T00:00:01.000Z","roomId":"r","uid":"alice","device":"d","participantId":"p","reason":"hangup","data":{"n":1}}"#
        )
    }
}
