import RelayCore

/// Why a text is not taken as JSON, with the byte offset where it shows.
package struct JSONRefusal: Error, Equatable {
    package var detail: String
    package var offset: Int
}

/// Reads a whole JSON text strictly (RFC 8259): valid UTF-8, no byte-order mark, no trailing comma, no duplicate key (two parsers
/// would read two meanings, T73), nothing behind the value, at most `depth` levels. Foundation's reader on Linux is laxer in
/// all of these, and checking for them needs the whole grammar anyway. Never traps, recursion is bounded by `depth`.
package struct JSONReader {
    package static let depth = 32
    private let bytes: [UInt8]
    private var at = 0

    /// The value of `text`. Integers that fit 64 bits are `.integer`, other numbers `.number`; a number beyond a Double's range
    /// is refused.
    package static func read(_ text: [UInt8]) throws(JSONRefusal) -> JSONValue {
        guard String(validating: text, as: UTF8.self) != nil else {
            throw JSONRefusal(detail: "the text is not UTF-8", offset: 0)
        }
        var reader = JSONReader(bytes: text)
        let value = try reader.value(depth: 1)
        reader.skipSpace()
        guard reader.at == text.count else { throw reader.refusal("something follows the value") }
        return value
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private func refusal(_ detail: String) -> JSONRefusal { JSONRefusal(detail: detail, offset: at) }

    private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { at += 1 }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: character) else { return false }
        at += 1
        return true
    }

    private mutating func value(depth: Int) throws(JSONRefusal) -> JSONValue {
        guard depth <= Self.depth else { throw refusal("more than \(Self.depth) levels") }
        skipSpace()
        switch next {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func word(_ text: StaticString, _ value: JSONValue) throws(JSONRefusal) -> JSONValue {
        for i in 0..<text.utf8CodeUnitCount {
            guard next == text.utf8Start[i] else { throw refusal("not a JSON value") }
            at += 1
        }
        return value
    }

    private mutating func object(depth: Int) throws(JSONRefusal) -> JSONValue {
        at += 1
        var fields: [JSONValue.Field] = []
        var names: Set<String> = []
        skipSpace()
        if take("}") { return .object([]) }
        repeat {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw refusal("a field needs a name in quotes") }
            let name = try string()
            guard names.insert(name).inserted else { throw refusal("the field \"\(name)\" stands twice") }
            skipSpace()
            guard take(":") else { throw refusal("a colon must follow a field's name") }
            fields.append(JSONValue.Field(name, try value(depth: depth + 1)))
            skipSpace()
        } while take(",")
        guard take("}") else { throw refusal("an object must end with a brace") }
        return .object(fields)
    }

    private mutating func array(depth: Int) throws(JSONRefusal) -> JSONValue {
        at += 1
        var items: [JSONValue] = []
        skipSpace()
        if take("]") { return .array([]) }
        repeat {
            items.append(try value(depth: depth + 1))
            skipSpace()
        } while take(",")
        guard take("]") else { throw refusal("an array must end with a bracket") }
        return .array(items)
    }

    private mutating func string() throws(JSONRefusal) -> String {
        at += 1
        var text: [UInt8] = []
        while let byte = next {
            at += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): text.append(contentsOf: try escape())
            case 0..<0x20: throw refusal("a control character in a string")
            default: text.append(byte)
            }
        }
        throw refusal("a string does not end")
    }

    private mutating func escape() throws(JSONRefusal) -> [UInt8] {
        guard let byte = next else { throw refusal("an escape does not end") }
        at += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [byte]
        case UInt8(ascii: "b"): return [8]
        case UInt8(ascii: "f"): return [12]
        case UInt8(ascii: "n"): return [10]
        case UInt8(ascii: "r"): return [13]
        case UInt8(ascii: "t"): return [9]
        case UInt8(ascii: "u"):
            var code = try hexadecimal()
            if (0xD800..<0xDC00).contains(code), take("\\"), take("u") {
                let low = try hexadecimal()
                guard (0xDC00..<0xE000).contains(low) else { throw refusal("half a surrogate pair") }
                code = 0x1_0000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(code) else { throw refusal("half a surrogate pair") }
            return Array(UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
        default: throw refusal("an escape that JSON does not have")
        }
    }

    private mutating func hexadecimal() throws(JSONRefusal) -> UInt32 {
        var code: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = next, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
                throw refusal("four hexadecimal digits must follow \\u")
            }
            code = code << 4 | UInt32(digit)
            at += 1
        }
        return code
    }

    private mutating func number() throws(JSONRefusal) -> JSONValue {
        let start = at
        var isInteger = true
        _ = take("-")
        if !take("0") {
            guard digits() else { throw refusal("not a JSON value") }
        }
        if take(".") {
            isInteger = false
            guard digits() else { throw refusal("a digit must follow the point") }
        }
        if take("e") || take("E") {
            isInteger = false
            if !take("+") { _ = take("-") }
            guard digits() else { throw refusal("a digit must follow the exponent's sign") }
        }
        guard at - start <= 64 else { throw refusal("a number of more than 64 characters") }
        let text = String(decoding: bytes[start..<at], as: UTF8.self)
        if isInteger, let integer = Int64(text) { return .integer(integer) }
        guard let number = Double(text), number.isFinite else { throw refusal("a number out of range") }
        return .number(number)
    }

    private mutating func digits() -> Bool {
        let start = at
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { at += 1 }
        return at > start
    }
}

extension JSONValue {
    /// The value of an object's field; nil for other values and absent fields.
    package subscript(name: String) -> JSONValue? {
        guard case .object(let fields) = self else { return nil }
        return fields.first { $0.name == name }?.value
    }
}
