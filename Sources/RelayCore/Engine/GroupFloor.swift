import RTPCore

/// Who is heard and seen in one group room: the state of `MediaEngine+Speakers`. Owns a seat for each joined member, with
/// what is chosen for its slots, and the room's speaker.
final class GroupFloor {
    /// In the order in which they joined.
    var seats: [Seat] = []
    /// Its one slot is of no meaning: only its speaker is.
    var floor = SpeakerSelection(slotCount: 1)
    /// When somebody spoke last, or anything else was chosen for: the choice is looked at again for some time.
    var activeAt = Instant(nanoseconds: 0)

    /// Somebody's slots changed more often than is told; it is told later.
    var isTellingDue = false

    // Of the choice that is being made; kept for their memory.
    var voices: [SpeakerSelection.Candidate] = []
    var others: [SpeakerSelection.Candidate] = []
    /// Indices of seats with a video track, the most wanted picture first.
    var pictures: [Int] = []
    var ranking: [Int32] = []
    var pins: [Int32] = []

    /// One joined member.
    struct Seat {
        let transport: Int32
        /// What it sends; -1: nothing of the kind.
        let audioTrack: Int32
        let videoTrack: Int32
        /// Its slots in the order of the SDP.
        let audioSlots: [Int32]
        let videoSlots: [Int32]
        /// Nil where it has no slot of the kind.
        var heard: SpeakerSelection?
        var seen: VideoSlotSelection?
        /// When it had the floor last.
        var spokeAt = Instant(nanoseconds: -1_000_000_000_000)
        /// Something comes from its camera and may pass.
        var hasPicture = false
        /// Who was in its slots when that was told last.
        var told: [SlotOccupant] = []
        var tellings = TokenBucket()
    }
}
