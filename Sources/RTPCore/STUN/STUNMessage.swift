/// One STUN message, read from a datagram as plain numbers and offsets into it (RFC 8489, with the attributes of ICE,
/// RFC 8445).
///
///      0                   1                   2                   3
///     |0 0|   message type (class, method)  |    length of attributes   |
///     |                     magic cookie 0x2112A442                   |
///     |                   transaction id (96 bits)                    |
///     |   attribute type  |  attribute length  |  value, padded to 4    | …
///
/// It checks form and FINGERPRINT; it does no cryptography. Who sent it is only known once the caller has compared the
/// HMAC of the first `integrityPrefixByteCount` bytes with `integrity(in:)`. Attributes behind MESSAGE-INTEGRITY are not
/// covered by it and ignored (FINGERPRINT excepted); of a repeated attribute the first counts (section 14).
public struct STUNMessage: Sendable {
    public private(set) var messageClass: STUNClass
    /// 12 bits; `STUN.bindingMethod` is ICE's, every other is not for us.
    public private(set) var method: UInt16
    public private(set) var transactionID: STUNTransactionID
    /// Where the bytes of USERNAME begin; -1 when absent.
    public private(set) var usernameOffset = -1
    /// 0…508.
    public private(set) var usernameByteCount = 0
    /// Where the attribute MESSAGE-INTEGRITY begins (its type field); -1 when absent.
    public private(set) var integrityOffset = -1
    /// A FINGERPRINT is there; it is right, otherwise the message would have been refused.
    public private(set) var hasFingerprint = false
    public private(set) var priority: UInt32?
    /// USE-CANDIDATE stands before MESSAGE-INTEGRITY, or the message has none of the latter.
    public private(set) var hasUseCandidate = false
    /// The tie-breaker of a peer that says it is controlling.
    public private(set) var iceControlling: UInt64?
    /// The tie-breaker of a peer that says it is controlled.
    public private(set) var iceControlled: UInt64?
    public private(set) var mappedAddress: PeerAddress?
    /// 300…699.
    public private(set) var errorCode: Int?
    /// The first attribute type below 0x8000 that is not understood here: a request with one is answered 420.
    public private(set) var firstUnknownRequired: UInt16?

    /// Reads a whole datagram; nil for anything that is not one well-formed STUN message. Never traps, never allocates.
    public init?(_ bytes: Span<UInt8>) {
        do throws(STUNRefusal) {
            try self.init(validating: bytes)
        } catch {
            return nil
        }
    }

    /// Reads a whole datagram, or throws why it is refused. Never traps, never allocates.
    public init(validating bytes: Span<UInt8>) throws(STUNRefusal) {
        guard bytes.count >= STUN.headerByteCount else { throw .tooShort }
        let type = bytes.uint16(at: 0)
        guard type & 0xC000 == 0, bytes.uint32(at: 4) == STUN.magicCookie else { throw .notSTUN }
        let byteCount = Int(bytes.uint16(at: 2))
        guard byteCount & 3 == 0, byteCount == bytes.count - STUN.headerByteCount else {
            throw .lengthMismatch
        }
        // The class bits stand between the method's: M11…M7 C1 M6…M4 C0 M3…M0.
        switch (type & 0x100 != 0, type & 0x10 != 0) {
        case (false, false): messageClass = .request
        case (false, true): messageClass = .indication
        case (true, false): messageClass = .success
        case (true, true): messageClass = .failure
        }
        method = type & 0x000F | (type & 0x00E0) >> 1 | (type & 0x3E00) >> 2
        transactionID = STUNTransactionID(high: bytes.uint32(at: 8), low: bytes.uint64(at: 12))
        try readAttributes(bytes)
    }

    private mutating func readAttributes(_ bytes: Span<UInt8>) throws(STUNRefusal) {
        var offset = STUN.headerByteCount
        while offset < bytes.count {
            // Everything is padded to four bytes, so a header always fits here.
            let type = bytes.uint16(at: offset)
            let byteCount = Int(bytes.uint16(at: offset + 2))
            let body = offset + 4
            let next = body + (byteCount + 3) & ~3
            guard next <= bytes.count else { throw .attributeOverrun }
            if type == STUNAttribute.fingerprint {
                try checkFingerprint(bytes, offset: offset, byteCount: byteCount)
            } else if integrityOffset < 0 {
                try read(type, bytes, offset: body, byteCount: byteCount)
            }
            offset = next
        }
    }

    private mutating func checkFingerprint(
        _ bytes: Span<UInt8>, offset: Int, byteCount: Int
    ) throws(STUNRefusal) {
        guard byteCount == 4, offset + 8 == bytes.count else { throw .badFingerprint }
        let checksum = CRC32.checksum(bytes.extracting(0..<offset)) ^ STUN.fingerprintMask
        guard bytes.uint32(at: offset + 4) == checksum else { throw .badFingerprint }
        hasFingerprint = true
    }

    private mutating func read(
        _ type: UInt16, _ bytes: Span<UInt8>, offset: Int, byteCount: Int
    ) throws(STUNRefusal) {
        switch type {
        case STUNAttribute.username where usernameOffset < 0:
            guard byteCount <= STUN.usernameByteLimit else { throw .malformedAttribute }
            usernameOffset = offset
            usernameByteCount = byteCount
        case STUNAttribute.messageIntegrity:
            guard byteCount == 20 else { throw .malformedAttribute }
            integrityOffset = offset - 4
        case STUNAttribute.priority where priority == nil:
            guard byteCount == 4 else { throw .malformedAttribute }
            priority = bytes.uint32(at: offset)
        case STUNAttribute.useCandidate:
            guard byteCount == 0 else { throw .malformedAttribute }
            hasUseCandidate = true
        case STUNAttribute.iceControlling where iceControlling == nil:
            guard byteCount == 8 else { throw .malformedAttribute }
            iceControlling = bytes.uint64(at: offset)
        case STUNAttribute.iceControlled where iceControlled == nil:
            guard byteCount == 8 else { throw .malformedAttribute }
            iceControlled = bytes.uint64(at: offset)
        case STUNAttribute.xorMappedAddress where mappedAddress == nil:
            mappedAddress = try readAddress(bytes, offset: offset, byteCount: byteCount)
        case STUNAttribute.errorCode where errorCode == nil:
            errorCode = try readErrorCode(bytes, offset: offset, byteCount: byteCount)
        default:
            noteUnknown(type)
        }
    }

    /// XOR-MAPPED-ADDRESS (RFC 8489 section 14.2): the address XORed with cookie and transaction id.
    private func readAddress(
        _ bytes: Span<UInt8>, offset: Int, byteCount: Int
    ) throws(STUNRefusal) -> PeerAddress {
        guard byteCount >= 8 else { throw .malformedAttribute }
        let port = bytes.uint16(at: offset + 2) ^ UInt16(STUN.magicCookie >> 16)
        switch (bytes[offset + 1], byteCount) {
        case (1, 8):
            return PeerAddress(ipv4: bytes.uint32(at: offset + 4) ^ STUN.magicCookie, port: port)
        case (2, 20):
            let mask = UInt64(STUN.magicCookie) << 32 | UInt64(transactionID.high)
            return PeerAddress(
                high: bytes.uint64(at: offset + 4) ^ mask,
                low: bytes.uint64(at: offset + 12) ^ transactionID.low, port: port)
        default:
            throw .malformedAttribute
        }
    }

    /// ERROR-CODE (RFC 8489 section 14.8): class 3…6 and number 0…99.
    private func readErrorCode(
        _ bytes: Span<UInt8>, offset: Int, byteCount: Int
    ) throws(STUNRefusal) -> Int {
        guard byteCount >= 4 else { throw .malformedAttribute }
        let hundreds = Int(bytes[offset + 2] & 0x07)
        let number = Int(bytes[offset + 3])
        guard hundreds >= 3, hundreds <= 6, number < 100 else { throw .malformedAttribute }
        return hundreds * 100 + number
    }

    private mutating func noteUnknown(_ type: UInt16) {
        guard type < STUNAttribute.firstOptional, firstUnknownRequired == nil else { return }
        switch type {
        case STUNAttribute.username, STUNAttribute.priority, STUNAttribute.xorMappedAddress,
            STUNAttribute.errorCode:
            return  // A repetition: ignored.
        case STUNAttribute.mappedAddress, STUNAttribute.unknownAttributes, STUNAttribute.realm,
            STUNAttribute.nonce:
            return  // Known, and without meaning for ICE checks.
        default:
            firstUnknownRequired = type
        }
    }
}
