import RTPCore

// How a slot's numbers and time go on when another source is forwarded into it, or the same one after a jump.

extension MediaEngine {
    /// Whether packet `index` of `source` goes on what the slot's numbers count: its source, and no jump.
    @inline(__always) func isAligned(
        _ subscription: UnsafeMutablePointer<Subscription>, to source: Int32, index: UInt64
    ) -> Bool {
        subscription.pointee.source == source
            && !subscription.pointee.sequence.isJump(index, over: Limits.longestJump)
    }

    /// A packet of padding only is not forwarded; the outgoing numbers close over it (T59).
    func skipPadding(_ trackIndex: Int32, source: Int32, index: UInt64) {
        counters.drop(.rtpPaddingOnly)
        var slot = tracks[trackIndex].pointee.firstSubscription
        while slot >= 0 {
            let subscription = subscriptions[slot]
            if subscription.pointee.source == source { subscription.pointee.sequence.drop(index) }
            slot = subscription.pointee.nextOfTrack
        }
    }

    /// Aligns a slot's outgoing numbers to a source that it has not forwarded before: they go on, never back (C03, R05).
    func align(
        _ subscription: UnsafeMutablePointer<Subscription>, to source: Int32, index: UInt64, timestamp: UInt32,
        now: Instant
    ) {
        let isFirst = subscription.pointee.packetsSent == 0
        if isFirst {
            subscription.pointee.sequence.start(
                source: index, output: SequenceMap.drawFirstOutput(using: &random))
            subscription.pointee.firstOutput = subscription.pointee.sequence.lastOutput
            subscription.pointee.timestamp.start(
                source: timestamp, output: UInt32(truncatingIfNeeded: random.next()))
        } else {
            subscription.pointee.sequence.rebase(source: index)
            let elapsed = now - subscription.pointee.lastSent
            subscription.pointee.timestamp.rebase(
                source: timestamp,
                elapsed: subscription.pointee.kind == .audio
                    ? audioTicks(in: elapsed, of: subscription)
                    : videoTicks(to: timestamp, of: source, in: subscription, elapsed: elapsed))
        }
        subscription.pointee.source = source
    }

    private func videoTicks(
        to timestamp: UInt32, of source: Int32, in subscription: UnsafeMutablePointer<Subscription>, elapsed: Interval
    ) -> Int64 {
        let clockRate = tracks[subscription.pointee.track].pointee.codec.clockRate
        let arrival = elapsed.microseconds * Int64(clockRate) / 1_000_000
        return ticks(to: timestamp, of: source, in: subscription, clockRate: clockRate, arrival: arrival) ?? arrival
    }

    /// Sound is played without a seam where a packet begins when the one before it ends. Two sources have their packets at
    /// different moments of the 20 ms that they last, so the time between them is rounded to such steps: less than a
    /// step would be heard over each other (and dropped), a part of a step as a hole. What is left over is made up for
    /// the next time.
    private func audioTicks(in elapsed: Interval, of subscription: UnsafeMutablePointer<Subscription>) -> Int64 {
        let step: Int64 = 960
        let exact = elapsed.microseconds * 48 / 1_000 + Int64(subscription.pointee.ticksBehind)
        let ticks = max(step, (exact + step / 2) / step * step)
        subscription.pointee.ticksBehind = Int32(clamping: exact - ticks)
        return ticks
    }
}
