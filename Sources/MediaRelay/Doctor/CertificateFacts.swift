import COpenSSL
import Glibc

/// What a certificate file and its key say: validity, whether they belong together. Reads files, holds no key.
package struct CertificateFacts: Hashable, Sendable {
    /// Seconds since 1970.
    package var notBefore: Int64 = 0
    package var notAfter: Int64 = 0
    package var matchesKey = false
    /// Why nothing else is known.
    package var fault: String?

    package init(notBefore: Int64, notAfter: Int64, matchesKey: Bool) {
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.matchesKey = matchesKey
    }

    /// Reads two PEM files.
    package init(certificate: String, key: String) {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let file = BIO_new_file(certificate, "r") else {
            fault = "\(certificate) cannot be read"
            return
        }
        defer { BIO_free(file) }
        guard let x509 = PEM_read_bio_X509(file, nil, nil, nil) else {
            fault = "\(certificate) is no PEM certificate"
            return
        }
        defer { X509_free(x509) }
        guard let keyFile = BIO_new_file(key, "r") else {
            fault = "\(key) cannot be read"
            return
        }
        defer { BIO_free(keyFile) }
        guard let privateKey = PEM_read_bio_PrivateKey(keyFile, nil, nil, nil) else {
            fault = "\(key) is no PEM key without a password"
            return
        }
        defer { EVP_PKEY_free(privateKey) }
        notBefore = Self.seconds(of: X509_get0_notBefore(x509))
        notAfter = Self.seconds(of: X509_get0_notAfter(x509))
        matchesKey = X509_check_private_key(x509, privateKey) == 1
    }

    private static func seconds(of time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = tm()
        guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else { return 0 }
        return Int64(timegm(&parts))
    }
}
