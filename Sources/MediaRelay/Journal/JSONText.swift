import RelayCore

/// Writes JSON text (RFC 8259) field by field, in the order given. Numbers that JSON does not have become null; text is
/// escaped so that it also stands safely in a log line and in a server-sent event: no control character, no line separator.
package struct JSONText {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package static func of(_ value: JSONValue) -> [UInt8] {
        var text = JSONText()
        text.append(value)
        return text.bytes
    }

    package mutating func append(_ value: JSONValue) {
        switch value {
        case .null: raw("null")
        case .bool(let flag): raw(flag ? "true" : "false")
        case .integer(let number): raw(String(number))
        case .number(let number): raw(number.isFinite ? String(number) : "null")
        case .string(let text): string(text)
        case .array(let items):
            bytes.append(UInt8(ascii: "["))
            for (index, item) in items.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                append(item)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let fields):
            bytes.append(UInt8(ascii: "{"))
            for (index, field) in fields.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                string(field.name)
                bytes.append(UInt8(ascii: ":"))
                append(field.value)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private mutating func raw(_ text: String) { bytes.append(contentsOf: text.utf8) }

    private mutating func string(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        // Most texts are names and numbers of ours: nothing to escape.
        if text.utf8.allSatisfy({ (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") })
        {
            raw(text)
            bytes.append(UInt8(ascii: "\""))
            return
        }
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": raw("\\\"")
            case "\\": raw("\\\\")
            case "\n": raw("\\n")
            case "\r": raw("\\r")
            case "\t": raw("\\t")
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{2028}", "\u{2029}":
                let digits = String(scalar.value, radix: 16)
                raw("\\u" + String(repeating: "0", count: 4 - digits.count) + digits)
            default: bytes.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
