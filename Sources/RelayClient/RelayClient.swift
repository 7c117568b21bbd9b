import Foundation
@_exported import RelaySigning

/// What a signaling server needs of a MediaRelay: create rooms and ring, look, end, mint tokens, follow events,
/// verify webhooks.
///
/// ```swift
/// let relay = RelayClient(url: "http://127.0.0.1:8080", key: try SigningKey(id: "k1", secret: secret))
/// var call = RelayClient.RoomRequest(media: .video, ring: .init(caller: "alice", callees: ["bob"]))
/// let room = try await relay.createRoom(call, idempotencyKey: "call-4711")
/// let token = try relay.token(uid: "bob", device: "phone", room: room.id)
/// for try await event in relay.events(after: cursor) { … ; cursor = event.seq }
/// ```
///
/// Any thread; connections are kept. Requests that fail are not repeated by itself, except when following events:
/// creating with an idempotency key, looking and ending may be repeated by the caller without harm.
public final class RelayClient: Sendable {
    public struct Options: Sendable {
        /// How long a request may take, ms.
        public var timeoutMs = 10_000
        public var connectMs = 2_000
        /// A PEM file of authorities to trust; nil: the system's.
        public var authorities: String?
        /// Life of the server tokens and, unless said otherwise, of participants' tokens, seconds; at most the node's
        /// `--max-token-lifetime`.
        public var tokenLifetimeSeconds: Int64 = 3_600
        public init() {}
    }

    let url: String
    let key: SigningKey
    let options: Options
    let loop: HTTPLoop

    /// - Parameters:
    ///   - url: of the relay's API, without path: `https://relay.example.org`.
    ///   - key: one of the relay's `--key`s.
    public init(url: String, key: SigningKey, options: Options = Options()) {
        self.url = url.hasSuffix("/") ? String(url.dropLast()) : url
        self.key = key
        self.options = options
        loop = HTTPLoop(connectMs: options.connectMs, authorities: options.authorities)
    }

    // MARK: Rooms

    /// Creates a room and, with `ring`, starts ringing.
    ///
    /// The same id and body again, or the same idempotency key, gives the same room. Problems: `glare`,
    /// `session-already-active` (both name the other room), `calling-self`, `invalid-field`, `draining`,
    /// `overloaded`; an outcome for an id that has ended.
    public func createRoom(_ room: RoomRequest, idempotencyKey: String? = nil) async throws(Failure) -> Room {
        let headers = idempotencyKey.map { ["Idempotency-Key: \($0)"] } ?? []
        return try await decode(send("POST", "/v1/rooms", body: Self.encoded(room), headers: headers))
    }

    /// The room with its participants, outcome and the cursor that goes with it.
    public func room(_ id: String) async throws(Failure) -> Room {
        try await decode(send("GET", "/v1/rooms/\(Self.escaped(id))"))
    }

    /// Ends the room for everybody.
    public func endRoom(_ id: String, reason: String? = nil) async throws(Failure) {
        let query = reason.map { "?reason=\(Self.escaped($0))" } ?? ""
        _ = try await send("DELETE", "/v1/rooms/\(Self.escaped(id))\(query)")
    }

    /// Says for a user how the call ends: declined, busy, cancelled, hung up. Gives the room, whose outcome may be
    /// another one, decided before.
    public func endCall(_ id: String, as status: EndStatus, uid: String) async throws(Failure) -> Room {
        let body = JSON.object(["status": .string(status.rawValue), "uid": .string(uid)])
        return try await decode(send("POST", "/v1/rooms/\(Self.escaped(id))/end", body: Self.encoded(body)))
    }

    /// Notes that the push for a callee's device was sent.
    public func notePush(_ id: String, uid: String, device: String) async throws(Failure) {
        let body = JSON.object(["uid": .string(uid), "device": .string(device)])
        _ = try await send("POST", "/v1/rooms/\(Self.escaped(id))/pushed", body: Self.encoded(body))
    }

    /// A user logs out: cancels, declines or leaves everything.
    public func endSessions(of uid: String) async throws(Failure) {
        _ = try await send("DELETE", "/v1/users/\(Self.escaped(uid))/sessions")
    }

    /// Any other verb of the API.
    /// - Parameter path: with query, percent-encoded: `/v1/rooms?status=ongoing`.
    public func ask(_ method: String, _ path: String, body: JSON? = nil) async throws(Failure) -> JSON {
        let answer = try await send(method, path, body: body.map(Self.encoded))
        return answer.body.isEmpty ? .null : try decode(answer)
    }

    /// The same for what is answered in another form than JSON: its bytes, all of them.
    public func fetch(
        _ method: String, _ path: String, body: JSON? = nil, timeoutMs: Int? = nil
    ) async throws(Failure) -> [UInt8] {
        try await send(method, path, body: body.map(Self.encoded), timeoutMs: timeoutMs).body
    }

    // MARK: Tokens

    /// A participant's token for one room, made without asking the relay. Throws `cannotSign` for a public key.
    /// - Parameter lifetimeSeconds: until the session must have begun or the ring been answered.
    public func token(
        uid: String, device: String = "default", room: String, grants: TokenGrants = TokenGrants(),
        lifetimeSeconds: Int64? = nil
    ) throws(Failure) -> String {
        let expiry = Self.nowSeconds + (lifetimeSeconds ?? options.tokenLifetimeSeconds)
        guard
            let token = TokenMint.participant(
                uid: uid, device: device, room: room, expirySeconds: expiry, grants: grants, key: key)
        else { throw .cannotSign }
        return token
    }

    // MARK: Requests

    func send(
        _ method: String, _ path: String, body: [UInt8]? = nil, headers: [String] = [], timeoutMs: Int? = nil
    ) async throws(Failure) -> HTTPLoop.Answer {
        guard let token = TokenMint.server(expirySeconds: Self.nowSeconds + options.tokenLifetimeSeconds, key: key)
        else { throw .cannotSign }
        let request = HTTPLoop.Request(
            method: method, url: url + path,
            headers: ["Authorization: Bearer \(token)", "Accept: application/json", "Expect:"]
                + (body == nil ? [] : ["Content-Type: application/json"]) + headers,
            body: body, timeoutMs: timeoutMs ?? options.timeoutMs)
        let answer = try await loop.send(request)
        guard (200..<300).contains(answer.status) else { throw .problem(Self.problem(answer)) }
        return answer
    }

    static func problem(_ answer: HTTPLoop.Answer) -> Problem {
        let document = try? decoded(JSON.self, answer.body)
        return Problem(
            status: answer.status, code: document?["code"]?.string ?? "unknown",
            detail: document?["detail"]?.string ?? "", outcome: document?["outcome"]?.string,
            roomId: document?["roomId"]?.string, retryAfterSeconds: answer.retryAfterSeconds)
    }

    func decode<Value: Decodable>(_ answer: HTTPLoop.Answer) throws(Failure) -> Value {
        try Self.decoded(Value.self, answer.body)
    }

    static func decoded<Value: Decodable>(_ type: Value.Type, _ json: [UInt8]) throws(Failure) -> Value {
        do {
            return try JSONDecoder().decode(type, from: Data(json))
        } catch {
            throw .malformed(detail: "\(type)")
        }
    }

    static func encoded(_ value: some Encodable) -> [UInt8] {
        do {
            return Array(try JSONEncoder().encode(value))
        } catch {
            preconditionFailure("plain values encode: \(error)")
        }
    }

    static func escaped(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(.init(charactersIn: "-._~"))) ?? ""
    }

    static var nowSeconds: Int64 { Int64(Date().timeIntervalSince1970) }
}
