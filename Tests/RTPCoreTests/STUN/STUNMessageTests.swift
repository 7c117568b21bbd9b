import RTPCore
import RelayTesting
import Testing

@Suite("STUN message")
struct STUNMessageTests {
    static let rows = VectorFile("stun").rows()
    static let accepted = rows.filter { $0["expect"].string == "accept" }
    static let malformed = rows.filter {
        $0.name.hasPrefix("malformed-") && $0.name != "malformed-header-only-request"
    }
    static func row(_ name: String) -> [UInt8] { rows.first { $0.name == name }?.bytes ?? [] }

    @Test("class, method and transaction of every accepted message", arguments: accepted)
    func header(_ row: VectorRow) throws {
        let message = try #require(STUNMessage.read(row.bytes))
        #expect("\(message.messageClass)" == row["cls"].string)
        #expect(Int(message.method) == row["method"].integer)
        let transaction = try #require(row["tid"].bytes)
        #expect(message.transactionID.high == transaction.span.uint32(at: 0))
        #expect(message.transactionID.low == transaction.span.uint64(at: 4))
    }

    @Test("the attributes of every accepted message are found", arguments: accepted)
    func attributes(_ row: VectorRow) throws {
        let bytes = row.bytes
        let message = try #require(STUNMessage.read(bytes))
        let attributes = row["attributes"].array ?? []
        func value(_ type: Int) -> [UInt8]? {
            attributes.first { $0["type"].integer == type }?["value"].bytes
        }
        #expect(message.username(in: bytes) == value(0x0006))
        #expect(message.priority == value(0x0024).map { $0.span.uint32(at: 0) })
        #expect(message.iceControlled == value(0x8029).map { $0.span.uint64(at: 0) })
        #expect(message.iceControlling == value(0x802A).map { $0.span.uint64(at: 0) })
        #expect(message.hasUseCandidate == (value(0x0025) != nil))
        #expect(message.hasIntegrity == (value(0x0008) != nil))
        #expect(message.hasFingerprint == (value(0x8028) != nil))
        #expect(message.firstUnknownRequired == nil)
    }

    @Test("fields that a vector names in words are read so", arguments: accepted)
    func namedFields(_ row: VectorRow) throws {
        let message = try #require(STUNMessage.read(row.bytes))
        if let priority = row["priority"].integer { #expect(message.priority == UInt32(priority)) }
        if let tieBreaker = row["ice_controlled"].unsigned { #expect(message.iceControlled == tieBreaker) }
        if row["nominated"].bool == true { #expect(message.hasUseCandidate) }
        #expect(message.hasFingerprint == (row["fingerprint"].string == "valid"))
    }

    @Test(
        "the HMAC of every authentic message is verified by prefix and adjusted length",
        arguments: accepted.filter { !$0["hmac_key"].isNull })
    func integrity(_ row: VectorRow) throws {
        let bytes = row.bytes
        let message = try #require(STUNMessage.read(bytes))
        let key = try #require(row["hmac_key"].bytes)
        #expect(message.isAuthentic(bytes, key: key))
        #expect(!message.isAuthentic(bytes, key: key + [1]))
    }

    @Test(
        "XOR-MAPPED-ADDRESS of every response",
        arguments: accepted.filter { !$0["xor_mapped_address"].isNull })
    func mappedAddress(_ row: VectorRow) throws {
        let message = try #require(STUNMessage.read(row.bytes))
        let text = try #require(row["xor_mapped_address"][0].string)
        let port = UInt16(try #require(row["xor_mapped_address"][1].integer))
        #expect(message.mappedAddress == PeerAddress(address: text, port: port))
    }

    @Test("every malformed message is refused", arguments: malformed)
    func malformedMessages(_ row: VectorRow) {
        #expect(STUNMessage.refusal(of: row.bytes) != nil)
        #expect(STUNMessage.read(row.bytes) == nil)
    }

    @Test(
        "refusals say what is wrong",
        arguments: [
            ("malformed-empty", .tooShort), ("malformed-19-bytes", .tooShort),
            ("malformed-bad-cookie", .notSTUN),
            ("malformed-top-bits-set", .notSTUN), ("malformed-len-too-long", .lengthMismatch),
            ("malformed-len-too-short", .lengthMismatch), ("malformed-trailing-bytes", .lengthMismatch),
            ("malformed-len-not-multiple-of-4", .lengthMismatch),
            ("malformed-attr-overruns", .attributeOverrun),
            ("malformed-attr-length-ffff", .attributeOverrun),
            ("malformed-mi-length-19", .malformedAttribute),
            ("malformed-zero-length-xor-mapped", .malformedAttribute),
            ("username-513-bytes", .malformedAttribute),
            ("malformed-xor-mapped-bad-family", .malformedAttribute), ("bad-fingerprint", .badFingerprint),
            ("malformed-xor-mapped-v4-with-v6-len", .malformedAttribute),
            ("rfc8489-B.1-sha256-hmac-only", .lengthMismatch),
        ] as [(String, STUNRefusal)])
    func reasons(_ name: String, _ reason: STUNRefusal) {
        #expect(STUNMessage.refusal(of: Self.row(name)) == reason)
    }

    @Test(
        "a message made with another key is well-formed but not authentic",
        arguments: ["bad-mi-bit", "bad-mi-no-fingerprint"])
    func otherKey(_ name: String) throws {
        let bytes = Self.row(name)
        let message = try #require(STUNMessage.read(bytes))
        #expect(message.hasIntegrity)
        #expect(!message.isAuthentic(bytes, key: Array("srvPwd0123456789abcdef".utf8)))
    }

    @Test("what a media port does not answer is visible: no username, no integrity, another method")
    func reasonsForSilence() throws {
        #expect(try #require(STUNMessage.read(Self.row("no-username"))).hasUsername == false)
        #expect(try #require(STUNMessage.read(Self.row("no-mi"))).hasIntegrity == false)
        #expect(
            try #require(STUNMessage.read(Self.row("malformed-header-only-request"))).hasIntegrity == false)
        #expect(try #require(STUNMessage.read(Self.row("unsolicited-success"))).messageClass == .success)
    }

    @Test(
        "TURN methods are told from Binding",
        arguments: [
            ("turn-allocate", 3), ("turn-refresh", 4), ("turn-create-permission", 8),
            ("turn-channel-bind", 9),
            ("turn-connect", 10),
        ] as [(String, UInt16)])
    func turnMethods(_ name: String, _ method: UInt16) throws {
        #expect(try #require(STUNMessage.read(Self.row(name))).method == method)
    }

    @Test("an authentic request with an unknown required attribute names it")
    func unknownRequired() throws {
        let bytes = Self.row("unknown-required-attr")
        let message = try #require(STUNMessage.read(bytes))
        #expect(message.firstUnknownRequired == 0x0031)
        #expect(message.isAuthentic(bytes, key: Array("srvPwd0123456789abcdef".utf8)))
    }

    @Test("a peer that claims to be controlled is recognised")
    func roleConflict() throws {
        let message = try #require(STUNMessage.read(Self.row("role-conflict-controlled")))
        #expect(message.iceControlled == 5)
        #expect(message.iceControlling == nil)
    }

    @Test("rfc8489 9: USE-CANDIDATE behind MESSAGE-INTEGRITY does not count")
    func useCandidateAfterIntegrity() throws {
        let bytes = Self.row("attr-after-mi")
        let message = try #require(STUNMessage.read(bytes))
        #expect(!message.hasUseCandidate)
        #expect(message.isAuthentic(bytes, key: Array("srvPwd0123456789abcdef".utf8)))
    }

    @Test("rfc8489 14: of a repeated attribute the first counts")
    func repeatedUsername() throws {
        let bytes = Self.row("username-twice")
        let message = try #require(STUNMessage.read(bytes))
        #expect(message.usernameIs("srvU", "cliF", in: bytes))
        #expect(message.firstUnknownRequired == nil)
    }

    @Test("every prefix and every changed byte of every message is read without a trap")
    func mutations() {
        var count = 0
        for row in Self.rows where row.bytes.count < 200 {
            count += readEveryMutation(of: row.bytes) { bytes in
                guard let message = STUNMessage.read(bytes) else { return }
                _ = message.usernameParts(in: bytes.span)
                _ = message.integrity(in: bytes.span)
                #expect(message.integrityPrefixByteCount <= bytes.count)
            }
        }
        #expect(count > 10_000)
    }

    @Test(
        "every fuzz seed of any protocol is read without a trap, and no STUN seed with a bad cookie is accepted"
    )
    func fuzzSeeds() {
        for seed in VectorFile("fuzz_seeds").rows() {
            let message = STUNMessage.read(seed.bytes)
            if seed["reference"].string == "refused: bad cookie" { #expect(message == nil) }
        }
    }
}
