/// Whose picture is in which of a receiver's video slots: who is pinned there, then those who spoke last, the present
/// speaker first. Owns the choice with its hysteresis; refuses to know what a picture is: senders have ids of the
/// caller's.
///
/// A picture stays in its slot as long as it is among those to be shown, so that nobody jumps about when another speaks;
/// and a slot changes hands at most each `hold`, except for pins and for one who left. Call `choose` when
/// anything of it may have changed and each 100 ms or so; it allocates nothing.
public struct VideoSlotSelection: Sendable {
    /// A picture that was put into a slot stays at least this long.
    public static let hold = Interval.milliseconds(1_500)

    /// Who is in which slot; -1: nobody.
    public private(set) var slots: [Int32]
    private var changedAt: [Instant]
    /// Slots that a pin fills.
    private var isPinned: [Bool]

    /// - Parameter slotCount: 1 or more.
    public init(slotCount: Int) {
        precondition(slotCount > 0, "no slot to give")
        slots = Array(repeating: -1, count: slotCount)
        changedAt = Array(repeating: Instant(nanoseconds: -1_000_000_000_000), count: slotCount)
        isPinned = Array(repeating: false, count: slotCount)
    }

    /// Chooses anew.
    /// - Parameters:
    ///   - ranking: who can be shown, most wanted first; not the receiver itself. Whoever is not named has left.
    ///   - pins: for each slot who is wished there, -1: nobody. One sender stands in at most one slot.
    /// - Returns: whether a slot changed.
    public mutating func choose(from ranking: Span<Int32>, pins: Span<Int32>, now: Instant) -> Bool {
        precondition(pins.count == slots.count, "a pin for each slot")
        var hasChanged = false
        for slot in slots.indices where slots[slot] >= 0 && Self.rank(of: slots[slot], in: ranking) == nil {
            put(-1, into: slot, now: now)
            hasChanged = true
        }
        for slot in slots.indices {
            isPinned[slot] = pins[slot] >= 0 && Self.rank(of: pins[slot], in: ranking) != nil
            guard isPinned[slot], slots[slot] != pins[slot] else { continue }
            // Whoever was here moves to where the pinned one was, if it was shown.
            if let former = slots.firstIndex(of: pins[slot]) { put(slots[slot], into: former, now: now) }
            put(pins[slot], into: slot, now: now)
            hasChanged = true
        }
        return fill(from: ranking, now: now) || hasChanged
    }

    /// Everybody of the first ranks gets a slot: a free one, or that of the last in rank who does not belong there.
    private mutating func fill(from ranking: Span<Int32>, now: Instant) -> Bool {
        var open = isPinned.count { !$0 }
        var hasChanged = false
        for rank in ranking.indices where open > 0 {
            if let slot = slots.firstIndex(of: ranking[rank]) {
                if !isPinned[slot] { open -= 1 }
                continue
            }
            open -= 1
            guard let slot = weakest(below: rank, in: ranking, now: now) else { continue }
            put(ranking[rank], into: slot, now: now)
            hasChanged = true
        }
        return hasChanged
    }

    private func weakest(below rank: Int, in ranking: Span<Int32>, now: Instant) -> Int? {
        var found: (slot: Int, rank: Int)?
        for slot in slots.indices where !isPinned[slot] {
            guard slots[slot] >= 0 else { return slot }
            guard let other = Self.rank(of: slots[slot], in: ranking), other > rank,
                now - changedAt[slot] >= Self.hold
            else { continue }
            if found.map({ other > $0.rank }) ?? true { found = (slot, other) }
        }
        return found?.slot
    }

    private mutating func put(_ id: Int32, into slot: Int, now: Instant) {
        slots[slot] = id
        changedAt[slot] = now
    }

    private static func rank(of id: Int32, in ranking: Span<Int32>) -> Int? {
        for rank in ranking.indices where ranking[rank] == id { return rank }
        return nil
    }
}
