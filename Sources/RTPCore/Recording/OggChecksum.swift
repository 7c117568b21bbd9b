/// The checksum of an Ogg page (RFC 3533 §6): polynomial 0x04C11DB7, no reflection, from 0; its own field counts as 0.
enum OggChecksum {
    static func of(_ page: [UInt8], _ range: Range<Int>, skipping field: Int) -> UInt32 {
        var value: UInt32 = 0
        for at in range {
            let byte = (field..<field + 4).contains(at) ? 0 : page[at]
            value = value << 8 ^ table[Int(UInt8(truncatingIfNeeded: value >> 24) ^ byte)]
        }
        return value
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index) << 24) { value, _ in
            value & 0x8000_0000 != 0 ? value << 1 ^ 0x04C1_1DB7 : value << 1
        }
    }
}
