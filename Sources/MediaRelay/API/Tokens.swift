import COpenSSL
import RelayCore

/// A key that tokens are signed with. Its algorithm is fixed by its form: a text secret of 32 bytes or more is HS256, a PEM key
/// is ES256 (P-256). Redacted when printed.
package final class SigningKey: @unchecked Sendable, CustomStringConvertible {
    // @unchecked: immutable after init; OpenSSL's EVP_PKEY may be read from any thread.
    enum Material {
        case secret([UInt8])
        case elliptic(OpaquePointer, canSign: Bool)
    }

    package enum Failure: Error, Equatable, CustomStringConvertible {
        case form
        case shortSecret(byteCount: Int)
        case badPEM
        case keyID

        package var description: String {
            switch self {
            case .form: "a key is given as KID:SECRET or KID:@FILE"
            case .shortSecret(let byteCount): "a secret of \(byteCount) bytes; at least 32 are needed"
            case .badPEM: "not a PEM key on the curve P-256"
            case .keyID: "a key id is [A-Za-z0-9._-]{1,128}"
            }
        }
    }

    package let id: String
    let material: Material

    package init(id: String, secret: [UInt8]) throws(Failure) {
        guard isIdentifier(id) else { throw .keyID }
        guard secret.count >= 32 else { throw .shortSecret(byteCount: secret.count) }
        self.id = id
        material = .secret(secret)
    }

    /// A private (signs and verifies) or public (verifies) P-256 key.
    package init(id: String, pem: [UInt8]) throws(Failure) {
        guard isIdentifier(id) else { throw .keyID }
        guard let bio = BIO_new_mem_buf(pem, Int32(pem.count)) else { throw .badPEM }
        defer { BIO_free(bio) }
        var canSign = true
        var key = PEM_read_bio_PrivateKey(bio, nil, nil, nil)
        if key == nil {
            ERR_clear_error()
            canSign = false
            guard let again = BIO_new_mem_buf(pem, Int32(pem.count)) else { throw .badPEM }
            defer { BIO_free(again) }
            key = PEM_read_bio_PUBKEY(again, nil, nil, nil)
        }
        guard let key else {
            ERR_clear_error()
            throw .badPEM
        }
        guard EVP_PKEY_get_bits(key) == 256, EVP_PKEY_is_a(key, "EC") == 1 else {
            EVP_PKEY_free(key)
            throw .badPEM
        }
        self.id = id
        material = .elliptic(key, canSign: canSign)
    }

    deinit {
        if case .elliptic(let key, _) = material { EVP_PKEY_free(key) }
    }

    package var description: String { "SigningKey(\(id), redacted)" }

    var algorithm: String {
        switch material {
        case .secret: "HS256"
        case .elliptic: "ES256"
        }
    }

    /// Whether `signature` is this key's for `text`. Takes the same time whatever a secret's MAC is compared with.
    func verifies(_ text: ArraySlice<UInt8>, signature: [UInt8]) -> Bool {
        ERR_clear_error()
        switch material {
        case .secret(let secret):
            guard signature.count == 32 else { return false }
            return CRYPTO_memcmp(mac(text, secret), signature, 32) == 0
        case .elliptic(let key, _):
            guard signature.count == 64, let der = Self.der(of: signature), let context = EVP_MD_CTX_new() else {
                return false
            }
            defer { EVP_MD_CTX_free(context) }
            let bytes = Array(text)
            return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
                && EVP_DigestVerify(context, der, der.count, bytes, bytes.count) == 1
        }
    }

    /// Nil for a public key.
    func sign(_ text: [UInt8]) -> [UInt8]? {
        switch material {
        case .secret(let secret): return mac(text[...], secret)
        case .elliptic(let key, let canSign):
            guard canSign, let context = EVP_MD_CTX_new() else { return nil }
            defer { EVP_MD_CTX_free(context) }
            var count = 128
            var der = [UInt8](repeating: 0, count: count)
            guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
                EVP_DigestSign(context, &der, &count, text, text.count) == 1
            else { return nil }
            return Self.raw(of: Array(der[..<count]))
        }
    }

    private func mac(_ text: ArraySlice<UInt8>, _ secret: [UInt8]) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 32
        let bytes = Array(text)
        _ = HMAC(EVP_sha256(), secret, Int32(secret.count), bytes, bytes.count, &result, &count)
        return result
    }

    // RFC 7518 §3.4: r and s of 32 bytes each; OpenSSL speaks DER.

    private static func der(of signature: [UInt8]) -> [UInt8]? {
        guard let form = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(form) }
        guard let r = BN_bin2bn(Array(signature[..<32]), 32, nil), let s = BN_bin2bn(Array(signature[32...]), 32, nil),
            ECDSA_SIG_set0(form, r, s) == 1
        else { return nil }
        var der = [UInt8](repeating: 0, count: 80)
        let count = der.withUnsafeMutableBufferPointer { buffer -> Int32 in
            var at = buffer.baseAddress
            return i2d_ECDSA_SIG(form, &at)
        }
        return count > 0 ? Array(der[..<Int(count)]) : nil
    }

    private static func raw(of der: [UInt8]) -> [UInt8]? {
        let form = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var at = buffer.baseAddress
            return d2i_ECDSA_SIG(nil, &at, buffer.count)
        }
        guard let form else { return nil }
        defer { ECDSA_SIG_free(form) }
        var result = [UInt8](repeating: 0, count: 64)
        let isWhole = result.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return false }
            return BN_bn2binpad(ECDSA_SIG_get0_r(form), base, 32) == 32
                && BN_bn2binpad(ECDSA_SIG_get0_s(form), base + 32, 32) == 32
        }
        return isWhole ? result : nil
    }
}

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
        return grants
    }
}

/// Makes tokens, as a signaling server does; for the command line, the demo page and tests.
package enum TokenMint {
    package static func token(_ payload: JSONValue, key: SigningKey) -> String? {
        let header = JSONValue.object([
            .init("alg", .string(key.algorithm)), .init("typ", .string("JWT")), .init("kid", .string(key.id)),
        ])
        let text = Base64URL.encode(JSONText.of(header)) + "." + Base64URL.encode(JSONText.of(payload))
        guard let signature = key.sign(Array(text.utf8)) else { return nil }
        return text + "." + Base64URL.encode(signature)
    }

    package static func participant(
        uid: String, device: String, room: RoomID, expirySeconds: Int64, grants: Grants, key: SigningKey
    ) -> String? {
        var publish: [JSONValue] = []
        if grants.publishAudio { publish.append(.string("audio")) }
        if grants.publishVideo { publish.append(.string("video")) }
        return token(
            .object([
                .init("aud", .string("media-relay")), .init("sub", .string(uid)), .init("device", .string(device)),
                .init("room", .string(room.text)), .init("exp", .integer(expirySeconds)),
                .init(
                    "grants",
                    .object([
                        .init("publish", .array(publish)), .init("subscribe", .bool(grants.subscribe)),
                        .init("end", .bool(grants.end)),
                    ])),
            ]), key: key)
    }

    package static func server(expirySeconds: Int64, key: SigningKey) -> String? {
        token(.object([.init("scope", .string("admin")), .init("exp", .integer(expirySeconds))]), key: key)
    }
}

/// base64url without padding (RFC 4648 §5, RFC 7515 §2), strict: one spelling for one value.
package enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text: [UInt8] = []
        var buffer: UInt32 = 0
        var bits = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(alphabet[Int(buffer >> UInt32(bits)) & 63])
            }
        }
        if bits > 0 { text.append(alphabet[Int(buffer << UInt32(6 - bits)) & 63]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Nil for characters outside the alphabet, padding, an impossible length, or unused bits that are not zero.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        var buffer: UInt32 = 0
        var bits = 0
        for character in text {
            guard let digit = value(of: character) else { return nil }
            buffer = buffer << 6 | digit
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: buffer >> UInt32(bits)))
            }
        }
        return buffer & (1 << UInt32(bits) - 1) == 0 ? bytes : nil
    }

    private static func value(of character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character) - 65
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character) - 71
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character) + 4
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
