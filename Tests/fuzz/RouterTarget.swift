import RTPCore
import RelayCore
import RelayHTTP
import RelaySigning
import RelayTesting

@testable import MediaRelay

extension FuzzTarget {
    /// What anybody says on a connection to the API, from its bytes to the conductor's decision. A request says with whose token
    /// it comes (`Bearer ann`; a real one is put in its place): without one nothing reaches the conductor but the demo's. What
    /// reaches it gets one reply, which is an answer, and breaks none of its invariants.
    static let requests = FuzzTarget(
        name: "requests", byteLimit: 16_384,
        seeds: {
            let offer = String(
                decoding: SimulatedClient(SimulatedClient.Options(), address: .none).offer(), as: UTF8.self)
            func request(_ line: String, _ who: String, _ body: String = "", _ fields: String = "") -> [UInt8] {
                Array(
                    "\(line) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(who)\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
                        .utf8)
            }
            let sdp = "Content-Type: application/sdp\r\n"
            let json = "Content-Type: application/json\r\n"
            let fragment = "Content-Type: application/trickle-ice-sdpfrag\r\nIf-Match: \"1\"\r\n"
            let one = [
                request(
                    "POST /v1/rooms", "server", #"{"id":"new","kind":"group","media":"video"}"#,
                    "Idempotency-Key: k\r\n"),
                request("GET /v1/rooms?status=ongoing&limit=2", "server"), request("GET /v1/rooms/call", "ann"),
                request("POST /v1/rooms/call/sessions?state=prepared&join=on-answer", "ann", offer, sdp),
                request("POST /v1/rooms/group/sessions", "cat", offer, sdp),
                request("POST /v1/rooms/call/ringing", "ben"),
                request("POST /v1/rooms/call/answer", "ben"),
                request("POST /v1/rooms/call/end", "ben", #"{"status":"busy","uid":"ben","scope":"device"}"#, json),
                request("POST /v1/rooms/call/media", "server", #"{"video":"request","uid":"ann"}"#, json),
                request("POST /v1/rooms/group/prompts", "server", #"{"tone":"ringback","to":["cat"]}"#, json),
                request(
                    "PATCH /v1/rooms/call/sessions/p_1", "ann",
                    "a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\n", fragment),
                request("PATCH /v1/rooms/call/sessions/p_1", "ann", #"{"audio":"muted"}"#, json),
                request("POST /v1/rooms/call/sessions/p_1/join?end=others&takeover=1", "ann"),
                request("DELETE /v1/rooms/call/sessions/p_1", "ann"),
                request("DELETE /v1/rooms/call?reason=x", "server"),
                request("DELETE /v1/users/ann/sessions", "server"),
                request("GET /v1/events?after=0&wait=1", "server", "", "Accept: application/json\r\n"),
                request("GET /v1/rooms/call/events", "ann"), request("GET /v1/calls?uid=ann", "server"),
                request("GET /v1/calls/call", "ann"),
                request("GET /metrics", "server"), request("OPTIONS /v1/rooms", "x"),
                request("POST /demo/session", "x", #"{"room":"d","name":"ann","kind":"group"}"#, json),
            ]
            return one + [Array(one.joined()), one[3] + one[3] + one[6] + one[7]]
        }
    ) { bytes in
        let scene = RouterScene()
        for request in requests(in: bytes, pieceByteCount: max(1, bytes.count)).requests { scene.receive(request) }
    }
}

/// The API's parts between a connection and the journal, without threads: what the control loop does is done at once.
private final class RouterScene {
    private let link = LinkScene()
    private let control: Mailbox<ControlMessage>
    private let answers: Answers
    private let router: Router
    private var count: UInt64 = 0

    init() {
        guard let control = try? Mailbox<ControlMessage>(capacity: 1_024) else {
            fatalError("no descriptor for a mailbox")
        }
        var configuration = APIConfiguration(verifier: TokenVerifier(keys: [routerKey], maxLifetimeSeconds: 43_200))
        configuration.demoKey = routerKey
        self.control = control
        answers = Answers(control: control, demoKey: routerKey)
        router = Router(
            configuration: configuration, control: control, answers: answers, metrics: { "" }, readiness: { .ready },
            node: { .object([]) })
    }

    func receive(_ parsed: ParsedRequest) {
        var hasToken = false
        let fields = parsed.headers.pairs.map {
            (field: (name: String, value: String)) -> (name: String, value: String) in
            guard field.name.lowercased() == "authorization", field.value.hasPrefix("Bearer "),
                let token = routerTokens[String(field.value.dropFirst(7))]
            else { return field }
            hasToken = true
            return (field.name, "Bearer " + token)
        }
        count += 1
        router.receive(
            .request(
                HTTPRequest(
                    id: HTTPRequestID(rawValue: count), method: parsed.method, target: parsed.target,
                    headers: HTTPHeaders(fields), body: parsed.body)))
        var batch: [ControlMessage] = []
        control.take(into: &batch)
        while !batch.isEmpty {
            for message in batch { decide(message, hasToken: hasToken) }
            // The demo asks again for a room whose name is used up.
            control.take(into: &batch)
        }
    }

    private func decide(_ message: ControlMessage, hasToken: Bool) {
        guard case .request(let id, let principal, let request, let form, _, let key) = message else {
            fatalError("broken promise: the API orders the control loop about")
        }
        var isDemo = false
        if case .demo = form { isDemo = true }
        require(hasToken || isDemo, "a request without a token reaches the conductor")
        let replies = link.answer(RequestID(id), principal, request, key)
        require(replies.count == 1, "\(replies.count) replies to one request")
        for reply in replies {
            var room: RoomID?
            if case .session(let id) = form { room = id }
            if case .prepared = reply, room == nil {
                fatalError("broken promise: an answer to an offer that is no session's")
            }
            let status = Answers.response(to: reply, in: room).status
            require((200...599).contains(status) && status != 500, "an answer with status \(status)")
            answers.deliver(reply, to: id, as: form)
        }
    }
}

private let routerKey: SigningKey = {
    guard let key = try? SigningKey(id: "k", secret: Array("0123456789abcdef0123456789abcdef".utf8)) else {
        fatalError("a secret of 32 bytes is no key")
    }
    return key
}()

/// Whose tokens there are, by the word that stands for them.
private let routerTokens: [String: String] = {
    let expiry = WallClock.nowMs / 1_000 + 40_000
    var tokens: [String: String] = [:]
    for (uid, room) in [("ann", "call"), ("ben", "call"), ("cat", "group"), ("eve", "elsewhere")] {
        tokens[uid] = TokenMint.participant(
            uid: uid, device: "phone", room: room, expirySeconds: expiry, key: routerKey)
    }
    tokens["server"] = TokenMint.token(payload: Array(#"{"scope":"admin","exp":\#(expiry)}"#.utf8), key: routerKey)
    return tokens
}()
