import RTPCore

// What is counted of a transport beside the packets themselves: jitter, gaps, what receivers report. Nothing here
// runs once a packet.

extension MediaEngine {
    /// The transport's counters up to now.
    func statistics(of index: Int32, now: Instant) -> TransportStatistics {
        var result = transports[Int(index)].statistics
        result.workerOverflows = receiveOverflows
        for k in 0..<Int(transports[Int(index)].sourceCount) {
            let source = sourceAt(Int(index) * Limits.sourcesPerTransport + k)
            guard source.pointee.role == .media else { continue }
            result.packetsLost += UInt64(max(0, source.pointee.statistics.cumulativeLost))
        }
        var at = transports[Int(index)].firstTrack
        while at >= 0 {
            let track = tracks[at]
            var gap = max(track.pointee.longestGap, now - track.pointee.lastArrival)
            if track.pointee.nextLayer >= 0, let layer = track.pointee.layer {
                gap = max(layer.pointee.longestGap, now - layer.pointee.lastPictureAt)
            }
            let milliseconds = UInt32(clamping: gap.milliseconds)
            switch track.pointee.kind {
            case .audio: result.largestAudioGapMs = max(result.largestAudioGapMs, milliseconds)
            case .video: result.largestVideoGapMs = max(result.largestVideoGapMs, milliseconds)
            }
            at = track.pointee.nextOfTransport
        }
        var slot = transports[Int(index)].firstSubscription
        while slot >= 0 {
            result.remotePacketsLost &+= subscriptions[slot].pointee.remote.lost
            result.remotePacketsExpected &+= subscriptions[slot].pointee.remote.expected
            slot = subscriptions[slot].pointee.nextOfReceiver
        }
        return result
    }

    /// Counts a packet that the relay had for a receiver and could not send.
    @inline(never) func discard(_ reason: DropReason, for receiver: UnsafeMutablePointer<Transport>) {
        receiver.pointee.statistics.packetsDiscarded &+= 1
        counters.drop(reason)
    }

    /// Gaps count from the gate's opening: before it a client need not send.
    func startGaps(_ index: Int32) {
        var at = transports[Int(index)].firstTrack
        while at >= 0 {
            tracks[at].pointee.lastArrival = .distantFuture
            tracks[at].pointee.longestGap = .zero
            tracks[at].pointee.layer?.pointee.lastPictureAt = .distantFuture
            tracks[at].pointee.layer?.pointee.longestGap = .zero
            at = tracks[at].pointee.nextOfTransport
        }
    }

    /// The jitter of one of the client's tracks, `ticks` of its clock. Pictures come in bursts that look like jitter,
    /// so video counts only where there is no audio.
    func noteJitter(_ ticks: UInt32, of track: UnsafeMutablePointer<Track>, from index: Int32) {
        guard track.pointee.kind == .audio || !sendsAudio(index) else { return }
        let time = Self.microseconds(ticks, of: track.pointee.codec)
        let transport = transports + Int(index)
        transport.pointee.statistics.jitterMicroseconds = time
        transport.pointee.statistics.largestJitterMicroseconds = max(
            transport.pointee.statistics.largestJitterMicroseconds, time)
    }

    private func sendsAudio(_ index: Int32) -> Bool {
        var at = transports[Int(index)].firstTrack
        while at >= 0 {
            if tracks[at].pointee.kind == .audio { return true }
            at = tracks[at].pointee.nextOfTransport
        }
        return false
    }

    /// A receiver's report about one of our slots. Its numbers are ours, with the gaps that packets lost on the
    /// sender's leg left in them: what is missing there is taken off its losses.
    func note(_ block: ReportBlock, of subscription: UnsafeMutablePointer<Subscription>, now: Instant) {
        let receiver = subscription.pointee.receiver
        let transport = transports + Int(receiver)
        transport.pointee.statistics.remoteFractionLost = block.fractionLost
        guard subscription.pointee.packetsSent > 0 else { return }
        let spanned = subscription.pointee.sequence.lastOutput &- subscription.pointee.firstOutput &+ 1
        let neverSent = Int64(spanned) - Int64(subscription.pointee.packetsSent)
        let lost = Int64(block.cumulativeLost) - max(0, neverSent)
        let lostBefore = subscription.pointee.remote.lost
        subscription.pointee.remote.lost = UInt64(min(max(0, lost), Int64(subscription.pointee.packetsSent)))
        let highest = UInt16(truncatingIfNeeded: block.extendedHighest)
        let before =
            subscription.pointee.remote.highest ?? UInt16(truncatingIfNeeded: subscription.pointee.firstOutput) &- 1
        let step = highest &- before
        // A report that goes back, or names a number that was never sent, covers nothing new.
        let ahead = UInt16(truncatingIfNeeded: subscription.pointee.sequence.lastOutput) &- highest
        if step < 0x8000, ahead < 0x8000 {
            subscription.pointee.remote.expected &+= UInt64(step)
            subscription.pointee.remote.highest = highest
            let newlyLost = max(0, Int64(subscription.pointee.remote.lost) - Int64(lostBefore))
            subscription.pointee.remote.fractionLost = step == 0 ? 0 : UInt8(clamping: newlyLost * 256 / Int64(step))
            if subscription.pointee.redPayloadType != 0 {
                noteLossForRED(lost: newlyLost, of: Int64(step), subscription, now: now)
            }
        }
        guard subscription.pointee.kind == .audio || !receivesAudio(receiver) else { return }
        // Every video clock is the same.
        let time = Self.microseconds(block.jitter, of: subscription.pointee.kind == .audio ? .opus : .vp8)
        transport.pointee.statistics.remoteJitterMicroseconds = time
        transport.pointee.statistics.largestRemoteJitterMicroseconds = max(
            transport.pointee.statistics.largestRemoteJitterMicroseconds, time)
    }

    /// What a sender of sound is told of its loss, so that its codec protects what the far leg loses as well: that of both legs
    /// together, 1 − (1 − own)(1 − far), in 1/256 (RFC 3550 §6.4.1). In a group the far leg is the worst of those who hear
    /// it, 20 % at most, so that one bad leg does not cost everybody. Only the fraction is changed: from the count of
    /// lost packets congestion control takes its rate.
    func composedLoss(_ own: UInt8, of track: UnsafeMutablePointer<Track>, inPeerRoom isPeer: Bool) -> UInt8 {
        var far: UInt8 = 0
        var slot = track.pointee.firstSubscription
        while slot >= 0 {
            far = max(far, subscriptions[slot].pointee.remote.fractionLost)
            slot = subscriptions[slot].pointee.nextOfTrack
        }
        if !isPeer { far = min(far, 51) }
        return UInt8(clamping: 256 - (256 - Int(own)) * (256 - Int(far)) / 256)
    }

    private func receivesAudio(_ index: Int32) -> Bool {
        var slot = transports[Int(index)].firstSubscription
        while slot >= 0 {
            if subscriptions[slot].pointee.kind == .audio, subscriptions[slot].pointee.packetsSent > 0 { return true }
            slot = subscriptions[slot].pointee.nextOfReceiver
        }
        return false
    }

    private static func microseconds(_ ticks: UInt32, of codec: MediaCodec) -> UInt32 {
        UInt32(clamping: UInt64(ticks) * 1_000_000 / UInt64(codec.clockRate))
    }
}
