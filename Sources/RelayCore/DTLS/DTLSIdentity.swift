import COpenSSL

/// The relay's side of every DTLS association of one process: a fresh certificate and the one `SSL_CTX` that all
/// connections share. DTLS 1.2, server role, one cipher suite (the one that RFC 8827 §6.5 obliges every WebRTC endpoint to
/// have), a client certificate demanded, SRTP profiles GCM first.
///
/// The certificate is accepted whatever it says; what counts is its fingerprint, compared after the handshake, and that the
/// client proved to own the key. Confined to the thread that runs the handshakes, `fingerprint` excepted.
public final class DTLSIdentity {
    /// SHA-256 of the certificate's DER form, 32 bytes: what our SDP answers announce.
    public let fingerprint: [UInt8]
    /// `SSL_CTX *`, owned.
    let context: OpaquePointer
    private let certificate: SelfSignedCertificate

    public enum Failure: Error { case openSSL }

    /// Throws when OpenSSL has no random numbers or memory, or lacks one of the algorithms.
    public init() throws(Failure) {
        guard let certificate = SelfSignedCertificate(), let context = SSL_CTX_new(DTLS_server_method())
        else { throw .openSSL }
        self.certificate = certificate
        self.context = context
        fingerprint = certificate.fingerprint(.sha256).bytes
        COpenSSL_CTX_set_dtls_options(context)
        COpenSSL_CTX_set_max_cert_list(context, Self.maximumCertificateListByteCount)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        // Replaces the chain check as a whole: there is no chain, and building one would cost time for nothing.
        SSL_CTX_set_cert_verify_callback(context, acceptAffordableCertificate, nil)
        guard COpenSSL_CTX_set_dtls12_only(context) == 1,
            SSL_CTX_set_cipher_list(context, "ECDHE-ECDSA-AES128-GCM-SHA256") == 1,
            // Zero means success here.
            SSL_CTX_set_tlsext_use_srtp(context, "SRTP_AEAD_AES_128_GCM:SRTP_AES128_CM_SHA1_80") == 0,
            SSL_CTX_use_certificate(context, certificate.certificate) == 1,
            SSL_CTX_use_PrivateKey(context, certificate.privateKey) == 1
        else { throw .openSSL }
    }

    deinit { SSL_CTX_free(context) }

    /// Lets handshakes read clients' certificates the short way. Holds for the whole process and for keys that are made later, so it
    /// is for a process that does nothing but handshakes with OpenSSL, behind its identity: a worker. Once.
    public static func readCertificatesDirectly() { _ = COpenSSL_decode_ec_keys_directly() }

    static let maximumCertificateListByteCount = 16 * 1024
}

/// Any certificate is good except one whose key is so large that checking its signature would be an attack by itself (T40).
private let acceptAffordableCertificate: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = {
    store, _ in
    guard let certificate = X509_STORE_CTX_get0_cert(store), let key = X509_get0_pubkey(certificate),
        EVP_PKEY_get_bits(key) <= 4096
    else { return 0 }
    return 1
}
