import RTPCore

/// What counts towards a room's end until something stops it: silence, or one who is alone. A pure value in
/// the room's record; how long it takes is the room's to say, what stops it the conductor's.
public struct Countdown: Hashable, Sendable, Codable {
    /// From when it counts.
    public internal(set) var since: Instant
    /// `room.warning` is told.
    public internal(set) var isWarned = false
    /// The journal has `since`. While media comes that moves with every report, which is not worth a write.
    var isStored = false

    init(since: Instant) { self.since = since }

    /// When something has to be done: the warning, where there is time for one, then the end.
    func next(_ length: Interval, warningLead: Interval) -> Instant {
        warns(length, warningLead) ? since + (length - warningLead) : since + length
    }

    /// Whether what comes next is the warning.
    func warns(_ length: Interval, _ warningLead: Interval) -> Bool { !isWarned && length > warningLead }
}
