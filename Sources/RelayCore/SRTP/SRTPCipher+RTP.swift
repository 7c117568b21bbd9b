import CMediaCrypto
import RTPCore

// SRTP packets: header | encrypted payload | tag (RFC 3711 §3.1, RFC 7714 §8).

extension SRTPCipher {
    /// Verifies and decrypts in place. `headerByteCount` is the whole RTP header with CSRCs and extension (≥
    /// 12); `index` the 48-bit packet index (ROC and sequence number).
    ///
    /// Returns the byte count without the tag, or -1 when the packet is shorter than header and tag or does
    /// not verify; the payload's content is then undefined.
    public func openRTP(
        _ packet: UnsafeMutablePointer<UInt8>, count: Int, headerByteCount: Int, ssrc: UInt32, index: UInt64
    ) -> Int {
        precondition(headerByteCount >= 12 && index < 1 << 48)
        let end = count - profile.tagByteCount
        guard end >= headerByteCount else { return -1 }
        let payload = packet + headerByteCount
        if let gcm {
            let opened = mc_gcm_open(
                gcm, gcmHigh(ssrc, index), gcmLow(index), packet, headerByteCount, payload,
                end - headerByteCount,
                payload, packet + end)
            return opened == 0 ? end : -1
        }
        return openCounterMode(packet, end: end, headerByteCount: headerByteCount, ssrc: ssrc, index: index)
    }

    /// Apart, so that AES-GCM's way, which nearly all packets go, keeps its small frame.
    @inline(never) private func openCounterMode(
        _ packet: UnsafeMutablePointer<UInt8>, end: Int, headerByteCount: Int, ssrc: UInt32, index: UInt64
    ) -> Int {
        guard macEquals(packet, count: end, index: index, tag: packet + end) else { return -1 }
        let payload = packet + headerByteCount
        mc_cm_crypt(
            counterMode, counterHigh(ssrc, index), counterLow(index), payload, end - headerByteCount, payload)
        return end
    }

    /// Seals: the header (`headerByteCount` bytes, ≥ 12) is already written at `packet`; the payload is read
    /// from `payload` (elsewhere, or right behind the header) and written encrypted behind the header, then
    /// the tag. The buffer has room for `profile.tagByteCount` more bytes. Returns the total byte count.
    ///
    /// An index must never be used twice with the same SSRC: with GCM that gives the key stream away.
    public func sealRTP(
        _ packet: UnsafeMutablePointer<UInt8>, headerByteCount: Int, payload: UnsafePointer<UInt8>,
        payloadByteCount: Int, ssrc: UInt32, index: UInt64
    ) -> Int {
        precondition(headerByteCount >= 12 && payloadByteCount >= 0 && index < 1 << 48)
        let end = headerByteCount + payloadByteCount
        if let gcm {
            mc_gcm_seal(
                gcm, gcmHigh(ssrc, index), gcmLow(index), packet, headerByteCount, payload, payloadByteCount,
                packet + headerByteCount, packet + end)
            return end + 16
        }
        return sealCounterMode(
            packet, headerByteCount: headerByteCount, payload: payload, payloadByteCount: payloadByteCount, ssrc: ssrc,
            index: index)
    }

    @inline(never) private func sealCounterMode(
        _ packet: UnsafeMutablePointer<UInt8>, headerByteCount: Int, payload: UnsafePointer<UInt8>,
        payloadByteCount: Int, ssrc: UInt32, index: UInt64
    ) -> Int {
        let end = headerByteCount + payloadByteCount
        mc_cm_crypt(
            counterMode, counterHigh(ssrc, index), counterLow(index), payload, payloadByteCount,
            packet + headerByteCount)
        withMAC(packet, count: end, index: index) { mac in (packet + end).update(from: mac, count: 10) }
        return end + 10
    }

    /// Opens in place with `index`, and when that does not verify with `alternative`: for streams whose
    /// rollover counter may be ahead of ours. Costs up to three cipher operations, so callers bound how often
    /// they ask (`PacketIndexEstimator.alternative`). Nil when neither verifies; the buffer is then as
    /// undefined as after `openRTP`.
    public func openRTPTrying(
        _ packet: UnsafeMutablePointer<UInt8>, count: Int, headerByteCount: Int, ssrc: UInt32, index: UInt64,
        alternative: UInt64
    ) -> (byteCount: Int, index: UInt64)? {
        let first = openRTP(packet, count: count, headerByteCount: headerByteCount, ssrc: ssrc, index: index)
        if first >= 0 { return (first, index) }
        let end = count - profile.tagByteCount
        guard end >= headerByteCount else { return nil }
        if let gcm {
            // GCM decrypts before it knows whether the tag is good. Its cipher is a key stream: encrypting
            // with the same IV gives the received bytes back, so no copy of the packet is needed.
            withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 16) { unusedTag in
                guard let tag = unusedTag.baseAddress else { return }
                let payload = packet + headerByteCount
                mc_gcm_seal(
                    gcm, gcmHigh(ssrc, index), gcmLow(index), packet, headerByteCount, payload,
                    end - headerByteCount, payload, tag)
            }
        }
        let second = openRTP(
            packet, count: count, headerByteCount: headerByteCount, ssrc: ssrc, index: alternative)
        return second >= 0 ? (second, alternative) : nil
    }

    // IVs. GCM: 00 00 | SSRC | ROC | SEQ, XOR salt. Counter mode: (salt * 2^16) XOR (SSRC * 2^64) XOR (index
    // * 2^16).

    @inline(__always) private func gcmHigh(_ ssrc: UInt32, _ index: UInt64) -> UInt64 {
        saltHigh ^ (UInt64(ssrc) << 16 | index >> 32)
    }
    @inline(__always) private func gcmLow(_ index: UInt64) -> UInt32 {
        UInt32(truncatingIfNeeded: saltLow ^ index)
    }
    @inline(__always) private func counterHigh(_ ssrc: UInt32, _ index: UInt64) -> UInt64 {
        saltHigh ^ UInt64(ssrc)
    }
    @inline(__always) private func counterLow(_ index: UInt64) -> UInt64 { saltLow ^ index << 16 }

    /// HMAC-SHA1 over the packet and the rollover counter (RFC 3711 §4.2).
    private func withMAC(
        _ packet: UnsafePointer<UInt8>, count: Int, index: UInt64, _ body: (UnsafePointer<UInt8>) -> Void
    ) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 24) { scratch in
            guard let mac = scratch.baseAddress else { return }
            let rollover = mac + 20
            for i in 0..<4 { rollover[i] = UInt8(truncatingIfNeeded: index >> UInt64(40 - 8 * i)) }
            mc_cm_mac(counterMode, packet, count, rollover, 4, mac)
            body(mac)
        }
    }

    private func macEquals(
        _ packet: UnsafePointer<UInt8>, count: Int, index: UInt64, tag: UnsafePointer<UInt8>
    ) -> Bool {
        var same = false
        withMAC(packet, count: count, index: index) { mac in same = mc_equal(mac, tag, 10) == 1 }
        return same
    }
}
