// The vocabulary of STUN (RFC 8489) and ICE (RFC 8445) that reader and writer share.

/// What a STUN message is for (RFC 8489 section 5). The raw value is the two class bits as a number.
@frozen public enum STUNClass: UInt8, Sendable, Hashable {
    case request, indication, success, failure
}

/// The 96 bits that match a response to its request, in two big-endian parts.
@frozen public struct STUNTransactionID: Sendable, Hashable {
    /// The first four bytes.
    public var high: UInt32
    /// The last eight bytes.
    public var low: UInt64

    @inlinable public init(high: UInt32, low: UInt64) {
        self.high = high
        self.low = low
    }
}

/// An HMAC-SHA1 of 20 bytes, as three big-endian integers, so that it is handed over without memory.
@frozen public struct STUNIntegrity: Sendable {
    public var high: UInt64
    public var middle: UInt64
    public var low: UInt32

    @inlinable public init(high: UInt64, middle: UInt64, low: UInt32) {
        self.high = high
        self.middle = middle
        self.low = low
    }
    /// The 20 bytes at `offset`. Traps when they are not inside `bytes`.
    @inlinable public init(_ bytes: Span<UInt8>, at offset: Int) {
        self.init(
            high: bytes.uint64(at: offset), middle: bytes.uint64(at: offset + 8),
            low: bytes.uint32(at: offset + 16))
    }
    /// Whether both are equal, in a time that does not depend on where they differ.
    @inlinable public func matches(_ other: STUNIntegrity) -> Bool {
        (high ^ other.high) | (middle ^ other.middle) | UInt64(low ^ other.low) == 0
    }
}

/// Why a datagram is not taken as a STUN message.
public enum STUNRefusal: UInt8, Error, Sendable, Hashable, CaseIterable {
    /// Fewer bytes than a header.
    case tooShort
    /// The first two bits are not zero or the magic cookie is missing.
    case notSTUN
    /// The length field is no multiple of four or is not what follows the header.
    case lengthMismatch
    /// An attribute reaches beyond the message.
    case attributeOverrun
    /// A known attribute has a size or content that its definition forbids.
    case malformedAttribute
    /// FINGERPRINT is wrong, has another size than four bytes or is not the last attribute.
    case badFingerprint
}

/// STUN's fixed numbers.
public enum STUN {
    /// Byte count of the header.
    @inlinable public static var headerByteCount: Int { 20 }
    @inlinable public static var magicCookie: UInt32 { 0x2112_A442 }
    /// The one method of ICE.
    @inlinable public static var bindingMethod: UInt16 { 1 }
    /// Usernames are shorter than 509 bytes (RFC 8489 section 14.3).
    @inlinable public static var usernameByteLimit: Int { 508 }
    /// What FINGERPRINT's checksum is XORed with: "STUN" in ASCII.
    @inlinable static var fingerprintMask: UInt32 { 0x5354_554E }
}

/// Attribute types (RFC 8489 section 18.3, RFC 8445 section 16.1).
enum STUNAttribute {
    static let mappedAddress: UInt16 = 0x0001
    static let username: UInt16 = 0x0006
    static let messageIntegrity: UInt16 = 0x0008
    static let errorCode: UInt16 = 0x0009
    static let unknownAttributes: UInt16 = 0x000A
    static let realm: UInt16 = 0x0014
    static let nonce: UInt16 = 0x0015
    static let xorMappedAddress: UInt16 = 0x0020
    static let priority: UInt16 = 0x0024
    static let useCandidate: UInt16 = 0x0025
    static let fingerprint: UInt16 = 0x8028
    static let iceControlled: UInt16 = 0x8029
    static let iceControlling: UInt16 = 0x802A

    /// Types below this must be understood by the receiver, the others may be ignored.
    static let firstOptional: UInt16 = 0x8000
}
