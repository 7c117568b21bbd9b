import COpenSSL
import RelayCore

/// What a test client brings into its handshakes: a certificate, and the `SSL_CTX` with its wishes. May be shared by many
/// clients of one thread (the load generator does).
public final class DTLSClientIdentity {
    public struct Options {
        /// OpenSSL's names in order of preference, joined by colons; nil leaves the extension out.
        public var srtpProfiles: String? = "SRTP_AEAD_AES_128_GCM:SRTP_AES128_CM_SHA1_80"
        /// OpenSSL's cipher names; nil: its default list.
        public var ciphers: String?
        /// False: answers the server's request with an empty certificate list.
        public var sendsCertificate = true
        /// Bytes of an extension that no server knows: 1,200 make the hello as big as one with a post-quantum key share.
        public var helloPadding = 0
        /// Signs with a key that does not belong to the certificate (as CVE-2022-29222 let pass).
        public var forgesKey = false
        public init() {}
    }

    public let certificate: SelfSignedCertificate
    /// `SSL_CTX *`, owned.
    let context: OpaquePointer
    private let padding: UnsafeMutablePointer<UInt8>
    private let paddingByteCount: UnsafeMutablePointer<Int>

    public init(_ options: Options = Options(), certificate: SelfSignedCertificate? = nil) {
        guard let certificate = certificate ?? SelfSignedCertificate(),
            let context = SSL_CTX_new(DTLS_client_method())
        else { preconditionFailure("OpenSSL is out of random numbers or memory") }
        self.certificate = certificate
        self.context = context
        padding = .allocate(capacity: max(1, options.helloPadding))
        padding.initialize(repeating: 0xA5, count: max(1, options.helloPadding))
        paddingByteCount = .allocate(capacity: 1)
        paddingByteCount.initialize(to: options.helloPadding)
        COpenSSL_CTX_set_dtls_options(context)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_cert_verify_callback(context, { _, _ in 1 }, nil)
        precondition(COpenSSL_CTX_set_dtls12_only(context) == 1)
        if let ciphers = options.ciphers { precondition(SSL_CTX_set_cipher_list(context, ciphers) == 1) }
        if let profiles = options.srtpProfiles {
            precondition(SSL_CTX_set_tlsext_use_srtp(context, profiles) == 0)
        }
        if options.sendsCertificate { use(certificate, forged: options.forgesKey) }
        if options.helloPadding > 0 { addPadding() }
    }

    deinit {
        SSL_CTX_free(context)
        padding.deallocate()
        paddingByteCount.deallocate()
    }

    public func fingerprint(_ algorithm: FingerprintAlgorithm = .sha256) -> CertificateFingerprint {
        certificate.fingerprint(algorithm)
    }

    private func use(_ certificate: SelfSignedCertificate, forged: Bool) {
        precondition(SSL_CTX_use_certificate(context, certificate.certificate) == 1)
        guard forged else {
            precondition(SSL_CTX_use_PrivateKey(context, certificate.privateKey) == 1)
            return
        }
        guard let other = SelfSignedCertificate(),
            let key = COpenSSL_P256_mixed(certificate.privateKey, other.privateKey)
        else { preconditionFailure("OpenSSL would not mix two keys") }
        precondition(SSL_CTX_use_PrivateKey(context, key) == 1)
        EVP_PKEY_free(key)
    }

    private func addPadding() {
        // The two allocations outlive the context: both end with this object.
        let argument = UnsafeMutableRawPointer(paddingByteCount)
        SSL_CTX_set_ex_data(context, 0, padding)
        let added = SSL_CTX_add_client_custom_ext(
            context, 64_000,
            { ssl, _, bytes, count, _, argument in
                guard let argument else { return 0 }
                let padding = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0)
                bytes?.pointee = UnsafePointer(padding?.assumingMemoryBound(to: UInt8.self))
                count?.pointee = argument.assumingMemoryBound(to: Int.self).pointee
                return 1
            }, nil, argument, nil, nil)
        precondition(added == 1)
    }
}
