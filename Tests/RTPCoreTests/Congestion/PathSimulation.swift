import RTPCore

/// One bottleneck in virtual time, shared by flows that each obey an estimator of their own: video in frames of
/// whole packets, audio, feedback each 50 ms as real transport-cc bytes. Seeded: a seed replays a run exactly.
struct PathSimulation {
    struct Path {
        /// Bits per second from an instant on, in order; the first is at 0.
        var capacity: [(from: Interval, rate: Double)] = [(.zero, 1_000_000)]
        var oneWay = Interval.milliseconds(25)
        /// The longest queue; what comes on top is dropped.
        var queue = Interval.milliseconds(300)
        var loss = 0.0
        /// Another way with more delay, taken from an instant on.
        var detour: (from: Interval, by: Interval)?
        /// Extra delay of single packets behind the bottleneck, up to this; order is kept.
        var jitter = Interval.zero
        /// What else goes over it, without numbers, bits per second: reports, feedback on what comes the other way.
        var reports = 0.0

        func rate(at time: Interval) -> Double {
            capacity.last { $0.from <= time }!.rate
        }
    }

    /// What was seen in one tenth of a second of one flow.
    struct Sample {
        var time: Interval
        var target: Int
        var isLimitedByLoss = false
        var sentBits = 0
        /// Without probes, which are the relay's own.
        var sourceBits = 0
        var arrivedBits = 0
        var lost = 0
        var sent = 0
        /// The longest time in the bottleneck's queue.
        var queue = Interval.zero
    }

    struct Flow {
        /// What the source would send at most, bits per second.
        var most: Double
        /// Nobody has told the source to keep to the estimate.
        var isFree = false
        /// How the source obeys: nil: at once, and never quite.
        var browser: Browser?
        var estimator = BandwidthEstimator.create()
        var recorder = TransportFeedbackRecorder.create()
        /// What the source sends now: it follows the estimate with a lag.
        var rate = 300_000.0
        var samples: [Sample] = []
        var nextFrame: Instant
        var nextAudio: Instant
        var nextFeedback: Instant
        /// Probe packets still to be sent.
        var probe: (id: UInt8, left: Int, spacing: Interval, next: Instant)?
        var probeCount = 0

        init(most: Double, startsAt start: Instant) {
            self.most = most
            nextFrame = start
            nextAudio = start
            nextFeedback = start + .milliseconds(50)
        }

        /// Mean of a field over a time, bits per second.
        func arrived(from: Int, to: Int) -> Double { mean(from, to) { Double($0.arrivedBits) * 10 } }
        func sent(from: Int, to: Int) -> Double { mean(from, to) { Double($0.sentBits) * 10 } }
        func used(from: Int, to: Int) -> Double { mean(from, to) { Double($0.sourceBits) * 10 } }
        func target(from: Int, to: Int) -> Double { mean(from, to) { Double($0.target) } }
        /// Seconds.
        private func mean(_ from: Int, _ to: Int, _ value: (Sample) -> Double) -> Double {
            let part = samples.filter { $0.time >= .seconds(Int64(from)) && $0.time < .seconds(Int64(to)) }
            return part.map(value).reduce(0, +) / Double(max(1, part.count))
        }
        func longestQueue(from: Int, to: Int) -> Interval {
            samples.filter { $0.time >= .seconds(Int64(from)) && $0.time < .seconds(Int64(to)) }.map(\.queue).max()
                ?? .zero
        }
    }

    /// A browser that is told by REMB: limits as the relay tells them (lower at once, 5 % higher after 200 ms, any each
    /// second); after a deep cut an encoder that stays a quarter below for 3 s; frames of very different sizes, a large one after a
    /// loss, paced at 2.5 times the rate.
    struct Browser {
        var told = 5_000_000.0
        private var toldAt = Instant(nanoseconds: 0)
        private var carefulUntil = Instant(nanoseconds: 0)
        private var nextKeyFrame = Instant(nanoseconds: 0)
        private var waiting: [Int] = []
        private var nextPaced = Instant(nanoseconds: 0)
        var hasLost = false

        mutating func tell(_ target: Double, _ now: Instant) {
            let isDue = target < told * 0.98 || target > told * 1.05 && now - toldAt >= .milliseconds(200)
            guard isDue || now - toldAt >= .seconds(1) else { return }
            if target < told * 0.8 { carefulUntil = now + .seconds(3) }
            (told, toldAt) = (target, now)
        }

        /// Share of the limit that the encoder uses.
        func thrift(_ now: Instant) -> Double { now < carefulUntil ? 0.75 : 0.95 }

        mutating func encode(_ byteCount: Double, _ now: Instant) {
            var size = byteCount
            if hasLost, now >= nextKeyFrame {
                (hasLost, nextKeyFrame) = (false, now + .seconds(1))
                size = max(size, min(size * 4, 12_000))
            }
            let count = Int(size / 1_150) + 1
            for _ in 0..<count { waiting.append(max(100, Int(size) / count) + 70) }
        }

        /// What leaves now.
        mutating func paced(_ now: Instant) -> [Int] {
            var leaving: [Int] = []
            while !waiting.isEmpty, nextPaced <= now {
                let byteCount = waiting.removeFirst()
                leaving.append(byteCount)
                nextPaced =
                    max(nextPaced, now - .milliseconds(5)) + .nanoseconds(Int64(Double(byteCount) * 8e9 / (told * 2.5)))
            }
            return leaving
        }
    }

    private enum Arrival {
        case packet(flow: Int, number: UInt16, byteCount: Int, queued: Interval)
        case feedback(flow: Int, bytes: [UInt8])
    }

    let path: Path
    var flows: [Flow]
    private var random: RandomSource
    private var now = Instant(nanoseconds: 0)
    private var busyUntil = Instant(nanoseconds: 0)
    private var lastArrival = Instant(nanoseconds: 0)
    private var arrivals: [(at: Instant, order: Int, what: Arrival)] = []
    private var order = 0
    private var nextReport = Instant(nanoseconds: 0)

    init(path: Path, most: [Double], starts: [Interval]? = nil, seed: UInt64) {
        self.path = path
        random = .seeded(seed)
        flows = most.enumerated().map { k, most in
            Flow(most: most, startsAt: Instant(nanoseconds: 0) + (starts?[k] ?? .zero))
        }
    }

    func destroy() {
        for flow in flows {
            flow.estimator.destroy()
            flow.recorder.destroy()
        }
    }

    mutating func run(seconds: Int) {
        let end = Instant(nanoseconds: 0) + .seconds(Int64(seconds))
        var nextSample = now + .milliseconds(100)
        while now < end {
            now += .milliseconds(1)
            deliver()
            report()
            for k in flows.indices { drive(k) }
            if now >= nextSample {
                nextSample += .milliseconds(100)
                for k in flows.indices { flows[k].samples.append(sample(k)) }
            }
        }
    }

    private func sample(_ k: Int) -> Sample {
        Sample(
            time: now - Instant(nanoseconds: 0), target: flows[k].estimator.target,
            isLimitedByLoss: flows[k].estimator.isLimitedByLoss)
    }

    private mutating func drive(_ k: Int) {
        if flows[k].samples.isEmpty { flows[k].samples.append(sample(k)) }
        if now >= flows[k].nextAudio {
            flows[k].nextAudio += .milliseconds(20)
            send(120, flow: k)
        }
        if flows[k].browser != nil {
            driveBrowser(k)
        } else if now >= flows[k].nextFrame {
            flows[k].nextFrame += .milliseconds(33)
            let target = flows[k].isFree ? .infinity : Double(flows[k].estimator.target)
            let wanted = min(target - 50_000, flows[k].most)
            // An encoder takes some frames to follow.
            flows[k].rate += (max(wanted, 30_000) - flows[k].rate) * 0.3
            let size = flows[k].rate * 0.033 / 8 * (0.7 + 0.6 * unit())
            let count = Int(size / 1_150) + 1
            for _ in 0..<count { send(max(100, Int(size) / count) + 50, flow: k) }
        }
        probe(k)
        if now >= flows[k].nextFeedback {
            flows[k].nextFeedback += .milliseconds(50)
            flows[k].estimator.advance(to: now)
            if flows[k].probe == nil, !flows[k].isFree,
                let plan = flows[k].estimator.probe(wanted: Int(flows[k].most), now: now)
            {
                let count = max(5, plan.byteCount / 1_000)
                let spacing = Interval.nanoseconds(Int64(8_000e9 / Double(plan.rate)))
                flows[k].probe = (plan.id, count, spacing, now)
                flows[k].probeCount += 1
            }
            feedback(k)
        }
    }

    private mutating func driveBrowser(_ k: Int) {
        if now >= flows[k].nextFrame {
            flows[k].nextFrame += .milliseconds(40)
            let told = flows[k].browser!.told
            let rate = max(30_000, min(told * flows[k].browser!.thrift(now) - 65_000, flows[k].most))
            flows[k].rate = rate
            flows[k].browser!.encode(rate * 0.04 / 8 * (0.6 + 0.8 * unit()), now)
        }
        for byteCount in flows[k].browser!.paced(now) { send(byteCount, flow: k) }
    }

    /// Without numbers, so that nobody hears what became of them.
    private mutating func report() {
        guard path.reports > 0, now >= nextReport else { return }
        nextReport = now + .milliseconds(50)
        busyUntil =
            max(now, busyUntil)
            + .nanoseconds(Int64(path.reports * 0.05 * 1e9 / path.rate(at: now - Instant(nanoseconds: 0))))
    }

    private mutating func probe(_ k: Int) {
        while let probe = flows[k].probe, probe.next <= now {
            send(1_000, flow: k, probe: probe.id)
            flows[k].probe =
                probe.left > 1 ? (probe.id, probe.left - 1, probe.spacing, probe.next + probe.spacing) : nil
        }
    }

    private mutating func send(_ byteCount: Int, flow k: Int, probe: UInt8 = 0) {
        let number = flows[k].estimator.sent(byteCount: byteCount, at: now, probe: probe)
        let last = flows[k].samples.count - 1
        flows[k].samples[last].sentBits += byteCount * 8
        if probe == 0 { flows[k].samples[last].sourceBits += byteCount * 8 }
        flows[k].samples[last].sent += 1
        let start = max(now, busyUntil)
        let queued = start - now
        guard queued <= path.queue, unit() >= path.loss else {
            flows[k].samples[last].lost += 1
            flows[k].browser?.hasLost = true
            return
        }
        let rate = path.rate(at: now - Instant(nanoseconds: 0))
        busyUntil = start + .nanoseconds(Int64(Double(byteCount) * 8e9 / rate))
        var arrival = busyUntil + path.oneWay
        if let detour = path.detour, now - Instant(nanoseconds: 0) >= detour.from { arrival += detour.by }
        if path.jitter > .zero {
            arrival += .nanoseconds(Int64(unit() * Double(path.jitter.nanoseconds)))
        }
        arrival = max(arrival, lastArrival)
        lastArrival = arrival
        push(.packet(flow: k, number: number, byteCount: byteCount, queued: queued), at: arrival)
    }

    private mutating func feedback(_ k: Int) {
        while flows[k].recorder.pendingCount > 0 {
            var recorder = flows[k].recorder
            let bytes = [UInt8](capacity: TransportFeedbackRecorder.byteLimit) { output in
                _ = recorder.appendFeedback(to: &output, senderSSRC: 1, mediaSSRC: 2)
            }
            flows[k].recorder = recorder
            guard !bytes.isEmpty else { return }
            push(.feedback(flow: k, bytes: bytes), at: now + path.oneWay)
        }
    }

    private mutating func push(_ what: Arrival, at: Instant) {
        order += 1
        let entry = (at: at, order: order, what: what)
        let place = arrivals.lastIndex { ($0.at, $0.order) < (at, order) }.map { $0 + 1 } ?? 0
        arrivals.insert(entry, at: place)
    }

    private mutating func deliver() {
        var count = 0
        for (at, _, what) in arrivals {
            guard at <= now else { break }
            count += 1
            switch what {
            case .packet(let k, let number, let byteCount, let queued):
                flows[k].recorder.record(number, arrival: at + .seconds(1_000))
                let last = flows[k].samples.count - 1
                flows[k].samples[last].arrivedBits += byteCount * 8
                flows[k].samples[last].queue = max(flows[k].samples[last].queue, queued)
            case .feedback(let k, let bytes):
                var cursor = RTCPCursor(bytes.span)
                while let item = cursor.next(in: bytes.span) {
                    guard let feedback = TransportFeedback(item, in: bytes.span) else { continue }
                    flows[k].estimator.receive(feedback, in: bytes.span, now: now)
                    let target = Double(flows[k].estimator.target)
                    flows[k].browser?.tell(target, now)
                }
            }
        }
        arrivals.removeFirst(count)
    }

    private mutating func unit() -> Double { Double(random.next() >> 11) / Double(UInt64(1) << 53) }
}
