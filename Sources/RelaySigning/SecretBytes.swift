import COpenSSL

/// Bytes of a secret: wiped with the last reference, shown as nothing but their number, compared in constant time. Any thread.
final class SecretBytes: @unchecked Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    // @unchecked: written at its end only, when nobody else has it.
    private(set) var bytes: [UInt8]

    /// Takes over `bytes`; the caller's own copy is the caller's to forget.
    init(_ bytes: [UInt8]) { self.bytes = bytes }
    deinit { wipe() }

    var count: Int { bytes.count }
    var description: String { "\(bytes.count) secret bytes" }
    var customMirror: Mirror { Mirror(self, children: []) }

    /// In place.
    func wipe() { bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) } }

    static func == (a: SecretBytes, b: SecretBytes) -> Bool {
        a.bytes.count == b.bytes.count && CRYPTO_memcmp(a.bytes, b.bytes, a.bytes.count) == 0
    }
    func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}
