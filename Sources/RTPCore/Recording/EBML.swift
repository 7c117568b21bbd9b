/// Elements of EBML (RFC 8794): an id, a size, then bytes. Sizes are written in as few bytes as they need, unless a width is given.
enum EBML {
    /// - Parameter id: with its marker bits, as the specifications name it.
    static func element(_ id: UInt32, _ content: [UInt8]) -> [UInt8] {
        idBytes(id) + size(content.count) + content
    }

    static func element(_ id: UInt32, _ children: [[UInt8]]) -> [UInt8] { element(id, children.flatMap { $0 }) }

    static func element(_ id: UInt32, unsigned value: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(bigEndian: value)
        let zeros = min(bytes.prefix { $0 == 0 }.count, 7)
        return element(id, Array(bytes.dropFirst(zeros)))
    }

    static func element(_ id: UInt32, text: String) -> [UInt8] { element(id, Array(text.utf8)) }

    static func element(_ id: UInt32, double value: Double) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(bigEndian: value.bitPattern)
        return element(id, bytes)
    }

    /// An element that says nothing and is `byteCount` long itself: 2…128.
    static func void(byteCount: Int) -> [UInt8] {
        precondition((2...128).contains(byteCount), "a void of \(byteCount) bytes")
        return [0xEC, 0x80 | UInt8(byteCount - 2)] + [UInt8](repeating: 0, count: byteCount - 2)
    }

    /// An id has its own length in its first bits.
    static func idBytes(_ id: UInt32) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(bigEndian: id)
        return Array(bytes.drop { $0 == 0 })
    }

    /// - Parameter width: how many bytes it takes, 1…8; nil: as few as possible.
    static func size(_ count: Int, width: Int? = nil) -> [UInt8] {
        // All ones are the unknown size.
        let width = width ?? (1...8).first { count < 1 << (7 * $0) - 1 } ?? 8
        var bytes: [UInt8] = []
        for k in (0..<width).reversed() { bytes.append(UInt8(truncatingIfNeeded: count >> (8 * k))) }
        bytes[0] |= 0x80 >> UInt8(width - 1)
        return bytes
    }

    /// A size that is not known yet, in eight bytes.
    static let unknownSize: [UInt8] = [0x01] + [UInt8](repeating: 0xFF, count: 7)
}
