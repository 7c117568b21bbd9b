// Which packets of one incoming video source are missing and when to ask for them again. Owns a table of
// fixed size; refuses to grow: who loses more than it holds needs a key frame, not a list.

/// Detects gaps in the extended sequence numbers of one source and paces the NACKs for them.
///
/// A gap is asked for as soon as a second newer packet has come, or after 5 ms: packets that only changed
/// places on the way (neighbours in a burst do) then cost nothing, and a real loss is asked for one packet
/// later at most. Each number is asked for again after a round trip and an eighth of one (at least 5 ms more, at
/// least 20 ms in all), at most 10 times and for at most 1 s; then it is given up. A picture waits for its last
/// packet: at 5 % loss and 50 ms the fourth request, not the third, is the last that still hides in 250 ms.
///
/// Owns C memory: made by `create`, freed once by `destroy`. Copies share that memory. Allocates nothing in
/// between.
@frozen @safe public struct LossTracker {
    /// The most numbers that are missing at once; a step forward that leaves more is a new beginning.
    public static let capacity = 256
    /// How long a gap may be closed by reordering alone.
    public static let reorderTolerance = Interval.milliseconds(5)
    /// The shortest time between two requests for one number.
    public static let shortestSpacing = Interval.milliseconds(20)
    /// The shortest time beyond the round trip until the next request.
    public static let shortestMargin = Interval.milliseconds(5)
    /// Taken for the round trip while none was measured.
    public static let assumedRoundTrip = Interval.milliseconds(100)
    public static let requestLimit: UInt8 = 10
    /// How long a missing packet is of use.
    public static let lifetime = Interval.seconds(1)

    /// What a received packet meant.
    public enum Reception: Sendable {
        /// The next packet, or the first.
        case next
        /// Packets before it are missing now.
        case gap
        /// It was missing and is no longer.
        case repaired
        /// Older than the newest and not missed (any more): a duplicate, or given up.
        case late
        /// Too much is lost: everything was forgotten, ask for a key frame.
        case needsKeyFrame
    }

    /// What one call of `nextRequests` found.
    public struct Turn: Hashable, Sendable {
        /// Numbers that were given up. Not 0: ask for a key frame.
        public var gaveUpCount = 0
        /// One of the numbers was asked for before: its request or its repeat was lost.
        public var isAgain = false
        public init() {}
    }

    @usableFromInline struct Missing {
        var sequence: UInt64
        var detected: Instant
        var due: Instant
        var requestCount: UInt8
    }

    /// Sorted by sequence; `count` entries are in use.
    private let entries: UnsafeMutablePointer<Missing>
    /// Numbers missing now.
    public private(set) var count = 0
    /// How many entries at the end wait for a newer packet or the tolerance before their first request.
    private var unconfirmedCount = 0
    private var highest: UInt64 = 0
    private var isStarted = false
    /// Not later than the next number that becomes due; `Instant.distantFuture` when nothing is missing.
    public private(set) var deadline = Instant.distantFuture
    /// Numbers that were missing and came.
    public private(set) var repairedCount: UInt64 = 0
    /// Numbers that were given up.
    public private(set) var gaveUpCount: UInt64 = 0

    private init(entries: UnsafeMutablePointer<Missing>) {
        unsafe self.entries = entries
    }

    /// Makes a tracker with its memory.
    public static func create() -> LossTracker {
        let entries = UnsafeMutablePointer<Missing>.allocate(capacity: capacity)
        let none = Missing(
            sequence: 0, detected: .distantFuture, due: .distantFuture, requestCount: 0)
        unsafe entries.initialize(repeating: none, count: capacity)
        return unsafe LossTracker(entries: entries)
    }

    /// Frees the memory; neither this value nor a copy of it may be used afterwards.
    public func destroy() {
        // Safe: allocated by `create`, and the caller's contract is to call this once.
        unsafe entries.deinitialize(count: Self.capacity)
        unsafe entries.deallocate()
    }

    /// Forgets everything, also the newest number.
    public mutating func reset() {
        count = 0
        unconfirmedCount = 0
        isStarted = false
        deadline = .distantFuture
    }

    /// A packet with this extended number arrived, first-hand or as a retransmission.
    public mutating func received(_ sequence: UInt64, now: Instant) -> Reception {
        guard isStarted else {
            isStarted = true
            highest = sequence
            return .next
        }
        guard sequence > highest else { return receivedLate(sequence) }
        let missing = sequence - highest - 1
        let first = highest + 1
        guard missing <= UInt64(Self.capacity - count) else {
            reset()
            isStarted = true
            highest = sequence
            return .needsKeyFrame
        }
        highest = sequence
        if unconfirmedCount > 0 { confirmLosses(now: now) }
        guard missing > 0 else { return .next }
        let due = now + Self.reorderTolerance
        for sequence in first..<sequence {
            let entry = Missing(sequence: sequence, detected: now, due: due, requestCount: 0)
            unsafe entries[count] = entry
            count += 1
        }
        unconfirmedCount = Int(missing)
        deadline = min(deadline, due)
        return .gap
    }

    /// A key frame starts at this extended number: what is missing before it is of no more use.
    public mutating func keyFrameStarts(at sequence: UInt64) {
        let kept = firstIndex(notBefore: sequence)
        guard kept > 0 else { return }
        remove(0..<kept)
    }

    /// The numbers to ask for now, in rising order, 16 bits each as a NACK carries them.
    ///
    /// - Parameter roundTrip: the measured round trip to the sender; zero or less while none was measured.
    /// - Parameter output: takes them; what does not fit stays due.
    public mutating func nextRequests(
        now: Instant, roundTrip: Interval, into output: inout OutputSpan<UInt16>
    ) -> Turn {
        var turn = Turn()
        guard now >= deadline else { return turn }
        let measured = min(roundTrip > .zero ? roundTrip : Self.assumedRoundTrip, Self.lifetime)
        let spacing = max(Self.shortestSpacing, measured + max(Self.shortestMargin, measured / 8))
        var kept = 0
        var keptUnconfirmed = 0
        var earliest = Instant.distantFuture
        for index in 0..<count {
            var entry = unsafe entries[index]
            let end = entry.detected + Self.lifetime
            if now >= entry.due {
                if now >= end || entry.requestCount >= Self.requestLimit { continue }
                if output.freeCapacity > 0 {
                    output.append(UInt16(truncatingIfNeeded: entry.sequence))
                    if entry.requestCount > 0 { turn.isAgain = true }
                    entry.requestCount += 1
                    entry.due = min(now + spacing, end)
                }
            }
            earliest = min(earliest, entry.due)
            if entry.requestCount == 0 && index >= count - unconfirmedCount { keptUnconfirmed += 1 }
            unsafe entries[kept] = entry
            kept += 1
        }
        turn.gaveUpCount = count - kept
        count = kept
        unconfirmedCount = keptUnconfirmed
        deadline = earliest
        gaveUpCount &+= UInt64(turn.gaveUpCount)
        return turn
    }

    private mutating func receivedLate(_ sequence: UInt64) -> Reception {
        let index = firstIndex(notBefore: sequence)
        guard index < count, unsafe entries[index].sequence == sequence else { return .late }
        remove(index..<index + 1)
        repairedCount &+= 1
        return .repaired
    }

    /// A second newer packet came: the gaps of before are losses, not reordering.
    private mutating func confirmLosses(now: Instant) {
        for index in count - unconfirmedCount..<count {
            unsafe entries[index].due = min(entries[index].due, now)
        }
        unconfirmedCount = 0
        deadline = min(deadline, now)
    }

    private func firstIndex(notBefore sequence: UInt64) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if unsafe entries[middle].sequence < sequence {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }

    private mutating func remove(_ range: Range<Int>) {
        let tail = count - range.upperBound
        // Safe: both ranges lie inside the `count` entries in use, and `update` moves overlapping memory.
        unsafe (entries + range.lowerBound).update(from: entries + range.upperBound, count: tail)
        // Unconfirmed entries are the last ones: those of the range are gone.
        unconfirmedCount = min(unconfirmedCount, tail + max(0, range.lowerBound - (count - unconfirmedCount)))
        count -= range.count
        if count == 0 { deadline = .distantFuture }
    }
}
