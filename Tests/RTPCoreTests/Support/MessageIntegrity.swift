import COpenSSL
import RTPCore

/// HMAC-SHA1 by OpenSSL: the oracle, since RTPCore does no cryptography.
func messageIntegrity(_ bytes: [UInt8], key: [UInt8]) -> STUNIntegrity {
    var digest = [UInt8](repeating: 0, count: 20)
    var byteCount: UInt32 = 0
    HMAC(EVP_sha1(), key, Int32(key.count), bytes, bytes.count, &digest, &byteCount)
    precondition(byteCount == 20, "SHA-1 gives 20 bytes")
    return STUNIntegrity(digest.span, at: 0)
}

/// The bytes of a span; test macros cannot hold one.
func copy(_ span: Span<UInt8>) -> [UInt8] {
    span.indices.map { span[$0] }
}

extension STUNMessage {
    /// Whether the message carries the HMAC that `key` makes, computed as a receiver does.
    func isAuthentic(_ bytes: [UInt8], key: [UInt8]) -> Bool {
        guard let carried = integrity(in: bytes.span) else { return false }
        var prefix = Array(bytes.prefix(integrityPrefixByteCount))
        prefix[2] = UInt8(integrityLengthField >> 8)
        prefix[3] = UInt8(integrityLengthField & 0xFF)
        return messageIntegrity(prefix, key: key).matches(carried)
    }

    static func read(_ bytes: [UInt8]) -> STUNMessage? { STUNMessage(bytes.span) }

    /// The reason for which `bytes` are refused; nil when they are accepted.
    static func refusal(of bytes: [UInt8]) -> STUNRefusal? {
        do throws(STUNRefusal) {
            _ = try STUNMessage(validating: bytes.span)
            return nil
        } catch {
            return error
        }
    }

    func username(in bytes: [UInt8]) -> [UInt8]? {
        hasUsername ? Array(bytes[usernameOffset..<(usernameOffset + usernameByteCount)]) : nil
    }

    func usernameIs(_ receiver: String, _ sender: String, in bytes: [UInt8]) -> Bool {
        let first = Array(receiver.utf8)
        let second = Array(sender.utf8)
        return usernameEquals(receiver: first.span, sender: second.span, in: bytes.span)
    }
}
