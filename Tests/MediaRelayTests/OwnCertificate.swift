import COpenSSL

/// A certificate of "localhost" that signs itself, and its key, in files.
final class OwnCertificate {
    let folder = TemporaryFolder()
    var certificatePath: String { folder.path + "/cert.pem" }
    var keyPath: String { folder.path + "/key.pem" }

    struct Failure: Error {}

    init() throws {
        guard let key = COpenSSL_P256_keygen(), let certificate = X509_new() else { throw Failure() }
        defer {
            EVP_PKEY_free(key)
            X509_free(certificate)
        }
        X509_set_version(certificate, 2)
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1)
        X509_gmtime_adj(X509_getm_notBefore(certificate), 0)
        X509_gmtime_adj(X509_getm_notAfter(certificate), 3_600)
        X509_set_pubkey(certificate, key)
        let subject = X509_get_subject_name(certificate)
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, Array("localhost".utf8), 9, -1, 0)
        X509_set_issuer_name(certificate, subject)
        X509_sign(certificate, key, EVP_sha256())
        try write(certificatePath) { PEM_write_bio_X509($0, certificate) }
        try write(keyPath) { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
    }

    private func write(_ path: String, _ body: (OpaquePointer) -> Int32) throws {
        guard let bio = BIO_new_file(path, "w") else { throw Failure() }
        defer { BIO_free(bio) }
        guard body(bio) == 1 else { throw Failure() }
    }
}
