// Big-endian loads and appends: the only place in RTPCore that reads bytes without the span's own check. Every load has
// one check of its own, so that the optimizer can merge the bytes into one load, and drop the check behind a guard.

extension Span where Element == UInt8 {
    /// The two bytes at `offset` as one big-endian number. Traps when they are not inside the span.
    @inlinable @inline(__always) public func uint16(at offset: Int) -> UInt16 {
        precondition(offset >= 0 && offset <= count - 2, "two bytes must lie inside the span")
        // Safe: the precondition covers both bytes.
        return unsafe UInt16(self[unchecked: offset]) << 8 | UInt16(self[unchecked: offset &+ 1])
    }
    /// The three bytes at `offset` as one big-endian number. Traps when they are not inside the span.
    @inlinable public func uint24(at offset: Int) -> UInt32 {
        precondition(offset >= 0 && offset <= count - 3, "three bytes must lie inside the span")
        // Safe: the precondition covers all three bytes.
        let top = unsafe UInt32(self[unchecked: offset]) << 16
        return unsafe top | UInt32(self[unchecked: offset &+ 1]) << 8 | UInt32(self[unchecked: offset &+ 2])
    }
    /// The four bytes at `offset` as one big-endian number. Traps when they are not inside the span.
    @inlinable @inline(__always) public func uint32(at offset: Int) -> UInt32 {
        precondition(offset >= 0 && offset <= count - 4, "four bytes must lie inside the span")
        // Safe: the precondition covers all four bytes.
        let top = unsafe UInt32(self[unchecked: offset]) << 24 | UInt32(self[unchecked: offset &+ 1]) << 16
        return unsafe top | UInt32(self[unchecked: offset &+ 2]) << 8 | UInt32(self[unchecked: offset &+ 3])
    }
    /// The eight bytes at `offset` as one big-endian number. Traps when they are not inside the span.
    @inlinable public func uint64(at offset: Int) -> UInt64 {
        precondition(offset >= 0 && offset <= count - 8, "eight bytes must lie inside the span")
        return UInt64(uint32(at: offset)) << 32 | UInt64(uint32(at: offset &+ 4))
    }
}

extension OutputSpan where Element == UInt8 {
    /// Appends two bytes, most significant first. Traps without room: check `freeCapacity` before.
    @inlinable public mutating func appendBigEndian(_ value: UInt16) {
        append(UInt8(truncatingIfNeeded: value >> 8))
        append(UInt8(truncatingIfNeeded: value))
    }
    /// Appends four bytes, most significant first. Traps without room: check `freeCapacity` before.
    @inlinable public mutating func appendBigEndian(_ value: UInt32) {
        appendBigEndian(UInt16(truncatingIfNeeded: value >> 16))
        appendBigEndian(UInt16(truncatingIfNeeded: value))
    }
    /// Appends eight bytes, most significant first. Traps without room: check `freeCapacity` before.
    @inlinable public mutating func appendBigEndian(_ value: UInt64) {
        appendBigEndian(UInt32(truncatingIfNeeded: value >> 32))
        appendBigEndian(UInt32(truncatingIfNeeded: value))
    }
}
