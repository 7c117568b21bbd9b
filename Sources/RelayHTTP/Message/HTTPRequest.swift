/// Names a request, and the event stream it may become, for the life of a server. Never used twice.
public struct HTTPRequestID: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64

    /// Ids are given out by the server; tests of what takes requests make their own.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    public var description: String { "\(rawValue)" }
}

/// One whole request.
public struct HTTPRequest: Sendable {
    /// What the answer is addressed to.
    public let id: HTTPRequestID
    /// As sent; methods are case-sensitive.
    public let method: String
    /// The target as sent: it begins with "/", or is "*" (OPTIONS only); URI characters only.
    public let target: String
    /// Fields in order.
    public let headers: HTTPHeaders
    /// Decoded body, at most the configured limit.
    public let body: [UInt8]
    /// The peer's address without port, as text: `127.0.0.1`, `2001:db8::1`.
    public let peer: String
    /// Index into `HTTPConfiguration.listeners` of the address the request came to.
    public let listener: Int

    public init(
        id: HTTPRequestID, method: String, target: String, headers: HTTPHeaders = HTTPHeaders(),
        body: [UInt8] = [],
        peer: String = "127.0.0.1", listener: Int = 0
    ) {
        self.id = id
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.peer = peer
        self.listener = listener
    }

    /// The target up to the first "?", still percent-encoded.
    public var path: String {
        target.utf8.firstIndex(of: 0x3f).map { String(target[..<$0]) } ?? target
    }

    /// The target behind the first "?", still percent-encoded; nil without "?".
    public var query: String? {
        target.utf8.firstIndex(of: 0x3f).map { String(target[target.utf8.index(after: $0)...]) }
    }

    /// The path's segments, each decoded once: `/v1/rooms/a%20b` is `["v1", "rooms", "a b"]`, `/` is `[]`.
    ///
    /// Nil for a path that names nothing a route could own: an empty segment, "." or "..", a decoded "/",
    /// control character or NUL, or bytes that are not UTF-8. A caller answers 404.
    public var pathSegments: [String]? {
        let path = path
        guard path.utf8.first == 0x2f else { return nil }
        guard path != "/" else { return [] }
        var segments: [String] = []
        for part in path.utf8.dropFirst().split(separator: 0x2f, omittingEmptySubsequences: false) {
            guard let segment = Self.decoded(part, plusIsSpace: false), !segment.isEmpty, segment != ".",
                segment != "..", !segment.utf8.contains(0x2f)
            else { return nil }
            segments.append(segment)
        }
        return segments
    }

    /// The query's names and values in order, decoded once ("+" is a space); `[]` without a query.
    ///
    /// Nil when a name or value does not decode to UTF-8 without control characters. A caller answers 400.
    public var queryItems: [(name: String, value: String)]? {
        guard let query, !query.isEmpty else { return [] }
        var items: [(name: String, value: String)] = []
        for part in query.utf8.split(separator: 0x26) {
            let middle = part.firstIndex(of: 0x3d) ?? part.endIndex
            let rest = middle == part.endIndex ? part[middle...] : part[part.index(after: middle)...]
            guard let name = Self.decoded(part[..<middle], plusIsSpace: true),
                let value = Self.decoded(rest, plusIsSpace: true)
            else { return nil }
            items.append((name, value))
        }
        return items
    }

    /// Percent-decodes once; nil for broken encodings, broken UTF-8 and control characters.
    private static func decoded(_ bytes: some Sequence<UInt8>, plusIsSpace: Bool) -> String? {
        var decoded: [UInt8] = []
        var iterator = bytes.makeIterator()
        while let byte = iterator.next() {
            switch byte {
            case 0x25:
                guard let high = iterator.next().flatMap(ASCII.hexValue),
                    let low = iterator.next().flatMap(ASCII.hexValue)
                else { return nil }
                decoded.append(high << 4 | low)
            case 0x2b where plusIsSpace:
                decoded.append(0x20)
            default:
                decoded.append(byte)
            }
        }
        guard !decoded.contains(where: { $0 < 0x20 || $0 == 0x7f }) else { return nil }
        return String(validating: decoded, as: UTF8.self)
    }
}
