// Decides from the fields where a request ends and whether the connection goes on (RFC 9112 sections 3.2, 6
// and 9). Whatever two implementations could read differently is refused: that is what request smuggling
// lives on.

/// What the fields of a request say about its body and its connection.
struct Framing: Sendable {
    enum Body: Sendable {
        case none
        case sized(Int)
        case chunked
    }

    var body = Body.none
    var keepsAlive = true
    var expectsContinue = false

    init() {}

    init(
        fields: [HTTPHeaders.Field], head: borrowing Span<UInt8>, line: RequestLine,
        limits: RequestParser.Limits
    ) throws(RequestRefusal) {
        var hostCount = 0
        var lengthCount = 0
        var codingCount = 0
        var expectCount = 0
        var saysClose = false
        var saysKeepAlive = false
        for field in fields {
            let value = head.extracting(field.value)
            switch field.name.count {
            case 4 where Self.matches(head, field.name, "host"):
                hostCount += 1
                try Self.checkHost(value)
            case 6 where Self.matches(head, field.name, "expect"):
                expectCount += 1
                guard Self.matches(head, field.value, "100-continue") else { throw .expectation }
            case 10 where Self.matches(head, field.name, "connection"):
                try Self.tokens(value) { token in
                    saysClose = saysClose || Self.matches(value, token, "close")
                    saysKeepAlive = saysKeepAlive || Self.matches(value, token, "keep-alive")
                }
            case 14 where Self.matches(head, field.name, "content-length"):
                lengthCount += 1
                body = .sized(try Self.length(value))
            case 17 where Self.matches(head, field.name, "transfer-encoding"):
                codingCount += 1
                guard Self.matches(head, field.value, "chunked") else {
                    throw .malformed("The only transfer coding is one \"chunked\".")
                }
            default:
                break
            }
        }
        guard hostCount == 1 || (line.isLegacy && hostCount == 0) else {
            throw .malformed("The request needs exactly one Host.")
        }
        guard lengthCount <= 1, codingCount <= 1, lengthCount + codingCount <= 1 else {
            throw .malformed("Content-Length and Transfer-Encoding may be there once, and not both.")
        }
        guard codingCount == 0 || !line.isLegacy else {
            throw .malformed("HTTP/1.0 has no Transfer-Encoding.")
        }
        guard expectCount <= 1 else { throw .expectation }
        if codingCount == 1 { body = .chunked }
        if case .sized(let count) = body {
            guard count <= limits.bodyByteCount else { throw .bodyTooLarge(limits.bodyByteCount) }
            if count == 0 { body = .none }
        }
        keepsAlive = line.isLegacy ? saysKeepAlive && !saysClose : !saysClose
        if case .none = body { return }
        // RFC 9110 section 10.1.1: HTTP/1.0 clients do not know 100.
        expectsContinue = expectCount == 1 && !line.isLegacy
    }

    /// 1*DIGIT and nothing else; what does not fit 63 bits is no length.
    private static func length(_ value: borrowing Span<UInt8>) throws(RequestRefusal) -> Int {
        guard (1...19).contains(value.count) else {
            throw .malformed("Content-Length is not a number of at most 19 digits.")
        }
        var length = 0
        for index in value.indices {
            guard ASCII.isDigit(value[index]) else { throw .malformed("Content-Length is not a number.") }
            let (product, overflow) = length.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.addingReportingOverflow(Int(value[index] - 0x30))
            guard !overflow, !carry else { throw .malformed("Content-Length exceeds 63 bits.") }
            length = sum
        }
        return length
    }

    private static func checkHost(_ value: borrowing Span<UInt8>) throws(RequestRefusal) {
        guard value.count > 0, value.count <= 262 else { throw .malformed("Host is empty or too long.") }
        for index in value.indices where !ASCII.isHost(value[index]) {
            throw .malformed("Host is not a host and a port.")
        }
    }

    /// Walks a comma-separated list of tokens; empty elements are skipped (RFC 9110 section 5.6.1).
    private static func tokens(
        _ value: borrowing Span<UInt8>, _ body: (Range<Int>) -> Void
    ) throws(RequestRefusal) {
        var start = 0
        while start <= value.count {
            var end = start
            while end < value.count, value[end] != 0x2c { end += 1 }
            let token = HTTPHeaders.trimmed(start..<end, in: value)
            for index in token where !ASCII.isToken(value[index]) {
                throw .malformed("Connection is not a list of tokens.")
            }
            if !token.isEmpty { body(token) }
            start = end + 1
        }
    }

    private static func matches(
        _ bytes: borrowing Span<UInt8>, _ range: Range<Int>, _ lowercase: StaticString
    ) -> Bool {
        guard range.count == lowercase.utf8CodeUnitCount else { return false }
        for index in range.indices
        where ASCII.lowercase(bytes[index]) != lowercase.utf8Start[index - range.lowerBound] { return false }
        return true
    }
}
