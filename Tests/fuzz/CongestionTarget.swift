import RTPCore

extension FuzzTarget {
    /// Both ends of transport-wide congestion control: a recorder tells of every packet once and as it came; an estimator
    /// that hears any feedback, honest or not, stays within its bounds.
    static let congestion = FuzzTarget(
        name: "congestion", byteLimit: 2_048,
        seeds: {
            let sending: [UInt8] = (0..<20).flatMap { (number: UInt8) -> [UInt8] in [0, 200, 5, number] }
            var seeds = [sending + [3], sending + [1, 10, 0, 1, 11, 5, 3]]
            for bytes in vectors("rtcp_twcc", "cases") where bytes.count < 255 {
                let told: [UInt8] = [4, UInt8(bytes.count)] + bytes
                seeds.append(sending + told + told)
            }
            return seeds
        }
    ) { bytes in
        var paths = CongestionPaths(FuzzInput(bytes))
        paths.run()
        paths.destroy()
    }
}

/// What a receiver of packets records, and what their sender estimates.
private struct CongestionPaths {
    private var input: FuzzInput
    private var recorder = TransportFeedbackRecorder.create()
    private var estimator = BandwidthEstimator.create()
    private var now = Instant(nanoseconds: 1_000_000_000)
    /// Packets that wait to be told of, in ticks of 250 µs.
    private var pending: [UInt16: Int64] = [:]
    private let bounds = BandwidthEstimator.Bounds()

    init(_ input: FuzzInput) { self.input = input }

    func destroy() {
        recorder.destroy()
        estimator.destroy()
    }

    mutating func run() {
        while !input.isEmpty {
            switch input.choice(8) {
            case 0: send()
            case 1: arrive(UInt16(input.byte()))
            case 2: arrive(input.integer())
            case 3: tell()
            case 4: hear(input.piece())
            case 5: hear(Self.feedback(&input, reference: input.integer()))
            case 6 where input.flag(): leap()
            case 6: now += .milliseconds(Int64(input.integer(UInt16.self)))
            default: probe()
            }
            require(
                estimator.target >= bounds.least && estimator.target <= bounds.most, "an estimate beyond its bounds")
            _ = estimator.acknowledgedRate
            estimator.advance(to: now)
        }
        while tell() {}
        require(recorder.pendingCount == 0, "packets are never told of")
    }

    private mutating func send() {
        now += .milliseconds(Int64(input.byte()) / 8)
        let number = estimator.sent(byteCount: 1 + Int(input.byte()) * 5, at: now)
        if input.flag() { arrive(number) }
    }

    private mutating func arrive(_ number: UInt16) {
        now += .microseconds(Int64(input.byte()) * 100)
        let before = (recorder.ignoredCount, recorder.evictedCount)
        recorder.record(number, arrival: now)
        if recorder.ignoredCount == before.0 { pending[number] = now.nanoseconds / 250_000 }
        // What fell out of the window is told of no more; which it was is the recorder's to know.
        if recorder.evictedCount != before.1 { pending = pending.filter { $0.key == number || isNear($0.key, number) } }
    }

    private func isNear(_ number: UInt16, _ newest: UInt16) -> Bool {
        (newest &- number) < UInt16(TransportFeedbackRecorder.windowCount)
    }

    /// One feedback packet of the recorder's, held to what was recorded and handed to the estimator.
    @discardableResult
    private mutating func tell() -> Bool {
        var isTold = false
        let before = recorder.pendingCount
        let packet = written(TransportFeedbackRecorder.byteLimit) {
            isTold = recorder.appendFeedback(to: &$0, senderSSRC: 1, mediaSSRC: 2)
        }
        guard isTold else { return false }
        require(packet.count <= TransportFeedbackRecorder.byteLimit, "feedback of \(packet.count) bytes")
        var cursor = RTCPCursor(packet.span)
        guard let item = cursor.next(in: packet.span), let feedback = TransportFeedback(item, in: packet.span) else {
            fatalError("broken promise: feedback of ours is not read")
        }
        var statuses = TransportFeedbackCursor(feedback)
        var count = 0
        while let status = statuses.next(in: packet.span) {
            guard let arrival = status.arrival else { continue }
            count += 1
            guard let ticks = pending.removeValue(forKey: status.sequence) else { continue }
            require(arrival.microseconds / 250 == ticks, "an arrival at another time")
        }
        require(count > 0 && recorder.pendingCount == before - count, "feedback that tells of nothing, or of too much")
        hear(packet)
        return true
    }

    private mutating func hear(_ packet: [UInt8]) {
        var cursor = RTCPCursor(packet.span)
        while let item = cursor.next(in: packet.span) {
            guard let feedback = TransportFeedback(item, in: packet.span) else { continue }
            estimator.receive(feedback, in: packet.span, now: now)
        }
    }

    /// Much feedback in a row, the receiver's clock going on by the same step each time.
    private mutating func leap() {
        let step = input.integer(UInt32.self)
        var reference = input.integer(UInt32.self)
        let deltas = input
        for _ in 0..<1 << input.choice(16) {
            reference &+= step
            input = deltas
            hear(Self.feedback(&input, reference: reference))
        }
    }

    /// Feedback about a run of packets. `reference`: the time, and in the lowest byte the count of feedback packets.
    private static func feedback(_ input: inout FuzzInput, reference: UInt32) -> [UInt8] {
        let base = input.integer(UInt16.self)
        let count = UInt8(1 + input.choice(20))
        let deltas = (0..<count).map { _ in input.byte() }
        var body: [UInt8] = [0, 0, 0, 1, 0, 0, 0, 2, UInt8(base >> 8), UInt8(base & 255), 0, count]
        body += [
            UInt8(reference >> 24), UInt8(reference >> 16 & 255), UInt8(reference >> 8 & 255), UInt8(reference & 255),
        ]
        body += [0x20, count]
        body += deltas
        body += [UInt8](repeating: 0, count: -body.count & 3)
        return [0x8F, RTCPPacketType.transportFeedback, 0, UInt8(body.count / 4)] + body
    }

    private mutating func probe() {
        guard let plan = estimator.probe(wanted: Int(input.integer(UInt32.self)), now: now) else { return }
        require(plan.rate > 0 && plan.byteCount > 0, "a probe of nothing")
        for _ in 0..<input.choice(12) {
            estimator.sent(byteCount: 1_200, at: now, probe: plan.id)
            now += .microseconds(500)
        }
    }
}
