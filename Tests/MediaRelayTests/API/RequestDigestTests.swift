import RelayCore
import RelayHTTP
import Testing

@testable import MediaRelay

@Suite("Idempotency keys over HTTP") struct RequestDigestTests {
    private func request(
        _ method: String = "POST", _ target: String = "/v1/rooms/r/end", key: [String] = ["k"], type: String? = nil,
        ifMatch: String? = nil, body: String = "{}"
    ) -> HTTPRequest {
        var fields = key.map { (name: "Idempotency-Key", value: $0) }
        if let type { fields.append(("Content-Type", type)) }
        if let ifMatch { fields.append(("If-Match", ifMatch)) }
        return HTTPRequest(
            id: HTTPRequestID(rawValue: 1), method: method, target: target, headers: HTTPHeaders(fields),
            body: Array(body.utf8))
    }

    @Test("whatever makes a request another one makes another digest") func digests() {
        let all = [
            request(), request("PATCH"), request("POST", "/v1/rooms/r/answer"),
            request("POST", "/v1/rooms/r/end?x=1"), request(type: "application/json"), request(ifMatch: "*"),
            request(body: "{\"a\":1}"), request(body: "{\"a\":[1,2]}"), request(body: "{\"a\":[2,1]}"),
            request(type: "*"), request(body: ""), request(body: "v=0"), request(body: "v=0 "),
        ].map(RequestDigest.of)
        #expect(Set(all).count == all.count)
        #expect(all.allSatisfy { $0.utf8.count == 64 })
        #expect(RequestDigest.of(request()) == all[0])
        #expect(RequestDigest.of(request(key: ["other"])) == all[0])
    }

    @Test("JSON counts by its meaning, whatever the order of its fields") func meaning() {
        let one = RequestDigest.of(request(body: #"{"a":1,"b":{"c":[true,null],"d":"x"}}"#))
        let other = RequestDigest.of(request(body: #" { "b" : {"d":"x", "c":[ true, null ]}, "a":1 }"#))
        #expect(one == other)
    }

    @Test("POST and PATCH may have one key; of other methods it means nothing") func keys() throws {
        #expect(try RequestDigest.idempotencyKey(of: request())?.text == "k")
        #expect(try RequestDigest.idempotencyKey(of: request("PATCH"))?.text == "k")
        #expect(try RequestDigest.idempotencyKey(of: request("DELETE")) == nil)
        #expect(try RequestDigest.idempotencyKey(of: request("GET")) == nil)
        #expect(try RequestDigest.idempotencyKey(of: request(key: [])) == nil)
        #expect(throws: Problem.self) { try RequestDigest.idempotencyKey(of: request(key: ["a", "b"])) }
    }

    @Test("an answer that is given again is the first one's, byte for byte") func repeated() throws {
        let room = try #require(RoomID("r"))
        let participant = try #require(ParticipantID("p_1"))
        let specification = RoomSpecification(id: room, kind: .peer, media: .video)
        let view = RoomView(
            id: room, specification: specification, status: .initiated, createdAtMs: 1_767_225_600_000, seq: 3)
        let replies: [(ControlReply, ControlRequest)] = [
            (.created(view, isNew: true), .createRoom(specification)),
            (.room(view), .answer(room)),
            (.done, .pushed(room, uid: "ben", device: "phone")),
            (
                .prepared(participant, answer: Array("v=0\r\n".utf8), etag: "1", isNew: true),
                .prepare(room, state: .joined, offer: [])
            ),
            (
                .problem(Problem(status: 409, code: "answered-elsewhere", detail: "„ben“ answered on another device")),
                .answer(room)
            ),
        ]
        for (reply, request) in replies {
            let stored = Answers.text(of: reply, to: request)
            let first = Answers.response(to: reply, in: room)
            let again = Answers.response(to: .repeated(stored), in: nil)
            #expect(again.status == first.status)
            #expect(again.headers == first.headers)
            #expect(again.body == first.body)
        }
    }
}
