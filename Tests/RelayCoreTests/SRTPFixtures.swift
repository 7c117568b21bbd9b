import CMediaCrypto
import RelayCore
import RelayTesting
import Testing

// The SRTP vectors as Swift values, and packets made from a seed.

enum SRTPFixtures {
    /// Rows of a list of srtp_packets.json whose profile is one that we negotiate.
    static func packets(_ list: String, kind: String? = nil) -> [VectorRow] {
        VectorFile("srtp_packets").rows(list).filter { row in
            profile(row["profile"].string ?? "") != nil && (kind == nil || row["kind"].string == kind)
        }
    }

    static func profile(_ name: String) -> SRTPProfile? {
        switch name {
        case "AES_CM_128_HMAC_SHA1_80": .aes128CMSHA1_80
        case "AEAD_AES_128_GCM": .aeadAES128GCM
        default: nil
        }
    }

    /// Every back end that this host has; tests must not silently run on one only.
    static let backends = SRTPCipher.Backend.allCases.filter { $0 != .automatic && $0.isAvailable }

    static func masterKey(_ profile: SRTPProfile, _ seed: UInt8 = 1) -> (key: [UInt8], salt: [UInt8]) {
        (
            (0..<16).map { UInt8(truncatingIfNeeded: $0 * 13) &+ seed },
            (0..<profile.saltByteCount).map { UInt8(truncatingIfNeeded: $0 * 29) &+ seed }
        )
    }

    static func headerByteCount(_ packet: [UInt8]) -> Int {
        var count = 12 + 4 * Int(packet[0] & 15)
        if packet[0] & 0x10 != 0, packet.count >= count + 4 {
            count += 4 + 4 * (Int(packet[count + 2]) << 8 | Int(packet[count + 3]))
        }
        return count
    }

    static func word(_ packet: [UInt8], _ offset: Int) -> UInt32 {
        packet[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
    static func number(_ packet: [UInt8]) -> UInt16 { UInt16(packet[2]) << 8 | UInt16(packet[3]) }

    /// An RTP packet with `csrcCount` CSRCs and an extension of `extensionWords` words (none when negative).
    static func packet(
        _ sequenceNumber: UInt16, ssrc: UInt32 = 0xCAFE_BABE, csrcCount: Int = 0, extensionWords: Int = -1,
        payload: [UInt8]
    ) -> [UInt8] {
        var bytes: [UInt8] = [0x80 | UInt8(csrcCount) | (extensionWords >= 0 ? 0x10 : 0), 111]
        bytes += [UInt8(sequenceNumber >> 8), UInt8(sequenceNumber & 255), 0, 0, 0, 1]
        bytes += (0..<4).map { UInt8(truncatingIfNeeded: ssrc >> UInt32(24 - 8 * $0)) }
        bytes += (0..<csrcCount * 4).map { UInt8($0) }
        if extensionWords >= 0 {
            bytes += [0xBE, 0xDE, UInt8(extensionWords >> 8), UInt8(extensionWords & 255)]
            bytes += (0..<extensionWords * 4).map { $0 % 4 == 0 ? 0x12 : UInt8($0) }
        }
        return bytes + payload
    }
}

/// Profile and back end: what every behaviour is tested over. Counter mode runs on EVP alone.
struct SRTPVariant: Sendable, CustomTestStringConvertible {
    var profile: SRTPProfile
    var backend: SRTPCipher.Backend
    var testDescription: String { "\(profile)/\(backend)" }

    static let all: [SRTPVariant] =
        SRTPFixtures.backends.map { SRTPVariant(profile: .aeadAES128GCM, backend: $0) }
        + [SRTPVariant(profile: .aes128CMSHA1_80, backend: .openSSL)]

    func cipher(_ seed: UInt8 = 1) -> SRTPCipher {
        let master = SRTPFixtures.masterKey(profile, seed)
        return .create(profile: profile, masterKey: master.key, masterSalt: master.salt, backend: backend)
    }
    func oracle(_ direction: SRTPOracle.Direction, _ seed: UInt8 = 1, ssrc: UInt32? = nil) throws
        -> SRTPOracle
    {
        let master = SRTPFixtures.masterKey(profile, seed)
        return try SRTPOracle(
            profile: profile, masterKey: master.key, masterSalt: master.salt, direction: direction, ssrc: ssrc
        )
    }
}

extension SRTPCipher {
    /// Seals a whole plain packet by its own header and SSRC.
    func sealed(_ packet: [UInt8], rollover: UInt32) -> [UInt8] {
        let header = SRTPFixtures.headerByteCount(packet)
        return sealed(
            header: Array(packet.prefix(header)), payload: Array(packet.dropFirst(header)),
            ssrc: SRTPFixtures.word(packet, 8),
            index: UInt64(rollover) << 16 | UInt64(SRTPFixtures.number(packet)))
    }
    func opened(_ packet: [UInt8], rollover: UInt32) -> [UInt8]? {
        guard packet.count >= 12 else { return nil }
        return openedRTP(
            packet, headerByteCount: SRTPFixtures.headerByteCount(packet), ssrc: SRTPFixtures.word(packet, 8),
            index: UInt64(rollover) << 16 | UInt64(SRTPFixtures.number(packet)))
    }
}

enum SRTPTestPrimitives {
    static func derive(_ key: [UInt8], _ salt: [UInt8], label: UInt8, into out: inout [UInt8]) {
        mc_srtp_kdf(key, salt, salt.count, label, &out, out.count)
    }
    static func hmac(_ key: [UInt8], _ data: [UInt8]) -> [UInt8] {
        var mac = [UInt8](repeating: 0, count: 20)
        mc_hmac_sha1_segments(key, key.count, data, data.count, nil, 0, nil, 0, &mac)
        return mac
    }
}
