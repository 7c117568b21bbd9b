import COpenSSL

/// One connection's TLS. OpenSSL's error queue is per thread, not per connection: it is cleared before every
/// call and after every free, or one client's aborted handshake would be read as another's failure.
final class TLSSession {
    enum Outcome {
        case done(Int)
        case wantsRead
        case wantsWrite
        /// The peer said that it sends no more.
        case ended
        case failed
    }

    private let ssl: OpaquePointer
    private(set) var isEstablished = false
    /// After a failure OpenSSL allows no shutdown.
    private var isBroken = false

    init(_ ssl: OpaquePointer) {
        self.ssl = ssl
    }

    deinit {
        SSL_free(ssl)
        ERR_clear_error()
    }

    /// Goes on with the handshake.
    func handshake() -> Outcome {
        ERR_clear_error()
        let outcome = outcome(SSL_do_handshake(ssl))
        if case .done = outcome { isEstablished = true }
        return outcome
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Outcome {
        ERR_clear_error()
        return outcome(SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count)))
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        ERR_clear_error()
        return outcome(SSL_write(ssl, bytes.baseAddress, Int32(clamping: bytes.count)))
    }

    /// Whether decrypted bytes wait inside OpenSSL, of which epoll knows nothing.
    var hasPending: Bool { SSL_pending(ssl) > 0 }

    /// Says that nothing more will be sent.
    func shutdown() {
        guard isEstablished, !isBroken else { return }
        ERR_clear_error()
        _ = SSL_shutdown(ssl)
        ERR_clear_error()
    }

    private func outcome(_ result: Int32) -> Outcome {
        if result > 0 { return .done(Int(result)) }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .wantsRead
        case SSL_ERROR_WANT_WRITE: return .wantsWrite
        case SSL_ERROR_ZERO_RETURN: return .ended
        default:
            isBroken = true
            ERR_clear_error()
            return .failed
        }
    }
}
