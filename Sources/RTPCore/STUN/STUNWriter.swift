/// Builds one STUN message behind whatever the output already holds (RFC 8489, RFC 8445): first the header, then
/// attributes in the order of the calls, MESSAGE-INTEGRITY and FINGERPRINT last. The length field is right after each call.
///
///     var writer = STUNWriter(.success, transactionID: request.transactionID, to: &out)
///     writer.appendMappedAddress(peer, to: &out)
///     writer.appendIntegrity(to: &out) { hmac($0) }
///     writer.appendFingerprint(to: &out)
///     guard writer.fits else { … }
///
/// What does not fit is left out whole and `fits` becomes false for good: the message must then not be sent. The caller
/// hands the same output to each call. Nothing is allocated; the closure does not escape and gives the 20 bytes of the
/// HMAC as integers.
public struct STUNWriter {
    /// Everything asked for so far has been written.
    public private(set) var fits: Bool
    private let start: Int
    private let transactionID: STUNTransactionID

    /// Writes the header. `method` has 12 bits.
    public init(
        _ messageClass: STUNClass, method: UInt16 = STUN.bindingMethod, transactionID: STUNTransactionID,
        to out: inout OutputSpan<UInt8>
    ) {
        precondition(method < 0x1000, "a STUN method has 12 bits")
        start = out.count
        self.transactionID = transactionID
        fits = out.freeCapacity >= STUN.headerByteCount
        guard fits else { return }
        let classBits = UInt16(messageClass.rawValue & 1) << 4 | UInt16(messageClass.rawValue & 2) << 7
        out.appendBigEndian(method & 0x000F | (method & 0x0070) << 1 | (method & 0x0F80) << 2 | classBits)
        out.appendBigEndian(UInt16(0))
        out.appendBigEndian(STUN.magicCookie)
        out.appendBigEndian(transactionID.high)
        out.appendBigEndian(transactionID.low)
    }

    /// USERNAME of a check: the fragment of whoever receives it, a colon, the fragment of whoever sends it.
    public mutating func appendUsername(
        receiver: Span<UInt8>, sender: Span<UInt8>, to out: inout OutputSpan<UInt8>
    ) {
        let byteCount = receiver.count + 1 + sender.count
        precondition(byteCount <= STUN.usernameByteLimit, "a username has at most 508 bytes")
        guard begin(STUNAttribute.username, byteCount: byteCount, in: &out) else { return }
        for index in receiver.indices { out.append(receiver[index]) }
        out.append(UInt8(ascii: ":"))
        for index in sender.indices { out.append(sender[index]) }
        pad(byteCount, in: &out)
    }

    public mutating func appendPriority(_ priority: UInt32, to out: inout OutputSpan<UInt8>) {
        guard begin(STUNAttribute.priority, byteCount: 4, in: &out) else { return }
        out.appendBigEndian(priority)
    }

    /// ICE-CONTROLLED with our tie-breaker: a lite agent is always controlled (RFC 8445 section 6.1.1).
    public mutating func appendControlled(tieBreaker: UInt64, to out: inout OutputSpan<UInt8>) {
        guard begin(STUNAttribute.iceControlled, byteCount: 8, in: &out) else { return }
        out.appendBigEndian(tieBreaker)
    }

    /// ICE-CONTROLLING, for the client side (tests, bench).
    public mutating func appendControlling(tieBreaker: UInt64, to out: inout OutputSpan<UInt8>) {
        guard begin(STUNAttribute.iceControlling, byteCount: 8, in: &out) else { return }
        out.appendBigEndian(tieBreaker)
    }

    public mutating func appendUseCandidate(to out: inout OutputSpan<UInt8>) {
        _ = begin(STUNAttribute.useCandidate, byteCount: 0, in: &out)
    }

    /// XOR-MAPPED-ADDRESS: where the request came from.
    public mutating func appendMappedAddress(_ peer: PeerAddress, to out: inout OutputSpan<UInt8>) {
        guard begin(STUNAttribute.xorMappedAddress, byteCount: peer.isIPv4 ? 8 : 20, in: &out) else { return }
        out.append(0)
        out.append(peer.isIPv4 ? 1 : 2)
        out.appendBigEndian(peer.port ^ UInt16(STUN.magicCookie >> 16))
        if peer.isIPv4 {
            out.appendBigEndian(peer.ipv4 ^ STUN.magicCookie)
        } else {
            out.appendBigEndian(peer.high ^ (UInt64(STUN.magicCookie) << 32 | UInt64(transactionID.high)))
            out.appendBigEndian(peer.low ^ transactionID.low)
        }
    }

    /// ERROR-CODE with the reason phrase that RFC 8489 and RFC 8445 recommend. `code` is 300…699.
    public mutating func appendErrorCode(_ code: Int, to out: inout OutputSpan<UInt8>) {
        precondition(code >= 300 && code <= 699, "an error code is 300…699")
        let reason = STUNWriter.reason(of: code)
        let byteCount = 4 + reason.utf8.count
        guard begin(STUNAttribute.errorCode, byteCount: byteCount, in: &out) else { return }
        out.appendBigEndian(UInt16(0))
        out.append(UInt8(code / 100))
        out.append(UInt8(code % 100))
        for byte in reason.utf8 { out.append(byte) }
        pad(byteCount, in: &out)
    }

    /// UNKNOWN-ATTRIBUTES, naming one type; belongs to error 420.
    public mutating func appendUnknownAttribute(_ type: UInt16, to out: inout OutputSpan<UInt8>) {
        guard begin(STUNAttribute.unknownAttributes, byteCount: 2, in: &out) else { return }
        out.appendBigEndian(type)
        pad(2, in: &out)
    }

    /// MESSAGE-INTEGRITY.
    /// - Parameter hmac: gets the message so far, its length field already counting this attribute, and returns the
    ///   HMAC-SHA1 of exactly these bytes. Called at most once, and not at all when there is no room.
    public mutating func appendIntegrity(
        to out: inout OutputSpan<UInt8>, _ hmac: (_ prefix: Span<UInt8>) -> STUNIntegrity
    ) {
        guard fits, out.freeCapacity >= 24 else {
            fits = false
            return
        }
        setLength(out.count + 24 - start, in: &out)
        let integrity = hmac(out.span.extracting(start..<out.count))
        out.appendBigEndian(STUNAttribute.messageIntegrity)
        out.appendBigEndian(UInt16(20))
        out.appendBigEndian(integrity.high)
        out.appendBigEndian(integrity.middle)
        out.appendBigEndian(integrity.low)
    }

    /// FINGERPRINT: must be the last call.
    public mutating func appendFingerprint(to out: inout OutputSpan<UInt8>) {
        guard fits, out.freeCapacity >= 8 else {
            fits = false
            return
        }
        setLength(out.count + 8 - start, in: &out)
        let checksum = CRC32.checksum(out.span.extracting(start..<out.count)) ^ STUN.fingerprintMask
        out.appendBigEndian(STUNAttribute.fingerprint)
        out.appendBigEndian(UInt16(4))
        out.appendBigEndian(checksum)
    }

    /// Writes type and length when the whole padded attribute fits.
    private mutating func begin(_ type: UInt16, byteCount: Int, in out: inout OutputSpan<UInt8>) -> Bool {
        let whole = 4 + (byteCount + 3) & ~3
        guard fits, out.freeCapacity >= whole, out.count + whole - start <= 0xFFFF else {
            fits = false
            return false
        }
        setLength(out.count + whole - start, in: &out)
        out.appendBigEndian(type)
        out.appendBigEndian(UInt16(byteCount))
        return true
    }

    private func pad(_ byteCount: Int, in out: inout OutputSpan<UInt8>) {
        for _ in 0..<(-byteCount & 3) { out.append(0) }
    }

    private func setLength(_ messageByteCount: Int, in out: inout OutputSpan<UInt8>) {
        let length = messageByteCount - STUN.headerByteCount
        out[start + 2] = UInt8(truncatingIfNeeded: length >> 8)
        out[start + 3] = UInt8(truncatingIfNeeded: length)
    }

    private static func reason(of code: Int) -> String {
        switch code {
        case 400: "Bad Request"
        case 401: "Unauthenticated"
        case 420: "Unknown Attribute"
        case 487: "Role Conflict"
        default: ""
        }
    }
}
