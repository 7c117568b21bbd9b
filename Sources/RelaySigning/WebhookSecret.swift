import COpenSSL
import Foundation

/// A shared secret of a webhook by the Standard Webhooks convention: `whsec_` and base64 of 24…64 random bytes.
/// Redacted when printed. Any thread.
public struct WebhookSecret: Hashable, Sendable, CustomStringConvertible {
    public struct Failure: Error, Hashable, CustomStringConvertible {
        /// Never part of the secret's text.
        public var description: String
    }

    private let secret: SecretBytes

    /// Refuses what is not `whsec_` and padded base64 (RFC 4648 §4) of 24…64 bytes.
    public init(_ text: String) throws(Failure) {
        guard text.hasPrefix("whsec_") else { throw Failure(description: "a webhook secret begins with whsec_") }
        guard let data = Data(base64Encoded: String(text.dropFirst(6))) else {
            throw Failure(description: "a webhook secret is base64 behind whsec_")
        }
        guard (24...64).contains(data.count) else {
            throw Failure(description: "a webhook secret has 24…64 bytes, not \(data.count)")
        }
        secret = SecretBytes(Array(data))
    }

    /// The text of a new secret of 32 random bytes.
    public static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return "whsec_" + Data((0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }).base64EncodedString()
    }

    public var description: String { "WebhookSecret(redacted)" }

    /// HMAC-SHA256 over `id.timestamp.body`.
    func mac(id: String, timestamp: Int64, body: [UInt8]) -> [UInt8] {
        let text = Array("\(id).\(timestamp).".utf8) + body
        var result = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 32
        _ = HMAC(EVP_sha256(), secret.bytes, Int32(secret.count), text, text.count, &result, &count)
        return result
    }
}

/// Signs and verifies webhooks by the Standard Webhooks convention. Any thread.
public enum WebhookSignature {
    /// The value of `webhook-signature`: one `v1,` signature for each secret, separated by spaces.
    /// - Parameter timestamp: seconds since 1970, the value of `webhook-timestamp`.
    public static func header(secrets: [WebhookSecret], id: String, timestamp: Int64, body: [UInt8]) -> String {
        secrets.map { "v1," + Data($0.mac(id: id, timestamp: timestamp, body: body)).base64EncodedString() }
            .joined(separator: " ")
    }

    /// Why a webhook is not taken.
    public enum Refusal: Error, Hashable, Sendable {
        /// A header is missing or malformed.
        case malformed(header: String)
        /// Sent too long ago, or in the future: replayed, or one of the clocks is wrong.
        case timestamp(offsetSeconds: Int64)
        /// No signature is of one of the secrets.
        case signature
    }

    /// Whether a request really comes from who knows one of `secrets`, and recently. Takes the same time whatever a
    /// signature is compared with.
    /// - Parameters:
    ///   - id, timestamp, signature: the values of the headers `webhook-id`, `webhook-timestamp`,
    ///     `webhook-signature`; nil when absent.
    ///   - body: as received, byte for byte.
    ///   - secrets: several while one is replaced by another.
    ///   - toleranceSeconds: how far the timestamp may lie from `nowSeconds` (since 1970), both ways.
    public static func verify(
        id: String?, timestamp: String?, signature: String?, body: [UInt8], secrets: [WebhookSecret],
        nowSeconds: Int64, toleranceSeconds: Int64 = 300
    ) throws(Refusal) {
        guard let id, !id.isEmpty else { throw .malformed(header: "webhook-id") }
        guard let timestamp, let sent = Int64(timestamp), sent >= 0 else {
            throw .malformed(header: "webhook-timestamp")
        }
        guard let signature, !signature.isEmpty else { throw .malformed(header: "webhook-signature") }
        let (offset, overflow) = nowSeconds.subtractingReportingOverflow(sent)
        guard !overflow, (-toleranceSeconds...toleranceSeconds).contains(offset) else {
            throw .timestamp(offsetSeconds: overflow ? .min : offset)
        }
        let wanted = secrets.map { $0.mac(id: id, timestamp: sent, body: body) }
        var isGenuine = false
        // Bounded: a sender with more than a few secrets at once does not exist.
        for part in signature.split(separator: " ").prefix(16) where part.hasPrefix("v1,") {
            guard let given = Data(base64Encoded: String(part.dropFirst(3))), given.count == 32 else { continue }
            for mac in wanted where CRYPTO_memcmp(mac, Array(given), 32) == 0 { isGenuine = true }
        }
        guard isGenuine else { throw .signature }
    }
}
