/// A burst of packets at a known rate that shows whether a path carries it.
public struct ProbePlan: Hashable, Sendable {
    /// 1…255; goes to `BandwidthEstimator.sent` with each packet of the burst.
    public var id: UInt8
    /// Bits per second at which the burst leaves.
    public var rate: Int
    /// Bytes of the whole burst, media included.
    public var byteCount: Int
}

/// Plans probes and reads their results. One is under way at a time; after one that showed no more than was
/// known the next waits longer.
struct BandwidthProbe {
    /// A burst lasts this long and has at least five packets: enough to measure, too short to fill a queue.
    private static let duration = 0.015
    private static let leastByteCount = 5 * 1_000
    /// Waits after a probe that showed more, and after the first, second, … fruitless one.
    private static let shortWait = Interval.milliseconds(200)
    private static let longestWait = Interval.seconds(8)
    /// Before the first probe after a queue grew, when none has failed yet.
    private static let calmWait = Interval.milliseconds(500)
    /// A queue that grows so soon after a raise belies the probe.
    private static let regretTime = Interval.seconds(3)
    private static let patience = Interval.seconds(1)
    /// A path that lets through less than this share of the burst's rate is full.
    private static let saturation = 0.9
    /// What a burst has to show over what is known: where it found the path full, more than the careful growth finds by
    /// itself, or the estimate would go up and down there.
    private static let leastGain = 1.05
    private static let leastGainWhereFull = 1.25
    /// This share of the burst has to arrive.
    private static let leastShare = 0.8

    private struct Burst {
        var plan: ProbePlan
        var plannedAt: Instant
        var byteCount = 0
        var count = 0
        var firstSent = Instant.distantFuture
        var lastSent = Instant(nanoseconds: 0)
        var lastSentByteCount = 0
        var firstArrived = Interval(nanoseconds: .max)
        var lastArrived = Interval(nanoseconds: .min)
        var firstArrivedByteCount = 0
    }
    private var burst: Burst?
    private var lastID: UInt8 = 0
    private var fruitless = 0
    private var next = Instant(nanoseconds: 0)
    /// When a probe last raised the estimate.
    private var raisedAt: Instant?

    /// A burst at `rate`, when none is under way and the last one is long enough ago.
    mutating func plan(rate: Double, now: Instant) -> ProbePlan? {
        if let burst, now - burst.plannedAt < Self.patience { return nil }
        if burst != nil { finish(useful: false, now: now) }
        guard now >= next else { return nil }
        lastID = lastID == 255 ? 1 : lastID + 1
        let byteCount = max(Self.leastByteCount, Int(rate * Self.duration / 8))
        let plan = ProbePlan(id: lastID, rate: Int(rate), byteCount: byteCount)
        burst = Burst(plan: plan, plannedAt: now)
        return plan
    }

    /// A packet of the burst arrived.
    mutating func arrived(_ packet: SentPacketWindow.Packet, at arrival: Interval) {
        guard var burst, packet.probe == burst.plan.id else { return }
        burst.byteCount += packet.byteCount
        burst.count += 1
        if packet.sentAt < burst.firstSent { burst.firstSent = packet.sentAt }
        if packet.sentAt >= burst.lastSent {
            burst.lastSent = packet.sentAt
            burst.lastSentByteCount = packet.byteCount
        }
        if arrival < burst.firstArrived {
            burst.firstArrived = arrival
            burst.firstArrivedByteCount = packet.byteCount
        }
        burst.lastArrived = max(burst.lastArrived, arrival)
        self.burst = burst
    }

    /// What the burst has shown to pass, bits per second, once enough of it arrived; nil before, and for no news.
    /// - Parameter known: what was known to pass before.
    mutating func result(known: Double, now: Instant) -> Double? {
        guard let burst, burst.count >= 4,
            Double(burst.byteCount) >= Self.leastShare * Double(burst.plan.byteCount)
        else { return nil }
        let sendTime = max(Double((burst.lastSent - burst.firstSent).nanoseconds) / 1e9, 0.001)
        let arrivalTime = max(Double((burst.lastArrived - burst.firstArrived).nanoseconds) / 1e9, 0.001)
        // The last packet's own bytes take no part in the time until it left, nor the first one's in the
        // time since it came.
        let sent = Double(burst.byteCount - burst.lastSentByteCount) * 8 / sendTime
        let received = Double(burst.byteCount - burst.firstArrivedByteCount) * 8 / arrivalTime
        let isFull = received < Self.saturation * sent
        let shown = isFull ? 0.95 * received : min(sent, received)
        let isUseful = shown > known * (isFull ? Self.leastGainWhereFull : Self.leastGain)
        finish(useful: isUseful, now: now)
        guard isUseful else { return nil }
        raisedAt = now
        return min(shown, Double(burst.plan.rate))
    }

    /// The path is full: a burst is not worth its queue now, and one that has just raised the estimate was wrong.
    mutating func pathIsFull(now: Instant) {
        burst = nil
        if let raisedAt, now - raisedAt < Self.regretTime {
            self.raisedAt = nil
            fruitless += 1
        }
        next = max(next, now + (fruitless == 0 ? Self.calmWait : wait))
    }

    /// A burst whose arrivals can not be compared any more is no probe.
    mutating func forgetBurst() { burst = nil }

    private mutating func finish(useful: Bool, now: Instant) {
        burst = nil
        if useful { fruitless = max(0, fruitless - 1) } else { fruitless += 1 }
        next = now + (useful ? Self.shortWait : wait)
    }

    /// 2 s, 4 s, 8 s.
    private var wait: Interval { min(Self.longestWait, .seconds(1) * (1 << Int64(min(max(fruitless, 1), 3)))) }
}
