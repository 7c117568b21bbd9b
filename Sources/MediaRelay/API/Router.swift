import RTPCore
import RelayCore
import RelayHTTP

/// What the API was told to be.
package struct APIConfiguration: Sendable {
    package var verifier: TokenVerifier
    /// Index of the listener whose `/metrics` and `/v1/node` need no key; nil: none.
    package var adminListener: Int?
    /// The demo page and its tokens are served; this key signs them.
    package var demoKey: SigningKey?
    package var sdpByteLimit = 32 * 1_024
    /// Requests that one token may make in a second.
    package var requestsPerSecond: Int64 = 100

    package init(verifier: TokenVerifier) { self.verifier = verifier }
}

/// Turns HTTP requests into control requests: path, token, form of the body. Decides nothing about rooms. Runs on the HTTP
/// thread; answers arrive on the control and journal threads.
package final class Router: @unchecked Sendable {
    // @unchecked: set up before the server starts; `nextConfiguration` is guarded; `configuration`, `rates` and `readAt` are used
    // on the HTTP thread only.
    private var configuration: APIConfiguration
    private let lock = Lock()
    private var nextConfiguration: APIConfiguration?
    private let control: Mailbox<ControlMessage>
    private let answers: Answers
    private let metrics: @Sendable () -> String
    private let readiness: @Sendable () -> Readiness
    private let node: @Sendable () -> JSONValue
    /// Requests that each token has left in this second.
    private var rates: [String: Int64] = [:]
    private var ratesSince = Instant(nanoseconds: 0)
    /// When the request at hand had come whole.
    private var readAt = Instant(nanoseconds: 0)

    package init(
        configuration: APIConfiguration, control: Mailbox<ControlMessage>, answers: Answers,
        metrics: @escaping @Sendable () -> String, readiness: @escaping @Sendable () -> Readiness,
        node: @escaping @Sendable () -> JSONValue
    ) {
        self.configuration = configuration
        self.control = control
        self.answers = answers
        self.readiness = readiness
        self.node = node
        self.metrics = metrics
    }

    /// Requests that come from now on are judged by it. Any thread.
    package func use(_ configuration: APIConfiguration) { lock.withLock { nextConfiguration = configuration } }

    /// The HTTP server's sink, on its thread.
    package func receive(_ event: ServerEvent) {
        switch event {
        case .request(let request): receive(request)
        case .drained(let id): answers.streamDrained(id)
        case .gone(let id): answers.gone(id)
        case .stopped: break
        }
    }

    private func receive(_ request: HTTPRequest) {
        readAt = MonotonicClock.now()
        let next = lock.withLock {
            defer { nextConfiguration = nil }
            return nextConfiguration
        }
        if let next { configuration = next }
        do throws(Problem) {
            guard let route = Route(request) else {
                throw Problem(status: 404, code: "no-such-path", detail: "There is nothing at this path.")
            }
            if request.method == "OPTIONS" { return answers.options(request.id, route) }
            guard route.methods.contains(request.method) else {
                throw Problem(
                    status: 405, code: "method-not-allowed",
                    detail:
                        "\(request.method) is not possible here; possible: \(route.methods.joined(separator: ", ")).")
            }
            try serve(route, request)
        } catch {
            answers.problem(request.id, error, allow: Route(request)?.methods)
        }
    }

    private func serve(_ route: Route, _ request: HTTPRequest) throws(Problem) {
        switch route {
        case .health: answers.text(request.id, 200, "ok\n")
        case .ready:
            let readiness = readiness()
            answers.text(request.id, readiness == .ready ? 200 : 503, readiness.rawValue + "\n")
        case .openAPI: answers.file(request.id, PageFiles.openAPI, contentType: "application/json")
        case .page(let name):
            guard configuration.demoKey != nil || PageFiles.ofStatus.contains(name), let file = PageFiles.file(name)
            else {
                throw Problem(status: 404, code: "no-such-path", detail: "The demo page is off.")
            }
            answers.page(request.id, file.bytes, contentType: file.contentType)
        case .demoSession: try serveDemo(request)
        default: try serveWithToken(route, request)
        }
    }

    // MARK: Tokens

    private func serveWithToken(_ route: Route, _ request: HTTPRequest) throws(Problem) {
        let isAdminListener = configuration.adminListener == request.listener
        if isAdminListener, route == .metrics || route == .node { return answerStatus(route, request) }
        let claims = try authenticate(request)
        try limitRate(claims.principal)
        switch (route.access, claims.principal) {
        case (.server, .server), (.participant, .participant), (.either, _): break
        default:
            throw Problem(
                status: 403, code: "forbidden",
                detail: "This path is for \(route.access == .server ? "the server key" : "participant tokens").")
        }
        if case .participant(let identity) = claims.principal {
            try allow(identity, claims, route)
        }
        if route == .metrics || route == .node { return answerStatus(route, request) }
        try serve(route, request, as: claims.principal)
    }

    private func authenticate(_ request: HTTPRequest) throws(Problem) -> TokenClaims {
        guard let field = request.headers.firstBytes("Authorization"), request.headers.all("Authorization").count == 1,
            field.count > 7, field[..<7].elementsEqual("Bearer ".utf8) || field[..<7].elementsEqual("bearer ".utf8)
        else {
            throw Problem(
                status: 401, code: "not-authenticated", detail: "One Authorization field with a Bearer token is needed."
            )
        }
        do throws(TokenRefusal) {
            return try configuration.verifier.verify(Array(field[7...]), nowSeconds: WallClock.nowMs / 1_000)
        } catch {
            throw Problem(status: 401, code: "not-authenticated", detail: "The token is refused: \(error.detail).")
        }
    }

    /// A participant's token is for one room; expired, it still serves to join, leave and read in a session that it began.
    private func allow(_ identity: ParticipantIdentity, _ claims: TokenClaims, _ route: Route) throws(Problem) {
        let room: RoomID
        switch route {
        case .room(let id), .sessions(let id), .roomEvents(let id), .session(let id, _), .join(let id, _),
            .slots(let id, _), .ringing(let id), .answer(let id), .end(let id), .media(let id), .call(let id),
            .recordings(let id), .recording(let id, _):
            room = id
        default: throw Problem(status: 403, code: "forbidden", detail: "This path is for the server key.")
        }
        guard room == identity.room else {
            // The same answer as for a room that does not exist (T75).
            throw Problem(status: 404, code: "call-not-found", detail: "There is no such room for this token.")
        }
        switch route {
        case .sessions, .ringing, .answer, .recordings:
            guard !claims.isExpired else {
                throw Problem(status: 401, code: "not-authenticated", detail: "The token is refused: expired.")
            }
        default: break
        }
    }

    private func limitRate(_ principal: Principal) throws(Problem) {
        guard case .participant(let identity) = principal else { return }
        let now = MonotonicClock.now()
        if now - ratesSince >= .seconds(1) || rates.count > 100_000 {
            rates.removeAll(keepingCapacity: true)
            ratesSince = now
        }
        let key = "\(identity.room.text) \(identity.uid) \(identity.device)"
        let left = rates[key, default: configuration.requestsPerSecond]
        guard left > 0 else {
            throw Problem(
                status: 429, code: "too-many-requests",
                detail: "More than \(configuration.requestsPerSecond) requests in a second.", retryAfterSeconds: 1)
        }
        rates[key] = left - 1
    }

    private func answerStatus(_ route: Route, _ request: HTTPRequest) {
        if route == .metrics {
            answers.text(request.id, 200, metrics(), contentType: "text/plain; version=0.0.4; charset=utf-8")
        } else {
            answers.json(request.id, 200, node())
        }
    }

    // MARK: Routes with a token

    private func serve(_ route: Route, _ request: HTTPRequest, as principal: Principal) throws(Problem) {
        let query = try Query(request)
        switch route {
        case .rooms where request.method == "POST":
            ask(.createRoom(try RoomBody.specification(request.body)), request, principal)
        case .rooms:
            let status: RoomStatus? = try query.word("status")
            ask(
                .listRooms(
                    status: status, uid: try query.identifier("uid"), cursor: query["cursor"],
                    limit: try query.integer("limit", 1...ConductorConfiguration.listLimit) ?? 100),
                request, principal)
        case .room(let room) where request.method == "DELETE":
            ask(.deleteRoom(room, reason: try query.identifier("reason")), request, principal)
        case .room(let room): ask(.room(room), request, principal)
        case .sessions(let room): try prepare(room, request, query, principal)
        case .join(let room, let participant):
            if let others = query["end"], others != "others" { throw Query.refusal("end", "can only be: others") }
            ask(
                .join(
                    room, participant, endOthers: query["end"] != nil, takeover: try query.flag("takeover")),
                request, principal)
        case .session(let room, let participant) where request.method == "DELETE":
            ask(.leave(room, participant), request, principal)
        case .session(let room, let participant) where type(of: request) == "application/json":
            ask(.changeMedia(room, participant, try MediaBody.own(request.body)), request, principal)
        case .session(let room, let participant):
            try requireType(request, "application/trickle-ice-sdpfrag")
            ask(
                .trickle(
                    room, participant, ifMatch: request.headers.first("If-Match"), fragment: request.body),
                request, principal)
        case .participant(let room, let participant) where request.method == "PATCH":
            ask(.changeMediaByServer(room, participant, try MediaBody.server(request.body)), request, principal)
        case .slots(let room, let participant):
            ask(.requestSlots(room, participant, try SlotsBody.requests(request.body)), request, principal)
        case .media(let room):
            let body = try MediaBody.video(request.body)
            ask(.video(room, body.word, uid: body.uid), request, principal)
        case .prompts(let room): ask(.playPrompt(room, try PromptBody.specification(request.body)), request, principal)
        case .recordings(let room):
            ask(.startRecording(room, try RecordingBody.specification(request.body)), request, principal)
        case .recording(let room, let recording): ask(.stopRecording(room, recording), request, principal)
        case .prompt(let room, let prompt): ask(.stopPrompt(room, prompt), request, principal)
        case .participant(let room, let participant): ask(.kick(room, participant), request, principal)
        case .ringing(let room): ask(.ringing(room), request, principal)
        case .answer(let room): ask(.answer(room), request, principal)
        case .end(let room):
            let body = try RingBody.end(request.body)
            ask(.end(room, body.status, uid: body.uid, scope: body.scope), request, principal)
        case .pushed(let room):
            let body = try RingBody.pushed(request.body)
            ask(.pushed(room, uid: body.uid, device: body.device), request, principal)
        case .capture(let room):
            post(request.id, principal, .capture(room, try CaptureBody.specification(request.body)), .capture)
        case .series(let room): ask(.series(room), request, principal)
        case .userSessions(let uid): ask(.logout(uid: uid), request, principal)
        case .drain where request.method == "DELETE": ask(.undrain, request, principal)
        case .drain: ask(.drain(within: try DrainBody.deadline(request.body)), request, principal)
        case .calls: answers.calls(request.id, try CallParameters.query(query))
        case .call(let room):
            if case .participant(let identity) = principal {
                // Whether the token may look at the room is the conductor's to say.
                post(request.id, principal, .room(room), .call(uid: identity.uid))
            } else {
                answers.call(request.id, room, uid: try query.identifier("uid"))
            }
        case .roomEvents(let room): try follow(room, request, query, principal)
        case .events: try follow(nil, request, query, principal)
        default: preconditionFailure("\(route) is served without a token")
        }
    }

    private func prepare(
        _ room: RoomID, _ request: HTTPRequest, _ query: Query, _ principal: Principal
    ) throws(Problem) {
        try requireType(request, "application/sdp")
        guard request.body.count <= configuration.sdpByteLimit else {
            throw Problem(
                status: 413, code: "sdp-too-large",
                detail: "The offer has \(request.body.count) bytes; the limit is \(configuration.sdpByteLimit).")
        }
        let state: PrepareState? = try query.word("state")
        if let join = query["join"], join != "on-answer" { throw Query.refusal("join", "can only be: on-answer") }
        post(
            request.id, principal,
            .prepare(
                room, state: state, offer: request.body, joinOnAnswer: query["join"] != nil,
                earlyKeyFrame: try query.flag("earlyKeyFrame")), .session(room),
            once: try RequestDigest.idempotencyKey(of: request))
    }

    private func requireType(_ request: HTTPRequest, _ type: String) throws(Problem) {
        guard self.type(of: request) == type else {
            throw Problem(status: 415, code: "unsupported-media-type", detail: "The body must be \(type).")
        }
    }

    /// The body's media type without parameters, lower case.
    private func type(of request: HTTPRequest) -> String {
        let given = request.headers.first("Content-Type") ?? ""
        return given.prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
    }

    private func ask(_ control: ControlRequest, _ request: HTTPRequest, _ principal: Principal) {
        do throws(Problem) {
            post(request.id, principal, control, .response, once: try RequestDigest.idempotencyKey(of: request))
        } catch {
            answers.problem(request.id, error, allow: nil)
        }
    }

    private func post(
        _ id: HTTPRequestID, _ principal: Principal, _ request: ControlRequest, _ form: ReplyForm,
        once key: IdempotencyKey? = nil
    ) {
        guard control.post(.request(id.rawValue, principal, request, form, readAt: readAt, once: key)) else {
            return answers.problem(
                id,
                Problem(
                    status: 503, code: "overloaded", detail: "Too many requests wait to be decided.",
                    retryAfterSeconds: 1), allow: nil)
        }
    }

    // MARK: Events

    private func follow(
        _ room: RoomID?, _ request: HTTPRequest, _ query: Query, _ principal: Principal
    ) throws(Problem) {
        var room = room
        if room == nil, let text = query["room"] {
            room = RoomID(text)
            if room == nil { throw Query.refusal("room", "must be [A-Za-z0-9._-]{1,128}") }
        }
        let isPage = request.headers.first("Accept")?.contains("application/json") == true
        let given = request.headers.first("Last-Event-ID") ?? query["after"]
        var after: UInt64?
        if let given {
            guard let seq = UInt64(given), seq <= UInt64(Int64.max) else {
                throw Query.refusal("after", "must be an event's seq")
            }
            after = seq
        }
        let limit = try query.integer("limit", 1...1_000) ?? 256
        let wait = try query.integer("wait", 0...60) ?? 0
        let until = MonotonicClock.now() + .seconds(Int64(wait))
        let dialect: EventDialect = try query.word("dialect") ?? .current
        if case .server = principal {
            if isPage {
                answers.page(request.id, after: after ?? 0, room: room, limit: limit, until: until, dialect: dialect)
            } else {
                answers.stream(request.id, after: after, room: room, endsWithRoom: false, dialect: dialect)
            }
            return
        }
        guard let room else { preconditionFailure("a participant follows its room only") }
        // Whether the token may look at the room is the conductor's to say; from its creation, unless resumed.
        let form: ReplyForm =
            isPage
            ? .roomEventPage(after: after ?? 0, limit: limit, until: until, dialect: dialect)
            : .roomEvents(after: after ?? 0, dialect: dialect)
        post(request.id, principal, .room(room), form)
    }

    // MARK: Demo

    /// `{room, name, kind}`: makes the room where it does not exist and gives a token for it. For trying things out only.
    private func serveDemo(_ request: HTTPRequest) throws(Problem) {
        guard configuration.demoKey != nil else {
            throw Problem(status: 404, code: "no-such-path", detail: "The demo page is off.")
        }
        let body = try RoomBody.object(request.body)
        guard case .string(let room)? = body["room"], isIdentifier(room), room.utf8.count <= 64 else {
            throw RoomBody.invalid("room", "must be [A-Za-z0-9._-]{1,64}")
        }
        guard case .string(let name)? = body["name"], isIdentifier(name) else {
            throw RoomBody.invalid("name", "must be [A-Za-z0-9._-]{1,128}")
        }
        var kind = RoomKind.peer
        if let given = body["kind"] {
            guard case .string(let word) = given, let known = RoomKind(rawValue: word) else {
                throw RoomBody.invalid("kind", "must be peer or group")
            }
            kind = known
        }
        answers.demo(request.id, uid: name, name: room, kind: kind, attempt: 0)
    }
}

/// A request's query: each name once, known values only.
struct Query {
    private var values: [String: String] = [:]

    init(_ request: HTTPRequest) throws(Problem) {
        guard let items = request.queryItems else {
            throw Problem(status: 400, code: "malformed-query", detail: "The query is not percent-encoded UTF-8.")
        }
        for item in items {
            guard values.updateValue(item.value, forKey: item.name) == nil else {
                throw Self.refusal(item.name, "stands twice")
            }
        }
    }

    subscript(name: String) -> String? { values[name] }

    static func refusal(_ name: String, _ what: String) -> Problem {
        Problem(
            status: 400, code: "invalid-parameter", detail: "The parameter \(name) \(what).",
            members: [.init("parameter", .string(name))])
    }

    func word<Word: RawRepresentable>(_ name: String) throws(Problem) -> Word? where Word.RawValue == String {
        guard let text = values[name] else { return nil }
        guard let word = Word(rawValue: text) else { throw Self.refusal(name, "has no value \(text)") }
        return word
    }

    func identifier(_ name: String) throws(Problem) -> String? {
        guard let text = values[name] else { return nil }
        guard isIdentifier(text) else { throw Self.refusal(name, "must be [A-Za-z0-9._-]{1,128}") }
        return text
    }

    func flag(_ name: String) throws(Problem) -> Bool {
        switch values[name] {
        case nil, "false": return false
        case "true", "1": return true
        default: throw Self.refusal(name, "must be true or false")
        }
    }

    func integer(_ name: String, _ range: ClosedRange<Int>) throws(Problem) -> Int? {
        guard let text = values[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw Self.refusal(name, "must be a number in \(range.lowerBound)…\(range.upperBound)")
        }
        return number
    }
}
