// Byte-level pieces of the SDP grammar (RFC 8866 §9): fields, tokens, numbers, hex. Works on bytes because
// "\r\n" is one Character in Swift and input need not be UTF-8.

/// One line of a description without its ending.
struct SDPLine {
    /// Counted from 1.
    var number: Int
    /// The letter before `=`.
    var type: UInt8
    var value: ArraySlice<UInt8>
}

extension ArraySlice<UInt8> {
    /// Decoded as UTF-8; what is not UTF-8 becomes U+FFFD.
    var text: String { String(decoding: self, as: UTF8.self) }

    /// Without spaces and tabs at either end.
    var trimmed: ArraySlice<UInt8> {
        var result = self
        while let first = result.first, first == 0x20 || first == 0x09 { result.removeFirst() }
        while let last = result.last, last == 0x20 || last == 0x09 { result.removeLast() }
        return result
    }

    /// The non-empty pieces between spaces.
    var fields: [ArraySlice<UInt8>] { split(separator: 0x20) }

    /// What stands before and after the first `separator`; the tail is nil without one.
    func halves(at separator: UInt8) -> (head: ArraySlice<UInt8>, tail: ArraySlice<UInt8>?) {
        guard let index = firstIndex(of: separator) else { return (self, nil) }
        return (self[..<index], self[(index + 1)...])
    }

    /// A number of digits alone, at most `maximum`.
    func decimal(upTo maximum: UInt64) -> UInt64? {
        guard !isEmpty else { return nil }
        var value: UInt64 = 0
        for byte in self {
            guard (0x30...0x39).contains(byte) else { return nil }
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.addingReportingOverflow(UInt64(byte - 0x30))
            guard !overflow, !carry, sum <= maximum else { return nil }
            value = sum
        }
        return value
    }

    /// RFC 8866 §9 `token`: visible ASCII without separators.
    var isToken: Bool {
        !isEmpty
            && allSatisfy { byte in
                switch byte {
                case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x30...0x39, 0x41...0x5A, 0x5E...0x7E: true
                default: false
                }
            }
    }

    /// Visible ASCII, at least one.
    var isVisible: Bool { !isEmpty && allSatisfy { (0x21...0x7E).contains($0) } }

    /// RFC 8839 §5.4 `ice-char`s only, within the given count.
    func isICEText(_ counts: ClosedRange<Int>) -> Bool {
        counts.contains(count)
            && allSatisfy { byte in
                switch byte {
                case 0x2B, 0x2F, 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: false
                }
            }
    }

    /// Pairs of hex digits between colons (RFC 8122 §5); nil for any other form.
    var colonHex: [UInt8]? {
        guard count % 3 == 2 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity((count + 1) / 3)
        var index = startIndex
        while index < endIndex {
            guard let high = hexValue(self[index]), let low = hexValue(self[index + 1]) else { return nil }
            bytes.append(high << 4 | low)
            index += 2
            if index < endIndex {
                guard self[index] == UInt8(ascii: ":") else { return nil }
                index += 1
            }
        }
        return bytes
    }
}

private func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x41 + 10
    case 0x61...0x66: byte - 0x61 + 10
    default: nil
    }
}
