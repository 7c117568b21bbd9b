// Whole packets as arrays: for the self-test, fake clients and tests. The packet path uses the in-place
// forms.
extension SRTPCipher {
    /// A sealed packet of a header (≥ 12 bytes) and a payload.
    public func sealed(header: [UInt8], payload: [UInt8], ssrc: UInt32, index: UInt64) -> [UInt8] {
        var packet = header + [UInt8](repeating: 0, count: payload.count + profile.tagByteCount)
        let total = packet.withUnsafeMutableBufferPointer { buffer in
            payload.withUnsafeBufferPointer { source in
                sealRTP(
                    buffer.baseAddress.unsafelyUnwrapped, headerByteCount: header.count,
                    payload: source.baseAddress ?? UnsafePointer(buffer.baseAddress.unsafelyUnwrapped),
                    payloadByteCount: payload.count, ssrc: ssrc, index: index)
            }
        }
        precondition(total == packet.count)
        return packet
    }

    /// The plain packet, nil when it does not verify.
    public func openedRTP(_ packet: [UInt8], headerByteCount: Int, ssrc: UInt32, index: UInt64) -> [UInt8]? {
        var copy = packet
        let count = copy.withUnsafeMutableBufferPointer { buffer -> Int in
            guard let base = buffer.baseAddress else { return -1 }
            return openRTP(
                base, count: buffer.count, headerByteCount: headerByteCount, ssrc: ssrc, index: index)
        }
        return count < 0 ? nil : Array(copy.prefix(count))
    }

    /// A sealed compound RTCP packet (`compound` ≥ 8 bytes).
    public func sealedRTCP(_ compound: [UInt8], index: UInt32) -> [UInt8] {
        var packet = compound + [UInt8](repeating: 0, count: Self.maximumRTCPOverhead)
        let total = packet.withUnsafeMutableBufferPointer {
            sealRTCP($0.baseAddress.unsafelyUnwrapped, count: compound.count, index: index)
        }
        return Array(packet.prefix(total))
    }

    /// The plain compound and its SRTCP index, nil when it does not verify.
    public func openedRTCP(_ packet: [UInt8]) -> (plain: [UInt8], index: UInt32)? {
        var copy = packet
        let opened = copy.withUnsafeMutableBufferPointer { buffer -> (byteCount: Int, index: UInt32)? in
            guard let base = buffer.baseAddress else { return nil }
            return openRTCP(base, count: buffer.count)
        }
        return opened.map { (Array(copy.prefix($0.byteCount)), $0.index) }
    }
}
