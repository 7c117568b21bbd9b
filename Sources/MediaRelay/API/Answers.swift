import RTPCore
import RelayCore
import RelayHTTP

/// Writes answers: control replies, event streams and pages, problems, files. Holds the HTTP server and the journal's thread by
/// reference; any thread.
package final class Answers: ReplySink, EventSink, CallSink, @unchecked Sendable {
    // @unchecked: `server`, `journal`, `callLog` and `control` are set once, before the server starts.
    private var server: HTTPServer?
    private var journal: JournalThread?
    private var callLog: CallLog?
    private let control: Mailbox<ControlMessage>
    private let captures = CaptureStreams()
    private let demoLock = Lock()
    private var demoKey: SigningKey?
    /// Which of a demo room's successive rooms is in use, by its name. A room's id is never used again.
    private var demoGenerations: [String: Int] = [:]

    package init(control: Mailbox<ControlMessage>, demoKey: SigningKey?) {
        self.control = control
        self.demoKey = demoKey
    }

    /// Demo tokens are signed with it from now on.
    package func use(demoKey: SigningKey?) { demoLock.withLock { self.demoKey = demoKey } }

    package func connect(server: HTTPServer, journal: JournalThread) {
        self.server = server
        self.journal = journal
    }

    package func connect(callLog: CallLog) { self.callLog = callLog }

    private static let crossOrigin: [HTTPResponse.Field] = [
        .init("Access-Control-Allow-Origin", "*"),
        .init("Access-Control-Expose-Headers", "Location, ETag, Link, Retry-After"),
        .init("Cache-Control", "no-store"),
    ]

    // MARK: Plain answers

    func text(_ id: HTTPRequestID, _ status: Int, _ text: String, contentType: String = "text/plain; charset=utf-8") {
        respond(id, HTTPResponse(status: status, contentType: contentType, headers: [], body: Array(text.utf8)))
    }

    func json(_ id: HTTPRequestID, _ status: Int, _ value: JSONValue, headers: [HTTPResponse.Field] = []) {
        respond(
            id,
            HTTPResponse(
                status: status, contentType: "application/json", headers: headers + Self.crossOrigin,
                body: JSONText.of(value)))
    }

    func file(_ id: HTTPRequestID, _ bytes: [UInt8], contentType: String) {
        respond(id, HTTPResponse(status: 200, contentType: contentType, headers: Self.crossOrigin, body: bytes))
    }

    func page(_ id: HTTPRequestID, _ bytes: [UInt8], contentType: String) {
        let headers: [HTTPResponse.Field] = [
            .init("Cache-Control", "no-cache"), .init("X-Content-Type-Options", "nosniff"),
            .init(
                "Content-Security-Policy",
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob: "
                    + "mediastream:; connect-src *; base-uri 'none'; form-action 'none'"),
        ]
        respond(id, HTTPResponse(status: 200, contentType: contentType, headers: headers, body: bytes))
    }

    func problem(_ id: HTTPRequestID, _ problem: Problem, allow: [String]?) {
        var response = Self.response(of: problem)
        if problem.status == 405, let allow {
            response.headers.append(.init("Allow", (allow + ["OPTIONS"]).joined(separator: ", ")))
        }
        if problem.status == 401 { response.headers.append(.init("WWW-Authenticate", "Bearer")) }
        respond(id, crossOrigin: response)
    }

    func options(_ id: HTTPRequestID, _ route: Route) {
        let methods = (route.methods + ["OPTIONS"]).joined(separator: ", ")
        var headers =
            Self.crossOrigin + [
                .init("Allow", methods), .init("Access-Control-Allow-Methods", methods),
                .init(
                    "Access-Control-Allow-Headers",
                    "Authorization, Content-Type, If-Match, Idempotency-Key, Last-Event-ID, Accept"),
                .init("Access-Control-Max-Age", "86400"),
            ]
        if case .sessions = route { headers.append(.init("Accept-Post", "application/sdp")) }
        respond(id, HTTPResponse(status: 204, headers: headers))
    }

    private func respond(_ id: HTTPRequestID, _ response: HTTPResponse) { server?.respond(id, response) }

    /// With the fields that every answer of the API has.
    private func respond(_ id: HTTPRequestID, crossOrigin response: HTTPResponse) {
        var response = response
        response.headers += Self.crossOrigin
        respond(id, response)
    }

    // MARK: Control replies

    package func deliver(_ reply: ControlReply, to request: UInt64, as form: ReplyForm) {
        let id = HTTPRequestID(rawValue: request)
        switch form {
        case .response: respond(id, reply)
        case .session(let room): respond(id, crossOrigin: Self.response(to: reply, in: room))
        case .roomEvents(let after, let dialect):
            guard case .room(let room) = reply else { return respond(id, reply) }
            stream(id, after: after, room: room.id, endsWithRoom: true, dialect: dialect)
        case .roomEventPage(let after, let limit, let until, let dialect):
            guard case .room(let room) = reply else { return respond(id, reply) }
            page(id, after: after, room: room.id, limit: limit, until: until, dialect: dialect)
        case .call(let uid):
            guard case .room(let room) = reply else { return respond(id, reply) }
            guard room.outcome != nil else {
                return problem(
                    id, Problem(status: 404, code: "call-not-found", detail: "The call has not ended."), allow: nil)
            }
            call(id, room.id, uid: uid)
        case .capture:
            guard case .capturing(let capture, let worker) = reply else { return respond(id, reply) }
            self.capture(id, capture, on: worker)
        case .demo(let uid, let name, let kind, let attempt):
            deliverDemo(reply, id, uid: uid, name: name, kind: kind, attempt: attempt)
        }
    }

    private func respond(_ id: HTTPRequestID, _ reply: ControlReply) {
        respond(id, crossOrigin: Self.response(to: reply, in: nil))
    }

    // MARK: Events

    func stream(
        _ id: HTTPRequestID, after: UInt64?, room: RoomID?, endsWithRoom: Bool, dialect: EventDialect
    ) {
        server?.openStream(
            id,
            headers: [.init("Content-Type", "text/event-stream"), .init("X-Accel-Buffering", "no")] + Self.crossOrigin)
        let command = JournalCommand.subscribe(
            stream: id.rawValue, after: after, room: room?.text, endsWithRoom: endsWithRoom, dialect: dialect)
        // A journal that does not keep up loses no event: the client resumes by itself.
        if journal?.post(command) != true { server?.close(id) }
    }

    func page(
        _ id: HTTPRequestID, after: UInt64, room: RoomID?, limit: Int, until: Instant, dialect: EventDialect
    ) {
        var page = EventPageRequest(request: id.rawValue, after: after, room: room?.text, limit: limit, until: until)
        page.dialect = dialect
        guard journal?.post(.page(page)) == true else {
            return problem(
                id,
                Problem(
                    status: 503, code: "overloaded", detail: "Too many requests wait for the log.",
                    retryAfterSeconds: 1), allow: nil)
        }
    }

    func streamDrained(_ id: HTTPRequestID) {
        if perform(captures.drained(id.rawValue)) { return }
        journal?.post(.drained(stream: id.rawValue))
    }

    func gone(_ id: HTTPRequestID) {
        if let capture = captures.remove(request: id.rawValue) {
            control.post(.stopCapture(capture.id, capture.stream.worker))
            return
        }
        journal?.post(.unsubscribe(stream: id.rawValue))
    }

    package func write(_ stream: UInt64, _ bytes: [UInt8]) { server?.write(HTTPRequestID(rawValue: stream), bytes) }

    package func close(_ stream: UInt64) { server?.close(HTTPRequestID(rawValue: stream)) }

    package func answer(_ request: UInt64, _ json: [UInt8]) {
        respond(
            HTTPRequestID(rawValue: request),
            HTTPResponse(status: 200, contentType: "application/json", headers: Self.crossOrigin, body: json))
    }

    // MARK: Captures

    private func capture(_ id: HTTPRequestID, _ capture: CaptureID, on worker: WorkerID) {
        guard !captures.isBusy(worker) else {
            return problem(
                id,
                Problem(
                    status: 409, code: "capture-running", detail: "The room's worker carries out another capture.",
                    retryAfterSeconds: 5), allow: nil)
        }
        server?.openStream(id, headers: [.init("Content-Type", "application/x-pcapng")] + Self.crossOrigin)
        perform(captures.open(capture, CaptureStreams.Stream(request: id.rawValue, worker: worker)))
    }

    package func captured(_ part: CapturePart) { perform(captures.take(part)) }

    package func endCaptures(of worker: WorkerID) { perform(captures.end(of: worker)) }

    /// Whether there was anything to do.
    @discardableResult
    private func perform(_ steps: [CaptureStreams.Step]) -> Bool {
        for step in steps {
            switch step {
            case .write(let request, let bytes): write(request, bytes)
            case .close(let request): close(request)
            }
        }
        return !steps.isEmpty
    }

    // MARK: Call records

    func calls(_ id: HTTPRequestID, _ query: CallQuery) {
        if callLog?.page(id.rawValue, query) != true { refuseCalls(id) }
    }

    func call(_ id: HTTPRequestID, _ room: RoomID, uid: String?) {
        if callLog?.record(id.rawValue, of: room, uid: uid) != true { refuseCalls(id) }
    }

    private func refuseCalls(_ id: HTTPRequestID) {
        refuse(
            id.rawValue,
            Problem(
                status: 503, code: "overloaded", detail: "Too many requests wait for the call log.",
                retryAfterSeconds: 1))
    }

    package func refuse(_ request: UInt64, _ problem: Problem) {
        self.problem(HTTPRequestID(rawValue: request), problem, allow: nil)
    }

    // MARK: Demo

    /// Makes or finds the room behind a demo name, then answers with a token for it.
    func demo(_ id: HTTPRequestID, uid: String, name: String, kind: RoomKind, attempt: Int) {
        let stem = Self.demoStem(name, kind)
        let generation = demoLock.withLock { demoGenerations[stem, default: 1] }
        guard let room = RoomID("\(stem)-\(generation)") else {
            preconditionFailure("a demo name of at most 64 characters makes an id")
        }
        let specification = RoomSpecification(id: room, kind: kind, media: .video)
        let form = ReplyForm.demo(uid: uid, name: name, kind: kind, attempt: attempt)
        if !control.post(
            .request(id.rawValue, .server(keyID: "demo"), .createRoom(specification), form))
        {
            problem(
                id,
                Problem(status: 503, code: "overloaded", detail: "Too many requests wait.", retryAfterSeconds: 1),
                allow: nil)
        }
    }

    /// Of the ids of the demo page's rooms.
    private static func demoStem(_ name: String, _ kind: RoomKind) -> String {
        "\(kind == .peer ? "demo" : "group")-\(name)"
    }

    private func deliverDemo(
        _ reply: ControlReply, _ id: HTTPRequestID, uid: String, name: String, kind: RoomKind, attempt: Int
    ) {
        switch reply {
        case .problem(let problem) where problem.status == 410 && attempt < 10_000:
            let stem = Self.demoStem(name, kind)
            demoLock.withLock { demoGenerations[stem, default: 1] += 1 }
            demo(id, uid: uid, name: name, kind: kind, attempt: attempt + 1)
        case .created(let room, _):
            let expiry = WallClock.nowMs / 1_000 + 3_600
            guard let demoKey = demoLock.withLock({ demoKey }),
                let token = TokenMint.participant(
                    uid: uid, device: "browser", room: room.id, expirySeconds: expiry, grants: .standard, key: demoKey)
            else { preconditionFailure("the demo key signs") }
            json(
                id, 200,
                .object([
                    .init("room", .string(room.id.text)), .init("uid", .string(uid)), .init("token", .string(token)),
                ]))
        default: respond(id, reply)
        }
    }
}
