// The text form of peer addresses: strict reading of IPv4 and IPv6 literals (never names, zones, ports or brackets), the
// full form for SDP, and a redacted form, which is all that a description gives: an address is personal data.

extension PeerAddress: CustomStringConvertible, CustomDebugStringConvertible {
    /// Reads an IPv4 literal (four decimal numbers without leading zeros) or an IPv6 literal (RFC 4291 section 2.2, also
    /// with an IPv4 tail); nil for anything else. An IPv4-mapped IPv6 literal gives the IPv4 address.
    public init?(address: String, port: UInt16) {
        var text = address
        let found = text.withUTF8 { unsafe PeerAddress(address: $0.span, port: port) }
        guard let found else { return nil }
        self = found
    }

    /// The same for ASCII bytes.
    public init?(address: Span<UInt8>, port: UInt16) {
        if let ipv4 = readIPv4(address, from: 0) {
            self.init(ipv4: ipv4, port: port)
        } else if let groups = readIPv6(address) {
            self.init(high: groups.high, low: groups.low, port: port)
        } else {
            return nil
        }
    }

    /// The address without port, as SDP has it: `192.0.2.1`, or RFC 5952 form, `2001:db8::1`. Not for logs.
    public var addressText: String {
        if isIPv4 { return "\(ipv4 >> 24).\(ipv4 >> 16 & 0xFF).\(ipv4 >> 8 & 0xFF).\(ipv4 & 0xFF)" }
        let zeros = longestZeroRun()
        var text = ""
        var index = 0
        while index < 8 {
            if index == zeros.lowerBound, !zeros.isEmpty {
                text += "::"
                index = zeros.upperBound
                continue
            }
            if index > 0, index != zeros.upperBound || zeros.isEmpty { text += ":" }
            text += String(group(index), radix: 16)
            index += 1
        }
        return text
    }

    /// Address and port: `192.0.2.1:5000`, `[2001:db8::1]:5000`. Not for logs.
    public var text: String {
        isIPv4 ? "\(addressText):\(port)" : "[\(addressText)]:\(port)"
    }

    /// Enough to tell networks apart and no more: the last octet (IPv4) or the last 80 bits (IPv6) are hidden.
    public var redacted: String {
        if isIPv4 { return "\(ipv4 >> 24).\(ipv4 >> 16 & 0xFF).\(ipv4 >> 8 & 0xFF).x:\(port)" }
        let groups = (0..<3).map { String(group($0), radix: 16) }
        return "[\(groups.joined(separator: ":")):x]:\(port)"
    }

    public var description: String { redacted }
    public var debugDescription: String { redacted }

    private func group(_ index: Int) -> UInt16 {
        let half = index < 4 ? high : low
        return UInt16(truncatingIfNeeded: half >> UInt64(48 - 16 * (index & 3)))
    }

    /// The longest run of two or more zero groups, the first of equal ones (RFC 5952 section 4.2); empty without any.
    private func longestZeroRun() -> Range<Int> {
        var best = 0..<0
        var start = 0
        for index in 0...8 {
            if index < 8, group(index) == 0 { continue }
            if index - start >= 2, index - start > best.count { best = start..<index }
            start = index + 1
        }
        return best
    }
}

/// Four decimal numbers, from `start` to the end.
private func readIPv4(_ bytes: Span<UInt8>, from start: Int) -> UInt32? {
    var address: UInt32 = 0
    var octet: UInt32 = 0
    var digitCount = 0
    var octetCount = 0
    guard bytes.count - start <= 15 else { return nil }
    for index in start...bytes.count {
        if index < bytes.count, let digit = decimalDigit(bytes[index]) {
            // A leading zero is refused: some readers take it for octal.
            guard digitCount == 0 || octet != 0, digitCount < 3 else { return nil }
            octet = octet * 10 + digit
            digitCount += 1
            continue
        }
        guard index == bytes.count || bytes[index] == UInt8(ascii: ".") else { return nil }
        guard digitCount > 0, octet <= 255, octetCount < 4 else { return nil }
        address = address << 8 | octet
        octetCount += 1
        octet = 0
        digitCount = 0
    }
    return octetCount == 4 ? address : nil
}

/// Groups of up to four hex digits between colons; one `::` stands for one or more zero groups; the last 32 bits may be
/// written as IPv4.
private func readIPv6(_ bytes: Span<UInt8>) -> (high: UInt64, low: UInt64)? {
    guard bytes.count >= 2, bytes.count <= 45 else { return nil }
    // The groups so far as one number; the groups since `::` are counted so that the gap can be opened at the end.
    var value: UInt128 = 0
    var groupCount = 0
    var gap: Int?
    var index = 0
    if bytes[0] == UInt8(ascii: ":") {
        guard bytes[1] == UInt8(ascii: ":") else { return nil }
        gap = 0
        index = 2
    }
    while index < bytes.count {
        let start = index
        var group: UInt128 = 0
        while index < bytes.count, let digit = hexDigit(bytes[index]) {
            guard index - start < 4 else { return nil }
            group = group << 4 | UInt128(digit)
            index += 1
        }
        if index < bytes.count, bytes[index] == UInt8(ascii: ".") {
            guard groupCount <= 6, let ipv4 = readIPv4(bytes, from: start) else { return nil }
            value = value << 32 | UInt128(ipv4)
            groupCount += 2
            break
        }
        guard index > start, groupCount < 8 else { return nil }
        value = value << 16 | group
        groupCount += 1
        guard index < bytes.count else { break }
        guard bytes[index] == UInt8(ascii: ":") else { return nil }
        index += 1
        guard index < bytes.count else { return nil }
        if bytes[index] == UInt8(ascii: ":") {
            guard gap == nil else { return nil }
            gap = groupCount
            index += 1
        }
    }
    guard groupCount <= 8, (gap == nil) == (groupCount == 8) else { return nil }
    if let gap {
        // What stands behind the gap stays at the low end, what stands before moves to the high end.
        let tailBits = 16 * (groupCount - gap)
        let tail = value & (UInt128(1) << UInt128(tailBits) - 1)
        value = gap == 0 ? tail : (value >> UInt128(tailBits)) << UInt128(128 - 16 * gap) | tail
    }
    return (UInt64(truncatingIfNeeded: value >> 64), UInt64(truncatingIfNeeded: value))
}

private func decimalDigit(_ byte: UInt8) -> UInt32? {
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") ? UInt32(byte - UInt8(ascii: "0")) : nil
}

private func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
}
