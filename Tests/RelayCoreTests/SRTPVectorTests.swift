import CMediaCrypto
import Foundation
import RelayCore
import Testing

@testable import RelayCore

@Suite("SRTP vectors")
struct SRTPVectorTests {
    /// Rows of srtp_packets.json that name master or session keys of a profile that we negotiate.
    private func makeCipher(_ row: [String: Any], _ backend: SRTPCipher.Backend) -> SRTPCipher? {
        guard let name = row["profile"] as? String, let profile = SRTPFixtures.profile(name) else { return nil }
        if let key = row["master_key"] as? String, let salt = row["master_salt"] as? String {
            return .create(
                profile: profile, masterKey: SRTPFixtures.bytes(key), masterSalt: SRTPFixtures.bytes(salt),
                backend: backend)
        }
        guard let key = row["session_key"] as? String, let salt = row["session_salt"] as? String else { return nil }
        let keyBytes = SRTPFixtures.bytes(key), saltBytes = SRTPFixtures.bytes(salt)
        return SRTPCipher(
            profile: profile,
            keys: SRTPSessionKeys(
                key: keyBytes, authentication: [], salt: saltBytes, controlKey: keyBytes, controlAuthentication: [],
                controlSalt: saltBytes),
            backend: backend)
    }

    private func rows(_ key: String, kind: String) -> [[String: Any]] {
        SRTPFixtures.list("srtp_packets", key).filter {
            $0["kind"] as? String == kind && SRTPFixtures.profile($0["profile"] as? String ?? "") != nil
        }
    }

    private func hex(_ row: [String: Any], _ key: String) -> [UInt8] {
        SRTPFixtures.bytes(row[key] as? String ?? "")
    }

    @Test("every RTP case seals to the published bytes", arguments: SRTPFixtures.backends)
    func sealsRTP(backend: SRTPCipher.Backend) throws {
        let cases = rows("cases", kind: "rtp")
        #expect(cases.count == 23)
        for row in cases {
            let cipher = try #require(makeCipher(row, backend))
            defer { cipher.destroy() }
            let sealed = cipher.sealed(hex(row, "plain"), rollover: UInt32(row["roc"] as? Int ?? 0))
            #expect(sealed == hex(row, "protected"), "\(row["name"] ?? "")")
        }
    }

    @Test("every RTP case opens to the published bytes", arguments: SRTPFixtures.backends)
    func opensRTP(backend: SRTPCipher.Backend) throws {
        for row in rows("cases", kind: "rtp") {
            let cipher = try #require(makeCipher(row, backend))
            defer { cipher.destroy() }
            let opened = cipher.opened(hex(row, "protected"), rollover: UInt32(row["roc"] as? Int ?? 0))
            #expect(opened == hex(row, "plain"), "\(row["name"] ?? "")")
        }
    }

    @Test("every RTCP case seals to the published bytes", arguments: SRTPFixtures.backends)
    func sealsRTCP(backend: SRTPCipher.Backend) throws {
        let cases = rows("cases", kind: "rtcp")
        #expect(cases.count == 9)
        for row in cases {
            let cipher = try #require(makeCipher(row, backend))
            defer { cipher.destroy() }
            let index = try #require(row["srtcp_index"] as? Int)
            #expect(
                cipher.sealedRTCP(hex(row, "plain"), index: UInt32(index)) == hex(row, "protected"),
                "\(row["name"] ?? "")")
        }
    }

    @Test("every RTCP case opens to the published bytes and index", arguments: SRTPFixtures.backends)
    func opensRTCP(backend: SRTPCipher.Backend) throws {
        for row in rows("cases", kind: "rtcp") {
            let cipher = try #require(makeCipher(row, backend))
            defer { cipher.destroy() }
            let opened = try #require(cipher.openedRTCP(hex(row, "protected")), "\(row["name"] ?? "")")
            #expect(opened.plain == hex(row, "plain"), "\(row["name"] ?? "")")
            #expect(Int(opened.index) == row["srtcp_index"] as? Int, "\(row["name"] ?? "")")
        }
    }

    @Test("every RTP drop row is refused", arguments: SRTPFixtures.backends)
    func dropsRTP(backend: SRTPCipher.Backend) throws {
        let drops = rows("drop", kind: "rtp")
        #expect(drops.count > 20)
        for row in drops {
            let cipher = try #require(makeCipher(row, backend))
            defer { cipher.destroy() }
            #expect(cipher.opened(hex(row, "protected"), rollover: 0) == nil, "\(row["name"] ?? "")")
        }
    }

    @Test("every RTCP drop row is refused", arguments: SRTPFixtures.backends)
    func dropsRTCP(backend: SRTPCipher.Backend) throws {
        let drops = rows("drop", kind: "rtcp")
        #expect(drops.count > 10)
        for row in drops {
            let cipher = try #require(makeCipher(row, backend))
            defer { cipher.destroy() }
            #expect(cipher.openedRTCP(hex(row, "protected")) == nil, "\(row["name"] ?? "")")
        }
    }

    @Test("cryptex rows (RFC 9335) are refused, because header encryption is never negotiated", arguments: SRTPFixtures.backends)
    func refusesCryptex(backend: SRTPCipher.Backend) throws {
        let cryptex = SRTPFixtures.list("srtp_packets", "cryptex").filter {
            SRTPFixtures.profile($0["profile"] as? String ?? "") != nil
        }
        #expect(!cryptex.isEmpty)
        for row in cryptex {
            let cipher = try #require(makeCipher(row, backend))
            defer { cipher.destroy() }
            // Counter mode authenticates the packet as it stands, so it verifies; its extension block stays scrambled and
            // names no known profile. GCM's associated data differs, so it does not verify.
            let opened = cipher.opened(hex(row, "protected"), rollover: 0)
            #expect(opened != hex(row, "plain"), "\(row["name"] ?? "")")
        }
    }

    @Test("session keys come out of the key derivation as published")
    func derivesKeys() throws {
        let labels: [(UInt8, String)] = [
            (0, "rtp_cipher"), (1, "rtp_auth"), (2, "rtp_salt"), (3, "rtcp_cipher"), (4, "rtcp_auth"), (5, "rtcp_salt"),
        ]
        let rows = SRTPFixtures.list("srtp_kdf").filter {
            SRTPFixtures.profile($0["profile"] as? String ?? "") != nil && $0["rtp_cipher"] != nil
        }
        #expect(rows.count == 2)
        for row in rows {
            for (label, key) in labels {
                let expected = hex(row, key)
                var out = [UInt8](repeating: 0, count: expected.count)
                mc_srtp_kdf(
                    hex(row, "master_key"), hex(row, "master_salt"), hex(row, "master_salt").count, label, &out,
                    out.count)
                #expect(out == expected, "\(row["name"] ?? "") \(key)")
            }
        }
    }

    @Test("the 94-octet key of RFC 3711 B.3 comes out whole")
    func derivesLongKey() throws {
        let row = try #require(SRTPFixtures.list("srtp_kdf").first { $0["auth_key_94"] != nil })
        var out = [UInt8](repeating: 0, count: 94)
        mc_srtp_kdf(hex(row, "master_key"), hex(row, "master_salt"), 14, 1, &out, 94)
        #expect(out == hex(row, "auth_key_94"))
    }

    @Test("the AES-CM key stream is that of RFC 3711 B.2")
    func keyStream() throws {
        let row = try #require(SRTPFixtures.list("srtp_kdf", "keystream").first { $0["name"] as? String == "rfc3711-B.2" })
        let iv = hex(row, "iv")
        let high = iv.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }, low = iv.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
        let zeros = [UInt8](repeating: 0, count: 65282 * 16)
        var stream = zeros
        mc_cm_crypt_raw(hex(row, "key"), high, low, zeros, zeros.count, &stream)
        for block in row["blocks"] as? [[Any]] ?? [] {
            let number = try #require(block[0] as? Int), expected = SRTPFixtures.bytes(block[1] as? String ?? "")
            #expect(Array(stream[number * 16..<number * 16 + 16]) == expected, "block \(number)")
        }
    }

    @Test("HMACs of RFC 2202 and RFC 4231 come out as published")
    func hmac() throws {
        var checked = 0
        for row in SRTPFixtures.list("hmac") {
            let key = hex(row, "key"), data = hex(row, "data"), expected = hex(row, "mac")
            switch row["alg"] as? String {
            case "HMAC-SHA1", "hmac-sha1", "sha1":
                var mac = [UInt8](repeating: 0, count: 20)
                mc_hmac_sha1_segments(key, key.count, data, data.count, nil, 0, nil, 0, &mac)
                #expect(mac == expected, "\(row["name"] ?? "")")
            case "HMAC-SHA256", "hmac-sha256", "sha256":
                var mac = [UInt8](repeating: 0, count: 32)
                mc_hmac_sha256(key, key.count, data, data.count, &mac)
                #expect(mac == expected, "\(row["name"] ?? "")")
            default: continue
            }
            checked += 1
        }
        #expect(checked == 11)
    }
}
