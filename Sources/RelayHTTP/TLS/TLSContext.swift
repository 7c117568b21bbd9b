import COpenSSL
import Glibc

/// A server certificate with its key and the rules of its handshakes: TLS 1.2 and up, ALPN http/1.1, no
/// renegotiation, no session kept. Reloading makes a new context; connections keep the one they began with.
final class TLSContext: Sendable {
    // An SSL_CTX is counted and locked by OpenSSL itself; it is not changed after init.
    private nonisolated(unsafe) let pointer: OpaquePointer

    /// Reads both files. Safe on any thread.
    init(_ files: HTTPConfiguration.TLSFiles) throws(HTTPServerError) {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let pointer = SSL_CTX_new(TLS_server_method()) else {
            throw .certificate("OpenSSL makes no context")
        }
        self.pointer = pointer
        SSL_CTX_ctrl(pointer, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(TLS1_2_VERSION), nil)
        // Buffers are given back while a connection is idle: 13 KB instead of 50 KB an event stream.
        SSL_CTX_ctrl(
            pointer, SSL_CTRL_MODE,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE) | Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
                | Int(SSL_MODE_RELEASE_BUFFERS), nil)
        SSL_CTX_ctrl(pointer, SSL_CTRL_SET_SESS_CACHE_MODE, Int(SSL_SESS_CACHE_OFF), nil)
        // SSL_OP_NO_TICKET (bit 14), SSL_OP_NO_RENEGOTIATION (bit 30), SSL_OP_CIPHER_SERVER_PREFERENCE (bit
        // 22).
        SSL_CTX_set_options(pointer, 1 << 14 | 1 << 30 | 1 << 22)
        SSL_CTX_set_num_tickets(pointer, 0)
        SSL_CTX_set_alpn_select_cb(
            pointer,
            { _, out, outCount, offered, offeredCount, _ in
                TLSContext.selectProtocol(out, outCount, offered, offeredCount)
            }, nil)
        guard SSL_CTX_use_certificate_chain_file(pointer, files.certificatePath) == 1 else {
            throw .certificate("\(files.certificatePath) holds no certificate chain that can be used")
        }
        guard SSL_CTX_use_PrivateKey_file(pointer, files.privateKeyPath, SSL_FILETYPE_PEM) == 1 else {
            throw .certificate("\(files.privateKeyPath) holds no private key of the certificate")
        }
        guard SSL_CTX_check_private_key(pointer) == 1 else {
            throw .certificate("\(files.privateKeyPath) is not the key of \(files.certificatePath)")
        }
    }

    deinit {
        SSL_CTX_free(pointer)
        ERR_clear_error()
    }

    /// Takes http/1.1 where it is offered; an offer without it ends the handshake (RFC 7301 section 3.2).
    private static func selectProtocol(
        _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ outCount: UnsafeMutablePointer<UInt8>?,
        _ offered: UnsafePointer<UInt8>?, _ offeredCount: UInt32
    ) -> Int32 {
        let name: StaticString = "http/1.1"
        guard let out, let outCount, let offered else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        var offset = 0
        while offset < Int(offeredCount) {
            let count = Int(offered[offset])
            guard offset + 1 + count <= Int(offeredCount) else { break }
            if count == name.utf8CodeUnitCount, memcmp(offered + offset + 1, name.utf8Start, count) == 0 {
                out.pointee = offered + offset + 1
                outCount.pointee = UInt8(count)
                return SSL_TLSEXT_ERR_OK
            }
            offset += 1 + count
        }
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }

    /// A session on an accepted socket; nil when OpenSSL has no memory for it.
    func makeSession(descriptor: Int32) -> TLSSession? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let ssl = SSL_new(pointer) else { return nil }
        guard SSL_set_fd(ssl, descriptor) == 1 else {
            SSL_free(ssl)
            return nil
        }
        SSL_set_accept_state(ssl)
        return TLSSession(ssl)
    }
}
