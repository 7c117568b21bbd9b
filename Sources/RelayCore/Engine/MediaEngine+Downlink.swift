import RTPCore

// The way down: what a receiver's path carries, and in a peer room the hold on the other side's sending to just that.

/// What is known of one receiver's path: made when the first picture is about to pass to a receiver that negotiated transport-cc
/// and RTX.
struct Downlink {
    /// IPv4 and UDP headers, which the path carries too.
    static let pathByteCount = 28

    var estimator = BandwidthEstimator.create()
    /// The path has shown that it is the limit: the sender is held to the estimate.
    var isLimiting = false
    /// The most that went through while it was not, bits per second: what is worth probing for.
    var peak = 0
    /// What the receiver's slots would get of their tracks' layers if the path carried it, bits per second.
    var wantedByLayers = 0
    var probe: Probe?
    /// What was sent lately, bits per second, paths' headers left out.
    private(set) var sentRate = 0
    private var sentMark: (at: Instant, byteCount: UInt64)?

    /// Measures `sentRate`. `byteCount`: all that was sent so far.
    mutating func note(sent byteCount: UInt64, now: Instant) {
        guard let mark = sentMark else { return sentMark = (now, byteCount) }
        let elapsed = now - mark.at
        guard elapsed >= Limits.sentRateWindow else { return }
        sentRate = Int(Double(byteCount &- mark.byteCount) * 8e9 / Double(elapsed.nanoseconds))
        sentMark = (now, byteCount)
    }

    /// A burst that is being sent.
    struct Probe {
        var plan: ProbePlan
        var sentByteCount = 0
        var packetCount = 0
    }

    static func create() -> UnsafeMutablePointer<Downlink> {
        let memory = UnsafeMutablePointer<Downlink>.allocate(capacity: 1)
        memory.initialize(to: Downlink())
        return memory
    }

    static func destroy(_ downlink: UnsafeMutablePointer<Downlink>) {
        downlink.pointee.estimator.destroy()
        downlink.deinitialize(count: 1)
        downlink.deallocate()
    }
}

extension MediaEngine {
    /// The id under which a slot's packets carry transport-wide numbers; 0 for none. Video without RTX carries none: there a
    /// repeat has to be bit-identical (one index, one plaintext), so its number would lie.
    func transportCCID(of section: MediaSection) -> UInt8 {
        let id = section.extensions[.transportCC]
        guard section.feedback.contains(.transportCC), (1...14).contains(id),
            section.kind == .audio || section.rtxPayloadType != nil
        else { return 0 }
        return id
    }

    /// A picture is about to pass into a slot: what its receiver's path carries is worth knowing from now on.
    func measurePath(of subscription: UnsafeMutablePointer<Subscription>) {
        let receiver = transports + Int(subscription.pointee.receiver)
        guard subscription.pointee.transportCCID != 0, receiver.pointee.downlink == nil else { return }
        receiver.pointee.downlink = Downlink.create()
    }

    /// transport-cc feedback of a receiver.
    func receiveTransportFeedback(_ item: RTCPItem, _ packet: Span<UInt8>, from index: Int32, now: Instant) {
        guard let downlink = transports[Int(index)].downlink, let feedback = TransportFeedback(item, in: packet)
        else { return }
        downlink.pointee.estimator.receive(feedback, in: packet, now: now)
        downlink.pointee.note(sent: transports[Int(index)].statistics.bytesSent, now: now)
        judge(downlink, of: index, now: now)
        mendPictures(of: index, downlink, now: now)
    }

    /// Whether the path limits the call, and how far: tells the sender when that changes.
    private func judge(_ downlink: UnsafeMutablePointer<Downlink>, of index: Int32, now: Instant) {
        let target = downlink.pointee.estimator.target
        if !downlink.pointee.isLimiting {
            let arrives = downlink.pointee.estimator.acknowledgedRate ?? 0
            downlink.pointee.peak = max(downlink.pointee.peak, arrives)
            guard downlink.pointee.estimator.use == .over || downlink.pointee.estimator.isLimitedByLoss
            else { return probeForLayers(downlink, of: index, now: now) }
            downlink.pointee.isLimiting = true
            chooseLayers(of: index, now: now)
        } else if target >= max(downlink.pointee.peak, Limits.leastWanted) {
            return releaseHold(by: index, now: now)
        }
        if downlink.pointee.estimator.use == .over { chooseLayers(of: index, now: now) }
        // What the relay repeats on the path is not the sender's to use.
        hold(senderTo: index, at: UInt64(target - min(redRate(of: index), target / 4)), now: now)
        startProbe(downlink, of: index, now: now)
    }

    /// Finds out whether the path carries the layers that do not pass for want of knowing.
    func probeForLayers(_ downlink: UnsafeMutablePointer<Downlink>, of index: Int32, now: Instant) {
        guard downlink.pointee.wantedByLayers * 5 / 4 > downlink.pointee.estimator.target else { return }
        startProbe(downlink, of: index, now: now)
    }

    /// What the sender would use if it could.
    private func wanted(over downlink: Downlink) -> Int {
        let used = max(downlink.peak, downlink.wantedByLayers)
        return min(max(used + used / 4, Limits.leastWanted), Int(Limits.openREMB))
    }

    // MARK: Holding the sender

    /// The path of `receiver` is no limit any more, or nobody's.
    func releaseHold(by receiver: Int32, now: Instant) {
        guard let downlink = transports[Int(receiver)].downlink, downlink.pointee.isLimiting else { return }
        downlink.pointee.isLimiting = false
        downlink.pointee.probe = nil
        hold(senderTo: receiver, at: Limits.openREMB, now: now)
    }

    /// In a peer room: the one whose media `receiver` gets may send `bitRate`. In a group nobody is held for one receiver.
    private func hold(senderTo receiver: Int32, at bitRate: UInt64, now: Instant) {
        guard let room = rooms[Int(transports[Int(receiver)].room)], room.isPeer else { return }
        for sender in room.members where sender != receiver && transports[Int(sender)].flags.contains(.joined) {
            // Of several streams the one that fits is chosen.
            if simulcastTrack(of: sender) == nil { hold(sender, at: bitRate, now: now) }
        }
    }

    func hold(_ sender: Int32, at bitRate: UInt64, now: Instant) {
        let transport = transports + Int(sender)
        guard transport.pointee.flags.contains(.usesREMB) else { return }
        let told = transport.pointee.toldLast
        let isLower = bitRate < told - told / 50
        let isHigher = bitRate > told + told / 20 && now - transport.pointee.heldSince >= Limits.holdSpacing
        let isRelease = bitRate == Limits.openREMB && told != bitRate
        // What is not worth a packet now goes with the next report.
        transport.pointee.heldTo = bitRate
        guard isLower || isHigher || isRelease else { return }
        transport.pointee.heldSince = now
        sendREMB(sender)
    }

    // MARK: Probing

    private func startProbe(_ downlink: UnsafeMutablePointer<Downlink>, of index: Int32, now: Instant) {
        guard downlink.pointee.probe == nil,
            let plan = downlink.pointee.estimator.probe(wanted: wanted(over: downlink.pointee), now: now)
        else { return }
        downlink.pointee.probe = Downlink.Probe(plan: plan)
        transports[Int(index)].nextProbe = now
        timers.setIfEarlier(index, to: now)
    }

    /// Sends what is due of a probe: repeats by RTX of what was sent lately, of use where that was lost.
    func sendProbe(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        guard let downlink = transport.pointee.downlink else { return transport.pointee.nextProbe = .distantFuture }
        var due = transport.pointee.nextProbe
        transport.pointee.nextProbe = .distantFuture
        while var probe = downlink.pointee.probe, due <= now {
            let before = transport.pointee.statistics.bytesSent
            repeatLatest(probe.packetCount, to: index, probe: probe.plan.id, now: now)
            let byteCount = Int(transport.pointee.statistics.bytesSent - before) + Downlink.pathByteCount
            probe.sentByteCount += byteCount
            probe.packetCount += 1
            let isOver =
                byteCount == Downlink.pathByteCount || probe.sentByteCount >= probe.plan.byteCount
                || probe.packetCount == Limits.probePackets
            downlink.pointee.probe = isOver ? nil : probe
            guard !isOver else { return }
            due += .nanoseconds(Int64(byteCount) * 8_000_000_000 / Int64(max(1, probe.plan.rate)))
            transport.pointee.nextProbe = due
        }
    }

    /// Repeats the packet that lies `back` before the newest one of the receiver's first picture; nothing where it is gone.
    private func repeatLatest(_ back: Int, to index: Int32, probe: UInt8, now: Instant) {
        var at = transports[Int(index)].firstSubscription
        while at >= 0 {
            let subscription = subscriptions[at]
            at = subscription.pointee.nextOfReceiver
            guard subscription.pointee.kind == .video, subscription.pointee.transportCCID != 0,
                subscription.pointee.flow == .passing,
                let stored = tracks[subscription.pointee.layer].pointee.history
            else { continue }
            activeProbe = probe
            let newest = subscription.pointee.sequence.lastOutput
            repeatPacket(
                UInt16(truncatingIfNeeded: newest &- UInt64(back)), stored, to: subscription, now: now)
            activeProbe = 0
            return
        }
    }
}
