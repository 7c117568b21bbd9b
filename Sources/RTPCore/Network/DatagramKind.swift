/// What a datagram on the media port is, told by its first two bytes (RFC 7983 section 7 with the ranges of RFC 9443;
/// RTP and RTCP apart by RFC 5761 section 4). It says which reader to ask and promises nothing about the rest: a short or
/// malformed datagram is refused by that reader.
@frozen public enum DatagramKind: UInt8, Sendable, Hashable {
    case stun, dtls, rtp, rtcp
    /// Nothing we speak: empty, ZRTP, TURN channels, QUIC, unassigned, or media of fewer than two bytes.
    case drop

    /// Classifies by the first byte, and for media by the second.
    /// - Parameters:
    ///   - firstByte: ignored when `count` is 0.
    ///   - secondByte: ignored when `count` is below 2. The marker bit is part of it: RTP payload types 64…95 with the
    ///     marker set look like RTCP, which is why such types are refused in SDP.
    ///   - count: byte count of the whole datagram.
    @inlinable public static func classify(firstByte: UInt8, secondByte: UInt8, count: Int) -> DatagramKind {
        // Media first: it is nearly all of the traffic.
        if firstByte & 0xC0 == 0x80 {
            guard count >= 2 else { return .drop }
            return secondByte >= 192 && secondByte <= 223 ? .rtcp : .rtp
        }
        guard count > 0 else { return .drop }
        switch firstByte {
        case 0...3: return .stun
        case 20...63: return .dtls
        default: return .drop
        }
    }
}
