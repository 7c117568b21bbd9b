import RTPCore
import RelayTesting
import Testing

@testable import RelayCore

/// A deterministic plan of packets with all kinds of headers.
private func packets(count: Int, firstNumber: UInt16, seed: UInt64) -> [[UInt8]] {
    var random = RandomSource.seeded(seed)
    return (0..<count).map { i in
        let payload = (0..<Int.random(in: 0...1400, using: &random)).map { _ in
            UInt8.random(in: 0...255, using: &random)
        }
        return SRTPFixtures.packet(
            firstNumber &+ UInt16(i), csrcCount: Int.random(in: 0...15, using: &random),
            extensionWords: Int.random(in: -1...8, using: &random), payload: payload)
    }
}

private func compounds(count: Int, seed: UInt64) -> [[UInt8]] {
    var random = RandomSource.seeded(seed)
    return (0..<count).map { _ in
        let words = Int.random(in: 0...320, using: &random)
        return [0x80, 201, UInt8(words >> 8), UInt8(words & 255), 0xCA, 0xFE, 0xBA, 0xBE]
            + (0..<words * 4).map { _ in UInt8.random(in: 0...255, using: &random) }
    }
}

@Suite("SRTP beside libsrtp2")
struct SRTPOracleTests {
    @Test("random packets with CSRCs and extensions seal to libsrtp2's bytes", arguments: SRTPVariant.all)
    func sealsLikeOracle(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.sending)
        defer { cipher.destroy() }
        for packet in packets(count: 300, firstNumber: 1000, seed: 1) {
            #expect(cipher.sealed(packet, rollover: 0) == (try oracle.protectRTP(packet)))
        }
    }

    @Test("what libsrtp2 seals opens to the plain packet", arguments: SRTPVariant.all)
    func opensOracle(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.sending)
        defer { cipher.destroy() }
        for packet in packets(count: 300, firstNumber: 1000, seed: 2) {
            #expect(cipher.opened(try oracle.protectRTP(packet), rollover: 0) == packet)
        }
    }

    @Test("libsrtp2 opens what we seal", arguments: SRTPVariant.all)
    func oracleOpens(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.receiving)
        defer { cipher.destroy() }
        for packet in packets(count: 300, firstNumber: 1000, seed: 3) {
            #expect(try oracle.unprotectRTP(cipher.sealed(packet, rollover: 0)) == packet)
        }
    }

    @Test("every payload length from 0 to 1400 agrees with libsrtp2", arguments: SRTPVariant.all)
    func everyLength(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.sending)
        defer { cipher.destroy() }
        for length in 0...1400 {
            let packet = SRTPFixtures.packet(
                UInt16(length), payload: [UInt8](repeating: UInt8(length & 255), count: length))
            let theirs = try oracle.protectRTP(packet)
            let ours = cipher.sealed(packet, rollover: 0)
            if ours != theirs || cipher.opened(theirs, rollover: 0) != packet {
                Issue.record("length \(length) differs")
            }
        }
    }

    @Test("three rollovers of the sequence number agree with libsrtp2", arguments: SRTPVariant.all)
    func rollovers(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let sender = try variant.oracle(.sending)
        let receiver = try variant.oracle(.receiving)
        defer { cipher.destroy() }
        // Steps under 2^15, so that each side counts the rollovers by itself.
        var index: UInt64 = 65_000
        while index < 3 << 16 {
            let packet = SRTPFixtures.packet(UInt16(truncatingIfNeeded: index), payload: [1, 2, 3])
            let ours = cipher.sealed(packet, rollover: UInt32(index >> 16))
            #expect(ours == (try sender.protectRTP(packet)))
            #expect(try receiver.unprotectRTP(ours) == packet)
            index += index % 65_536 > 65_530 || index % 65_536 < 5 ? 1 : 9_973
        }
    }

    @Test(
        "high rollover counters agree with libsrtp2", arguments: SRTPVariant.all,
        [1, 255, 65_536, 0x7FFF_FFFF, 0xFFFF_FFFE] as [UInt32])
    func highRollover(variant: SRTPVariant, rollover: UInt32) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.sending, ssrc: 0xCAFE_BABE)
        defer { cipher.destroy() }
        try oracle.setRollover(rollover, ssrc: 0xCAFE_BABE)
        let packet = SRTPFixtures.packet(17, payload: [UInt8](repeating: 9, count: 77))
        #expect(cipher.sealed(packet, rollover: rollover) == (try oracle.protectRTP(packet)))
    }

    @Test(
        "any SSRC agrees with libsrtp2", arguments: SRTPVariant.all,
        [0, 1, 0x8000_0000, 0xFFFF_FFFF] as [UInt32])
    func ssrcs(variant: SRTPVariant, ssrc: UInt32) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.sending)
        defer { cipher.destroy() }
        let packet = SRTPFixtures.packet(5, ssrc: ssrc, payload: [1, 2, 3, 4, 5])
        #expect(cipher.sealed(packet, rollover: 0) == (try oracle.protectRTP(packet)))
    }

    @Test("random compounds seal to libsrtp2's bytes", arguments: SRTPVariant.all)
    func sealsRTCP(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.sending)
        defer { cipher.destroy() }
        for (i, compound) in compounds(count: 200, seed: 4).enumerated() {
            #expect(cipher.sealedRTCP(compound, index: UInt32(i + 1)) == (try oracle.protectRTCP(compound)))
        }
    }

    @Test("what libsrtp2 seals of RTCP opens, with its index", arguments: SRTPVariant.all)
    func opensRTCP(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.sending)
        defer { cipher.destroy() }
        for (i, compound) in compounds(count: 200, seed: 5).enumerated() {
            let opened = cipher.openedRTCP(try oracle.protectRTCP(compound))
            #expect(opened?.plain == compound)
            #expect(opened?.index == UInt32(i + 1))
        }
    }

    @Test("libsrtp2 opens what we seal of RTCP", arguments: SRTPVariant.all)
    func oracleOpensRTCP(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.receiving)
        defer { cipher.destroy() }
        for (i, compound) in compounds(count: 200, seed: 6).enumerated() {
            #expect(try oracle.unprotectRTCP(cipher.sealedRTCP(compound, index: UInt32(i))) == compound)
        }
    }

    @Test("the highest SRTCP index survives the trip", arguments: SRTPVariant.all)
    func highestControlIndex(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        let compound: [UInt8] = [0x80, 201, 0, 1, 1, 2, 3, 4]
        let opened = cipher.openedRTCP(cipher.sealedRTCP(compound, index: 0x7FFF_FFFF))
        #expect(opened?.plain == compound)
        #expect(opened?.index == 0x7FFF_FFFF)
    }

    @Test("both AES-GCM back ends give the same packet")
    func backendsAgree() {
        let ciphers = SRTPFixtures.backends.map { SRTPVariant(profile: .aeadAES128GCM, backend: $0).cipher() }
        defer { ciphers.forEach { $0.destroy() } }
        for packet in packets(count: 100, firstNumber: 1, seed: 7) {
            #expect(Set(ciphers.map { $0.sealed(packet, rollover: 3) }).count == 1)
        }
    }

    @Test("a refused packet is named by libsrtp2's status")
    func oracleFailure() throws {
        let variant = SRTPVariant(profile: .aeadAES128GCM, backend: .openSSL)
        let oracle = try variant.oracle(.receiving)
        #expect(throws: SRTPOracle.Failure(status: 7)) {
            try oracle.unprotectRTP(SRTPFixtures.packet(1, payload: [UInt8](repeating: 0, count: 40)))
        }
    }
}
