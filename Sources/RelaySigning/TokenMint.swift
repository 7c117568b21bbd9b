import Foundation

/// What a participant's token lets its holder do (API.md, "Who calls").
public struct TokenGrants: Hashable, Sendable {
    public var publishAudio: Bool
    public var publishVideo: Bool
    public var subscribe: Bool
    /// End the room for everybody.
    public var end: Bool
    /// Start and stop recordings of the room.
    public var record: Bool

    public init(
        publishAudio: Bool = true, publishVideo: Bool = true, subscribe: Bool = true, end: Bool = false,
        record: Bool = false
    ) {
        self.publishAudio = publishAudio
        self.publishVideo = publishVideo
        self.subscribe = subscribe
        self.end = end
        self.record = record
    }
}

/// Makes JSON Web Tokens (RFC 7519) for the relay, as a signaling server does: no round trip is needed. Any thread.
public enum TokenMint {
    /// A participant's token for one room.
    /// - Parameters:
    ///   - uid, device, room: `[A-Za-z0-9._-]{1,128}`.
    ///   - expirySeconds: since 1970; at most the node's `--max-token-lifetime` (12 h) from now.
    /// - Returns: nil when `key` is a public one, which does not sign, or when a name has another form.
    public static func participant(
        uid: String, device: String = "default", room: String, expirySeconds: Int64,
        grants: TokenGrants = TokenGrants(), key: SigningKey
    ) -> String? {
        guard [uid, device, room].allSatisfy(SigningKey.isIdentifier) else { return nil }
        var publish: [String] = []
        if grants.publishAudio { publish.append("audio") }
        if grants.publishVideo { publish.append("video") }
        let claims = ParticipantClaims(
            sub: uid, device: device, room: room, exp: expirySeconds,
            grants: .init(
                publish: publish, subscribe: grants.subscribe, end: grants.end, record: grants.record ? true : nil))
        return token(payload: encoded(claims), key: key)
    }

    /// The server's token: it sees and does everything. Nil for a public key.
    public static func server(expirySeconds: Int64, key: SigningKey) -> String? {
        token(payload: encoded(ServerClaims(exp: expirySeconds)), key: key)
    }

    /// A token of any payload, given as JSON text.
    package static func token(payload: [UInt8], key: SigningKey) -> String? {
        let header = encoded(Header(alg: key.algorithm, kid: key.id))
        let text = Base64URL.encode(header) + "." + Base64URL.encode(payload)
        guard let signature = key.sign(Array(text.utf8)) else { return nil }
        return text + "." + Base64URL.encode(signature)
    }

    private struct Header: Encodable {
        var alg: String
        var kid: String
        var typ = "JWT"
    }

    private struct ParticipantClaims: Encodable {
        struct Grants: Encodable {
            var publish: [String]
            var subscribe: Bool
            var end: Bool
            /// Left out where it is not granted.
            var record: Bool?
        }
        var aud = "media-relay"
        var sub: String
        var device: String
        var room: String
        var exp: Int64
        var grants: Grants
    }

    private struct ServerClaims: Encodable {
        var scope = "admin"
        var exp: Int64
    }

    private static func encoded(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(value))
        } catch {
            preconditionFailure("strings and numbers encode: \(error)")
        }
    }
}
