import RTPCore
import RelayTesting
import Testing

@Suite("STUN case I01")
struct STUNCaseI01Tests {
    static let hexes =
        VectorFile(fixture: "cases/cases.json").root.array?
        .first { $0["id"].string == "I01" }?["input"]["value"] ?? .null
    static let key = Array("serverPassword0123456789".utf8)
    static func bytes(_ name: String) throws -> [UInt8] { try #require(hexes[name].bytes) }

    @Test("the good check is authentic, nominates, and its optional attribute 0xC057 is ignored")
    func goodCheck() throws {
        let bytes = try Self.bytes("stun_ok")
        let message = try #require(STUNMessage.read(bytes))
        #expect(message.isAuthentic(bytes, key: Self.key))
        #expect(message.usernameIs("srvU", "cliU", in: bytes))
        #expect(message.hasUseCandidate)
        #expect(message.firstUnknownRequired == nil)
    }

    @Test("an indication with only a fingerprint is read as one")
    func indication() throws {
        let message = try #require(STUNMessage.read(try Self.bytes("stun_indication_fp_only")))
        #expect(message.messageClass == .indication)
        #expect(message.hasFingerprint)
        #expect(!message.hasUsername)
        #expect(!message.hasIntegrity)
    }

    @Test("requests without username or integrity show it")
    func incompleteRequests() throws {
        let anonymous = try #require(STUNMessage.read(try Self.bytes("stun_request_no_username")))
        #expect(!anonymous.hasUsername)
        #expect(anonymous.hasIntegrity)
        let unsigned = try #require(STUNMessage.read(try Self.bytes("stun_request_no_integrity")))
        #expect(unsigned.hasUsername)
        #expect(!unsigned.hasIntegrity)
    }

    @Test("a wrong password is not authentic")
    func wrongPassword() throws {
        let bytes = try Self.bytes("stun_wrong_pwd")
        #expect(try #require(STUNMessage.read(bytes)).isAuthentic(bytes, key: Self.key) == false)
    }

    @Test("a bad fingerprint is refused")
    func badFingerprint() throws {
        #expect(STUNMessage.refusal(of: try Self.bytes("stun_bad_fp")) == .badFingerprint)
    }

    @Test("USE-CANDIDATE behind the integrity does not nominate an authentic check")
    func useCandidateBehindIntegrity() throws {
        let bytes = try Self.bytes("stun_use_after_mi")
        let message = try #require(STUNMessage.read(bytes))
        #expect(message.isAuthentic(bytes, key: Self.key))
        #expect(!message.hasUseCandidate)
    }

    @Test("the unknown required attribute 0x7F00 is named")
    func unknownRequired() throws {
        let bytes = try Self.bytes("stun_unknown_required_7f00")
        let message = try #require(STUNMessage.read(bytes))
        #expect(message.isAuthentic(bytes, key: Self.key))
        #expect(message.firstUnknownRequired == 0x7F00)
    }

    @Test("an attribute that overruns is refused")
    func overrun() throws {
        #expect(STUNMessage.refusal(of: try Self.bytes("stun_attr_overrun")) == .attributeOverrun)
    }

    @Test("every proper prefix of the good check is refused")
    func prefixes() throws {
        let bytes = try Self.bytes("stun_ok")
        for count in 0..<bytes.count {
            #expect(STUNMessage.refusal(of: Array(bytes.prefix(count))) != nil, "prefix of \(count) bytes")
        }
    }

    @Test("another magic cookie or a length that is no multiple of four is refused")
    func changedHeader() throws {
        var bytes = try Self.bytes("stun_ok")
        bytes[4] ^= 1
        #expect(STUNMessage.refusal(of: bytes) == .notSTUN)
        bytes[4] ^= 1
        bytes[3] += 1
        #expect(STUNMessage.refusal(of: bytes + [0]) == .lengthMismatch)
    }

    @Test("the largest UDP datagram is read without a trap")
    func largestDatagram() {
        var bytes = [UInt8](repeating: 0, count: 65_507)
        bytes.replaceSubrange(0..<8, with: [0, 1, 0xFF, 0xCF, 0x21, 0x12, 0xA4, 0x42])
        #expect(STUNMessage.refusal(of: bytes) == .lengthMismatch)
        bytes.removeLast(3)
        bytes[3] = 0xCC
        // 16371 empty attributes of type 0, which nobody understands.
        #expect(STUNMessage.read(bytes)?.firstUnknownRequired == 0)
    }
}
