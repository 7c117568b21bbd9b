import Foundation

/// Offers sessions at a WHIP endpoint (RFC 9725) and ends them: any server's, and a room's sessions at a MediaRelay. Carries SDP,
/// looks into none. Follows no redirect, and ends no session that lies at another host than the endpoint. Any thread.
public final class WHIPClient: Sendable {
    public struct Session: Hashable, Sendable {
        /// The SDP answer.
        public var answer: [UInt8]
        /// The session's URL; nil where the server names none, or one at another host.
        public var location: String?
    }

    private let loop: HTTPLoop
    private let timeoutMs: Int

    /// - Parameter authorities: a PEM file to trust; nil: the system's.
    public init(authorities: String? = nil, timeoutMs: Int = 10_000, connectMs: Int = 2_000) {
        loop = HTTPLoop(connectMs: connectMs, authorities: authorities)
        self.timeoutMs = timeoutMs
    }

    /// Posts an offer. Throws `problem` for every status but 201, `malformed` for an answer without SDP.
    /// - Parameter token: sent as bearer; nil: none.
    public func open(
        _ offer: [UInt8], at endpoint: String, token: String?
    ) async throws(RelayClient.Failure) -> Session {
        let answer = try await loop.send(
            HTTPLoop.Request(
                method: "POST", url: endpoint,
                headers: ["Content-Type: application/sdp", "Accept: application/sdp", "Expect:"] + Self.bearer(token),
                body: offer, timeoutMs: timeoutMs))
        guard answer.status == 201 else { throw .problem(RelayClient.problem(answer)) }
        guard answer.body.starts(with: Array("v=0".utf8)) else { throw .malformed(detail: "an answer without SDP") }
        return Session(answer: answer.body, location: answer.location.flatMap { Self.resolve($0, at: endpoint) })
    }

    /// Ends a session. A server that does not know it any more is as good.
    public func close(_ location: String, token: String?) async throws(RelayClient.Failure) {
        let answer = try await loop.send(
            HTTPLoop.Request(
                method: "DELETE", url: location, headers: ["Expect:"] + Self.bearer(token), body: nil,
                timeoutMs: timeoutMs))
        guard (200..<300).contains(answer.status) || [404, 410].contains(answer.status) else {
            throw .problem(RelayClient.problem(answer))
        }
    }

    private static func bearer(_ token: String?) -> [String] { token.map { ["Authorization: Bearer \($0)"] } ?? [] }

    /// A `Location` as RFC 9110 §10.2.2 reads it; nil at another host, port or scheme than the endpoint's.
    static func resolve(_ location: String, at endpoint: String) -> String? {
        guard let base = URL(string: endpoint), let url = URL(string: location, relativeTo: base)?.absoluteURL,
            url.scheme == base.scheme, url.host == base.host, url.port == base.port
        else { return nil }
        return url.absoluteString
    }
}
