// What a caller needs to find out who sent a message: the username's parts, and the bytes that its HMAC covers.

extension STUNMessage {
    public var hasUsername: Bool { usernameOffset >= 0 }
    public var hasIntegrity: Bool { integrityOffset >= 0 }

    /// How many bytes from the start of the datagram the HMAC covers; 0 without MESSAGE-INTEGRITY. The two bytes at offset
    /// 2 count as `integrityLengthField`, not as received (RFC 8489 section 14.5).
    public var integrityPrefixByteCount: Int { hasIntegrity ? integrityOffset : 0 }

    /// The length field to put in for the HMAC: as if MESSAGE-INTEGRITY were the last attribute. 0 without it.
    public var integrityLengthField: UInt16 {
        // The attribute has 24 bytes and the header's 20 are not counted. A message ends below 64 KiB.
        hasIntegrity ? UInt16(integrityOffset + 24 - STUN.headerByteCount) : 0
    }

    /// The HMAC that the message carries; nil without MESSAGE-INTEGRITY. `bytes` is the datagram that was read.
    public func integrity(in bytes: Span<UInt8>) -> STUNIntegrity? {
        hasIntegrity ? STUNIntegrity(bytes, at: integrityOffset + 4) : nil
    }

    /// The parts of a username `receiver:sender` (RFC 8445 section 7.2.2), as places in the datagram that was read; nil
    /// without USERNAME, without a colon, or when a part is empty. It is split at the first colon: fragments hold none.
    public func usernameParts(in bytes: Span<UInt8>) -> (receiver: Range<Int>, sender: Range<Int>)? {
        guard hasUsername else { return nil }
        let end = usernameOffset + usernameByteCount
        for index in usernameOffset..<end where bytes[index] == UInt8(ascii: ":") {
            guard index > usernameOffset, index + 1 < end else { return nil }
            return (usernameOffset..<index, (index + 1)..<end)
        }
        return nil
    }

    /// Whether the username is exactly `receiver:sender`. Allocates nothing. `bytes` is the datagram that was read.
    public func usernameEquals(
        receiver: Span<UInt8>, sender: Span<UInt8>, in bytes: Span<UInt8>
    ) -> Bool {
        guard hasUsername, usernameByteCount == receiver.count + 1 + sender.count else { return false }
        let colon = usernameOffset + receiver.count
        guard bytes[colon] == UInt8(ascii: ":") else { return false }
        for index in receiver.indices where bytes[usernameOffset + index] != receiver[index] { return false }
        for index in sender.indices where bytes[colon + 1 + index] != sender[index] { return false }
        return true
    }
}
