// One subscription's numbering: extended sequence numbers of a source to those that the relay sends. Owns the
// offset and the recent drops; refuses to guess: a packet whose number is no longer certain is not mapped.

/// Maps extended sequence numbers of a source to the ones sent to a receiver, and back.
///
/// Numbers lost on the way to the relay keep their place (the receiver sees the same loss and may ask for
/// them); packets that the relay chooses not to forward close up (`drop`). A late packet gets the number that
/// was kept for it as long as the drops after it are known: the last 128 numbers, further back when nothing
/// was dropped since.
///
/// Plain memory, usable in slabs; all of it is in these fields. Not thread-safe.
@frozen public struct SequenceMap: Sendable {
    /// Bit i: source number `highest - i` was dropped and its place closed.
    @usableFromInline var history: UInt128 = 0
    /// The highest source number seen: forwarded or dropped.
    @usableFromInline var highest: UInt64 = 0
    /// The highest source number that was mapped.
    @usableFromInline var highestForwarded: UInt64 = 0
    /// The outgoing number of `highestForwarded`.
    @usableFromInline var newestOutput: UInt64 = 0
    /// The first source number of this mapping; nothing before it is ever mapped.
    @usableFromInline var firstSource: UInt64 = 0
    /// Outgoing minus source number for a packet after `highest`, modulo 2^64.
    @usableFromInline var offset: UInt64 = 0
    /// The newest dropped number that left the history; meaningful when `hasForgotten`.
    @usableFromInline var newestForgotten: UInt64 = 0
    @usableFromInline var hasForgotten = false
    public private(set) var isStarted = false

    @inlinable public init() {}

    /// The highest number sent so far; meaningful once started.
    @inlinable public var lastOutput: UInt64 { newestOutput }

    /// Draws the first number of an outgoing stream, in 1024…32767.
    public static func drawFirstOutput(using random: inout some RandomNumberGenerator) -> UInt64 {
        UInt64.random(in: 1024...32767, using: &random)
    }

    /// Starts a new mapping at the first forwarded packet.
    ///
    /// - Parameter output: the first number sent, drawn by `drawFirstOutput`: a stream that starts just below
    ///   65536 and loses its first packets cannot be decrypted by its receiver (RFC 3711 §3.3.1).
    public mutating func start(source: UInt64, output: UInt64) {
        self = SequenceMap()
        isStarted = true
        begin(source: source, output: output)
    }

    /// Goes on with another source, or with the same one after a pause or a jump, at the number after the last
    /// one sent (a step of 32,768 would cost the receiver its rollover count). Packets of before are not mapped
    /// any more. Requires a started map.
    public mutating func rebase(source: UInt64) {
        precondition(isStarted, "a map is started before it is rebased")
        begin(source: source, output: lastOutput &+ 1)
    }

    /// Whether `source` lies more than `limit` numbers after everything seen: a jump, no loss. Rebase then.
    @inlinable public func isJump(_ source: UInt64, over limit: UInt64) -> Bool {
        source > highest && source &- highest > limit
    }

    /// Whether `source` belongs to this mapping: it is no packet from before its first one.
    @inlinable public func covers(_ source: UInt64) -> Bool { isStarted && source >= firstSource }

    private mutating func begin(source: UInt64, output: UInt64) {
        history = 0
        hasForgotten = false
        highest = source
        highestForwarded = source
        firstSource = source
        offset = output &- source
        newestOutput = output
    }

    /// The outgoing number of a packet that is forwarded.
    ///
    /// - Returns: nil when the packet is older than the first forwarded one, was dropped before, or is so old
    ///   that its number is no longer known. The same packet always gets the same number.
    @inlinable public mutating func map(_ source: UInt64) -> UInt64? {
        if source > highest && isStarted {
            advance(to: source)
            highestForwarded = source
            newestOutput = source &+ offset
            return newestOutput
        }
        return mapLate(source)
    }

    /// Closes the gap of a packet that is not forwarded. Without effect before the start, for packets of
    /// before the first one, and when a later packet was already forwarded: its number is fixed, so the
    /// receiver sees one loss.
    ///
    /// - Returns: whether the gap was closed.
    @discardableResult
    public mutating func drop(_ source: UInt64) -> Bool {
        guard isStarted, source > highestForwarded else { return false }
        if source > highest { advance(to: source) }
        let age = highest - source
        guard age < 128 else { return false }
        let bit = UInt128(1) << UInt128(age)
        guard history & bit == 0 else { return false }
        history |= bit
        offset &-= 1
        return true
    }

    /// The source number of an outgoing number, for answering a NACK: exact, or nil when it was never sent
    /// under this mapping or is no longer known.
    public func inverse(_ output: UInt64) -> UInt64? {
        guard isStarted, output <= lastOutput else { return nil }
        if output == lastOutput { return highestForwarded }
        var source = output &- offset
        var remaining = history
        while remaining != 0 {
            let age = UInt64(remaining.trailingZeroBitCount)
            guard highest &- age >= source else { break }
            source &-= 1
            remaining &= remaining &- 1
        }
        // `output - offset` wraps below zero only for numbers from before this mapping.
        guard source >= firstSource, source <= highestForwarded else { return nil }
        if hasForgotten && source <= newestForgotten { return nil }
        return source
    }

    /// As `inverse`, for the 16 bits that a NACK carries: the number closest to the last one sent.
    public func inverse(wire number: UInt16) -> UInt64? {
        let extended = SequenceNumber.extend(number, near: Int64(bitPattern: lastOutput))
        return extended < 0 ? nil : inverse(UInt64(extended))
    }

    /// Moves the history so that it ends at `source`, which is newer than `highest`.
    @usableFromInline mutating func advance(to source: UInt64) {
        let step = source - highest
        if history != 0 {
            forget(step)
        }
        highest = source
    }

    private mutating func forget(_ step: UInt64) {
        let leaving = step >= 128 ? history : history >> UInt128(128 - step)
        if leaving != 0 {
            let oldestKeptAge = step >= 128 ? 0 : 128 - step
            newestForgotten = highest - oldestKeptAge - UInt64(leaving.trailingZeroBitCount)
            hasForgotten = true
        }
        history = step >= 128 ? 0 : history << UInt128(step)
    }

    @usableFromInline mutating func mapLate(_ source: UInt64) -> UInt64? {
        guard isStarted, source >= firstSource else { return nil }
        if hasForgotten && source <= newestForgotten { return nil }
        let age = highest - source
        if age < 128 && history >> UInt128(age) & 1 == 1 { return nil }
        let output = source &+ offset &+ UInt64(dropCount(after: source))
        // Later than everything forwarded, but older than a dropped one.
        if source > highestForwarded {
            highestForwarded = source
            newestOutput = output
        }
        return output
    }

    /// How many numbers in (`source`, `highest`] are dropped, among those in the history.
    private func dropCount(after source: UInt64) -> Int {
        let age = highest - source
        if age >= 128 { return history.nonzeroBitCount }
        return (history & ((UInt128(1) << UInt128(age)) &- 1)).nonzeroBitCount
    }
}
