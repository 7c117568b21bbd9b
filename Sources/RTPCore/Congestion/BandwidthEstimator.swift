// The send side of transport-wide congestion control for one receiver: what its path carries. Owns the numbers
// of the packets, the measurements and the estimate; refuses to send, to pace and to choose what is sent.

/// Estimates how many bits per second one path carries, from the receiver's transport-wide feedback
/// (draft-holmer-rmcat-transport-wide-cc-extensions-01; the control is draft-ietf-rmcat-gcc-02): the smaller
/// of what the delay and what the loss allow, raised at once where a probe shows more.
///
/// Verbs: `sent` for every packet, `receive` for every feedback, `advance` now and then, `probe` where more
/// would be used than is known to pass; `target` is the answer. Confined to one thread. Owns C memory (4 KiB):
/// made by `create`, freed once by `destroy`; nothing is allocated in between. `sent` costs one store.
@safe public struct BandwidthEstimator {
    /// Bits per second.
    public struct Bounds: Hashable, Sendable {
        public var start: Int
        public var least: Int
        public var most: Int
        /// The start is what clients themselves begin with; the least still carries Opus.
        public init(start: Int = 300_000, least: Int = 50_000, most: Int = 20_000_000) {
            precondition(least > 0 && least <= start && start <= most, "bounds out of order")
            self.start = start
            self.least = least
            self.most = most
        }
    }

    /// Feedback that is missing for so long is a sign by itself.
    private static let silence = Interval.seconds(1)
    private static let fadeSpacing = Interval.milliseconds(500)
    /// A probe asks for twice what is known.
    private static let probeFactor = 2.0
    /// Of the receiver's reference time (24 bits of 64 ms).
    private static let referenceUnit = Interval.milliseconds(64)
    /// How far a receiver's clock is followed, in that unit: over one wrap, 24 days from where it began. Feedback is
    /// authentic, not honest: a clock that leaps on with every packet would leave 64 bits of nanoseconds within
    /// seconds.
    private static let referenceReach: Int64 = 1 << 25

    private let bounds: Bounds
    @usableFromInline var window: SentPacketWindow
    private var groups = ArrivalGroups()
    private var trend = DelayTrend()
    private var acknowledged = AcknowledgedRate()
    private var path = BusyPath()
    private var delayBased: DelayBasedRate
    private var lossBased = LossBasedRate()
    private var probing = BandwidthProbe()
    private var lastSent: Instant?
    private var lastFeedback: Instant?
    private var lastFade: Instant?
    /// What the 24-bit reference times of the receiver add up to so far.
    private var reference: Int64?
    /// The least time from sending to feedback so far: the path without its queue.
    private var roundTrip = Interval.milliseconds(200)

    private init(_ bounds: Bounds) {
        self.bounds = bounds
        window = SentPacketWindow.create()
        delayBased = DelayBasedRate(rate: Double(bounds.start))
    }

    public static func create(_ bounds: Bounds = Bounds()) -> BandwidthEstimator { BandwidthEstimator(bounds) }

    /// Frees the memory; neither this value nor a copy of it may be used afterwards.
    public func destroy() { window.destroy() }

    /// What the path carries, bits per second, all of the transport's packets included.
    public var target: Int {
        let rate = min(delayBased.rate, lossBased.rate ?? delayBased.rate)
        return Int(min(max(rate, Double(bounds.least)), Double(bounds.most)))
    }

    /// What the receiver acknowledged in the last 500 ms, bits per second; nil while too little is known.
    public var acknowledgedRate: Int? { acknowledged.bitsPerSecond.map { Int($0) } }
    /// The path loses what is sent above the estimate, as a policer does that keeps no queue.
    public var isLimitedByLoss: Bool { lossBased.rate.map { $0 < delayBased.rate } ?? false }
    /// What the queue does, by the last feedback.
    public private(set) var use = PathUse.normal

    /// The number that the next packet gets.
    public var nextNumber: UInt16 { window.nextNumber }
    /// Where the next packet will be noted: a hint for caches, nothing to read.
    @inlinable public var nextPlace: UnsafeRawPointer { unsafe window.nextPlace }

    /// A packet leaves: its transport-wide number. `byteCount`: as on the wire, 1…65,535.
    @discardableResult
    public mutating func sent(byteCount: Int, at now: Instant, probe: UInt8 = 0) -> UInt16 {
        lastSent = now
        return window.send(byteCount: byteCount, at: now, probe: probe)
    }

    /// The receiver's feedback. Numbers that were never sent, or are told twice, are passed over.
    /// - Parameter bytes: what the feedback was read from.
    public mutating func receive(_ feedback: TransportFeedback, in bytes: Span<UInt8>, now: Instant) {
        let offset = unwrap(feedback.referenceTime)
        lastFeedback = now
        lastFade = nil
        var cursor = TransportFeedbackCursor(feedback)
        var newest: Instant?
        var arrived = 0
        var missing = 0
        while let status = cursor.next(in: bytes) {
            guard let arrival = status.arrival else {
                if window.isMissing(status.sequence) { missing += 1 }
                continue
            }
            guard let (packet, wasMissing) = window.arrived(status.sequence) else { continue }
            arrived += 1
            if wasMissing { missing -= 1 }
            let at = arrival + offset
            acknowledged.add(byteCount: packet.byteCount, arrivedAt: at)
            path.add(packet, arrivedAt: at)
            if packet.probe != 0 { probing.arrived(packet, at: at) }
            if let variation = groups.add(sentAt: packet.sentAt, arrivedAt: at) { trend.add(variation) }
            newest = max(newest ?? packet.sentAt, packet.sentAt)
        }
        if let newest { roundTrip = min(roundTrip, max(now - newest, .milliseconds(1))) }
        lossBased.count(arrived: arrived, missing: missing)
        guard arrived > 0 || missing != 0 else { return }
        update(now: now)
    }

    private mutating func update(now: Instant) {
        let arrives = acknowledged.bitsPerSecond
        let state = path.state(acknowledged: arrives)
        // A large picture overruns a path that is kept to, too, and is no news of it.
        use = path.isOverrun && Double(target) > 1.2 * (path.current ?? .infinity) ? .over : trend.use
        if use == .over { probing.pathIsFull(now: now) }
        delayBased.update(use, of: state, roundTrip: roundTrip, now: now)
        if let returned = delayBased.returned(state) { lossBased.raise(to: returned) }
        if let shown = probing.result(known: Double(target), now: now) {
            delayBased.raise(to: shown)
            lossBased.raise(to: shown)
        }
        delayBased.bound(Double(bounds.least)...Double(bounds.most))
        lossBased.update(current: Double(target), passes: path.current ?? arrives, now: now)
    }

    /// Time passes: an estimate without feedback fades while something is sent. Call it at least each 500 ms.
    public mutating func advance(to now: Instant) {
        guard let lastSent, let heard = lastFeedback, lastSent > heard, now - heard >= Self.silence else { return }
        if let lastFade, now - lastFade < Self.fadeSpacing { return }
        lastFade = now
        delayBased.fade()
        delayBased.bound(Double(bounds.least)...Double(bounds.most))
    }

    /// A burst to send now, where `wanted` bits per second would be used and less is known to pass; nil when
    /// there is nothing to find out, or not yet.
    public mutating func probe(wanted: Int, now: Instant) -> ProbePlan? {
        let wanted = Double(min(wanted, bounds.most))
        guard lastFeedback != nil, use == .normal, lossBased.caused < 0.05,
            wanted > Double(target) * 1.1
        else { return nil }
        return probing.plan(rate: min(wanted * 1.2, Double(target) * Self.probeFactor), now: now)
    }

    /// How much to add to this feedback's arrivals, so that the receiver's clock goes on past the wrap of its
    /// 24 bits (12 days), and forward and back over reordered feedback.
    private mutating func unwrap(_ referenceTime: Int32) -> Interval {
        let given = Int64(referenceTime)
        guard let last = reference else {
            reference = given
            return .zero
        }
        var difference = (given - last) % (1 << 24)
        if difference >= 1 << 23 { difference -= 1 << 24 }
        if difference < -(1 << 23) { difference += 1 << 24 }
        let extended = last + difference
        guard abs(extended) <= Self.referenceReach else {
            reference = given
            forgetArrivals()
            return .zero
        }
        reference = max(last, extended)
        return Self.referenceUnit * (extended - given)
    }

    /// The receiver's clock begins anew: what was measured by it before says nothing of what comes.
    private mutating func forgetArrivals() {
        groups = ArrivalGroups()
        acknowledged.forget()
        path = BusyPath()
        trend.forget()
        probing.forgetBurst()
    }
}
