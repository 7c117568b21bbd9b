import CMediaCrypto
import RelayTesting
import Testing

@testable import RelayCore

extension VectorRow {
    fileprivate func hex(_ field: String) -> [UInt8] { self[field].bytes ?? [] }

    /// The cipher of a row that names master keys, or session keys as RFC 7714 does.
    fileprivate func cipher(_ backend: SRTPCipher.Backend) -> SRTPCipher? {
        guard let profile = SRTPFixtures.profile(self["profile"].string ?? "") else { return nil }
        guard self["master_key"].isNull else {
            return .create(
                profile: profile, masterKey: hex("master_key"), masterSalt: hex("master_salt"),
                backend: backend)
        }
        return SRTPCipher(
            profile: profile,
            keys: SRTPSessionKeys(
                key: hex("session_key"), authentication: [], salt: hex("session_salt"),
                controlKey: hex("session_key"), controlAuthentication: [], controlSalt: hex("session_salt")),
            backend: backend)
    }

    fileprivate var rollover: UInt32 { UInt32(self["roc"].integer ?? 0) }
}

@Suite("SRTP packet vectors")
struct SRTPPacketVectorTests {
    @Test("the file has the rows that the tests below go over")
    func rowCounts() {
        #expect(SRTPFixtures.packets("cases", kind: "rtp").count == 23)
        #expect(SRTPFixtures.packets("cases", kind: "rtcp").count == 9)
        #expect(SRTPFixtures.packets("drop").count >= 35)
        #expect(SRTPFixtures.packets("cryptex").count >= 6)
    }

    @Test(
        "an RTP packet seals to the published bytes", arguments: SRTPFixtures.packets("cases", kind: "rtp"),
        SRTPFixtures.backends)
    func sealsRTP(row: VectorRow, backend: SRTPCipher.Backend) throws {
        let cipher = try #require(row.cipher(backend))
        defer { cipher.destroy() }
        #expect(cipher.sealed(row.hex("plain"), rollover: row.rollover) == row.hex("protected"))
    }

    @Test(
        "an RTP packet opens to the published bytes", arguments: SRTPFixtures.packets("cases", kind: "rtp"),
        SRTPFixtures.backends)
    func opensRTP(row: VectorRow, backend: SRTPCipher.Backend) throws {
        let cipher = try #require(row.cipher(backend))
        defer { cipher.destroy() }
        #expect(cipher.opened(row.hex("protected"), rollover: row.rollover) == row.hex("plain"))
    }

    @Test(
        "an RTCP packet seals to the published bytes", arguments: SRTPFixtures.packets("cases", kind: "rtcp"),
        SRTPFixtures.backends)
    func sealsRTCP(row: VectorRow, backend: SRTPCipher.Backend) throws {
        let cipher = try #require(row.cipher(backend))
        defer { cipher.destroy() }
        let index = try #require(row["srtcp_index"].integer)
        #expect(cipher.sealedRTCP(row.hex("plain"), index: UInt32(index)) == row.hex("protected"))
    }

    @Test(
        "an RTCP packet opens to the published bytes and index",
        arguments: SRTPFixtures.packets("cases", kind: "rtcp"), SRTPFixtures.backends)
    func opensRTCP(row: VectorRow, backend: SRTPCipher.Backend) throws {
        let cipher = try #require(row.cipher(backend))
        defer { cipher.destroy() }
        let opened = try #require(cipher.openedRTCP(row.hex("protected")))
        #expect(opened.plain == row.hex("plain"))
        #expect(Int(opened.index) == row["srtcp_index"].integer)
    }

    @Test(
        "an RTP packet that must be dropped is refused", arguments: SRTPFixtures.packets("drop", kind: "rtp"),
        SRTPFixtures.backends)
    func dropsRTP(row: VectorRow, backend: SRTPCipher.Backend) throws {
        let cipher = try #require(row.cipher(backend))
        defer { cipher.destroy() }
        #expect(cipher.opened(row.hex("protected"), rollover: 0) == nil)
    }

    @Test(
        "an RTCP packet that must be dropped is refused",
        arguments: SRTPFixtures.packets("drop", kind: "rtcp"),
        SRTPFixtures.backends)
    func dropsRTCP(row: VectorRow, backend: SRTPCipher.Backend) throws {
        let cipher = try #require(row.cipher(backend))
        defer { cipher.destroy() }
        #expect(cipher.openedRTCP(row.hex("protected")) == nil)
    }

    // Header encryption (RFC 9335) is never negotiated. Counter mode authenticates the packet as it stands on
    // the wire, so such a packet may verify; but nothing decrypts its CSRCs and extension.
    @Test(
        "a cryptex packet is not understood, because header encryption is not negotiated",
        arguments: SRTPFixtures.packets("cryptex"), SRTPFixtures.backends)
    func refusesCryptex(row: VectorRow, backend: SRTPCipher.Backend) throws {
        let cipher = try #require(row.cipher(backend))
        defer { cipher.destroy() }
        #expect(cipher.opened(row.hex("protected"), rollover: 0) != row.hex("plain"))
    }
}

@Suite("SRTP key derivation and MAC vectors")
struct SRTPKeyVectorTests {
    private static let derivations = VectorFile("srtp_kdf").rows().filter {
        SRTPFixtures.profile($0["profile"].string ?? "") != nil && !$0["rtp_cipher"].isNull
    }

    @Test("session keys come out of the key derivation as published", arguments: derivations)
    func derivesKeys(row: VectorRow) {
        let fields = ["rtp_cipher", "rtp_auth", "rtp_salt", "rtcp_cipher", "rtcp_auth", "rtcp_salt"]
        let salt = row.hex("master_salt")
        for (label, field) in fields.enumerated() {
            let expected = row.hex(field)
            var out = [UInt8](repeating: 0, count: expected.count)
            mc_srtp_kdf(row.hex("master_key"), salt, salt.count, UInt8(label), &out, out.count)
            #expect(out == expected, "\(field)")
        }
    }

    @Test("both profiles have derivation vectors")
    func bothProfiles() { #expect(Self.derivations.count == 2) }

    @Test("the 94-octet key of RFC 3711 B.3 comes out whole")
    func derivesLongKey() throws {
        let row = try #require(VectorFile("srtp_kdf").rows().first { !$0["auth_key_94"].isNull })
        var out = [UInt8](repeating: 0, count: 94)
        mc_srtp_kdf(row.hex("master_key"), row.hex("master_salt"), 14, 1, &out, 94)
        #expect(out == row.hex("auth_key_94"))
    }

    @Test("the AES-CM key stream is that of RFC 3711 B.2")
    func keyStream() throws {
        let row = try #require(VectorFile("srtp_kdf").rows("keystream").first { $0.name == "rfc3711-B.2" })
        let iv = row.hex("iv")
        let high = iv.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        let low = iv.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
        let zeros = [UInt8](repeating: 0, count: 65282 * 16)
        var stream = zeros
        mc_cm_crypt_raw(row.hex("key"), high, low, zeros, zeros.count, &stream)
        for block in try #require(row["blocks"].array) {
            let number = try #require(block[0].integer)
            #expect(Array(stream[number * 16..<number * 16 + 16]) == block[1].bytes, "block \(number)")
        }
    }

    @Test(
        "an HMAC-SHA1 of RFC 2202 comes out as published",
        arguments: VectorFile("hmac").rows().filter { $0["alg"].string == "HMAC-SHA1" })
    func hmacSHA1(row: VectorRow) {
        let key = row.hex("key")
        let data = row.hex("data")
        var mac = [UInt8](repeating: 0, count: 20)
        mc_hmac_sha1_segments(key, key.count, data, data.count, nil, 0, nil, 0, &mac)
        #expect(mac == row.hex("mac"))
    }

    @Test(
        "an HMAC-SHA256 of RFC 4231 comes out as published",
        arguments: VectorFile("hmac").rows().filter { $0["alg"].string == "HMAC-SHA256" })
    func hmacSHA256(row: VectorRow) {
        let key = row.hex("key")
        let data = row.hex("data")
        var mac = [UInt8](repeating: 0, count: 32)
        mc_hmac_sha256(key, key.count, data, data.count, &mac)
        #expect(mac == row.hex("mac"))
    }

    @Test("an HMAC-SHA1 over three segments is that over their concatenation")
    func hmacSegments() {
        let key = [UInt8]("key".utf8)
        let data = (0..<200).map { UInt8($0) }
        var whole = [UInt8](repeating: 0, count: 20)
        var parts = whole
        mc_hmac_sha1_segments(key, 3, data, 200, nil, 0, nil, 0, &whole)
        mc_hmac_sha1_segments(
            key, 3, Array(data[0..<2]), 2, Array(data[2..<4]), 2, Array(data[4...]), 196, &parts)
        #expect(parts == whole)
    }

    @Test("a comparison sees a difference in any byte")
    func equality() {
        let bytes = (0..<32).map { UInt8($0) }
        #expect(mc_equal(bytes, bytes, 32) == 1)
        for i in bytes.indices {
            var other = bytes
            other[i] ^= 0x80
            #expect(mc_equal(bytes, other, 32) == 0)
        }
    }
}
