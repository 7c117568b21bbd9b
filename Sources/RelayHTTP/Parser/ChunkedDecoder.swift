/// Decodes a chunked body (RFC 9112 section 7.1) forward only: no byte is looked at twice, so a body of a
/// million tiny chunks costs what its bytes cost. Ends before the trailer section, which the parser reads as
/// lines.
///
/// Chunk extensions are taken as tokens, "=" and ";" up to 256 bytes a body and dropped; anything else in a
/// size line is refused, white space too.
struct ChunkedDecoder: Sendable {
    /// All extensions of one body together, bytes.
    static let maximumExtensionByteCount = 256
    /// 16 hexadecimal digits are 64 bits.
    private static let maximumDigitCount = 16

    private enum State: Sendable {
        case size
        case extensions
        case sizeLineFeed
        case data
        case dataCarriageReturn
        case dataLineFeed
    }

    private var state = State.size
    private var digitCount = 0
    private var remaining: UInt64 = 0
    private var extensionByteCount = 0

    /// Takes bytes from `offset` on. True when the last chunk's line has ended.
    mutating func receive(
        _ bytes: Span<UInt8>, from offset: inout Int, into body: inout [UInt8], limit: Int
    ) throws(RequestRefusal) -> Bool {
        while offset < bytes.count {
            if state == .data {
                let count = Int(min(remaining, UInt64(bytes.count - offset)))
                body.append(contentsOf: bytes, from: offset, count: count)
                offset += count
                remaining -= UInt64(count)
                if remaining == 0 { state = .dataCarriageReturn }
                continue
            }
            let byte = bytes[offset]
            offset += 1
            if try take(byte, bodyByteCount: body.count, limit: limit) { return true }
        }
        return false
    }

    /// Takes one byte that is not data.
    private mutating func take(_ byte: UInt8, bodyByteCount: Int, limit: Int) throws(RequestRefusal) -> Bool {
        switch state {
        case .size:
            try takeSize(byte)
        case .extensions:
            if byte == ASCII.carriageReturn {
                state = .sizeLineFeed
                break
            }
            extensionByteCount += 1
            guard ASCII.isToken(byte) || byte == 0x3d || byte == 0x3b,
                extensionByteCount <= Self.maximumExtensionByteCount
            else { throw .malformed("A chunk extension is not made of tokens or is too long.") }
        case .sizeLineFeed:
            guard byte == ASCII.lineFeed else { throw .malformed("A chunk size does not end in CR LF.") }
            guard remaining > 0 else { return true }
            guard remaining <= UInt64(limit - bodyByteCount) else { throw .bodyTooLarge(limit) }
            state = .data
        case .dataCarriageReturn:
            guard byte == ASCII.carriageReturn else { throw .malformed("A chunk is longer than its size.") }
            state = .dataLineFeed
        case .dataLineFeed:
            guard byte == ASCII.lineFeed else { throw .malformed("A chunk does not end in CR LF.") }
            state = .size
            digitCount = 0
        case .data:
            preconditionFailure("data is taken in runs")
        }
        return false
    }

    private mutating func takeSize(_ byte: UInt8) throws(RequestRefusal) {
        if let value = ASCII.hexValue(byte) {
            digitCount += 1
            guard digitCount <= Self.maximumDigitCount else {
                throw .malformed("A chunk size exceeds 63 bits.")
            }
            remaining = remaining << 4 | UInt64(value)
            guard remaining <= UInt64(Int64.max) else { throw .malformed("A chunk size exceeds 63 bits.") }
            return
        }
        guard digitCount > 0 else { throw .malformed("A chunk has no size.") }
        switch byte {
        case ASCII.carriageReturn: state = .sizeLineFeed
        case 0x3b: state = .extensions
        default: throw .malformed("A chunk size is not hexadecimal.")
        }
    }
}
