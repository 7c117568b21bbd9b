/// A span of time in nanoseconds, signed. Arithmetic traps on overflow (292 years).
@frozen public struct Interval: Hashable, Comparable, Sendable, Codable {
    public var nanoseconds: Int64

    @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }
    @inlinable public static func nanoseconds(_ count: Int64) -> Interval { Interval(nanoseconds: count) }
    @inlinable public static func microseconds(_ count: Int64) -> Interval {
        Interval(nanoseconds: count * 1_000)
    }
    @inlinable public static func milliseconds(_ count: Int64) -> Interval {
        Interval(nanoseconds: count * 1_000_000)
    }
    @inlinable public static func seconds(_ count: Int64) -> Interval {
        Interval(nanoseconds: count * 1_000_000_000)
    }
    @inlinable public static var zero: Interval { Interval(nanoseconds: 0) }

    /// Whole milliseconds, rounded towards zero.
    @inlinable public var milliseconds: Int64 { nanoseconds / 1_000_000 }
    /// Whole microseconds, rounded towards zero.
    @inlinable public var microseconds: Int64 { nanoseconds / 1_000 }

    @inlinable public static func < (a: Interval, b: Interval) -> Bool { a.nanoseconds < b.nanoseconds }
    @inlinable public static func + (a: Interval, b: Interval) -> Interval {
        Interval(nanoseconds: a.nanoseconds + b.nanoseconds)
    }
    @inlinable public static func - (a: Interval, b: Interval) -> Interval {
        Interval(nanoseconds: a.nanoseconds - b.nanoseconds)
    }
    @inlinable public static func * (a: Interval, factor: Int64) -> Interval {
        Interval(nanoseconds: a.nanoseconds * factor)
    }
    @inlinable public static func / (a: Interval, divisor: Int64) -> Interval {
        Interval(nanoseconds: a.nanoseconds / divisor)
    }
}

// What is stored can be damaged: times that arithmetic might run over with are refused where they are read.

extension Interval {
    private enum CodingKeys: String, CodingKey { case nanoseconds }
    /// 36 years, both ways: added to any instant it stays a time.
    private static let storedLimit = Int64.max / 8

    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        nanoseconds = try fields.decode(Int64.self, forKey: .nanoseconds)
        guard nanoseconds.magnitude <= Self.storedLimit.magnitude else {
            throw DecodingError.dataCorruptedError(
                forKey: .nanoseconds, in: fields, debugDescription: "an interval of \(nanoseconds) ns")
        }
    }
}

extension Instant {
    private enum CodingKeys: String, CodingKey { case nanoseconds }

    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        nanoseconds = try fields.decode(Int64.self, forKey: .nanoseconds)
        // What was before a reboot is before the start of this boot's time.
        guard (-Int64.max / 8...Instant.distantFuture.nanoseconds).contains(nanoseconds) else {
            throw DecodingError.dataCorruptedError(
                forKey: .nanoseconds, in: fields, debugDescription: "an instant at \(nanoseconds) ns")
        }
    }
}

/// A point on a monotonic clock that also runs while the machine sleeps: nanoseconds since boot (CLOCK_BOOTTIME in the
/// product, anything that starts at or above 0 in tests). Only the shells read a clock; everything else is handed `now`.
@frozen public struct Instant: Hashable, Comparable, Sendable, Codable {
    public var nanoseconds: Int64

    @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }
    /// Later than every deadline that is ever set.
    @inlinable public static var distantFuture: Instant { Instant(nanoseconds: Int64.max / 2) }

    @inlinable public static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }
    @inlinable public static func + (a: Instant, b: Interval) -> Instant {
        Instant(nanoseconds: a.nanoseconds + b.nanoseconds)
    }
    @inlinable public static func - (a: Instant, b: Interval) -> Instant {
        Instant(nanoseconds: a.nanoseconds - b.nanoseconds)
    }
    @inlinable public static func - (a: Instant, b: Instant) -> Interval {
        Interval(nanoseconds: a.nanoseconds - b.nanoseconds)
    }
    @inlinable public static func += (a: inout Instant, b: Interval) { a = a + b }
}
