import RelayCore
import RelayTesting
import Testing

@testable import MediaRelay
@testable import RelaySigning

@Suite("Tokens") struct TokenTests {
    static let secret = Array("0123456789abcdef0123456789abcdef".utf8)

    private func key(_ id: String = "k1") throws -> SigningKey { try SigningKey(id: id, secret: Self.secret) }

    private func verifier(_ keys: [SigningKey]) -> TokenVerifier {
        TokenVerifier(keys: keys, maxLifetimeSeconds: 43_200)
    }

    private func payload(_ changes: (String, JSONValue?)...) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("aud", .string("media-relay")), .init("sub", .string("alice")), .init("room", .string("r1")),
            .init("exp", .integer(1_100)),
        ]
        for (name, value) in changes {
            fields.removeAll { $0.name == name }
            if let value { fields.append(.init(name, value)) }
        }
        return .object(fields)
    }

    private func refusal(_ token: String, _ keys: [SigningKey], now: Int64 = 1_000) -> String? {
        do throws(TokenRefusal) {
            _ = try verifier(keys).verify(Array(token.utf8), nowSeconds: now)
            return nil
        } catch {
            return error.detail
        }
    }

    @Test("keys are the same when id, kind and secret are") func sameness() throws {
        #expect(try key().isSame(as: key()))
        #expect(try !key().isSame(as: key("k2")))
        #expect(try !key().isSame(as: SigningKey(id: "k1", secret: Self.secret + [0])))
    }

    @Test("every vector of tokens.json is accepted or refused as it says") func vectors() throws {
        for row in VectorFile("tokens").rows("cases") {
            let name = row["name"].string ?? ""
            guard let token = row["token"].string, let secret = row["key"].bytes else {
                Issue.record("\(name) has no token or key")
                continue
            }
            guard secret.count >= 32 else {
                #expect(throws: SigningKey.Failure.self, "\(name)") { try SigningKey(id: "k", secret: secret) }
                continue
            }
            let key = try SigningKey(id: "k", secret: secret)
            let now = row["now"].integer ?? 1_300_819_381
            let verifier = TokenVerifier(keys: [key], maxLifetimeSeconds: 43_200)
            let claims = try? verifier.verify(Array(token.utf8), nowSeconds: Int64(now))
            var isAccepted = claims.map { !$0.isExpired } ?? false
            if case .participant(let identity)? = claims?.principal, let room = row["expected_room"].string {
                isAccepted = isAccepted && identity.room.text == room
            }
            #expect(isAccepted == (row["expect"].string == "accept"), "\(name)")
        }
    }

    @Test("a participant's token names user, device, room and grants") func participant() throws {
        let grants = Grants(publishAudio: true, publishVideo: false, subscribe: true, end: true)
        let room = try #require(RoomID("r1"))
        let token = try #require(
            TokenMint.participant(
                uid: "alice", device: "phone", room: room, expirySeconds: 2_000, grants: grants, key: try key()))
        let claims = try verifier([try key()]).verify(Array(token.utf8), nowSeconds: 1_000)
        #expect(
            claims.principal
                == .participant(ParticipantIdentity(uid: "alice", device: "phone", room: room, grants: grants)))
    }

    @Test("the server's token names the key that signed it") func server() throws {
        let token = try #require(TokenMint.server(expirySeconds: 2_000, key: try key("prod-2")))
        let claims = try verifier([try key("prod-1"), try key("prod-2")]).verify(Array(token.utf8), nowSeconds: 1_000)
        #expect(claims.principal == .server(keyID: "prod-2"))
    }

    @Test("an expired server token is refused, an expired participant's is marked") func expired() throws {
        let server = try #require(TokenMint.server(expirySeconds: 900, key: try key()))
        #expect(refusal(server, [try key()]) == "expired")
        let token = try #require(TokenMint.token(payload(("exp", .integer(900))), key: try key()))
        #expect(try verifier([try key()]).verify(Array(token.utf8), nowSeconds: 1_000).isExpired)
    }

    @Test("a token that lives longer than allowed is refused") func lifetime() throws {
        let token = try #require(TokenMint.token(payload(("exp", .integer(1_000 + 43_206))), key: try key()))
        #expect(refusal(token, [try key()])?.contains("maxTokenLifetime") == true)
    }

    @Test("without kid there must be exactly one key") func noKeyID() throws {
        let text = Base64URL.encode(Array(#"{"alg":"HS256"}"#.utf8)) + "." + Base64URL.encode(JSONText.of(payload()))
        let token = text + "." + Base64URL.encode(try #require(try key().sign(Array(text.utf8))))
        #expect(refusal(token, [try key()]) == nil)
        #expect(refusal(token, [try key("a"), try key("b")]) == "no kid, and there are 2 keys")
    }

    @Test("an unknown kid is refused") func unknownKeyID() throws {
        let token = try #require(TokenMint.token(payload(), key: try key("other")))
        #expect(refusal(token, [try key()]) == "unknown kid")
    }

    @Test("a uid, device or room that is not an identifier is refused", arguments: ["sub", "device", "room"])
    func identifiers(_ name: String) throws {
        let token = try #require(TokenMint.token(payload((name, .string("a\r\nb"))), key: try key()))
        #expect(refusal(token, [try key()])?.hasPrefix(name) == true)
    }

    @Test("grants of the wrong type are refused") func grantTypes() throws {
        let grants = JSONValue.object([.init("subscribe", .string("yes"))])
        let token = try #require(TokenMint.token(payload(("grants", grants)), key: try key()))
        #expect(refusal(token, [try key()])?.contains("grants.subscribe") == true)
    }

    @Test("an elliptic key signs and verifies, and refuses HS256 with its public key as secret") func elliptic() throws
    {
        let pem = Array(Self.privatePEM.utf8)
        let key = try SigningKey(id: "e", pem: pem)
        let token = try #require(TokenMint.token(payload(), key: key))
        #expect(refusal(token, [key]) == nil)
        let publicKey = try SigningKey(id: "e", pem: Array(Self.publicPEM.utf8))
        #expect(refusal(token, [publicKey]) == nil)
        #expect(publicKey.sign([1]) == nil)
        let confused = try SigningKey(id: "e", secret: Array(Self.publicPEM.utf8))
        let forged = try #require(TokenMint.token(payload(), key: confused))
        #expect(refusal(forged, [publicKey])?.contains("alg is not ES256") == true)
    }

    @Test("one changed character anywhere in a token is refused") func flips() throws {
        let token = Array(try #require(TokenMint.token(payload(), key: try key())).utf8)
        let key = try key()
        for index in token.indices {
            var changed = token
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(refusal(String(decoding: changed, as: UTF8.self), [key]) != nil, "at \(index)")
        }
    }

    @Test("a secret of 31 bytes is refused and one of 32 is taken") func secretLength() {
        #expect(throws: SigningKey.Failure.shortSecret(byteCount: 31)) {
            try SigningKey(id: "k", secret: [UInt8](repeating: 7, count: 31))
        }
        #expect((try? SigningKey(id: "k", secret: [UInt8](repeating: 7, count: 32))) != nil)
    }

    @Test("a key does not show its secret") func redaction() throws {
        #expect("\(try key())" == "SigningKey(k1, redacted)")
        let secret = try WebhookSecret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
        #expect("\(secret)" == "WebhookSecret(redacted)")
        #expect("\(ICECredentials(ufrag: "abcd", password: "0123456789"))" == "ICECredentials(abcd, redacted)")
        var text = ""
        dump(try key(), to: &text)
        dump(secret, to: &text)
        // The secrets' first bytes.
        #expect(text.contains("32 secret bytes") && !text.contains("- 48\n") && !text.contains("- 49\n"))
    }

    @Test("a secret is zero once nobody has it any more") func wiping() {
        let secret = SecretBytes([1, 2, 3])
        secret.wipe()
        #expect(secret.bytes == [0, 0, 0] && secret != SecretBytes([1, 2, 3]))
    }

    @Test("base64url has one spelling for one value") func base64() {
        #expect(Base64URL.encode([0xFB, 0xFF]) == "-_8")
        #expect(Base64URL.decode(Array("-_8".utf8)) == [0xFB, 0xFF])
        #expect(Base64URL.decode(Array("-_9".utf8)) == nil)
        #expect(Base64URL.decode(Array("-_8=".utf8)) == nil)
        #expect(Base64URL.decode(Array("+/8".utf8)) == nil)
        #expect(Base64URL.decode(Array("A".utf8)) == nil)
        #expect(Base64URL.decode([]) == [])
    }

    // A key pair made for this test and used nowhere else.
    static let privatePEM = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgclxbNu0gDZPcshL7
        VIAHAkFoGZxxFyrVD4pyQYlsTgWhRANCAASNvW7TudCsyQuMOA8f1Dq2Ys794QFM
        HYHRpzJJ4bLZfIXe+gEWcS3DmKHiar870KJBpXWIgc/0MdR8f4+N/UnQ
        -----END PRIVATE KEY-----
        """
    static let publicPEM = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjb1u07nQrMkLjDgPH9Q6tmLO/eEB
        TB2B0acySeGy2XyF3voBFnEtw5ih4mq/O9CiQaV1iIHP9DHUfH+Pjf1J0A==
        -----END PUBLIC KEY-----
        """
}
