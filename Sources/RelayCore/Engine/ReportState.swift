import RTPCore

// What reports leave behind, of clients' SSRCs and of slots.

/// Replay protection of the SRTCP packets of one sending SSRC: indices count per SSRC (RFC 3711 §3.2.3). The highest index
/// with a window of 64 below it: reports are few.
struct RTCPContext {
    var ssrc: UInt32
    var highest: UInt32
    var window: UInt64

    /// False for an index that came before or is too old to tell.
    mutating func accept(_ index: UInt32) -> Bool {
        if index > highest || window == 0 {
            let step = window == 0 ? 64 : index - highest
            window = step >= 64 ? 1 : window << UInt64(step) | 1
            highest = index
            return true
        }
        let age = highest - index
        guard age < 64, window >> UInt64(age) & 1 == 0 else { return false }
        window |= 1 << UInt64(age)
        return true
    }
}

/// A receiver reference time (RFC 3611 §4.4) of one of a client's SSRCs, to be answered with the next report.
struct ReferenceTime {
    var ssrc: UInt32
    /// The middle 32 bits.
    var time: UInt32
    var arrival: Instant
    var isAnswered = false
}

/// What a receiver has reported of one slot.
struct SlotReport {
    /// Lost on its leg: what it misses without what we never sent.
    var lost: UInt64 = 0
    /// Numbers that its reports cover.
    var expected: UInt64 = 0
    /// The lower 16 bits of the highest number of its last report; nil before the first.
    var highest: UInt16?
    /// Of what its last report covers, lost on its leg, in 1/256.
    var fractionLost: UInt8 = 0
}
