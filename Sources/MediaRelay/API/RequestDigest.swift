import COpenSSL
import RelayCore
import RelayHTTP

/// What tells one request from another, for `Idempotency-Key`.
enum RequestDigest {
    /// The key of a POST or PATCH that has one; other methods are idempotent by themselves.
    static func idempotencyKey(of request: HTTPRequest) throws(Problem) -> IdempotencyKey? {
        guard request.method == "POST" || request.method == "PATCH",
            let text = request.headers.first("Idempotency-Key")
        else { return nil }
        guard request.headers.all("Idempotency-Key").count == 1 else {
            throw Problem(
                status: 400, code: "invalid-idempotency-key", detail: "The field Idempotency-Key stands twice.")
        }
        return IdempotencyKey(text: text, digest: of(request))
    }

    /// SHA-256, in hex, of all that makes a request what it is; each part with its length before it. JSON counts by its
    /// meaning: many writers put an object's fields in another order each time.
    static func of(_ request: HTTPRequest) -> String {
        var bytes: [UInt8] = []
        for part in [
            Array(request.method.utf8), Array(request.target.utf8),
            Array((request.headers.first("Content-Type") ?? "").utf8),
            Array((request.headers.first("If-Match") ?? "").utf8), canonical(request.body),
        ] {
            withUnsafeBytes(of: UInt64(part.count).bigEndian) { bytes += $0 }
            bytes += part
        }
        var digest = [UInt8](repeating: 0, count: 32)
        SHA256(bytes, bytes.count, &digest)
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// A JSON text with the fields of its objects in order and without space; anything else as it is.
    private static func canonical(_ body: [UInt8]) -> [UInt8] {
        guard let value = try? JSONReader.read(body) else { return body }
        return JSONText.of(ordered(value))
    }

    /// As deep as `JSONReader` reads.
    private static func ordered(_ value: JSONValue) -> JSONValue {
        switch value {
        case .array(let items): .array(items.map(ordered))
        case .object(let fields):
            .object(fields.sorted { $0.name < $1.name }.map { .init($0.name, ordered($0.value)) })
        default: value
        }
    }
}
