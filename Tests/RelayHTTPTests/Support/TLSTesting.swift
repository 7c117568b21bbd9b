import COpenSSL
import Foundation
import RelayHTTP

/// A self-made certificate in a folder of its own, and client contexts that talk to it.
final class TestCertificate {
    let folder: URL
    var files: HTTPConfiguration.TLSFiles {
        .init(
            certificatePath: folder.appendingPathComponent("cert.pem").path,
            privateKeyPath: folder.appendingPathComponent("key.pem").path)
    }

    init(name: String) throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "relay-http-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try write(name: name)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// Makes a new key and certificate in the same files.
    func write(name: String) throws {
        guard let key = EVP_EC_gen_named("P-256"), let certificate = X509_new() else {
            throw RawClient.Failure(description: "no key")
        }
        defer {
            EVP_PKEY_free(key)
            X509_free(certificate)
        }
        X509_set_version(certificate, 2)
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1)
        X509_gmtime_adj(X509_getm_notBefore(certificate), 0)
        X509_gmtime_adj(X509_getm_notAfter(certificate), 3600)
        X509_set_pubkey(certificate, key)
        let subject = X509_get_subject_name(certificate)
        X509_NAME_add_entry_by_txt(
            subject, "CN", MBSTRING_ASC, Array(name.utf8), Int32(name.utf8.count), -1, 0)
        X509_set_issuer_name(certificate, subject)
        X509_sign(certificate, key, EVP_sha256())
        try write(files.certificatePath) { PEM_write_bio_X509($0, certificate) }
        try write(files.privateKeyPath) { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
    }

    private func write(_ path: String, _ body: (OpaquePointer) -> Int32) throws {
        guard let bio = BIO_new_file(path, "w") else { throw RawClient.Failure(description: "no file") }
        defer { BIO_free(bio) }
        guard body(bio) == 1 else { throw RawClient.Failure(description: "not written") }
    }

    private func EVP_EC_gen_named(_ curve: String) -> OpaquePointer? {
        guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1,
            EVP_PKEY_generate(context, &key) == 1
        else { return nil }
        return key
    }
}

/// A client's SSL_CTX that believes any certificate: the tests look at it themselves.
final class ClientContext {
    let pointer: OpaquePointer

    /// - Parameter maximumVersion: TLS1_1_VERSION and so on; 0 for no limit.
    init(maximumVersion: Int32 = 0) throws {
        guard let context = SSL_CTX_new(TLS_client_method()) else {
            throw RawClient.Failure(description: "no context")
        }
        pointer = context
        if maximumVersion != 0 {
            SSL_CTX_ctrl(pointer, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(TLS1_VERSION), nil)
            SSL_CTX_ctrl(pointer, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(maximumVersion), nil)
            // Old versions need old signatures.
            SSL_CTX_set_cipher_list(pointer, "ALL:@SECLEVEL=0")
        }
    }

    deinit { SSL_CTX_free(pointer) }
}

extension TestServer {
    /// A server with one TLS listener, and a plain one behind it.
    convenience init(
        certificate: TestCertificate, _ change: (inout HTTPConfiguration) -> Void = { _ in },
        application: @escaping @Sendable (HTTPServer, HTTPRequest) -> Void = TestServer.echo
    ) throws {
        try self.init(
            {
                $0.listeners = [
                    .init(address: "127.0.0.1", port: 0, isSecure: true),
                    .init(address: "127.0.0.1", port: 0),
                ]
                $0.tls = certificate.files
                change(&$0)
            }, application: application)
    }

    func connectTLS(
        _ context: ClientContext, protocols: [UInt8]? = nil, receiveBufferByteCount: Int32? = nil
    ) throws -> RawClient {
        let client = try connect(receiveBufferByteCount: receiveBufferByteCount)
        try withExtendedLifetime(context) { try client.startTLS(context.pointer, protocols: protocols) }
        return client
    }
}
