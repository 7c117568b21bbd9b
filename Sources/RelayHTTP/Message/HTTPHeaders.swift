/// The fields of a request in the order they came, looked up by ASCII bytes without regard to case.
///
/// One buffer and offsets: a head of 100 fields costs two allocations.
public struct HTTPHeaders: Sendable {
    /// One field as offsets into the bytes of the head.
    struct Field: Sendable {
        var nameStart: Int32
        var nameEnd: Int32
        var valueStart: Int32
        var valueEnd: Int32

        var name: Range<Int> { Int(nameStart)..<Int(nameEnd) }
        var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
    }

    private let bytes: [UInt8]
    private let fields: [Field]

    init(bytes: [UInt8], fields: [Field]) {
        self.bytes = bytes
        self.fields = fields
    }

    /// Fields from names and values, for tests of what reads them. Names and values are taken as they are.
    public init(_ pairs: [(name: String, value: String)] = []) {
        var bytes: [UInt8] = []
        var fields: [Field] = []
        for pair in pairs {
            let start = bytes.count
            bytes.append(contentsOf: pair.name.utf8)
            let middle = bytes.count
            bytes.append(contentsOf: pair.value.utf8)
            fields.append(Field(name: start..<middle, value: middle..<bytes.count))
        }
        self.init(bytes: bytes, fields: fields)
    }

    /// How many fields there are.
    public var count: Int { fields.count }

    /// All fields in order. Bytes that are no UTF-8 read as U+FFFD.
    public var pairs: [(name: String, value: String)] {
        fields.map { (text($0.name), text($0.value)) }
    }

    /// The value of the first field of a name, nil when there is none.
    public func first(_ name: String) -> String? {
        fields.first { matches($0, name) }.map { text($0.value) }
    }

    /// The values of all fields of a name, in order.
    public func all(_ name: String) -> [String] {
        fields.filter { matches($0, name) }.map { text($0.value) }
    }

    /// The bytes of the first value of a name as they came, nil when there is none.
    public func firstBytes(_ name: String) -> [UInt8]? {
        fields.first { matches($0, name) }.map { Array(bytes[$0.value]) }
    }

    private func matches(_ field: Field, _ name: String) -> Bool {
        ASCII.equalIgnoringCase(bytes[field.name], name.utf8)
    }

    private func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    /// A range without the spaces and tabs at its ends (OWS of RFC 9110 section 5.6.3).
    static func trimmed(_ range: Range<Int>, in bytes: borrowing Span<UInt8>) -> Range<Int> {
        var start = range.lowerBound
        var end = range.upperBound
        while start < end, isBlank(bytes[start]) { start += 1 }
        while end > start, isBlank(bytes[end - 1]) { end -= 1 }
        return start..<end
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == ASCII.space || byte == ASCII.tab }
}

extension HTTPHeaders.Field {
    init(name: Range<Int>, value: Range<Int>) {
        nameStart = Int32(name.lowerBound)
        nameEnd = Int32(name.upperBound)
        valueStart = Int32(value.lowerBound)
        valueEnd = Int32(value.upperBound)
    }

    /// Reads a field line (RFC 9112 section 5): a token, a colon directly behind it, a value. Folded lines
    /// begin with a blank and are refused with the rest that is no token.
    init(line: Range<Int>, in bytes: borrowing Span<UInt8>) throws(RequestRefusal) {
        var colon = line.lowerBound
        while colon < line.upperBound, ASCII.isToken(bytes[colon]) { colon += 1 }
        guard colon > line.lowerBound, colon < line.upperBound, bytes[colon] == ASCII.colon else {
            throw .malformed("A header line is not a field name, a colon and a value.")
        }
        let value = HTTPHeaders.trimmed((colon + 1)..<line.upperBound, in: bytes)
        self.init(name: line.lowerBound..<colon, value: value)
    }
}
