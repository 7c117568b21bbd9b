import COpenSSL

/// A key that tokens are signed with. Its algorithm is fixed by its form: a text secret of 32 bytes or more is HS256,
/// a PEM key is ES256 (P-256). Redacted when printed.
public final class SigningKey: @unchecked Sendable, CustomStringConvertible {
    // @unchecked: immutable after init; OpenSSL's EVP_PKEY may be read from any thread.
    enum Material {
        case secret(SecretBytes)
        case elliptic(OpaquePointer, canSign: Bool)
    }

    public enum Failure: Error, Equatable, CustomStringConvertible {
        case form
        case shortSecret(byteCount: Int)
        case badPEM
        case keyID

        public var description: String {
            switch self {
            case .form: "a key is given as KID:SECRET or KID:@FILE"
            case .shortSecret(let byteCount): "a secret of \(byteCount) bytes; at least 32 are needed"
            case .badPEM: "not a PEM key on the curve P-256"
            case .keyID: "a key id is [A-Za-z0-9._-]{1,128}"
            }
        }
    }

    public let id: String
    let material: Material

    public init(id: String, secret: [UInt8]) throws(Failure) {
        guard Self.isIdentifier(id) else { throw .keyID }
        guard secret.count >= 32 else { throw .shortSecret(byteCount: secret.count) }
        self.id = id
        material = .secret(SecretBytes(secret))
    }

    /// A private (signs and verifies) or public (verifies) P-256 key.
    public init(id: String, pem: [UInt8]) throws(Failure) {
        guard Self.isIdentifier(id) else { throw .keyID }
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

    /// `[A-Za-z0-9._-]{1,128}`, the form of every id in the API.
    static func isIdentifier(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
                default: false
                }
            }
    }

    deinit {
        if case .elliptic(let key, _) = material { EVP_PKEY_free(key) }
    }

    public var description: String { "SigningKey(\(id), redacted)" }

    package var algorithm: String {
        switch material {
        case .secret: "HS256"
        case .elliptic: "ES256"
        }
    }

    /// Whether `signature` is this key's for `text`. Takes the same time whatever a secret's MAC is compared with.
    package func verifies(_ text: ArraySlice<UInt8>, signature: [UInt8]) -> Bool {
        ERR_clear_error()
        switch material {
        case .secret(let secret):
            guard signature.count == 32 else { return false }
            return CRYPTO_memcmp(mac(text, secret.bytes), signature, 32) == 0
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

    /// Whether both sign and verify alike under the same id.
    package func isSame(as other: SigningKey) -> Bool {
        guard id == other.id else { return false }
        switch (material, other.material) {
        case (.secret(let a), .secret(let b)): return a == b
        case (.elliptic(let a, let signs), .elliptic(let b, let otherSigns)):
            return signs == otherSigns && EVP_PKEY_eq(a, b) == 1
        default: return false
        }
    }

    /// Nil for a public key.
    package func sign(_ text: [UInt8]) -> [UInt8]? {
        switch material {
        case .secret(let secret): return mac(text[...], secret.bytes)
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
