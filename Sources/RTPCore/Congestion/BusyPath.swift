/// What is known of a path at one moment. Rates in bits per second; nil: nothing.
struct PathState {
    /// What arrives.
    var acknowledged: Double?
    /// What would pass, for all that is known.
    var passes: Double?
    /// What passed when the path was busy last, not long ago.
    var known: Double?
    /// How long packets wait.
    var queue = Interval.zero
    /// They wait for each other.
    var isBusy = false
}

/// What a path lets through while it is busy. It is busy between two packets where the second one was sent before the first
/// had left the queue: it then arrives as soon as the path can carry it, whatever the sender would rather send. So this is the
/// path's own rate (or, beside other flows, our share), while what is acknowledged is also what was sent.
///
/// The time that a packet takes on the empty path is the shortest of the last seconds, by the clocks of both ends; their
/// difference does not matter, nor does their drift in that time. Delay that varies behind the queue, and a longer way,
/// make an idle path look busy: what is measured then is what is acknowledged.
struct BusyPath {
    /// Clocks, feedback (250 µs) and ends that wait for a processor make such differences without any queue.
    private static let grain = Interval.milliseconds(2)
    /// The shortest time is that of one to two of these.
    private static let period = Interval.seconds(10)
    /// Afterwards a path may be another.
    private static let memory = Interval.seconds(10)

    /// A queue that grew by so much.
    private static let overrun = Interval.milliseconds(75)

    private var last: (sentAt: Instant, arrivedAt: Interval)?
    private var periodStart = Interval.zero
    /// Arrival less sending: of this period, of the one before.
    private var shortest = Interval(nanoseconds: .max)
    private var shortestBefore = Interval(nanoseconds: .max)
    private var rate = AcknowledgedRate()
    private var remembered: (bitsPerSecond: Double, at: Interval)?

    /// The packet that the first one of this busy time waited for.
    private var first: (queue: Interval, arrivedAt: Interval)?

    /// The newest packet waited for the one before it.
    private(set) var isBusy = false
    /// How much longer than on the empty path the newest packet took.
    private(set) var queue = Interval.zero

    /// One packet that arrived, in the order of its number. One that overtook another, or was overtaken, says nothing.
    mutating func add(_ packet: SentPacketWindow.Packet, arrivedAt arrival: Interval) {
        let sent = packet.sentAt - Instant(nanoseconds: 0)
        note(arrival - sent, at: arrival)
        guard let last else { return self.last = (packet.sentAt, arrival) }
        guard packet.sentAt >= last.sentAt, arrival >= last.arrivedAt else { return }
        self.last = (packet.sentAt, arrival)
        let empty = min(shortest, shortestBefore)
        let queueBefore = queue
        queue = arrival - sent - empty
        guard last.arrivedAt - sent > empty + Self.grain else { return isBusy = false }
        if !isBusy {
            isBusy = true
            first = (queueBefore, last.arrivedAt)
            rate.forget()
            // The time since it came is that of the packets behind it.
            rate.add(byteCount: 0, arrivedAt: last.arrivedAt)
        }
        rate.add(byteCount: packet.byteCount, arrivedAt: arrival)
        if let measured = rate.bitsPerSecond { remembered = (measured, arrival) }
    }

    /// While the path is busy and has been for long enough: bits per second.
    var current: Double? { isBusy ? rate.bitsPerSecond : nil }

    /// Not half of what is sent passes, for long enough that nothing but a path gone narrow explains it. A line through delays tells
    /// so only when its window is full of them, and few come while the queue is long.
    var isOverrun: Bool {
        guard let first, let last, current != nil else { return false }
        let grown = queue - first.queue
        return grown >= Self.overrun && grown * 2 >= last.arrivedAt - first.arrivedAt
    }

    /// What it let through when it was busy last, bits per second; nil when that is long ago.
    var known: Double? {
        guard let remembered, let last, last.arrivedAt - remembered.at < Self.memory else { return nil }
        return remembered.bitsPerSecond
    }

    /// What is known of it now. While it is not busy it carries no less than what arrives.
    func state(acknowledged: Double?) -> PathState {
        let known = known
        let passes = current ?? acknowledged.map { max($0, known ?? 0) } ?? known
        return PathState(acknowledged: acknowledged, passes: passes, known: known, queue: queue, isBusy: isBusy)
    }

    private mutating func note(_ transit: Interval, at arrival: Interval) {
        if last == nil { periodStart = arrival }
        if arrival - periodStart >= Self.period {
            periodStart = arrival
            shortestBefore = shortest
            shortest = transit
        } else {
            shortest = min(shortest, transit)
        }
    }
}
