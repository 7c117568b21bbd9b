/// Which of many sources hold the few audio slots, and who of them is the speaker. Owns the choice with its
/// hysteresis; refuses to know what a source is: sources have ids of the caller's.
///
/// A holder keeps its slot while it speaks and `hold` longer, and yields only to one who scores clearly more, so
/// that slots do not change with every syllable. The speaker changes to one who has scored half as much again
/// for `persistence`, or at once when the present one has fallen silent. Call `choose` each 100 ms or so; it
/// allocates nothing once its arrays have grown to the room's size.
public struct SpeakerSelection: Sendable {
    /// A slot changes hands at most after this much silence of its holder.
    public static let hold = Interval.milliseconds(2_000)
    /// How long a new speaker must be clearly louder.
    public static let persistence = Interval.milliseconds(600)

    public struct Candidate: Hashable, Sendable {
        public var id: Int32
        public var score: Int
        /// Speaks now, above silence.
        public var isSpeaking: Bool
        public init(id: Int32, score: Int, isSpeaking: Bool) {
            self.id = id
            self.score = score
            self.isSpeaking = isSpeaking
        }
    }

    /// Who holds which slot; -1: nobody.
    public private(set) var slots: [Int32]
    /// Who speaks; -1: nobody has yet.
    public private(set) var speaker: Int32 = -1
    private var spokeAt: [Instant]
    private var challenger: Int32 = -1
    private var challengedSince = Instant(nanoseconds: 0)

    /// - Parameter slotCount: 1 or more.
    public init(slotCount: Int) {
        precondition(slotCount > 0, "no slot to give")
        slots = Array(repeating: -1, count: slotCount)
        spokeAt = Array(repeating: Instant(nanoseconds: -1_000_000_000_000), count: slotCount)
    }

    /// Chooses anew. Candidates who are not named have left.
    /// - Returns: whether a slot or the speaker changed.
    public mutating func choose(from candidates: Span<Candidate>, now: Instant) -> Bool {
        let before = (slots, speaker)
        release(candidates, now: now)
        assign(candidates, now: now)
        chooseSpeaker(candidates, now: now)
        return before.0 != slots || before.1 != speaker
    }

    private mutating func release(_ candidates: Span<Candidate>, now: Instant) {
        for slot in slots.indices where slots[slot] >= 0 {
            guard let holder = Self.find(slots[slot], candidates) else {
                slots[slot] = -1
                continue
            }
            if holder.isSpeaking { spokeAt[slot] = now }
        }
    }

    /// Every speaker without a slot takes a free one, or that of the quietest holder whose hold is over.
    private mutating func assign(_ candidates: Span<Candidate>, now: Instant) {
        while let best = bestWithoutSlot(candidates) {
            guard let slot = weakestSlot(candidates, against: best, now: now) else { return }
            slots[slot] = best.id
            spokeAt[slot] = now
        }
        // Slots that are still free serve those who are in and silent: their first word is heard at once.
        for slot in slots.indices where slots[slot] < 0 {
            for k in candidates.indices where !slots.contains(candidates[k].id) {
                slots[slot] = candidates[k].id
                break
            }
        }
    }

    private func bestWithoutSlot(_ candidates: Span<Candidate>) -> Candidate? {
        var best: Candidate?
        for k in candidates.indices {
            let candidate = candidates[k]
            guard candidate.isSpeaking, !slots.contains(candidate.id) else { continue }
            if best.map({ candidate.score > $0.score }) ?? true { best = candidate }
        }
        return best
    }

    private func weakestSlot(_ candidates: Span<Candidate>, against best: Candidate, now: Instant) -> Int? {
        if let free = slots.firstIndex(of: -1) { return free }
        var weakest: (slot: Int, score: Int)?
        for slot in slots.indices {
            guard let holder = Self.find(slots[slot], candidates) else { return slot }
            let isHeld = now - spokeAt[slot] < Self.hold
            // One who speaks, or has just spoken, yields to twice its score only.
            guard !isHeld || best.score > 2 * holder.score else { continue }
            if weakest.map({ holder.score < $0.score }) ?? true { weakest = (slot, holder.score) }
        }
        return weakest?.slot
    }

    private mutating func chooseSpeaker(_ candidates: Span<Candidate>, now: Instant) {
        var loudest: Candidate?
        for k in candidates.indices where candidates[k].isSpeaking {
            if loudest.map({ candidates[k].score > $0.score }) ?? true { loudest = candidates[k] }
        }
        let present = Self.find(speaker, candidates)
        if present == nil { speaker = -1 }
        guard let loudest, loudest.id != speaker else {
            challenger = -1
            return
        }
        guard let present, speaker >= 0 else {
            speaker = loudest.id
            challenger = -1
            return
        }
        guard loudest.score * 2 > present.score * 3 else {
            challenger = -1
            return
        }
        if challenger != loudest.id {
            challenger = loudest.id
            challengedSince = now
        }
        guard now - challengedSince >= Self.persistence else { return }
        speaker = loudest.id
        challenger = -1
    }

    private static func find(_ id: Int32, _ candidates: Span<Candidate>) -> Candidate? {
        guard id >= 0 else { return nil }
        for k in candidates.indices where candidates[k].id == id { return candidates[k] }
        return nil
    }
}
