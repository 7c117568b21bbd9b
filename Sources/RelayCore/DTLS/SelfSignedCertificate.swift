import COpenSSL

/// A fresh ECDSA P-256 key with a self-signed certificate, as WebRTC wants it: nobody looks at names, dates or issuers, only
/// at the fingerprint that the SDP carried (RFC 8827 §6.5). The key never leaves the process and is freed with the object.
///
/// Immutable after `init`; OpenSSL counts its own references, so several contexts may share one certificate.
public final class SelfSignedCertificate {
    /// `X509 *`, owned.
    public let certificate: OpaquePointer
    /// `EVP_PKEY *`, owned.
    public let privateKey: OpaquePointer

    /// Nil only when OpenSSL has no random numbers or memory.
    public init?() {
        guard let key = COpenSSL_P256_keygen() else { return nil }
        guard let certificate = X509_new() else {
            EVP_PKEY_free(key)
            return nil
        }
        guard Self.fill(certificate, key: key) else {
            X509_free(certificate)
            EVP_PKEY_free(key)
            return nil
        }
        self.certificate = certificate
        privateKey = key
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(privateKey)
    }

    /// The fingerprint that an SDP would carry for this certificate.
    public func fingerprint(_ algorithm: FingerprintAlgorithm) -> CertificateFingerprint {
        guard let bytes = certificateDigest(certificate, algorithm) else {
            preconditionFailure("hashing our own certificate cannot fail")
        }
        return CertificateFingerprint(algorithm: algorithm, bytes: bytes)
    }

    private static func fill(_ certificate: OpaquePointer, key: OpaquePointer) -> Bool {
        var serial: UInt64 = 0
        let drawn = withUnsafeMutableBytes(of: &serial) { bytes in
            RAND_bytes(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), Int32(bytes.count))
        }
        guard drawn == 1, X509_set_version(certificate, 2) == 1,
            // A serial number is a positive integer (RFC 5280 §4.1.2.2).
            ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), (serial >> 1) | 1) == 1,
            // Fixed dates, because nothing here may read a clock and no client looks at them.
            ASN1_TIME_set_string(X509_getm_notBefore(certificate), "20200101000000Z") == 1,
            ASN1_TIME_set_string(X509_getm_notAfter(certificate), "20491231235959Z") == 1,
            let name = X509_get_subject_name(certificate),
            X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_FLAG | 1, "WebRTC", -1, -1, 0) == 1,
            X509_set_issuer_name(certificate, name) == 1, X509_set_pubkey(certificate, key) == 1
        else { return false }
        return X509_sign(certificate, key, EVP_sha256()) > 0
    }
}

/// The hash of a certificate's DER form, or nil when OpenSSL cannot encode it.
func certificateDigest(_ certificate: OpaquePointer, _ algorithm: FingerprintAlgorithm) -> [UInt8]? {
    let digest = algorithm.digest
    var count: UInt32 = 0
    var succeeded = false
    let bytes = [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { buffer, initialized in
        succeeded = X509_digest(certificate, digest, buffer.baseAddress, &count) == 1
        initialized = succeeded ? Int(count) : 0
    }
    return succeeded ? bytes : nil
}

extension FingerprintAlgorithm {
    var digest: OpaquePointer? {
        switch self {
        case .sha256: EVP_sha256()
        case .sha384: EVP_sha384()
        case .sha512: EVP_sha512()
        }
    }
}
