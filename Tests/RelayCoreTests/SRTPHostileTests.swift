import RTPCore
import RelayTesting
import Testing

@testable import RelayCore

@Suite("SRTP against changed, short and foreign packets")
struct SRTPHostileTests {
    private let packet = SRTPFixtures.packet(
        300, csrcCount: 2, extensionWords: 1, payload: [1, 2, 3, 4, 5, 6, 7])
    private let compound: [UInt8] = [0x81, 206, 0, 2, 0xCA, 0xFE, 0xBA, 0xBE, 9, 8, 7, 6]

    @Test("a flip of any bit of an RTP packet is refused", arguments: SRTPVariant.all)
    func everyFlip(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        let sealed = cipher.sealed(packet, rollover: 0)
        let header = SRTPFixtures.headerByteCount(packet)
        for bit in 0..<sealed.count * 8 {
            var changed = sealed
            changed[bit / 8] ^= 1 << (bit % 8)
            // The caller's view of the packet stays what it was before the flip: only the bytes differ.
            let opened = cipher.openedRTP(changed, headerByteCount: header, ssrc: 0xCAFE_BABE, index: 300)
            #expect(opened == nil, "bit \(bit)")
        }
    }

    @Test("a flip of any bit of an RTCP packet is refused", arguments: SRTPVariant.all)
    func everyControlFlip(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        let sealed = cipher.sealedRTCP(compound, index: 77)
        for bit in 0..<sealed.count * 8 {
            var changed = sealed
            changed[bit / 8] ^= 1 << (bit % 8)
            #expect(cipher.openedRTCP(changed) == nil, "bit \(bit)")
        }
    }

    @Test("a flip of any byte of a full-size packet is refused", arguments: SRTPVariant.all)
    func everyByteOfLargePacket(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        let large = SRTPFixtures.packet(1, payload: [UInt8](repeating: 0x5A, count: 1150))
        let sealed = cipher.sealed(large, rollover: 0)
        for i in sealed.indices {
            var changed = sealed
            changed[i] ^= 0xFF
            if cipher.openedRTP(changed, headerByteCount: 12, ssrc: 0xCAFE_BABE, index: 1) != nil {
                Issue.record("byte \(i) may be changed")
            }
        }
    }

    @Test("every truncation of an RTP packet is refused", arguments: SRTPVariant.all)
    func truncations(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        let sealed = cipher.sealed(packet, rollover: 0)
        let header = SRTPFixtures.headerByteCount(packet)
        for count in 0..<sealed.count {
            let opened = cipher.openedRTP(
                Array(sealed.prefix(count)), headerByteCount: header, ssrc: 0xCAFE_BABE, index: 300)
            #expect(opened == nil, "\(count) bytes")
        }
    }

    @Test("every truncation of an RTCP packet is refused", arguments: SRTPVariant.all)
    func controlTruncations(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        let sealed = cipher.sealedRTCP(compound, index: 1)
        for count in 0..<sealed.count {
            #expect(cipher.openedRTCP(Array(sealed.prefix(count))) == nil, "\(count) bytes")
        }
    }

    @Test("packets of 0 to 64 bytes that look like RTP are refused (T05)", arguments: SRTPVariant.all)
    func shortRTP(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        for count in 0...64 {
            let short = [UInt8]([0x80, 0x6F] + [UInt8](repeating: 0, count: 64)).prefix(count)
            #expect(
                cipher.openedRTP(Array(short), headerByteCount: 12, ssrc: 0, index: 0) == nil,
                "\(count) bytes")
        }
    }

    @Test("packets of 0 to 64 bytes that look like RTCP are refused (T05)", arguments: SRTPVariant.all)
    func shortRTCP(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        for count in 0...64 {
            for filler: UInt8 in [0, 0x80, 0xFF] {
                let short = [UInt8]([0x80, 0xC9] + [UInt8](repeating: filler, count: 64)).prefix(count)
                #expect(cipher.openedRTCP(Array(short)) == nil, "\(count) bytes")
            }
        }
    }

    @Test("RTCP without the E bit is refused even when its tag is good")
    func unencryptedControl() {
        let variant = SRTPVariant(profile: .aes128CMSHA1_80, backend: .openSSL)
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        // In counter mode the tag covers the index word, so a sender can make a valid packet that is not
        // encrypted.
        let master = SRTPFixtures.masterKey(.aes128CMSHA1_80)
        var authentication = [UInt8](repeating: 0, count: 20)
        SRTPTestPrimitives.derive(master.key, master.salt, label: 4, into: &authentication)
        let covered = compound + [0, 0, 0, 1]
        let tag = SRTPTestPrimitives.hmac(authentication, covered).prefix(10)
        #expect(cipher.openedRTCP(covered + tag) == nil)
        let encrypted = cipher.sealedRTCP(compound, index: 1)
        #expect(
            Array(encrypted.suffix(10))
                == Array(
                    SRTPTestPrimitives.hmac(authentication, Array(encrypted.dropLast(10))).prefix(10)))
    }

    @Test("a packet of another participant is refused", arguments: SRTPVariant.all)
    func foreignKey(variant: SRTPVariant) {
        let ours = variant.cipher(1)
        let theirs = variant.cipher(2)
        defer {
            ours.destroy()
            theirs.destroy()
        }
        #expect(ours.opened(theirs.sealed(packet, rollover: 0), rollover: 0) == nil)
        #expect(ours.openedRTCP(theirs.sealedRTCP(compound, index: 1)) == nil)
    }

    @Test("an RTP packet of another rollover is refused", arguments: SRTPVariant.all)
    func foreignRollover(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        #expect(cipher.opened(cipher.sealed(packet, rollover: 1), rollover: 0) == nil)
        #expect(cipher.opened(cipher.sealed(packet, rollover: 0), rollover: 1) == nil)
    }

    @Test("an RTP packet is no RTCP packet and the other way round", arguments: SRTPVariant.all)
    func kindsDoNotMix(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        #expect(cipher.openedRTCP(cipher.sealed(packet, rollover: 0)) == nil)
        #expect(
            cipher.openedRTP(
                cipher.sealedRTCP(compound, index: 1), headerByteCount: 12, ssrc: 0xCAFE_BABE, index: 1)
                == nil)
    }

    @Test("random bytes of every length are refused", arguments: SRTPVariant.all)
    func noise(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        var random = RandomSource.seeded(8)
        for _ in 0..<2_000 {
            let count = Int.random(in: 0...200, using: &random)
            var bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            if count > 0 { bytes[0] = 0x80 | bytes[0] & 0x3F }
            #expect(cipher.opened(bytes, rollover: 0) == nil)
            #expect(cipher.openedRTCP(bytes) == nil)
        }
    }

    @Test("an RTP header longer than the packet is refused before any work", arguments: SRTPVariant.all)
    func headerBeyondEnd(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        let bytes = [UInt8](repeating: 0x80, count: 60)
        #expect(cipher.openedRTP(bytes, headerByteCount: 72, ssrc: 1, index: 1) == nil)
        #expect(cipher.openedRTP(bytes, headerByteCount: 60, ssrc: 1, index: 1) == nil)
    }

    @Test("an empty payload is sealed and opened", arguments: SRTPVariant.all)
    func emptyPayload(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        let empty = SRTPFixtures.packet(9, payload: [])
        #expect(cipher.opened(cipher.sealed(empty, rollover: 0), rollover: 0) == empty)
    }
}
