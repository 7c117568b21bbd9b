// Arithmetic of numbers that wrap: 16-bit RTP sequence numbers and 32-bit RTP timestamps (RFC 1982, RFC 3550
// A.1), and their extension to 64 bits. Holds no policy: what a jump means is for its callers.

/// Serial arithmetic on 16-bit sequence numbers.
public enum SequenceNumber {
    /// How far `b` lies after `a`, in -32768…32767. A distance of exactly half the circle is -32768 both
    /// ways.
    @inlinable public static func distance(from a: UInt16, to b: UInt16) -> Int16 {
        Int16(bitPattern: b &- a)
    }
    /// Whether `a` comes after `b`. False both ways when they lie half the circle apart (RFC 1982 leaves that
    /// undefined).
    @inlinable public static func isNewer(_ a: UInt16, than b: UInt16) -> Bool {
        distance(from: b, to: a) > 0
    }
    /// The extended number closest to `reference` whose low 16 bits are `number`. Negative: before number 0.
    @inlinable public static func extend(_ number: UInt16, near reference: Int64) -> Int64 {
        reference &+ Int64(distance(from: UInt16(truncatingIfNeeded: reference), to: number))
    }
}

/// Serial arithmetic on 32-bit RTP timestamps.
public enum TimestampArithmetic {
    /// How far `b` lies after `a`, in ticks, -2^31…2^31 - 1.
    @inlinable public static func distance(from a: UInt32, to b: UInt32) -> Int32 {
        Int32(bitPattern: b &- a)
    }
    /// Whether `a` comes after `b`; false both ways when they lie half the circle apart.
    @inlinable public static func isNewer(_ a: UInt32, than b: UInt32) -> Bool {
        distance(from: b, to: a) > 0
    }
}

/// Extends 16-bit numbers that arrive roughly in order to 64 bits.
///
/// The first number stands for itself; each further one is taken as the closest to the highest so far, so
/// that a late packet does not pull the reference back. Results are negative for numbers before the first
/// that wrap below zero.
@frozen public struct SequenceUnwrapper: Sendable {
    /// The highest extended number so far; meaningful once `isStarted`.
    public private(set) var highest: Int64 = 0
    public private(set) var isStarted = false

    @inlinable public init() {}

    public mutating func unwrap(_ number: UInt16) -> Int64 {
        guard isStarted else {
            isStarted = true
            highest = Int64(number)
            return highest
        }
        let extended = SequenceNumber.extend(number, near: highest)
        highest = max(highest, extended)
        return extended
    }
}
