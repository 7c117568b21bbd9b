import COpenSSL

/// One `SSL` in the server or client role over two memory BIOs: bytes in, bytes out. Empties OpenSSL's error queue before
/// every call, because what is left there by an earlier call would be taken for the reason of the next failure.
///
/// Confined to one thread.
public final class SSLObject {
    public enum Outcome: Hashable {
        /// The peer's next records are needed.
        case waiting
        case finished
        /// The object is of no use any more. True when the two sides have no version or cipher in common.
        case died(lacksCommonGround: Bool)
    }

    /// `SSL *`, owned.
    public let ssl: OpaquePointer
    private let input: OpaquePointer
    private let output: OpaquePointer
    private let datagramByteCount: Int

    /// Nil when OpenSSL has no memory. `datagramByteCount`: bound of every datagram that comes out, 256…1200 bytes.
    public init?(_ context: OpaquePointer, isClient: Bool = false, datagramByteCount: Int = 1200) {
        guard let ssl = SSL_new(context) else { return nil }
        guard let input = BIO_new(BIO_s_mem()), let output = BIO_new(BIO_s_mem()) else {
            SSL_free(ssl)
            return nil
        }
        self.ssl = ssl
        self.input = input
        self.output = output
        self.datagramByteCount = datagramByteCount
        SSL_set_bio(ssl, input, output)
        COpenSSL_set_mtu(ssl, datagramByteCount)
        DTLS_set_timer_cb(ssl, farAway)
        if isClient { SSL_set_connect_state(ssl) } else { SSL_set_accept_state(ssl) }
    }

    deinit { SSL_free(ssl) }

    /// Feeds one datagram (or nothing, to begin as a client) and goes on with the handshake.
    public func handshake(_ datagram: [UInt8]) -> Outcome {
        feed(datagram)
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 { return .finished }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            return .waiting
        case SSL_ERROR_SYSCALL where ERR_peek_error() == 0:
            // A fragment that OpenSSL would not take; the handshake itself stands.
            return .waiting
        default:
            let reason = COpenSSL_ERR_reason(ERR_peek_error())
            return .died(
                lacksCommonGround: reason == SSL_R_NO_SHARED_CIPHER || reason == SSL_R_UNSUPPORTED_PROTOCOL)
        }
    }

    /// Feeds one datagram after the handshake. Application data is thrown away. True when the peer's authenticated
    /// close_notify or fatal alert was in it, now or before.
    public func read(_ datagram: [UInt8]) -> Bool {
        feed(datagram)
        // A datagram holds at most 1,500 / 14 records; each turn takes one or stops.
        for _ in 0..<128 {
            ERR_clear_error()
            let count = withUnsafeTemporaryAllocation(byteCount: 2048, alignment: 1) { buffer in
                SSL_read(ssl, buffer.baseAddress, 2048)
            }
            if count <= 0 { break }
        }
        return SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN != 0
    }

    /// Writes close_notify, once.
    public func shutdown() {
        ERR_clear_error()
        _ = SSL_shutdown(ssl)
    }

    /// What OpenSSL has written since the last call, as datagrams.
    public func takeOutput() -> [[UInt8]] {
        let bytes = takeBytes()
        return bytes.isEmpty ? [] : datagrams(of: bytes, limit: datagramByteCount)
    }

    /// What OpenSSL has written since the last call, record after record.
    public func takeBytes() -> [UInt8] {
        let count = BIO_ctrl_pending(output)
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            let read = BIO_read(output, buffer.baseAddress, Int32(buffer.count))
            initialized = max(0, Int(read))
        }
    }

    /// Whether the peer's certificate has one of `fingerprints`, compared in constant time.
    public func peerMatches(_ fingerprints: [CertificateFingerprint]) -> Bool {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return false }
        defer { X509_free(certificate) }
        var matches = false
        for fingerprint in fingerprints {
            guard let digest = certificateDigest(certificate, fingerprint.algorithm),
                digest.count == fingerprint.bytes.count,
                CRYPTO_memcmp(digest, fingerprint.bytes, digest.count) == 0
            else { continue }
            matches = true
        }
        return matches
    }

    /// The SRTP keys of a finished handshake (RFC 5764 §4.2), seen from the side that is named; nil when no profile that we
    /// know was agreed on.
    public func exportKeys(asServer: Bool) -> SRTPKeys? {
        guard let selected = SSL_get_selected_srtp_profile(ssl),
            let number = UInt16(exactly: selected.pointee.id), let profile = SRTPProfile(rawValue: number)
        else { return nil }
        let keyCount = profile.keyByteCount
        let saltCount = profile.saltByteCount
        var material = [UInt8](repeating: 0, count: 2 * (keyCount + saltCount))
        defer { OPENSSL_cleanse(&material, material.count) }
        let label = "EXTRACTOR-dtls_srtp"
        ERR_clear_error()
        guard
            SSL_export_keying_material(
                ssl, &material, material.count, label, label.utf8.count, nil, 0, 0) == 1
        else { return nil }
        let clientKey = Array(material[0..<keyCount])
        let serverKey = Array(material[keyCount..<2 * keyCount])
        let clientSalt = Array(material[2 * keyCount..<2 * keyCount + saltCount])
        let serverSalt = Array(material[(2 * keyCount + saltCount)...])
        return asServer
            ? SRTPKeys(
                profile: profile, receiveKey: clientKey, receiveSalt: clientSalt, sendKey: serverKey,
                sendSalt: serverSalt)
            : SRTPKeys(
                profile: profile, receiveKey: serverKey, receiveSalt: serverSalt, sendKey: clientKey,
                sendSalt: clientSalt)
    }

    private func feed(_ datagram: [UInt8]) {
        // A rest of an earlier datagram would be read as the beginning of this one.
        _ = COpenSSL_BIO_reset(input)
        guard !datagram.isEmpty else { return }
        let count = BIO_write(input, datagram, Int32(datagram.count))
        precondition(count == datagram.count, "a memory BIO takes everything")
    }
}

/// OpenSSL's retransmission timer, in microseconds: over an hour, so that it never fires within a handshake.
private let farAway: @convention(c) (OpaquePointer?, UInt32) -> UInt32 = { _, _ in 4_000_000_000 }
