import RTPCore

/// How much of a datagram is header: all that a capture may show. What is behind is encrypted media, reports, or (in a check) the
/// proof that somebody knows a password.
public enum CapturedHeaders {
    /// At most `count`; 0 for what is none of the four kinds.
    public static func byteCount(_ bytes: UnsafePointer<UInt8>, count: Int) -> Int {
        guard count > 1 else { return 0 }
        let kind = DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: count)
        return switch kind {
        case .stun: stun(bytes, count)
        case .dtls: min(count, 13)
        case .rtp: rtp(bytes, count)
        // The first header and the sender's SSRC (RFC 3711 §3.4); the rest of the compound is encrypted.
        case .rtcp: min(count, 8)
        default: 0
        }
    }

    /// RFC 3550 §5.1 and §5.3.1.
    private static func rtp(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> Int {
        var end = 12 + 4 * Int(bytes[0] & 15)
        if bytes[0] & 0x10 != 0 {
            guard end + 4 <= count else { return min(count, 12) }
            end += 4 + 4 * (Int(bytes[end + 2]) << 8 | Int(bytes[end + 3]))
        }
        return min(count, end)
    }

    /// The header and its attributes up to MESSAGE-INTEGRITY (RFC 8489 §14.5), or the header where they do not add up.
    private static func stun(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> Int {
        var at = 20
        while at + 4 <= count {
            let type = Int(bytes[at]) << 8 | Int(bytes[at + 1])
            let length = Int(bytes[at + 2]) << 8 | Int(bytes[at + 3])
            // Both kinds of integrity.
            if type == 0x0008 || type == 0x001C { return at }
            at += 4 + (length + 3) & ~3
        }
        return at == count ? at : min(count, 20)
    }
}
