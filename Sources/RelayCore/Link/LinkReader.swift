/// Reads the link's primitive values from one message. Total: any bytes give values or a refusal; allocates
/// no more than the bytes that are there.
struct LinkReader {
    private let bytes: ArraySlice<UInt8>
    private var position: Int
    /// In which the message is written.
    let version: UInt8

    init(_ bytes: ArraySlice<UInt8>, version: UInt8 = LinkFormat.version) {
        self.bytes = bytes
        self.version = version
        position = bytes.startIndex
    }

    private var remaining: Int { bytes.endIndex - position }

    mutating func integer<Integer: FixedWidthInteger>() throws(LinkRefusal) -> Integer {
        let byteCount = Integer.bitWidth / 8
        guard remaining >= byteCount else { throw .truncated }
        var value: Integer = 0
        for _ in 0..<byteCount {
            value = (value &<< 7) &<< 1 | Integer(truncatingIfNeeded: bytes[position])
            position += 1
        }
        return value
    }

    mutating func bool(_ field: StaticString) throws(LinkRefusal) -> Bool {
        switch try integer() as UInt8 {
        case 0: return false
        case 1: return true
        default: throw .badValue("\(field)")
        }
    }

    mutating func byteString() throws(LinkRefusal) -> [UInt8] {
        let count = Int(try integer() as UInt16)
        guard remaining >= count else { throw .truncated }
        defer { position += count }
        return Array(bytes[position..<position + count])
    }

    mutating func string(_ field: StaticString) throws(LinkRefusal) -> String {
        let utf8 = try byteString()
        guard let text = String(validating: utf8, as: UTF8.self) else { throw .badValue("\(field)") }
        return text
    }

    /// A list whose elements take at least `elementByteCount` bytes each, which bounds what is reserved for
    /// it.
    mutating func list<Element>(
        elementByteCount: Int, limit: Int, _ field: StaticString,
        _ body: (inout LinkReader) throws(LinkRefusal) -> Element
    ) throws(LinkRefusal) -> [Element] {
        let count = Int(try integer() as UInt32)
        guard count <= limit else { throw .badValue("\(field)") }
        guard count * elementByteCount <= remaining else { throw .truncated }
        var list: [Element] = []
        list.reserveCapacity(count)
        for _ in 0..<count { list.append(try body(&self)) }
        return list
    }

    mutating func optional<Integer: FixedWidthInteger>(_ field: StaticString) throws(LinkRefusal) -> Integer? {
        try bool(field) ? try integer() as Integer : nil
    }

    mutating func choice<Choice: RawRepresentable<UInt8>>(_ field: StaticString) throws(LinkRefusal) -> Choice {
        guard let choice = Choice(rawValue: try integer()) else { throw .badValue("\(field)") }
        return choice
    }

    func finish() throws(LinkRefusal) {
        guard remaining == 0 else { throw .trailingBytes(remaining) }
    }
}
