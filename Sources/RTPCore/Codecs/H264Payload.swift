/// What an H.264 RTP payload holds (RFC 6184): a single NAL unit, several in one packet (STAP-A), or a fragment of one
/// (FU-A, FU-B). The other packet types (STAP-B, MTAP) belong to the interleaved mode, which WebRTC does not use: refused.
///
///     NAL header, FU indicator:   |F|NRI|  type   |        FU header:   |S|E|R|  type   |
@frozen public struct H264Payload: Sendable, Hashable {
    /// The type of the first octet: 1…23, 24 (STAP-A), 28 (FU-A) or 29 (FU-B).
    public var packetType: UInt8
    /// Bit n is set when a NAL unit of type n is in the packet, whole or in part.
    public var nalTypes: UInt32
    /// The payload holds the beginning of a NAL unit.
    public var isStart: Bool
    /// The payload holds the end of a NAL unit.
    public var isEnd: Bool

    /// Reads the payload; nil when it is cut short or against the format. Never traps, never allocates.
    public init?(_ payload: Span<UInt8>) {
        guard payload.count >= 1, payload[0] & 0x80 == 0 else { return nil }
        packetType = payload[0] & 0x1F
        (nalTypes, isStart, isEnd) = (0, true, true)
        switch packetType {
        case 1...23: nalTypes = 1 << UInt32(packetType)
        case 24: guard readAggregate(payload) else { return nil }
        case 28: guard readFragment(payload, minimum: 2) else { return nil }
        // FU-B has two bytes of decoding order number behind the FU header.
        case 29: guard readFragment(payload, minimum: 4) else { return nil }
        default: return nil
        }
    }

    /// The packet begins a sequence parameter set (type 7).
    @inlinable public var startsSPS: Bool { isStart && nalTypes & 1 << 7 != 0 }
    /// The packet begins a slice of an IDR picture (type 5).
    @inlinable public var startsIDR: Bool { isStart && nalTypes & 1 << 5 != 0 }
    /// A receiver can start here: senders put SPS, PPS and IDR into one frame, and some repeat only the IDR.
    @inlinable public var startsKeyFrame: Bool { startsSPS || startsIDR }

    /// Whether the payload begins a key frame; false for anything that cannot be read.
    public static func startsKeyFrame(_ payload: Span<UInt8>) -> Bool {
        H264Payload(payload)?.startsKeyFrame ?? false
    }

    /// STAP-A (section 5.7.1): NAL units, each behind its size in two bytes.
    private mutating func readAggregate(_ payload: Span<UInt8>) -> Bool {
        var offset = 1
        guard offset < payload.count else { return false }
        while offset < payload.count {
            guard payload.count - offset >= 2 else { return false }
            let byteCount = Int(payload.uint16(at: offset))
            offset += 2
            guard byteCount > 0, byteCount <= payload.count - offset else { return false }
            nalTypes |= 1 << UInt32(payload[offset] & 0x1F)
            offset += byteCount
        }
        return true
    }

    /// FU-A and FU-B (section 5.8): S and E must not both be set.
    private mutating func readFragment(_ payload: Span<UInt8>, minimum: Int) -> Bool {
        guard payload.count >= minimum, payload[1] & 0xC0 != 0xC0 else { return false }
        isStart = payload[1] & 0x80 != 0
        isEnd = payload[1] & 0x40 != 0
        nalTypes = 1 << UInt32(payload[1] & 0x1F)
        return true
    }
}
