import RTPCore

/// A network in virtual time: takes datagrams, loses, delays, doubles and reorders them as its seed says, and gives them
/// back in time order. Owns what is in flight; knows nothing of who sends. Confined to one thread.
public final class VirtualNetwork {
    /// What one direction of one path does to datagrams.
    public struct Quality: Sendable {
        /// 0…1.
        public var loss = 0.0
        public var delay = Interval.milliseconds(10)
        /// Added to the delay, evenly distributed; the order stays.
        public var jitter = Interval.zero
        /// 0…1: a second copy comes `reorderDelay` later at most.
        public var duplication = 0.0
        /// 0…1: the datagram is held back by `reorderDelay` at most and overtaken.
        public var reordering = 0.0
        public var reorderDelay = Interval.milliseconds(20)
        /// Bits per second that pass; nil: no bottleneck.
        public var rate: Double?
        /// The longest queue before the bottleneck; what comes on top is lost.
        public var queue = Interval.milliseconds(300)
        public init(
            loss: Double = 0, delay: Interval = .milliseconds(10), jitter: Interval = .zero, duplication: Double = 0,
            reordering: Double = 0
        ) {
            self.loss = loss
            self.delay = delay
            self.jitter = jitter
            self.duplication = duplication
            self.reordering = reordering
        }
        public static let perfect = Quality()
    }

    public struct Datagram: Sendable {
        public var from: PeerAddress
        public var to: PeerAddress
        public var bytes: [UInt8]
        public var arrivesAt: Instant
        var order: UInt64
    }

    public struct Counters: Hashable, Sendable {
        public var sent = 0
        public var lost = 0
        public var duplicated = 0
        public var delivered = 0
    }

    private struct Link: Hashable {
        var from: PeerAddress
        var to: PeerAddress
    }

    /// Of every link without a quality of its own.
    public var quality: Quality
    /// Returns whether a datagram is lost, beside what chance does; for tests that lose one certain packet.
    public var loses: ((_ from: PeerAddress, _ to: PeerAddress, _ bytes: [UInt8]) -> Bool)?
    public private(set) var counters = Counters()

    private var qualities: [Link: Quality] = [:]
    private var lastArrival: [Link: Instant] = [:]
    /// Until when a link's bottleneck is busy with what was sent before.
    private var busyUntil: [Link: Instant] = [:]
    private var random: RandomSource
    /// A binary heap by arrival and order of sending.
    private var heap: [Datagram] = []
    private var order: UInt64 = 0

    public init(seed: UInt64, quality: Quality = .perfect) {
        random = .seeded(seed)
        self.quality = quality
    }

    /// Sets what happens from one address to another; nil: the common quality again.
    public func setQuality(_ quality: Quality?, from: PeerAddress, to: PeerAddress) {
        qualities[Link(from: from, to: to)] = quality
    }

    public func send(_ bytes: [UInt8], from: PeerAddress, to: PeerAddress, now: Instant) {
        counters.sent += 1
        let link = Link(from: from, to: to)
        let quality = qualities[link] ?? quality
        // Drawn always, so that a test's own loss does not shift the chances of what follows.
        let isLost = chance(quality.loss)
        let isDoubled = chance(quality.duplication)
        let isHeldBack = chance(quality.reordering)
        guard !isLost, loses?(from, to, bytes) != true else {
            counters.lost += 1
            return
        }
        var leaves = now
        if let rate = quality.rate {
            let start = max(now, busyUntil[link] ?? now)
            guard start - now <= quality.queue else {
                counters.lost += 1
                return
            }
            // IPv4 and UDP headers take their share.
            leaves = start + .nanoseconds(Int64(Double((bytes.count + 28) * 8) * 1e9 / rate))
            busyUntil[link] = leaves
        }
        var arrival = leaves + quality.delay + fraction(of: quality.jitter)
        if isHeldBack {
            arrival += fraction(of: quality.reorderDelay)
        } else {
            arrival = max(arrival, lastArrival[link] ?? arrival)
            lastArrival[link] = arrival
        }
        push(bytes, from, to, at: arrival)
        guard isDoubled else { return }
        counters.duplicated += 1
        push(bytes, from, to, at: arrival + fraction(of: quality.reorderDelay))
    }

    /// When the next datagram arrives.
    public var deadline: Instant { heap.first?.arrivesAt ?? .distantFuture }

    /// The next datagram that has arrived by `now`, or nil.
    public func next(until now: Instant) -> Datagram? {
        guard let first = heap.first, first.arrivesAt <= now else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            sink()
        }
        counters.delivered += 1
        return first
    }

    private func push(_ bytes: [UInt8], _ from: PeerAddress, _ to: PeerAddress, at arrival: Instant) {
        heap.append(Datagram(from: from, to: to, bytes: bytes, arrivesAt: arrival, order: order))
        order += 1
        var index = heap.count - 1
        while index > 0, isEarlier(heap[index], heap[(index - 1) / 2]) {
            heap.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    private func sink() {
        var index = 0
        while true {
            var smallest = index
            for child in [2 * index + 1, 2 * index + 2] where child < heap.count {
                if isEarlier(heap[child], heap[smallest]) { smallest = child }
            }
            guard smallest != index else { return }
            heap.swapAt(index, smallest)
            index = smallest
        }
    }

    private func isEarlier(_ a: Datagram, _ b: Datagram) -> Bool {
        a.arrivesAt == b.arrivesAt ? a.order < b.order : a.arrivesAt < b.arrivesAt
    }

    private func chance(_ probability: Double) -> Bool {
        let drawn = random.next()
        return Double(drawn >> 11) < probability * Double(1 << 53)
    }

    private func fraction(of interval: Interval) -> Interval {
        guard interval > .zero else { return .zero }
        return .nanoseconds(Int64.random(in: 0...interval.nanoseconds, using: &random))
    }
}
