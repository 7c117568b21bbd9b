/// What a decoder of JSON5 does not tell: the outermost object's names with their lines, and what a text that is cut off lacks. Judges
/// nothing: it finds strings, comments, brackets and words in any text.
enum FileScan {
    /// Of a text that is known to be JSON5.
    static func names(_ bytes: [UInt8]) -> [(name: String, line: Int)] {
        var reader = Reader(bytes: bytes)
        reader.run()
        return reader.names
    }

    /// The brackets that close what is open at the end; nil: it ends within a string or a comment.
    static func closing(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        var reader = Reader(bytes: Array(bytes))
        reader.run()
        guard !reader.isCut else { return nil }
        return reader.open.reversed().map { $0 == UInt8(ascii: "{") ? UInt8(ascii: "}") : UInt8(ascii: "]") }
    }

    private struct Reader {
        let bytes: [UInt8]
        var at = 0
        var line = 1
        var open: [UInt8] = []
        var isCut = false
        /// Where a name may begin: behind the outermost { and its commas.
        var awaitsName = false
        var names: [(name: String, line: Int)] = []

        init(bytes: [UInt8]) { self.bytes = bytes }

        var byte: UInt8? { at < bytes.count ? bytes[at] : nil }

        mutating func step() {
            if byte == UInt8(ascii: "\n") { line += 1 }
            at += 1
        }

        mutating func run() {
            while let byte {
                switch byte {
                case UInt8(ascii: "/"): comment()
                case UInt8(ascii: "\""), UInt8(ascii: "'"): string(quote: byte)
                case UInt8(ascii: "{"), UInt8(ascii: "["):
                    open.append(byte)
                    awaitsName = open.count == 1
                    step()
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    _ = open.popLast()
                    awaitsName = false
                    step()
                case UInt8(ascii: ","):
                    awaitsName = open.count == 1
                    step()
                case 0x20, 0x09, 0x0A, 0x0D: step()
                default: word()
                }
            }
        }

        mutating func comment() {
            let isLine = at + 1 < bytes.count && bytes[at + 1] == UInt8(ascii: "/")
            at += 2
            while let byte {
                if isLine, byte == UInt8(ascii: "\n") { return }
                if !isLine, byte == UInt8(ascii: "*"), at + 1 < bytes.count, bytes[at + 1] == UInt8(ascii: "/") {
                    at += 2
                    return
                }
                step()
            }
            isCut = !isLine
        }

        mutating func string(quote: UInt8) {
            step()
            let start = at
            while let byte, byte != quote {
                if byte == UInt8(ascii: "\\") { step() }
                step()
            }
            isCut = at >= bytes.count
            note(min(start, bytes.count)..<min(at, bytes.count))
            step()
        }

        mutating func word() {
            let start = at
            while let byte, !" \t\r\n:,/[]{}".utf8.contains(byte) { step() }
            note(start..<at)
            // A colon, or a byte that begins nothing.
            if at == start || byte == UInt8(ascii: ":") { step() }
        }

        mutating func note(_ range: Range<Int>) {
            guard awaitsName, !range.isEmpty else { return }
            awaitsName = false
            names.append((String(decoding: bytes[range], as: UTF8.self), line))
        }
    }
}
