// What stands inside the header extension elements that the relay reads. Each reader takes the packet and the element's
// place as `HeaderExtensionCursor` gave it, and answers nil for a body of the wrong size: the element is then ignored,
// the packet stands. They trap only when the place is not inside `bytes`.

/// The audio level of a packet (RFC 6464 section 3).
@frozen public struct AudioLevel: Sendable, Hashable {
    /// The sender believes that the packet carries voice.
    public var isVoice: Bool
    /// 0 (loudest) … 127 (digital silence): the level in -dBov.
    public var attenuation: UInt8

    @inlinable public init?(_ bytes: Span<UInt8>, offset: Int, byteCount: Int) {
        guard byteCount == 1 else { return nil }
        isVoice = bytes[offset] & 0x80 != 0
        attenuation = bytes[offset] & 0x7F
    }
}

/// How a receiver must turn the picture (3GPP TS 26.114 section 7.4.5, one byte `0000 C F R1 R0`).
@frozen public struct VideoOrientation: Sendable, Hashable {
    /// Clockwise degrees: 0, 90, 180 or 270.
    public var rotation: Int
    public var isFlipped: Bool
    public var isBackCamera: Bool

    @inlinable public init?(_ bytes: Span<UInt8>, offset: Int, byteCount: Int) {
        guard byteCount == 1 else { return nil }
        rotation = Int(bytes[offset] & 0x03) * 90
        isFlipped = bytes[offset] & 0x04 != 0
        isBackCamera = bytes[offset] & 0x08 != 0
    }
}

/// Bounds of the delay between capture and display (WebRTC's playout-delay: twice 12 bits in units of 10 ms).
@frozen public struct PlayoutDelay: Sendable, Hashable {
    /// 0…40 950 ms.
    public var minimum: Interval
    /// 0…40 950 ms. May be below `minimum`: nothing is checked.
    public var maximum: Interval

    @inlinable public init?(_ bytes: Span<UInt8>, offset: Int, byteCount: Int) {
        guard byteCount == 3 else { return nil }
        let both = bytes.uint24(at: offset)
        minimum = .milliseconds(Int64(both >> 12) * 10)
        maximum = .milliseconds(Int64(both & 0xFFF) * 10)
    }
}

/// Readers of the element bodies that are a single number or a piece of text.
public enum HeaderExtensionElement {
    /// The transport-wide sequence number (draft-holmer-rmcat-transport-wide-cc-extensions-01, two bytes).
    @inlinable public static func transportSequenceNumber(
        _ bytes: Span<UInt8>, offset: Int, byteCount: Int
    ) -> UInt16? {
        byteCount == 2 ? bytes.uint16(at: offset) : nil
    }

    /// WebRTC's abs-send-time: seconds as 6.18 fixed point, 0…2^24-1, wrapping each 64 s.
    @inlinable public static func absSendTime(
        _ bytes: Span<UInt8>, offset: Int, byteCount: Int
    ) -> UInt32? {
        byteCount == 3 ? bytes.uint24(at: offset) : nil
    }

    /// The place of a MID, RID or repaired RID (RFC 9143 section 15, RFC 8852) if its bytes are a token of 1…16 characters
    /// as SDP writes them; nil otherwise, so that nothing unprintable is compared or kept.
    public static func identifier(_ bytes: Span<UInt8>, offset: Int, byteCount: Int) -> Range<Int>? {
        guard byteCount >= 1, byteCount <= identifierByteLimit else { return nil }
        let range = offset..<(offset + byteCount)
        for index in range where !isTokenCharacter(bytes[index]) { return nil }
        return range
    }

    /// The one-byte form holds 16 bytes at most, and no client is known to use longer ones.
    public static var identifierByteLimit: Int { 16 }

    /// RFC 8866 section 9, token-char.
    static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x30...0x39, 0x41...0x5A, 0x5E...0x7E: true
        default: false
        }
    }
}
