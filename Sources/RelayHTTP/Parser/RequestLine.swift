/// The request line of RFC 9112 section 3: method, target, version, parted by exactly one space each.
struct RequestLine: Sendable {
    /// Longest method taken; the longest registered one has 17 bytes.
    static let maximumMethodByteCount = 32

    var method = ""
    var target = ""
    /// HTTP/1.0.
    var isLegacy = false

    init() {}

    /// Reads a line without its end. Bytes are already known to hold no control character but HTAB.
    init(_ line: borrowing Span<UInt8>, limits: RequestParser.Limits) throws(RequestRefusal) {
        var spaces: [Int] = []
        for index in line.indices where line[index] == ASCII.space {
            guard spaces.count < 2 else { throw .malformed("The request line has more than two spaces.") }
            spaces.append(index)
        }
        guard spaces.count == 2, spaces[0] > 0, spaces[1] > spaces[0] + 1 else {
            throw .malformed("The request line is not method, target and version.")
        }
        isLegacy = try Self.isLegacy(line.extracting((spaces[1] + 1)..<line.count))
        let target = line.extracting((spaces[0] + 1)..<spaces[1])
        guard target.count <= limits.targetByteCount else { throw .targetTooLong(limits.targetByteCount) }
        method = Self.text(line.extracting(0..<spaces[0]))
        guard method != "CONNECT" else { throw .tunnel }
        try Self.check(target, isOptions: method == "OPTIONS")
        self.target = Self.text(target)
    }

    private static func isLegacy(_ version: borrowing Span<UInt8>) throws(RequestRefusal) -> Bool {
        let name: StaticString = "HTTP/"
        guard version.count == 8, version[6] == 0x2e, ASCII.isDigit(version[5]), ASCII.isDigit(version[7]),
            (0..<5).allSatisfy({ version[$0] == name.utf8Start[$0] })
        else { throw .malformed("The request line does not end in an HTTP version.") }
        guard version[5] == 0x31, version[7] <= 0x31 else { throw .version }
        return version[7] == 0x30
    }

    /// Origin-form, or asterisk-form with OPTIONS (RFC 9112 section 3.2). Absolute-form is for proxies:
    /// refused.
    private static func check(_ target: borrowing Span<UInt8>, isOptions: Bool) throws(RequestRefusal) {
        if target.count == 1, target[0] == 0x2a, isOptions { return }
        guard target[0] == 0x2f else { throw .malformed("The target is not a path.") }
        for index in target.indices {
            guard ASCII.isTarget(target[index]) else {
                throw .malformed("The target holds a character that must be percent-encoded.")
            }
            guard target[index] == 0x25 else { continue }
            guard index + 2 < target.count, ASCII.hexValue(target[index + 1]) != nil,
                ASCII.hexValue(target[index + 2]) != nil
            else { throw .malformed("The target holds a broken percent-encoding.") }
        }
    }

    private static func text(_ bytes: borrowing Span<UInt8>) -> String {
        bytes.withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) }
    }
}
