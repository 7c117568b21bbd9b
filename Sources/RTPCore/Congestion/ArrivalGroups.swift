/// How much longer or shorter the way of one burst of packets was than that of the burst before it
/// (draft-ietf-rmcat-gcc-02 §4.1, §5.2).
struct DelayVariation {
    /// Between the last packets of the two bursts, as sent and as arrived.
    var sent: Interval
    var arrived: Interval
    /// When the burst was complete at the receiver, by the receiver's clock.
    var arrival: Interval
    /// What the queue grew by.
    var growth: Interval { arrived - sent }
}

/// Joins packets to bursts, so that what a sender or a path emits at once counts as one measurement
/// (draft-ietf-rmcat-gcc-02 §5.2). Packets that overtook an earlier burst are left out.
struct ArrivalGroups {
    /// What is sent within this time is one burst; so is what a path let through at once.
    static let burst = Interval.milliseconds(5)
    /// The longest time that packets let through at once may take to arrive.
    static let longestBurst = Interval.milliseconds(100)

    private struct Group {
        var firstSent: Instant
        var lastSent: Instant
        var firstArrived: Interval
        var lastArrived: Interval
    }
    private var current: Group?
    private var complete: Group?

    /// Adds one packet, in the order of its number.
    /// - Returns: the measurement that it completes, by beginning a new burst.
    mutating func add(sentAt: Instant, arrivedAt: Interval) -> DelayVariation? {
        guard var group = current else {
            current = Group(
                firstSent: sentAt, lastSent: sentAt, firstArrived: arrivedAt, lastArrived: arrivedAt)
            return nil
        }
        if sentAt < group.firstSent { return nil }
        if belongs(sentAt: sentAt, arrivedAt: arrivedAt, to: group) {
            group.lastSent = max(group.lastSent, sentAt)
            group.lastArrived = max(group.lastArrived, arrivedAt)
            current = group
            return nil
        }
        var variation: DelayVariation?
        if let before = complete {
            variation = DelayVariation(
                sent: group.lastSent - before.lastSent, arrived: group.lastArrived - before.lastArrived,
                arrival: group.lastArrived)
        }
        complete = group
        current = Group(firstSent: sentAt, lastSent: sentAt, firstArrived: arrivedAt, lastArrived: arrivedAt)
        return variation
    }

    private func belongs(sentAt: Instant, arrivedAt: Interval, to group: Group) -> Bool {
        if sentAt - group.firstSent <= Self.burst { return true }
        let arrived = arrivedAt - group.lastArrived
        // Packets that were held somewhere and came together say nothing about the queue.
        return arrived <= Self.burst && arrived < sentAt - group.lastSent
            && arrivedAt - group.firstArrived < Self.longestBurst
    }
}
