// When to ask one video source for a key frame. Owns the merging of wishes and their limits; refuses to know
// who wished, and does not write the request.

/// Merges wishes for a key frame of one source into few requests.
///
/// Receivers' wishes: at most one request each 500 ms, whoever asks; a wish inside that time is kept and sent
/// when it ends, unless a key frame came before (RFC 4585 §6.3.1; a throttle that forgets leaves a newcomer
/// without a picture). The relay's own (`isUrgent`, after a join or a switch): at once, then each 200 ms up
/// to ten times, then each 500 ms, until a key frame comes: somebody waits before a black picture.
///
/// Verbs: `request`, `keyFrameArrived`, `cancel` in, `shouldSend` out when `deadline` has come. Plain memory.
@frozen public struct KeyFrameRequester: Sendable {
    /// The least time between two requests for receivers.
    public static let limit = Interval.milliseconds(500)
    /// The time between the first urgent requests.
    public static let urgentSpacing = Interval.milliseconds(200)
    /// How many urgent requests go at `urgentSpacing` before `limit` applies.
    public static let urgentCount: UInt8 = 10

    /// When the next request is due; `Instant.distantFuture` when none is wished for.
    public private(set) var deadline = Instant.distantFuture
    /// Requests sent since the beginning.
    public private(set) var sentCount: UInt64 = 0
    /// When the last key frame came that was wished for; before the first, so early that every limit has passed since.
    public private(set) var lastKeyFrame = Instant(nanoseconds: -1_000_000_000_000)
    /// When the last request was sent; before the first, so early that every limit has passed since.
    private var lastSent = Instant(nanoseconds: -1_000_000_000_000)
    /// Urgent requests sent since the last key frame.
    private var urgentSentCount: UInt8 = 0
    private var isUrgent = false
    /// A request was sent and no key frame came since.
    private var isUnanswered = false

    public init() {}

    /// A key frame is wished for or was asked for, and has not come.
    public var isWaiting: Bool { isUnanswered || deadline < .distantFuture }

    /// Somebody wishes for a key frame.
    ///
    /// - Parameter urgent: the relay itself asks, because a receiver joined or was switched. A second urgent
    ///   wish before the key frame joins the first: that key frame will serve both.
    public mutating func request(now: Instant, urgent: Bool) {
        if urgent {
            guard !isUrgent else { return }
            isUrgent = true
            urgentSentCount = 0
            // A request that was just sent and is not answered yet does the same service.
            let earliest = isUnanswered ? max(now, lastSent + Self.urgentSpacing) : now
            deadline = min(deadline, earliest)
            return
        }
        // The relay's own requests go on until a key frame comes: they serve this wish too.
        guard !isUrgent else { return }
        deadline = min(deadline, max(now, lastSent + Self.limit))
    }

    /// A key frame of the source arrived: nothing is wished for any more.
    public mutating func keyFrameArrived(now: Instant) {
        isUnanswered = false
        lastKeyFrame = now
        cancel()
    }

    /// Nobody wants the source any more. The limits keep counting from the last request.
    public mutating func cancel() {
        isUrgent = false
        urgentSentCount = 0
        deadline = .distantFuture
    }

    /// Whether to send one request now; true at most once for each time that is due.
    public mutating func shouldSend(now: Instant) -> Bool {
        guard now >= deadline else { return false }
        lastSent = now
        sentCount &+= 1
        isUnanswered = true
        guard isUrgent else {
            deadline = .distantFuture
            return true
        }
        if urgentSentCount < Self.urgentCount { urgentSentCount += 1 }
        deadline = now + (urgentSentCount < Self.urgentCount ? Self.urgentSpacing : Self.limit)
        return true
    }
}

/// Tells new full intra requests of one receiver from repetitions: a repetition has the command number of before
/// (RFC 5104 §4.3.1.2).
@frozen public struct FIRCommandFilter: Sendable {
    /// The last command number; negative before the first.
    private var last: Int16 = -1

    public init() {}

    /// Whether the request is a new one; remembers its number.
    public mutating func isNew(_ commandNumber: UInt8) -> Bool {
        defer { last = Int16(commandNumber) }
        return last != Int16(commandNumber)
    }
}
