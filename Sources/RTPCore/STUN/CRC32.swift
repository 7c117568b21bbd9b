/// The CRC-32 of ISO 3309 (reflected polynomial 0xEDB88320) that STUN's FINGERPRINT is made of (RFC 8489 section 14.7).
public enum CRC32 {
    /// The checksum of all bytes. Never allocates after the first call.
    /// - Complexity: O(n), one table look-up a byte.
    public static func checksum(_ bytes: Span<UInt8>) -> UInt32 {
        var state: UInt32 = 0xFFFF_FFFF
        for index in bytes.indices {
            state = state >> 8 ^ table[Int(UInt8(truncatingIfNeeded: state) ^ bytes[index])]
        }
        return ~state
    }

    /// The remainder that each value of the low byte leaves.
    static let table: [UInt32] = (0..<256).map { value in
        (0..<8).reduce(UInt32(value)) { state, _ in state & 1 == 0 ? state >> 1 : state >> 1 ^ 0xEDB8_8320 }
    }
}
