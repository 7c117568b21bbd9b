import RelayCore
import RelayHTTP
import RelaySigning
import RelayTesting

@testable import MediaRelay

extension FuzzTarget {
    /// JSON is refused, or written as a text that reads as the same. Every body of the API takes it or says what is wrong.
    static let json = FuzzTarget(
        name: "json", byteLimit: 4_096,
        seeds: {
            [
                #"{"id":"r1","kind":"group","media":"video","videoCodec":"VP8","timeouts":{"preparedMs":300000,"idleMs":0}}"#,
                #"{"ring":{"caller":"ann","callees":["ben","cat"],"windowMs":45000,"callerName":"Ann é\n"},"red":true}"#,
                #"{"status":"busy","uid":"ben","scope":"device"}"#, #"{"uid":"ben","device":"phone"}"#,
                #"{"audio":"muted","video":"on","held":false}"#,
                #"{"grants":{"publish":["audio"],"subscribe":true,"end":false}}"#, #"{"video":"request","uid":"ann"}"#,
                #"{"tone":"ringback","to":["ann"],"times":2,"pauseMs":100}"#, #"{"file":"hello","loop":true}"#,
                #"{"slots":[{"mid":"3","uid":"ann","height":360},{"mid":"4","uid":null}]}"#,
                #"[1,-0,1e3,-2.5E-7,9223372036854775807,9223372036854775808,true,null,"\ud83d\ude00A\/"]"#,
                #"{"a":{"b":[[[[{}]]]]},"c":"\u0000"}"#,
            ].map { Array($0.utf8) }
        }
    ) { bytes in
        readBodies(bytes)
        guard let value = try? JSONReader.read(bytes) else { return }
        let text = JSONText.of(value)
        do throws(JSONRefusal) {
            require(try JSONReader.read(text) == value, "another value")
        } catch {
            fatalError("broken promise: what was written is not read: \(error.detail)")
        }
        require(!text.contains { $0 < 0x20 || $0 == 0x7F }, "a control character in a JSON text")
    }

    private static func readBodies(_ body: [UInt8]) {
        attempt { () throws(Problem) in
            let specification = try RoomBody.specification(body)
            let again = RecordCoding.decode(
                RoomSpecification.self, RecordCoding.encode(specification), log: Log(level: .error, format: .text))
            require(again == specification, "a room's specification that the journal does not keep")
        }
        attempt { () throws(Problem) in _ = try RingBody.end(body) }
        attempt { () throws(Problem) in _ = try RingBody.pushed(body) }
        attempt { () throws(Problem) in _ = try MediaBody.own(body) }
        attempt { () throws(Problem) in _ = try MediaBody.server(body) }
        attempt { () throws(Problem) in _ = try MediaBody.video(body) }
        attempt { () throws(Problem) in _ = try PromptBody.specification(body) }
        attempt { () throws(Problem) in _ = try SlotsBody.requests(body) }
    }

    private static func attempt(_ body: () throws(Problem) -> Void) {
        do throws(Problem) {
            try body()
        } catch {
            require(error.status == 400 || error.status == 422, "a body is refused with \(error.status)")
        }
    }

    /// Requests are the same in whatever pieces their bytes come, and hold to their limits; their paths and queries name
    /// something or nothing. The first byte is the size of the pieces.
    static let http = FuzzTarget(
        name: "http", byteLimit: 8_192,
        seeds: {
            let paths = [
                "/v1/rooms?status=ongoing&uid=a%20b&limit=5", "/v1/rooms/r1/sessions/p_1/join?end=others&takeover=1",
                "/v1/calls?from=2026-01-31T08:00:00.5Z&to=2026-02-01T00:00:00-01:30&outcome=missed&uid=ann",
                "/v1/events?after=7",
                "/v1/users/ann/sessions", "/v1/rooms/r1/prompts/pr_1", "/%2e%2e/x",
            ].map { Array("GET \($0) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n".utf8) }
            let raw = VectorFile("http_requests").rows().map(\.bytes).filter { !$0.isEmpty && $0.count < 8_000 }
            return inputs(paths + raw, behind: 7)
        }
    ) { bytes in
        let stream = Array(bytes.dropFirst())
        let whole = requests(in: stream, pieceByteCount: max(1, stream.count))
        let pieces = requests(in: stream, pieceByteCount: 1 + Int(bytes[0]))
        require(whole.refusal == pieces.refusal && whole.requests.count == pieces.requests.count, "other requests")
        let limits = RequestParser.Limits()
        for (request, other) in zip(whole.requests, pieces.requests) {
            require(request.method == other.method && request.target == other.target, "another request")
            require(request.body == other.body && request.body.count <= limits.bodyByteCount, "another or a long body")
            require(request.target.utf8.count <= limits.targetByteCount, "a long target")
            route(request)
        }
    }

    static func requests(
        in stream: [UInt8], pieceByteCount: Int
    ) -> (requests: [ParsedRequest], refusal: Int?) {
        var parser = RequestParser(limits: RequestParser.Limits())
        var requests: [ParsedRequest] = []
        for start in stride(from: 0, to: stream.count, by: pieceByteCount) {
            let piece = Array(stream[start..<min(stream.count, start + pieceByteCount)])
            var offset = 0
            while offset < piece.count {
                let before = offset
                switch parser.receive(piece.span, from: &offset) {
                case .needsMore: require(offset == piece.count, "bytes are left and more are needed")
                case .complete(let request): requests.append(request)
                case .refused(let refusal):
                    require((400...599).contains(refusal.status), "a refusal with \(refusal.status)")
                    return (requests, refusal.status)
                }
                require(offset > before, "no byte was taken")
                _ = parser.takeContinue()
            }
        }
        return (requests, nil)
    }

    private static func route(_ parsed: ParsedRequest) {
        let request = HTTPRequest(
            id: HTTPRequestID(rawValue: 1), method: parsed.method, target: parsed.target, headers: parsed.headers,
            body: parsed.body)
        if let route = Route(request) { require(!route.methods.isEmpty, "a route without a method") }
        attempt { () throws(Problem) in
            if let key = try RequestDigest.idempotencyKey(of: request) {
                require(key.digest.utf8.count == 64, "a digest")
            }
            let query = try Query(request)
            _ = try query.identifier("uid")
            _ = try query.integer("limit", 1...500)
            _ = try query.flag("takeover")
            _ = try CallParameters.query(query)
        }
    }

    /// Without a key's signature there is no token; what is signed holds to the rules. The first byte says whether the rest
    /// is a token, a payload that gets signed, or a webhook's body.
    static let token = FuzzTarget(
        name: "token", byteLimit: 2_048,
        seeds: {
            let payloads = [
                #"{"aud":"media-relay","sub":"ann","device":"phone","room":"r1","exp":1100,"grants":{"publish":["audio"]}}"#,
                #"{"scope":"admin","exp":1100,"nbf":900}"#, #"{"exp":9223372036854775807,"nbf":-9223372036854775808}"#,
            ].map { Array($0.utf8) }
            let tokens = VectorFile("tokens").rows().compactMap { $0["token"].string }.map { Array($0.utf8) }
            let signed = payloads.compactMap { TokenMint.token(payload: $0, key: tokenKey) }.map { Array($0.utf8) }
            return inputs(tokens + signed, behind: 0) + inputs(payloads, behind: 1, 2)
        }
    ) { bytes in
        let rest = Array(bytes.dropFirst())
        switch bytes[0] % 3 {
        case 0:
            verify(rest, mayPass: false)
            if let decoded = Base64URL.decode(rest[...]) {
                require(Array(Base64URL.encode(decoded).utf8) == rest, "another base64url text")
            }
        case 1:
            guard let token = TokenMint.token(payload: rest, key: tokenKey) else { fatalError("a key does not sign") }
            verify(Array(token.utf8), mayPass: true)
        default: verifyWebhook(rest)
        }
    }

    private static func verify(_ token: [UInt8], mayPass: Bool) {
        let verifier = TokenVerifier(keys: [tokenKey], maxLifetimeSeconds: 43_200)
        guard let claims = try? verifier.verify(token, nowSeconds: 1_000) else { return }
        // What passes unsigned by us can only be one of the seeds.
        let payload = token.split(separator: UInt8(ascii: ".")).dropFirst().first.flatMap { Base64URL.decode($0) } ?? []
        let again = TokenMint.token(payload: payload, key: tokenKey).map { Array($0.utf8) }
        require(mayPass || again == token, "a token passes that nobody signed")
        require(claims.expiry > 0 && claims.expiry <= 1_000 + 43_200 + TokenVerifier.leewaySeconds, "it lives too long")
        guard case .participant(let identity) = claims.principal else { return }
        require(isIdentifier(identity.uid) && isIdentifier(identity.device), "a name of another form")
    }

    private static func verifyWebhook(_ body: [UInt8]) {
        let secret = webhookSecret
        let header = WebhookSignature.header(secrets: [secret], id: "m1", timestamp: 1_000, body: body)
        func isGenuine(_ signature: String, _ body: [UInt8]) -> Bool {
            (try? WebhookSignature.verify(
                id: "m1", timestamp: "1000", signature: signature, body: body, secrets: [secret], nowSeconds: 1_000))
                != nil
        }
        require(isGenuine(header, body), "a webhook of ours is not taken")
        require(!isGenuine(header, body + [0]), "another body is taken")
        require(!isGenuine(String(decoding: body, as: UTF8.self), body), "a signature of nobody is taken")
        _ = try? WebhookSecret(String(decoding: body, as: UTF8.self))
        _ = try? WebhookSignature.verify(
            id: "m1", timestamp: String(decoding: body, as: UTF8.self), signature: header, body: [], secrets: [secret],
            nowSeconds: 1_000)
    }
}

private let tokenKey: SigningKey = {
    guard let key = try? SigningKey(id: "k1", secret: Array("0123456789abcdef0123456789abcdef".utf8)) else {
        fatalError("a secret of 32 bytes is no key")
    }
    return key
}()

private let webhookSecret: WebhookSecret = {
    guard let secret = try? WebhookSecret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=") else {
        fatalError("32 bytes are no secret")
    }
    return secret
}()
