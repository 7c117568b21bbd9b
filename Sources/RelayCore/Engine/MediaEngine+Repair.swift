import RTPCore

// Repair towards receivers: answers to their NACKs from the packet history, and the key frame that the relay asks for itself
// where repair is hopeless. Refuses to repeat more than the path and the budget allow.

extension MediaEngine {
    /// What became of one repeat.
    enum Repeat {
        /// Sent; how often the packet was given out by now.
        case sent(Int)
        /// The history has it no more, or never had it.
        case gone
        case overBudget
    }

    /// Answers a NACK from the packet history: by RTX where negotiated, else by the identical packet (same index, same bytes).
    func receiveNACK(_ item: RTCPItem, _ packet: Span<UInt8>, from index: Int32, now: Instant) {
        guard let media = item.mediaSSRC(in: packet), let subscription = subscription(ofSSRC: media, receiver: index)
        else { return counters.drop(.rtcpForeignSSRC) }
        guard subscription.pointee.flow != .stopped, let stored = tracks[subscription.pointee.layer].pointee.history
        else { return counters.drop(.nackUnknownPacket) }
        let isPathLimit = isPathLimit(for: subscription)
        var isHopeless = false
        var lost = NACKCursor(item)
        while let number = lost.next(in: packet) {
            switch repeatPacket(number, stored, to: subscription, now: now) {
            case .overBudget: isHopeless = true
            // Asked for again: a picture waits for it. Two copies get through where one is lost once in twenty.
            case .sent(2...) where !isPathLimit: _ = repeatPacket(number, stored, to: subscription, now: now)
            case .sent, .gone: break
            }
        }
        if isHopeless { noteBrokenPicture(subscription, now: now) }
    }

    /// The receiver's path carries no more than what is sent.
    private func isPathLimit(for subscription: UnsafeMutablePointer<Subscription>) -> Bool {
        transports[Int(subscription.pointee.receiver)].downlink?.pointee.isLimiting ?? false
    }

    /// Repairs per second. On a path that is full they would only push out what is new, be lost in turn and keep its queue
    /// standing: there they get what the estimate leaves beside what arrives.
    private func repairRate(of subscription: UnsafeMutablePointer<Subscription>) -> Int64 {
        guard let downlink = transports[Int(subscription.pointee.receiver)].downlink, downlink.pointee.isLimiting else {
            return Int64(Limits.repairsPerSecond)
        }
        let estimator = downlink.pointee.estimator
        let left = max(0, estimator.target - (estimator.acknowledgedRate ?? 0)) / Limits.repairBits
        return Int64(min(Limits.leastRepairs + left, Limits.repairsPerSecond))
    }

    /// Sends one packet of the history again.
    @discardableResult func repeatPacket(
        _ number: UInt16, _ stored: PacketHistory.Index, to subscription: UnsafeMutablePointer<Subscription>,
        now: Instant
    ) -> Repeat {
        let newest = Int64(bitPattern: subscription.pointee.sequence.lastOutput)
        let output = UInt64(bitPattern: SequenceNumber.extend(number, near: newest))
        guard subscription.pointee.sequence.isStarted, let source = subscription.pointee.sequence.inverse(output),
            let found = history.find(stored, sequence: source)
        else {
            counters.drop(.nackUnknownPacket)
            return .gone
        }
        // A probe has a bound of its own.
        guard found.repeats <= Limits.repeatsPerPacket,
            activeProbe != 0 || subscription.pointee.repairBudget.take(rate: repairRate(of: subscription), now: now)
        else {
            counters.drop(.nackBudget)
            return .overBudget
        }
        let span = UnsafeBufferPointer(start: found.packet, count: found.byteCount).span
        guard let header = RTPHeader(span), readElements(header, found.packet, count: found.byteCount) else {
            preconditionFailure("the history holds a packet that was not read before")
        }
        let payload = found.packet + found.headerByteCount
        let payloadByteCount = found.byteCount - found.headerByteCount
        var original = PictureFields()
        if let layered = subscription.pointee.layered {
            guard
                let fields = renumber(
                    subscription, layered, payload: payload, payloadByteCount: payloadByteCount, packet: found.packet)
            else {
                counters.drop(.nackUnknownPacket)
                return .gone
            }
            original = fields
        }
        defer { original.store(payload: payload, packet: found.packet) }
        counters.packetsRepaired &+= 1
        if subscription.pointee.rtxPayloadType != 0 {
            write(
                subscription, payloadType: subscription.pointee.rtxPayloadType, ssrc: subscription.pointee.rtxSSRC,
                sequence: subscription.pointee.rtxIndex, header: header, packet: found.packet,
                originalSequence: Int(number), payload: payload, payloadByteCount: payloadByteCount, now: now)
            subscription.pointee.rtxIndex += 1
        } else {
            write(
                subscription, payloadType: subscription.pointee.payloadType, ssrc: subscription.pointee.ssrc,
                sequence: output, header: header, packet: found.packet, originalSequence: -1, payload: payload,
                payloadByteCount: payloadByteCount, now: now)
        }
        return .sent(found.repeats)
    }

    // MARK: Pictures that repair can not mend

    /// A NACK found no budget: what it asked for will not come. Clients ask for a key frame only after seconds of NACKs
    /// (libwebrtc: 3 s), so the relay does.
    private func noteBrokenPicture(_ subscription: UnsafeMutablePointer<Subscription>, now: Instant) {
        let track = tracks[subscription.pointee.layer]
        guard track.pointee.asksKeyFrames,
            // What was lost before the last key frame is asked for until the receiver has decoded that.
            now - track.pointee.keyFrames.lastKeyFrame >= Limits.keyFrameEcho
        else { return }
        subscription.pointee.brokenSince = min(subscription.pointee.brokenSince, now)
        if !isPathLimit(for: subscription) { mendPicture(subscription, now: now) }
    }

    /// Asks for the key frames that broken pictures of a receiver wait for, once its path takes them: while the sender still
    /// sends more than the path carries, a key frame would be lost like the rest.
    func mendPictures(of index: Int32, _ downlink: UnsafeMutablePointer<Downlink>, now: Instant) {
        let target = downlink.pointee.estimator.target
        let hasRoom = !downlink.pointee.isLimiting || downlink.pointee.sentRate <= target + target / 5
        var at = transports[Int(index)].firstSubscription
        while at >= 0 {
            let subscription = subscriptions[at]
            at = subscription.pointee.nextOfReceiver
            let since = subscription.pointee.brokenSince
            guard since < .distantFuture, hasRoom || now - since >= Limits.longestBroken else { continue }
            mendPicture(subscription, now: now)
        }
    }

    private func mendPicture(_ subscription: UnsafeMutablePointer<Subscription>, now: Instant) {
        guard subscription.pointee.flow != .stopped else { return subscription.pointee.brokenSince = .distantFuture }
        let track = tracks[subscription.pointee.layer]
        guard track.pointee.keyFrames.lastKeyFrame <= subscription.pointee.brokenSince else {
            return subscription.pointee.brokenSince = .distantFuture
        }
        guard now >= subscription.pointee.nextMending else { return }
        subscription.pointee.nextMending = now + Limits.mendingSpacing
        track.pointee.keyFrames.request(now: now, urgent: false)
        wake(track.pointee.transport, forRepairAt: track.pointee.keyFrames.deadline)
    }
}
