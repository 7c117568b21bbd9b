import RelayCore

/// Makes tokens, as a signaling server does; for the command line, the demo page and tests.
package enum TokenMint {
    package static func token(_ payload: JSONValue, key: SigningKey) -> String? {
        let header = JSONValue.object([
            .init("alg", .string(key.algorithm)), .init("typ", .string("JWT")), .init("kid", .string(key.id)),
        ])
        let text = Base64URL.encode(JSONText.of(header)) + "." + Base64URL.encode(JSONText.of(payload))
        guard let signature = key.sign(Array(text.utf8)) else { return nil }
        return text + "." + Base64URL.encode(signature)
    }

    package static func participant(
        uid: String, device: String, room: RoomID, expirySeconds: Int64, grants: Grants, key: SigningKey
    ) -> String? {
        var publish: [JSONValue] = []
        if grants.publishAudio { publish.append(.string("audio")) }
        if grants.publishVideo { publish.append(.string("video")) }
        return token(
            .object([
                .init("aud", .string("media-relay")), .init("sub", .string(uid)), .init("device", .string(device)),
                .init("room", .string(room.text)), .init("exp", .integer(expirySeconds)),
                .init(
                    "grants",
                    .object([
                        .init("publish", .array(publish)), .init("subscribe", .bool(grants.subscribe)),
                        .init("end", .bool(grants.end)),
                    ])),
            ]), key: key)
    }

    package static func server(expirySeconds: Int64, key: SigningKey) -> String? {
        token(.object([.init("scope", .string("admin")), .init("exp", .integer(expirySeconds))]), key: key)
    }
}
