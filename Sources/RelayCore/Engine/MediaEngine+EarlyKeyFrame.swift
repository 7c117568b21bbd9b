import RTPCore

// The early key frame (CALLS.md, "Participant states"): while nobody gets the video of a caller who asked for it, its newest key
// frame is kept; whoever then gets the video gets that first. What the sender sends next refers to pictures that nobody
// got, so the slot goes on with the next key frame, which is asked for at once.

extension MediaEngine {
    /// Of every track whose sender can be asked for them.
    func keepKeyFrames(of index: Int32) {
        var at = transports[Int(index)].firstTrack
        while at >= 0 {
            let track = tracks[at]
            if track.pointee.asksKeyFrames, track.pointee.layer == nil {
                track.pointee.keptKeyFrame = KeyFrameKeeper(pool: keptBytes)
            }
            at = track.pointee.nextOfTransport
        }
    }

    /// One packet that is held back, on its way into the keeper.
    func keep(
        _ keeper: KeyFrameKeeper, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, track trackIndex: Int32,
        now: Instant
    ) {
        let track = tracks[trackIndex]
        let content = UnsafeBufferPointer(start: payload, count: payloadByteCount)
        keeper.receive(
            header: UnsafeBufferPointer(start: packet, count: header.headerByteCount), payload: content, index: index,
            timestamp: header.timestamp, hasMarker: header.marker,
            isStart: isKeyFrameStart(track.pointee.codec, content.span), source: track.pointee.currentSource, now: now)
        guard keeper.askAt == .distantFuture else { return }
        keeper.askAt = now
        wake(track.pointee.transport, forRepairAt: now)
    }

    /// Asks the sender for a key frame to keep where that is due. Returns when to come again.
    func askForKeyFrameToKeep(
        _ keeper: KeyFrameKeeper, _ track: UnsafeMutablePointer<Track>, now: Instant
    ) -> Instant {
        guard now - keeper.lastPacketAt < KeyFrameKeeper.silence else {
            keeper.askAt = .distantFuture
            track.pointee.keyFrames.cancel()
            return .distantFuture
        }
        if now >= keeper.askAt {
            track.pointee.keyFrames.request(now: now, urgent: false)
            keeper.askAt = now + KeyFrameKeeper.askInterval
        }
        if track.pointee.keyFrames.shouldSend(now: now) { sendKeyFrameRequest(track.pointee.transport, track) }
        return min(keeper.askAt, track.pointee.keyFrames.deadline)
    }

    /// Sends the kept key frame into a slot that its track is about to pass into; false where there is none.
    func sendKeptKeyFrame(to slot: Int32, now: Instant) -> Bool {
        let subscription = subscriptions[slot]
        let track = tracks[subscription.pointee.track]
        guard let keeper = track.pointee.keptKeyFrame,
            let frame = keeper.frame(of: track.pointee.currentSource, now: now)
        else { return false }
        var content = frame.bytes
        content.withUnsafeMutableBufferPointer { bytes in
            guard let base = bytes.baseAddress else { return }
            for packet in frame.packets {
                send(packet, at: base + packet.offset, to: subscription, of: track, source: frame.source, now: now)
            }
        }
        return true
    }

    private func send(
        _ packet: KeyFrameKeeper.Packet, at bytes: UnsafeMutablePointer<UInt8>,
        to subscription: UnsafeMutablePointer<Subscription>, of track: UnsafeMutablePointer<Track>, source: Int32,
        now: Instant
    ) {
        let span = UnsafeBufferPointer(start: bytes, count: packet.headerByteCount).span
        guard let header = RTPHeader(span), readElements(header, bytes, count: packet.headerByteCount) else {
            preconditionFailure("a packet was kept that was not read before")
        }
        if subscription.pointee.source != source {
            align(subscription, to: source, index: packet.index, timestamp: header.timestamp, now: now)
        }
        guard packet.payloadByteCount > 0 else {
            subscription.pointee.sequence.drop(packet.index)
            return
        }
        let payload = bytes + packet.headerByteCount
        if let stored = track.pointee.history {
            remember(
                stored, of: track, index: packet.index, header: bytes, headerByteCount: packet.headerByteCount,
                payload: payload, payloadByteCount: packet.payloadByteCount, now: now)
        }
        pass(
            subscription, header: header, packet: bytes, payload: payload, payloadByteCount: packet.payloadByteCount,
            index: packet.index, now: now)
    }

    /// A key frame begins that somebody waits for. One that came late, after packets of its own, serves nobody who
    /// was not there before: another one is asked for.
    @inline(never) func keyFrameForWaiting(_ trackIndex: Int32, now: Instant) {
        if let layer = tracks[trackIndex].pointee.layer {
            guard layer.pointee.isNewest else { return askForKeyFrame(trackIndex, now: now) }
            passToAimedSlots(trackIndex)
        }
        passToWaitingSlots(trackIndex, now: now)
    }

    /// Slots that waited for the track's key frame take part from here on.
    private func passToWaitingSlots(_ trackIndex: Int32, now: Instant) {
        let track = tracks[trackIndex]
        let room = transports[Int(track.pointee.transport)].room
        for member in rooms[Int(room)]?.members ?? [] {
            forEachSlot(of: member) { slot in
                let subscription = subscriptions[slot]
                if subscription.pointee.nextTrack == trackIndex { return switchToNext(slot, now: now) }
                guard subscription.pointee.track == trackIndex, subscription.pointee.flow == .untilKeyFrame,
                    track.pointee.layer == nil
                else { return }
                track.pointee.awaitingCount -= 1
                enchain(slot, in: trackIndex)
            }
        }
    }

    /// Where both gates are open nothing is kept any more.
    func releaseKeptKeyFrames(ofRoom room: Int32) {
        let members = rooms[Int(room)]?.members ?? []
        guard members.count(where: { transports[Int($0)].flags.contains(.joined) }) > 1 else { return }
        for member in members where transports[Int(member)].flags.contains(.joined) {
            var at = transports[Int(member)].firstTrack
            while at >= 0 {
                let track = tracks[at]
                track.pointee.keptKeyFrame = nil
                at = track.pointee.nextOfTransport
            }
        }
    }
}
