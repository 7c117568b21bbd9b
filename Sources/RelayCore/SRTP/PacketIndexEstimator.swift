// The 48-bit index of a packet from its 16-bit sequence number. Owns the rollover state of one stream;
// refuses deciding whether a packet is genuine.

/// Guesses packet indices of one SSRC (RFC 3711 §3.3.1 and appendix A). Plain data, 16 bytes.
///
/// Two differences from the letter of the appendix, both of which libsrtp has too or its users came to need:
/// - While the rollover counter is 0, no index of rollover -1 is guessed: a gap above 2^15 stays in rollover
///   0.
/// - After failures an `alternative` with the next rollover counter is offered, because a stream may be first
///   seen after its sequence number wrapped, or after a gap of more than 2^15: by the appendix alone it would
///   be dead for ever.
///
/// How a receiver uses it, per packet: `estimate`, replay check, and open with it. When `alternative` is not
/// nil, open by `openRTPTrying` instead. On success `update` with the index that verified, else
/// `noteRejected()`. An SSRC that never verified gets no state: use a fresh value for its guess, and one per
/// transport for its `noteRejected` and `alternative`.
@frozen public struct PacketIndexEstimator: Hashable, Sendable {
    /// One more than the highest index that verified; 0 while none did.
    @usableFromInline var next: UInt64 = 0
    /// Packets rejected since the last one that verified, saturating.
    @usableFromInline var rejections: UInt16 = 0

    /// How many first packets may cost a second attempt while nothing has verified.
    public static let firstAttempts: UInt16 = 64
    /// Afterwards, and for streams that verified once, one packet in this many may.
    public static let attemptInterval: UInt16 = 16

    @inlinable public init() {}

    /// Whether a packet verified. Before that every sequence number is taken for rollover 0.
    @inlinable public var hasVerified: Bool { next != 0 }
    /// The highest index that verified; 0 while none did.
    @inlinable public var highest: UInt64 { next == 0 ? 0 : next &- 1 }

    /// The likely index of a packet numbered `sequenceNumber`: within 2^15 of the highest one where that is
    /// possible.
    @inlinable @inline(__always) public func estimate(_ sequenceNumber: UInt16) -> UInt64 {
        if next == 0 { return UInt64(sequenceNumber) }
        let last = next &- 1
        let lastNumber = UInt16(truncatingIfNeeded: last)
        var rollover = last >> 16
        if lastNumber < 0x8000 {
            if Int32(sequenceNumber) - Int32(lastNumber) > 0x8000, rollover > 0 { rollover &-= 1 }
        } else if Int32(lastNumber) - 0x8000 > Int32(sequenceNumber) {
            rollover = (rollover &+ 1) & 0xFFFF_FFFF
        }
        return rollover << 16 | UInt64(sequenceNumber)
    }

    /// A packet with `index` verified.
    @inlinable public mutating func update(_ index: UInt64) {
        if index >= next { next = index &+ 1 }
        rejections = 0
    }

    /// A packet was a replay by its guessed index, or did not verify.
    @inlinable public mutating func noteRejected() {
        if rejections < .max { rejections &+= 1 } else { rejections = .max &- Self.attemptInterval &+ 1 }
    }

    /// The index to try when the estimate of `sequenceNumber` fails, with the next rollover counter; nil when
    /// no second attempt is due. Bounds what forged packets can cost.
    @inlinable public func alternative(_ sequenceNumber: UInt16) -> UInt64? {
        if next != 0, rejections < Self.attemptInterval { return nil }
        return laterAlternative(sequenceNumber)
    }

    @usableFromInline func laterAlternative(_ sequenceNumber: UInt16) -> UInt64? {
        let isDue = !hasVerified && rejections < Self.firstAttempts || rejections % Self.attemptInterval == 0
        guard isDue else { return nil }
        let candidate = estimate(sequenceNumber) + 0x1_0000
        return candidate < 1 << 48 ? candidate : nil
    }
}
