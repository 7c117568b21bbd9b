import MediaRelay
import RTPCore
import RelayCore

/// Asks one relay: keep-alive connections that are used again, tokens as a signaling server mints them. Confined to the loop's
/// thread.
final class HTTPClient: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    let loop: EventLoop
    let port: UInt16
    let key: SigningKey
    private(set) var requestCount = 0
    private var idle: [HTTPConnection] = []
    private let expiry: Int64
    let server: String

    init(_ loop: EventLoop, port: UInt16, key: SigningKey, tokenSeconds: Int64 = 10 * 3_600) throws {
        self.loop = loop
        expiry = WallClock.nowMs / 1_000 + tokenSeconds
        self.port = port
        self.key = key
        guard let server = TokenMint.server(expirySeconds: expiry, key: key) else {
            throw LoadFailure("the key does not sign")
        }
        self.server = server
    }

    func token(_ uid: String, _ room: String, device: String = "phone") -> String {
        guard let id = RoomID(room),
            let token = TokenMint.participant(
                uid: uid, device: device, room: id, expirySeconds: expiry, grants: .standard, key: key)
        else { preconditionFailure("no token for \(uid) in \(room)") }
        return token
    }

    static func request(
        _ method: String, _ path: String, token: String, type: String? = nil, headers: [String] = [], body: [UInt8] = []
    ) -> [UInt8] {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer \(token)\r\n"
        if let type { head += "Content-Type: \(type)\r\n" }
        for header in headers { head += header + "\r\n" }
        if !body.isEmpty || method == "POST" || method == "PATCH" { head += "Content-Length: \(body.count)\r\n" }
        return Array((head + "\r\n").utf8) + body
    }

    /// One request over a kept connection that is free, or over a new one.
    func ask(
        _ method: String, _ path: String, token: String, type: String? = nil, headers: [String] = [], body: [UInt8] = []
    ) async throws -> HTTPReply {
        requestCount += 1
        let bytes = Self.request(method, path, token: token, type: type, headers: headers, body: body)
        var connection: HTTPConnection?
        while let kept = idle.popLast() {
            guard kept.isOpen else { continue }
            connection = kept
            break
        }
        let used = try connection ?? HTTPConnection(loop, port: port)
        let reply = try await used.exchange(bytes)
        if used.isOpen { idle.append(used) }
        return reply
    }

    func json(_ method: String, _ path: String, token: String, _ body: String, headers: [String] = []) async throws
        -> HTTPReply
    {
        try await ask(
            method, path, token: token, type: body.isEmpty ? nil : "application/json", headers: headers,
            body: Array(body.utf8))
    }

    func closeIdle() {
        for connection in idle { connection.close() }
        idle = []
    }

    /// A value of `/metrics`; 0 where there is no such line.
    static func metric(_ name: String, in text: String) -> Double {
        for line in text.split(separator: "\n") where line.hasPrefix(name) && line.dropFirst(name.count).first == " " {
            return Double(line.dropFirst(name.count + 1)) ?? 0
        }
        return 0
    }

    func metrics() async throws -> String {
        let reply = try await ask("GET", "/metrics", token: server)
        guard reply.status == 200 else { throw LoadFailure("/metrics answered \(reply.status)") }
        return reply.text
    }
}

/// A duration's distribution between two readings of a histogram of `/metrics`.
struct MetricHistogram {
    private var bounds: [Double] = []
    private var totals: [Double] = []

    init(_ name: String, in text: String) {
        let prefix = "\(name)_bucket{le=\""
        for line in text.split(separator: "\n") where line.hasPrefix(prefix) {
            let rest = line.dropFirst(prefix.count)
            guard let quote = rest.firstIndex(of: "\""), let space = rest.lastIndex(of: " ") else { continue }
            bounds.append(Double(rest[..<quote]) ?? .infinity)
            totals.append(Double(rest[rest.index(after: space)...]) ?? 0)
        }
    }

    func since(_ earlier: MetricHistogram) -> MetricHistogram {
        var difference = self
        for index in totals.indices where index < earlier.totals.count {
            difference.totals[index] -= earlier.totals[index]
        }
        return difference
    }

    var count: Int { Int(totals.last ?? 0) }

    /// Milliseconds, linear within a bucket; nil when nothing was counted.
    func quantile(_ q: Double) -> Double? {
        guard let all = totals.last, all > 0 else { return nil }
        let wanted = q * all
        for index in totals.indices where totals[index] >= wanted {
            let (low, before) = index == 0 ? (0, 0) : (bounds[index - 1], totals[index - 1])
            guard bounds[index].isFinite else { return low * 1_000 }
            let inside = totals[index] - before
            return (low + (bounds[index] - low) * (inside == 0 ? 1 : (wanted - before) / inside)) * 1_000
        }
        return nil
    }
}
