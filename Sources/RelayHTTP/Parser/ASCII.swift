// Byte classes and comparisons of HTTP. Everything that decides framing is done on bytes: String's
// lowercased() and == are Unicode, where U+212A KELVIN SIGN folds to "k" and would make an unknown transfer
// coding "chunked".

/// Character classes of RFC 9110 section 5.6 and RFC 3986 over single bytes.
package enum ASCII {
    static let tab: UInt8 = 0x09
    static let lineFeed: UInt8 = 0x0a
    static let carriageReturn: UInt8 = 0x0d
    static let space: UInt8 = 0x20
    static let colon: UInt8 = 0x3a

    /// Bit per byte: what a class allows.
    private static let tokenBit: UInt8 = 1
    private static let targetBit: UInt8 = 2
    private static let hostBit: UInt8 = 4

    private static let classes: [UInt8] = {
        var table = [UInt8](repeating: 0, count: 256)
        func mark(_ bytes: String, _ bit: UInt8) {
            for byte in bytes.utf8 { table[Int(byte)] |= bit }
        }
        let alphanumerics = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        mark(alphanumerics, tokenBit | targetBit | hostBit)
        mark("!#$%&'*+-.^_`|~", tokenBit)
        mark("-._~!$&'()*+,;=:@/?%", targetBit)
        mark("-._~!$&'()*+,;=%:[]", hostBit)
        return table
    }()

    /// tchar of RFC 9110 section 5.6.2.
    static func isToken(_ byte: UInt8) -> Bool { classes[Int(byte)] & tokenBit != 0 }

    /// What origin-form may hold: pchar, "/" and "?" of RFC 3986.
    static func isTarget(_ byte: UInt8) -> Bool { classes[Int(byte)] & targetBit != 0 }

    /// What a Host value may hold (RFC 3986 section 3.2.2 and the port).
    static func isHost(_ byte: UInt8) -> Bool { classes[Int(byte)] & hostBit != 0 }

    static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }

    /// The value of a hexadecimal digit, nil for any other byte.
    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte &- 0x30
        case 0x41...0x46: byte &- 0x41 &+ 10
        case 0x61...0x66: byte &- 0x61 &+ 10
        default: nil
        }
    }

    /// A control byte that no line of a head may hold (HTAB is white space, CR and LF are line ends).
    static func isControl(_ byte: UInt8) -> Bool { (byte < 0x20 && byte != tab) || byte == 0x7f }

    static func lowercase(_ byte: UInt8) -> UInt8 { byte &- 0x41 < 26 ? byte | 0x20 : byte }

    /// Whether two byte strings are the same when A…Z and a…z are not told apart, and nothing else is.
    static func equalIgnoringCase(_ left: some Collection<UInt8>, _ right: some Collection<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        return zip(left, right).allSatisfy { lowercase($0) == lowercase($1) }
    }
}
