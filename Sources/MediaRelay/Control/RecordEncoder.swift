/// Writes an `Encodable` as JSON (RFC 8259) straight into bytes: a room's record is stored with every decision about it, and
/// Foundation's encoder, which builds a tree of values first, took half of the control loop's time. What it writes is read by
/// Foundation's decoder. For our own records: structs, enums, arrays, dictionaries and optionals of numbers, texts and flags.
enum RecordEncoder {
    static func encode(_ value: some Encodable) throws -> [UInt8] {
        let writer = RecordWriter()
        try writer.write(value)
        return writer.bytes
    }
}

/// The text so far and the containers that are open in it. Behind a pointer, since each access to a class's own variable is
/// checked for exclusivity, which cost as much as the writing.
private final class RecordWriter {
    private struct State {
        var bytes: [UInt8] = []
        var levels: [(closer: UInt8, isEmpty: Bool)] = []
    }
    private let state = UnsafeMutablePointer<State>.allocate(capacity: 1)

    init() {
        state.initialize(to: State())
        state.pointee.bytes.reserveCapacity(4_096)
    }

    deinit {
        state.deinitialize(count: 1)
        state.deallocate()
    }

    var bytes: [UInt8] { state.pointee.bytes }

    /// Returns the depth of what is inside.
    func open(_ opener: Unicode.Scalar, _ closer: Unicode.Scalar) -> Int {
        state.pointee.bytes.append(UInt8(ascii: opener))
        state.pointee.levels.append((UInt8(ascii: closer), true))
        return state.pointee.levels.count
    }

    /// A container tells nobody that it is done: it is when its parent goes on.
    func close(downTo depth: Int) {
        while state.pointee.levels.count > depth {
            state.pointee.bytes.append(state.pointee.levels.removeLast().closer)
        }
    }

    func beginItem(at depth: Int) {
        close(downTo: depth)
        if !state.pointee.levels[depth - 1].isEmpty { state.pointee.bytes.append(UInt8(ascii: ",")) }
        state.pointee.levels[depth - 1].isEmpty = false
    }

    func beginItem(at depth: Int, key: String) {
        beginItem(at: depth)
        text(key)
        state.pointee.bytes.append(UInt8(ascii: ":"))
    }

    func write<Value: Encodable>(_ value: Value) throws {
        if Value.self == [UInt8].self { return list(unsafeBitCast(value, to: [UInt8].self)) }
        let (outside, before) = (state.pointee.levels.count, state.pointee.bytes.count)
        try value.encode(to: ValueEncoder(writer: self))
        close(downTo: outside)
        // A struct without fields may ask for no container.
        if state.pointee.bytes.count == before { raw("{}") }
    }

    func text(_ text: String) {
        state.pointee.bytes.append(UInt8(ascii: "\""))
        defer { state.pointee.bytes.append(UInt8(ascii: "\"")) }
        var text = text
        text.withUTF8 { utf8 in
            var start = 0
            for index in utf8.indices where Self.isEscaped(utf8[index]) {
                raw(UnsafeBufferPointer(rebasing: utf8[start..<index]))
                escape(utf8[index])
                start = index + 1
            }
            raw(UnsafeBufferPointer(rebasing: utf8[start...]))
        }
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    private func escape(_ byte: UInt8) {
        state.pointee.bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\n"): state.pointee.bytes.append(UInt8(ascii: "n"))
        case UInt8(ascii: "\r"): state.pointee.bytes.append(UInt8(ascii: "r"))
        case 0..<0x20:
            raw(byte < 0x10 ? "u000" : "u001")
            raw(String(byte & 0xF, radix: 16))
        default: state.pointee.bytes.append(byte)
        }
    }

    func flag(_ flag: Bool) { raw(flag ? "true" : "false") }
    func integer(_ number: some BinaryInteger) {
        if let small = Int64(exactly: number) {
            decimal(small.magnitude, isNegative: small < 0)
        } else {
            raw(String(number))
        }
    }

    private func decimal(_ magnitude: UInt64, isNegative: Bool) {
        if isNegative { state.pointee.bytes.append(UInt8(ascii: "-")) }
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var rest = magnitude
            var first = 20
            repeat {
                first -= 1
                digits[first] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            } while rest > 0
            raw(UnsafeBufferPointer(rebasing: digits[first...]))
        }
    }

    private func list(_ numbers: [UInt8]) {
        state.pointee.bytes.append(UInt8(ascii: "["))
        for (index, number) in numbers.enumerated() {
            if index > 0 { state.pointee.bytes.append(UInt8(ascii: ",")) }
            decimal(UInt64(number), isNegative: false)
        }
        state.pointee.bytes.append(UInt8(ascii: "]"))
    }

    func number(_ number: Double) throws {
        guard number.isFinite else {
            throw EncodingError.invalidValue(number, .init(codingPath: [], debugDescription: "JSON has no such number"))
        }
        raw(String(number))
    }

    func raw(_ text: String) { state.pointee.bytes.append(contentsOf: text.utf8) }
    private func raw(_ bytes: UnsafeBufferPointer<UInt8>) { state.pointee.bytes.append(contentsOf: bytes) }
}

private struct ValueEncoder: Encoder {
    let writer: RecordWriter
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(Fields<Key>(writer: writer, depth: writer.open("{", "}")))
    }
    func unkeyedContainer() -> any UnkeyedEncodingContainer { Items(writer: writer, depth: writer.open("[", "]")) }
    func singleValueContainer() -> any SingleValueEncodingContainer { Single(writer: writer) }
}

private struct Fields<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let writer: RecordWriter
    let depth: Int
    var codingPath: [any CodingKey] { [] }

    private func begin(_ key: Key) { writer.beginItem(at: depth, key: key.stringValue) }

    func encodeNil(forKey key: Key) { begin(key); writer.raw("null") }
    func encode(_ value: Bool, forKey key: Key) { begin(key); writer.flag(value) }
    func encode(_ value: String, forKey key: Key) { begin(key); writer.text(value) }
    func encode(_ value: Double, forKey key: Key) throws { begin(key); try writer.number(value) }
    func encode(_ value: Float, forKey key: Key) throws { begin(key); try writer.number(Double(value)) }
    func encode(_ value: Int, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: Int8, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: Int16, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: Int32, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: Int64, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: UInt, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: UInt8, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: UInt16, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: UInt32, forKey key: Key) { begin(key); writer.integer(value) }
    func encode(_ value: UInt64, forKey key: Key) { begin(key); writer.integer(value) }
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws { begin(key); try writer.write(value) }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        begin(key)
        return ValueEncoder(writer: writer).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        begin(key)
        return ValueEncoder(writer: writer).unkeyedContainer()
    }
    func superEncoder() -> any Encoder {
        writer.beginItem(at: depth, key: "super")
        return ValueEncoder(writer: writer)
    }
    func superEncoder(forKey key: Key) -> any Encoder {
        begin(key)
        return ValueEncoder(writer: writer)
    }
}

private struct Items: UnkeyedEncodingContainer {
    let writer: RecordWriter
    let depth: Int
    private(set) var count = 0
    var codingPath: [any CodingKey] { [] }

    init(writer: RecordWriter, depth: Int) {
        self.writer = writer
        self.depth = depth
    }

    private mutating func begin() {
        count += 1
        writer.beginItem(at: depth)
    }

    mutating func encodeNil() { begin(); writer.raw("null") }
    mutating func encode(_ value: Bool) { begin(); writer.flag(value) }
    mutating func encode(_ value: String) { begin(); writer.text(value) }
    mutating func encode(_ value: Double) throws { begin(); try writer.number(value) }
    mutating func encode(_ value: Float) throws { begin(); try writer.number(Double(value)) }
    mutating func encode(_ value: Int) { begin(); writer.integer(value) }
    mutating func encode(_ value: Int8) { begin(); writer.integer(value) }
    mutating func encode(_ value: Int16) { begin(); writer.integer(value) }
    mutating func encode(_ value: Int32) { begin(); writer.integer(value) }
    mutating func encode(_ value: Int64) { begin(); writer.integer(value) }
    mutating func encode(_ value: UInt) { begin(); writer.integer(value) }
    mutating func encode(_ value: UInt8) { begin(); writer.integer(value) }
    mutating func encode(_ value: UInt16) { begin(); writer.integer(value) }
    mutating func encode(_ value: UInt32) { begin(); writer.integer(value) }
    mutating func encode(_ value: UInt64) { begin(); writer.integer(value) }
    mutating func encode<T: Encodable>(_ value: T) throws { begin(); try writer.write(value) }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        begin()
        return ValueEncoder(writer: writer).container(keyedBy: type)
    }
    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        begin()
        return ValueEncoder(writer: writer).unkeyedContainer()
    }
    mutating func superEncoder() -> any Encoder {
        begin()
        return ValueEncoder(writer: writer)
    }
}

private struct Single: SingleValueEncodingContainer {
    let writer: RecordWriter
    var codingPath: [any CodingKey] { [] }

    func encodeNil() { writer.raw("null") }
    func encode(_ value: Bool) { writer.flag(value) }
    func encode(_ value: String) { writer.text(value) }
    func encode(_ value: Double) throws { try writer.number(value) }
    func encode(_ value: Float) throws { try writer.number(Double(value)) }
    func encode(_ value: Int) { writer.integer(value) }
    func encode(_ value: Int8) { writer.integer(value) }
    func encode(_ value: Int16) { writer.integer(value) }
    func encode(_ value: Int32) { writer.integer(value) }
    func encode(_ value: Int64) { writer.integer(value) }
    func encode(_ value: UInt) { writer.integer(value) }
    func encode(_ value: UInt8) { writer.integer(value) }
    func encode(_ value: UInt16) { writer.integer(value) }
    func encode(_ value: UInt32) { writer.integer(value) }
    func encode(_ value: UInt64) { writer.integer(value) }
    func encode<T: Encodable>(_ value: T) throws { try writer.write(value) }
}
