/// Appends the link's primitive values: integers big-endian, strings and byte strings with a 16-bit count
/// before them, lists with a 32-bit one, an absent value as 0 and a present one as 1 and the value.
struct LinkWriter {
    private(set) var bytes: [UInt8] = []
    /// In which the message is written.
    let version: UInt8

    init(version: UInt8 = LinkFormat.version) { self.version = version }

    mutating func append<Integer: FixedWidthInteger>(_ value: Integer) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    mutating func append(_ value: Bool) { bytes.append(value ? 1 : 0) }

    /// - Precondition: at most 65,535 bytes.
    mutating func append(_ value: [UInt8]) {
        precondition(value.count <= Int(UInt16.max), "a link field of \(value.count) bytes")
        append(UInt16(value.count))
        bytes.append(contentsOf: value)
    }

    mutating func append(_ value: String) { append(Array(value.utf8)) }

    mutating func append<Element>(list: [Element], _ body: (inout LinkWriter, Element) -> Void) {
        append(UInt32(list.count))
        for element in list { body(&self, element) }
    }

    mutating func append<Integer: FixedWidthInteger>(optional value: Integer?) {
        append(value != nil)
        if let value { append(value) }
    }

    mutating func overwriteLength(_ byteCount: Int) {
        withUnsafeBytes(of: UInt32(byteCount).bigEndian) { bytes.replaceSubrange(0..<4, with: $0) }
    }
}
