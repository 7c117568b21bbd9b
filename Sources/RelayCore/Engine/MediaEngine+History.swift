import RTPCore

// Which tracks' packets are kept, so that a receiver may ask for them again, and for how long.

extension MediaEngine {
    /// Somebody is about to watch a track: what is missing of it is noted from now on. Before, it has no memory for that.
    func noteLosses(of track: UnsafeMutablePointer<Track>) {
        guard track.pointee.repairsLoss else { return }
        if track.pointee.loss == nil { track.pointee.loss = .create() }
        if !track.pointee.isWatched { track.pointee.loss?.reset() }
    }

    /// Packets are kept where the receiver may ask for them again.
    func makeHistory(of stream: Int32, for slot: Int32) {
        let track = tracks[stream]
        let receiving = section(of: subscriptions[slot].pointee.receiver, subscriptions[slot].pointee.section)
        guard track.pointee.history == nil, receiving.feedback.contains(.nack) else { return }
        track.pointee.history = history.makeIndex()
    }

    func dropHistory(of track: UnsafeMutablePointer<Track>) {
        guard !track.pointee.isWatched, let kept = track.pointee.history else { return }
        history.release(kept)
        track.pointee.history = nil
    }

    /// Keeps a packet under the source's extended sequence number.
    @inline(__always) func remember(
        _ kept: PacketHistory.Index, of track: UnsafeMutablePointer<Track>, index: UInt64,
        header: UnsafePointer<UInt8>, headerByteCount: Int, payload: UnsafePointer<UInt8>, payloadByteCount: Int,
        now: Instant
    ) {
        if history.needsPage(kept, byteCount: headerByteCount &+ payloadByteCount) {
            history.turnPage(kept, keep: repairTime(of: track), now: now)
        }
        history.store(
            kept, sequence: index, header: header, headerByteCount: headerByteCount, payload: payload,
            payloadByteCount: payloadByteCount)
    }

    /// How long a packet of the track may be asked for: its slowest receiver misses it, asks, and asks again.
    @inline(never) private func repairTime(of track: UnsafeMutablePointer<Track>) -> Interval {
        var longest: UInt32 = 0
        var slot = track.pointee.firstSubscription
        while slot >= 0 {
            let receiver = transports + Int(subscriptions[slot].pointee.receiver)
            longest = max(longest, receiver.pointee.statistics.roundTripMicroseconds)
            slot = subscriptions[slot].pointee.nextOfTrack
        }
        let wanted = Limits.repairDelay + .microseconds(Int64(longest)) * 3
        return max(Limits.shortestHistory, min(wanted, Limits.longestHistory))
    }
}
