import CMediaCrypto
import RTPCore

// SRTCP packets. Counter mode: header (8) | encrypted | E and index | tag (RFC 3711 §3.4). GCM: header (8) |
// encrypted | tag | E and index (RFC 7714 §9.1). Keys are expanded for each packet.

extension SRTPCipher {
    /// Verifies and decrypts in place. Returns the plaintext's byte count (≥ 8) and the 31-bit index, which
    /// the caller checks for replays; nil when the packet is too short, is not encrypted (E = 0) or does not
    /// verify. The content behind the first eight bytes is then undefined.
    public func openRTCP(_ packet: UnsafeMutablePointer<UInt8>, count: Int) -> (
        byteCount: Int, index: UInt32
    )? {
        let end = count - 4 - profile.tagByteCount
        guard end >= 8 else { return nil }
        let isGCM = profile == .aeadAES128GCM
        let trailer = Self.word(packet + (isGCM ? count - 4 : end))
        guard trailer >> 31 == 1 else { return nil }
        let index = trailer & 0x7FFF_FFFF
        let body = packet + 8
        if isGCM {
            let opened = withAssociatedData(packet, trailer: trailer) { key, aad in
                mc_gcm_open_raw(
                    control.pointee.backend, key, controlHigh(packet), controlLow32(index), aad, 12, body,
                    end - 8,
                    body, packet + end)
            }
            return opened == 0 ? (end, index) : nil
        }
        guard controlMAC(packet, count: end + 4, { mac in mc_equal(mac, packet + end + 4, 10) == 1 })
        else { return nil }
        cryptControl(packet, index: index, count: end - 8)
        return (end, index)
    }

    /// Encrypts and authenticates a plaintext compound of `count` bytes (≥ 8) in place; the buffer has
    /// `SRTPCipher.maximumRTCPOverhead` spare bytes. Returns the total byte count. `index` (31 bits) is used
    /// once.
    public func sealRTCP(_ packet: UnsafeMutablePointer<UInt8>, count: Int, index: UInt32) -> Int {
        precondition(count >= 8 && index >> 31 == 0)
        let trailer = index | 1 << 31
        if profile == .aeadAES128GCM {
            let body = packet + 8
            withAssociatedData(packet, trailer: trailer) { key, aad in
                mc_gcm_seal_raw(
                    control.pointee.backend, key, controlHigh(packet), controlLow32(index), aad, 12, body,
                    count - 8,
                    body, packet + count)
            }
            Self.put(trailer, at: packet + count + 16)
            return count + 20
        }
        cryptControl(packet, index: index, count: count - 8)
        Self.put(trailer, at: packet + count)
        controlMAC(packet, count: count + 4) { mac in (packet + count + 4).update(from: mac, count: 10) }
        return count + 14
    }

    // GCM's IV: 00 00 | SSRC | 00 00 | index, XOR salt. The SSRC is that of the compound's first packet.
    private func controlHigh(_ packet: UnsafePointer<UInt8>) -> UInt64 {
        control.pointee.saltHigh ^ UInt64(Self.word(packet + 4)) << 16
    }
    private func controlLow32(_ index: UInt32) -> UInt32 {
        UInt32(truncatingIfNeeded: control.pointee.saltLow) ^ index
    }

    /// GCM authenticates the first eight bytes and the trailing word (RFC 7714 §9.2); they are not neighbours
    /// in the packet.
    private func withAssociatedData<Result>(
        _ packet: UnsafePointer<UInt8>, trailer: UInt32,
        _ body: (_ key: UnsafePointer<UInt8>, _ aad: UnsafePointer<UInt8>) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(byteCount: 12, alignment: 8) { scratch in
            let aad = scratch.bindMemory(to: UInt8.self)
            aad.baseAddress.unsafelyUnwrapped.update(from: packet, count: 8)
            Self.put(trailer, at: aad.baseAddress.unsafelyUnwrapped + 8)
            return withControlKey { key in body(key, aad.baseAddress.unsafelyUnwrapped) }
        }
    }

    private func cryptControl(_ packet: UnsafeMutablePointer<UInt8>, index: UInt32, count: Int) {
        let high = control.pointee.saltHigh ^ UInt64(Self.word(packet + 4))
        let low = control.pointee.saltLow ^ UInt64(index) << 16
        withControlKey { key in mc_cm_crypt_raw(key, high, low, packet + 8, count, packet + 8) }
    }

    @discardableResult
    private func controlMAC<Result>(
        _ packet: UnsafePointer<UInt8>, count: Int, _ body: (UnsafePointer<UInt8>) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { scratch in
            let mac = scratch.baseAddress.unsafelyUnwrapped
            withUnsafeBytes(of: &control.pointee.authentication) { key in
                mc_hmac_sha1_segments(
                    key.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self), 20, packet, count,
                    nil, 0,
                    nil, 0, mac)
            }
            return body(mac)
        }
    }

    private func withControlKey<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
        withUnsafeBytes(of: &control.pointee.key) { key in
            body(key.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self))
        }
    }

    private static func word(_ bytes: UnsafePointer<UInt8>) -> UInt32 {
        UInt32(bytes[0]) << 24 | UInt32(bytes[1]) << 16 | UInt32(bytes[2]) << 8 | UInt32(bytes[3])
    }
    private static func put(_ value: UInt32, at bytes: UnsafeMutablePointer<UInt8>) {
        for i in 0..<4 { bytes[i] = UInt8(truncatingIfNeeded: value >> UInt32(24 - 8 * i)) }
    }
}
