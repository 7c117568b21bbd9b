// One subscription's RTP timestamps: those of a source to those that the relay sends. Owns one offset;
// refuses to guess time: how far a switch moves it is told by the caller (see `SenderClock`).

/// Maps a source's RTP timestamps to outgoing ones by an offset modulo 2^32. Plain memory, usable in slabs.
@frozen public struct TimestampMap: Sendable {
    /// Outgoing minus source timestamp.
    @usableFromInline var offset: UInt32 = 0
    @usableFromInline var newestOutput: UInt32 = 0
    public private(set) var isStarted = false

    @inlinable public init() {}

    /// The newest outgoing timestamp so far; meaningful once started.
    @inlinable public var lastOutput: UInt32 { newestOutput }
    /// The source timestamp that `lastOutput` was made of; meaningful once started.
    @inlinable public var lastSource: UInt32 { newestOutput &- offset }

    /// Starts so that `source` is sent as `output`.
    public mutating func start(source: UInt32, output: UInt32) {
        offset = output &- source
        newestOutput = output
        isStarted = true
    }

    /// The outgoing timestamp; late packets do not move `lastOutput` back.
    @inlinable public mutating func map(_ source: UInt32) -> UInt32 {
        let output = source &+ offset
        if TimestampArithmetic.isNewer(output, than: newestOutput) {
            newestOutput = output
        }
        return output
    }

    /// The outgoing timestamp of any source timestamp, for sender reports: moves nothing.
    @inlinable public func output(of source: UInt32) -> UInt32 { source &+ offset }

    /// Goes on with another source: its `source` timestamp is sent `elapsed` ticks after the newest one so
    /// far.
    ///
    /// Time never stands still or goes back at a switch: fewer than one tick counts as one, and more than
    /// 2^30 ticks (3 h at 90 kHz, which only a lying sender report gives) as one. Requires a started map.
    public mutating func rebase(source: UInt32, elapsed: Int64) {
        precondition(isStarted, "a map is started before it is rebased")
        let ticks = (1...Int64(1) << 30).contains(elapsed) ? elapsed : 1
        start(source: source, output: lastOutput &+ UInt32(ticks))
    }
}
