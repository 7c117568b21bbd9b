import RelayCore
import RelayHTTP

// What a reply of the conductor looks like over the wire, without the fields that every answer has.

extension Answers {
    /// `room`: where the session lives that the reply may have made.
    static func response(to reply: ControlReply, in room: RoomID?) -> HTTPResponse {
        switch reply {
        case .created(let room, let isNew):
            return json(
                isNew ? 201 : 200, ViewJSON.room(room, withParticipants: true),
                headers: [.init("Location", "/v1/rooms/\(room.id.text)")])
        case .rooms(let rooms, let next, let seq):
            var fields: [JSONValue.Field] = [
                .init("rooms", .array(rooms.map { ViewJSON.room($0, withParticipants: false) })),
                .init("seq", .integer(Int64(seq))),
            ]
            if let next { fields.append(.init("next", .string(next))) }
            return json(200, .object(fields))
        case .room(let room), .joined(let room): return json(200, ViewJSON.room(room, withParticipants: true))
        case .prepared(let participant, let answer, let etag, let isNew):
            guard let room else { preconditionFailure("an SDP answer is delivered as a session") }
            return HTTPResponse(
                status: isNew ? 201 : 200, contentType: "application/sdp",
                headers: [
                    .init("Location", "/v1/rooms/\(room.text)/sessions/\(participant.text)"),
                    .init("ETag", "\"\(etag)\""),
                ], body: answer)
        case .participant(let participant): return json(200, ViewJSON.participant(participant))
        case .prompt(let prompt):
            return json(
                201, ViewJSON.prompt(prompt),
                headers: [.init("Location", "/v1/rooms/\(prompt.roomID.text)/prompts/\(prompt.id.text)")])
        case .capturing(let id, _): return json(202, .object([.init("captureId", .string(id.description))]))
        case .series(let legs): return json(200, SeriesJSON.list(legs))
        case .recording(let recording):
            return json(
                201, ViewJSON.recording(recording),
                headers: [
                    .init("Location", "/v1/rooms/\(recording.roomID.text)/recordings/\(recording.id.text)")
                ])
        case .drain(let drain): return json(200, ViewJSON.drain(drain))
        case .done: return json(200, .object([]))
        case .restarted(let fragment, let etag):
            return HTTPResponse(
                status: 200, contentType: "application/trickle-ice-sdpfrag",
                headers: [.init("ETag", "\"\(etag)\"")], body: fragment)
        case .trickleIgnored: return HTTPResponse(status: 204)
        case .problem(let problem): return response(of: problem)
        case .repeated(let answer):
            return HTTPResponse(
                status: answer.status, headers: answer.fields.map { .init($0.name, $0.value) },
                body: Array(answer.body.utf8))
        }
    }

    /// The reply as it is stored under an `Idempotency-Key`. All our bodies are UTF-8.
    package static func text(of reply: ControlReply, to request: ControlRequest) -> StoredAnswer {
        var room: RoomID?
        if case .prepare(let id, _, _, _, _) = request { room = id }
        let response = response(to: reply, in: room)
        return StoredAnswer(
            status: response.status, fields: response.headers.map { .init(name: $0.name, value: $0.value) },
            body: String(decoding: response.body, as: UTF8.self))
    }

    static func response(of problem: Problem) -> HTTPResponse {
        let retry = problem.retryAfterSeconds.map { [HTTPResponse.Field("Retry-After", "\($0)")] } ?? []
        return HTTPResponse(
            status: problem.status, contentType: "application/problem+json", headers: retry,
            body: JSONText.of(ViewJSON.problem(problem)))
    }

    private static func json(_ status: Int, _ value: JSONValue, headers: [HTTPResponse.Field] = []) -> HTTPResponse {
        HTTPResponse(status: status, contentType: "application/json", headers: headers, body: JSONText.of(value))
    }
}
