import RelayCore

/// Why a token is refused: the `code` and `detail` of the 401.
package struct TokenRefusal: Error, Equatable {
    package var detail: String
}

/// A verified token.
package struct TokenClaims: Equatable {
    package var principal: Principal
    /// Seconds since 1970. A participant's token that expired goes on being good for its own session (API.md): the caller
    /// decides by `isExpired`.
    package var expiry: Int64
    package var isExpired: Bool
}

/// Verifies JSON Web Tokens (RFC 7519) of the configured keys. Any thread.
package struct TokenVerifier: Sendable {
    package static let byteLimit = 8_192
    package static let leewaySeconds: Int64 = 5
    package var keys: [SigningKey]
    package var maxLifetimeSeconds: Int64

    package init(keys: [SigningKey], maxLifetimeSeconds: Int64) {
        self.keys = keys
        self.maxLifetimeSeconds = maxLifetimeSeconds
    }

    /// What `token` says and proves at `nowSeconds` (since 1970).
    package func verify(_ token: [UInt8], nowSeconds: Int64) throws(TokenRefusal) -> TokenClaims {
        guard token.count <= Self.byteLimit else {
            throw TokenRefusal(detail: "a token of \(token.count) bytes; the limit is \(Self.byteLimit)")
        }
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64URL.decode(parts[0]), let payload = Base64URL.decode(parts[1]),
            let signature = Base64URL.decode(parts[2])
        else { throw TokenRefusal(detail: "not three parts of base64url without padding") }
        let key = try key(for: try object(header, "header"))
        let signed = token[..<(parts[0].count + 1 + parts[1].count)]
        guard key.verifies(signed, signature: signature) else { throw TokenRefusal(detail: "wrong signature") }
        return try claims(try object(payload, "payload"), keyID: key.id, nowSeconds: nowSeconds)
    }

    private func object(_ bytes: [UInt8], _ what: String) throws(TokenRefusal) -> JSONValue {
        do throws(JSONRefusal) {
            let value = try JSONReader.read(bytes)
            guard case .object = value else { throw JSONRefusal(detail: "not an object", offset: 0) }
            return value
        } catch {
            throw TokenRefusal(detail: "the \(what) is not a JSON object: \(error.detail)")
        }
    }

    /// The key that the header names, with the algorithm that the key has: never one that the token wishes for (T72).
    private func key(for header: JSONValue) throws(TokenRefusal) -> SigningKey {
        guard header["crit"] == nil else { throw TokenRefusal(detail: "a critical header that is not known") }
        guard case .string(let algorithm)? = header["alg"] else { throw TokenRefusal(detail: "no alg") }
        let key: SigningKey
        switch header["kid"] {
        case .string(let id)?:
            guard let found = keys.first(where: { $0.id == id }) else { throw TokenRefusal(detail: "unknown kid") }
            key = found
        case nil:
            guard keys.count == 1 else { throw TokenRefusal(detail: "no kid, and there are \(keys.count) keys") }
            key = keys[0]
        default: throw TokenRefusal(detail: "kid is not a string")
        }
        guard key.algorithm == algorithm else {
            throw TokenRefusal(detail: "alg is not \(key.algorithm), which the key is for")
        }
        return key
    }

    private func claims(_ payload: JSONValue, keyID: String, nowSeconds: Int64) throws(TokenRefusal) -> TokenClaims {
        guard case .integer(let expiry)? = payload["exp"], expiry > 0 else {
            throw TokenRefusal(detail: "exp is missing or not a positive integer")
        }
        guard expiry <= nowSeconds + maxLifetimeSeconds + Self.leewaySeconds else {
            throw TokenRefusal(detail: "exp is more than maxTokenLifetime (\(maxLifetimeSeconds) s) away")
        }
        switch payload["nbf"] {
        case nil: break
        case .integer(let start)?:
            guard start <= nowSeconds + Self.leewaySeconds else { throw TokenRefusal(detail: "not valid yet (nbf)") }
        default: throw TokenRefusal(detail: "nbf is not an integer")
        }
        let isExpired = expiry + Self.leewaySeconds < nowSeconds
        if case .string("admin")? = payload["scope"] {
            guard !isExpired else { throw TokenRefusal(detail: "expired") }
            return TokenClaims(principal: .server(keyID: keyID), expiry: expiry, isExpired: false)
        }
        guard case .string("media-relay")? = payload["aud"] else {
            throw TokenRefusal(detail: "aud is not \"media-relay\"")
        }
        let identity = ParticipantIdentity(
            uid: try identifier("sub", payload), device: try identifier("device", payload, default: "default"),
            room: try room(payload), grants: try grants(payload["grants"]))
        return TokenClaims(principal: .participant(identity), expiry: expiry, isExpired: isExpired)
    }

    private func identifier(
        _ name: String, _ payload: JSONValue, default value: String? = nil
    ) throws(TokenRefusal) -> String {
        if payload[name] == nil, let value { return value }
        guard case .string(let text)? = payload[name], isIdentifier(text) else {
            throw TokenRefusal(detail: "\(name) is missing or not [A-Za-z0-9._-]{1,128}")
        }
        return text
    }

    private func room(_ payload: JSONValue) throws(TokenRefusal) -> RoomID {
        guard case .string(let text)? = payload["room"], let room = RoomID(text) else {
            throw TokenRefusal(detail: "room is missing or not [A-Za-z0-9._-]{1,128}")
        }
        return room
    }

    private func grants(_ value: JSONValue?) throws(TokenRefusal) -> Grants {
        guard let value else { return .standard }
        var grants = Grants.standard
        if let publish = value["publish"] {
            guard case .array(let kinds) = publish else { throw TokenRefusal(detail: "grants.publish is not an array") }
            grants.publishAudio = kinds.contains(.string("audio"))
            grants.publishVideo = kinds.contains(.string("video"))
        }
        if let subscribe = value["subscribe"] {
            guard case .bool(let flag) = subscribe else { throw TokenRefusal(detail: "grants.subscribe is not a bool") }
            grants.subscribe = flag
        }
        if let end = value["end"] {
            guard case .bool(let flag) = end else { throw TokenRefusal(detail: "grants.end is not a bool") }
            grants.end = flag
        }
        if let record = value["record"] {
            guard case .bool(let flag) = record else { throw TokenRefusal(detail: "grants.record is not a bool") }
            grants.record = flag
        }
        return grants
    }
}
