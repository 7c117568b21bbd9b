import RTPCore

// Which tracks pass into which slots. A slot keeps its track while a gate is shut, but leaves the track's chain, so that the
// hot path has nothing to ask: what is in the chain passes.

extension MediaEngine {
    /// Gives a free slot its track; it passes at once where the gates let it.
    /// - Parameter atKeyFrame: its next packet is the first of a key frame.
    func link(_ trackIndex: Int32, to slot: Int32, atKeyFrame: Bool = false, now: Instant) {
        let track = tracks[trackIndex]
        let subscription = subscriptions[slot]
        precondition(subscription.pointee.track < 0, "a slot with two tracks")
        subscription.pointee.track = trackIndex
        subscription.pointee.layer = trackIndex
        let sending = section(of: track.pointee.transport, track.pointee.section).extensions
        let receiving = section(of: subscription.pointee.receiver, subscription.pointee.section).extensions
        var passed = SIMD16<UInt8>(repeating: 0)
        for kind in HeaderExtensionKind.allCases where kind.passesThrough {
            let id = sending[kind]
            if (1...15).contains(id) { passed[Int(id)] = receiving[kind] }
        }
        subscription.pointee.passedIDs = passed
        subscription.pointee.passesWideID = passed.max() > 14
        if subscription.pointee.redPayloadType != 0 { keepRecentAudio(of: track) }
        updateFlow(slot, atKeyFrame: atKeyFrame, now: now)
    }

    func unlink(_ slot: Int32) {
        let subscription = subscriptions[slot]
        guard subscription.pointee.track >= 0 else { return }
        stop(slot)
        subscription.pointee.track = -1
    }

    /// Frees every slot of the room that has the track or waits for it, stopped ones too.
    func unlinkAll(_ track: Int32, inRoom room: Int32) {
        for member in rooms[Int(room)]?.members ?? [] {
            forEachSlot(of: member) { slot in
                if subscriptions[slot].pointee.track == track { unlink(slot) }
                if subscriptions[slot].pointee.nextTrack == track { forgetNext(slot) }
            }
        }
    }

    // MARK: Gates

    /// Shuts and opens what `gates` says, for what the participant sends and for what it receives.
    func setGates(_ gates: MediaGates, of index: Int32, now: Instant) {
        let transport = transports + Int(index)
        guard transport.pointee.gates != gates else { return }
        transport.pointee.gates = gates
        updateRecording(of: index, now: now)
        for member in rooms[Int(transport.pointee.room)]?.members ?? [] {
            forEachSlot(of: member) { slot in
                let track = subscriptions[slot].pointee.track
                if track >= 0, member == index || tracks[track].pointee.transport == index {
                    updateFlow(slot, now: now)
                }
            }
        }
        var track = transport.pointee.firstTrack
        while track >= 0 {
            // What a gate holds back is not kept either.
            if gates.dropReason(ofSent: tracks[track].pointee.kind) != nil {
                tracks[track].pointee.keptKeyFrame?.discard()
            }
            track = tracks[track].pointee.nextOfTransport
        }
        rechoose(transport.pointee.room, now: now)
    }

    func forEachSlot(of transport: Int32, _ body: (Int32) -> Void) {
        var slot = transports[Int(transport)].firstSubscription
        while slot >= 0 {
            let next = subscriptions[slot].pointee.nextOfReceiver
            body(slot)
            slot = next
        }
    }

    /// Lets the slot's track pass or stops it, as a prompt and the gates of sender and receiver say.
    func updateFlow(_ slot: Int32, atKeyFrame: Bool = false, now: Instant) {
        let subscription = subscriptions[slot]
        let sender = tracks[subscription.pointee.track].pointee.transport
        let kind = subscription.pointee.kind
        let passes =
            !subscription.pointee.isPrompted && transports[Int(sender)].gates.dropReason(ofSent: kind) == nil
            && transports[Int(subscription.pointee.receiver)].gates.passesToReceiver(kind)
        if passes, subscription.pointee.flow == .stopped {
            start(slot, atKeyFrame: atKeyFrame, now: now)
        } else if !passes {
            stop(slot)
        }
    }

    /// The outgoing numbers go on after the last one sent, whatever was held back meanwhile; nothing of that is ever sent.
    /// A slot that has shown pictures goes on with a key frame: others would refer to what it never got.
    private func start(_ slot: Int32, atKeyFrame: Bool, now: Instant) {
        let subscription = subscriptions[slot]
        let track = tracks[subscription.pointee.track]
        subscription.pointee.source = -1
        if subscription.pointee.kind == .video { measurePath(of: subscription) }
        if track.pointee.layer != nil { return startLayers(slot, atKeyFrame: atKeyFrame, now: now) }
        if track.pointee.kind == .video {
            makeHistory(of: subscription.pointee.track, for: slot)
            noteLosses(of: track)
            let waits = track.pointee.asksKeyFrames && !atKeyFrame
            if waits { askForKeyFrame(subscription.pointee.track, now: now) }
            if sendKeptKeyFrame(to: slot, now: now) || (waits && subscription.pointee.packetsSent > 0) {
                subscription.pointee.flow = .untilKeyFrame
                track.pointee.awaitingCount += 1
                return
            }
        }
        enchain(slot, in: subscription.pointee.track)
    }

    /// At once, and again until it comes.
    func askForKeyFrame(_ track: Int32, now: Instant) {
        tracks[track].pointee.keyFrames.request(now: now, urgent: true)
        wake(tracks[track].pointee.transport, forRepairAt: now)
    }

    /// Puts the slot into the chain of its track, or of another stream of it: the next packet is the first that passes.
    func enchain(_ slot: Int32, in trackIndex: Int32) {
        let subscription = subscriptions[slot]
        if subscription.pointee.kind == .video, transports[Int(subscription.pointee.receiver)].downlink != nil {
            transports[Int(subscription.pointee.receiver)].flags.insert(.numbered)
        }
        let track = tracks[trackIndex]
        subscription.pointee.layer = trackIndex
        subscription.pointee.source = -1
        subscription.pointee.flow = .passing
        subscription.pointee.nextOfTrack = track.pointee.firstSubscription
        track.pointee.firstSubscription = slot
    }

    private func stop(_ slot: Int32) {
        let subscription = subscriptions[slot]
        guard subscription.pointee.flow != .stopped else { return }
        let track = tracks[subscription.pointee.layer]
        if track.pointee.layer != nil {
            stopLayers(slot)
        } else if subscription.pointee.flow == .untilKeyFrame {
            track.pointee.awaitingCount -= 1
        }
        if subscription.pointee.flow == .passing { unchain(slot) }
        subscription.pointee.flow = .stopped
        if subscription.pointee.kind == .video { stopNumbering(subscription.pointee.receiver) }
        dropHistory(of: track)
    }

    /// Without a picture there is no rate to steer: sound alone is not worth the feedback.
    private func stopNumbering(_ receiver: Int32) {
        var isWatching = false
        forEachSlot(of: receiver) { slot in
            if subscriptions[slot].pointee.kind == .video, subscriptions[slot].pointee.flow != .stopped {
                isWatching = true
            }
        }
        if !isWatching { transports[Int(receiver)].flags.remove(.numbered) }
    }

    func unchain(_ slot: Int32) {
        let subscription = subscriptions[slot]
        let track = tracks[subscription.pointee.layer]
        if track.pointee.firstSubscription == slot {
            track.pointee.firstSubscription = subscription.pointee.nextOfTrack
        } else {
            var at = track.pointee.firstSubscription
            while subscriptions[at].pointee.nextOfTrack != slot { at = subscriptions[at].pointee.nextOfTrack }
            subscriptions[at].pointee.nextOfTrack = subscription.pointee.nextOfTrack
        }
        subscription.pointee.nextOfTrack = -1
    }

    // MARK: What nobody gets

    /// A packet of a track that passes into no slot: counted by what holds it back.
    @inline(never) func holdBack(
        _ bytes: UnsafeMutablePointer<UInt8>, header: RTPHeader, payload: UnsafeMutablePointer<UInt8>,
        payloadByteCount: Int, index: UInt64, track trackIndex: Int32, now: Instant
    ) {
        let track = tracks[trackIndex]
        let sender = transports + Int(track.pointee.transport)
        let reason = sender.pointee.gates.dropReason(ofSent: track.pointee.kind)
        if reason == nil, track.pointee.awaitingCount == 0, let keeper = track.pointee.keptKeyFrame {
            keep(
                keeper, header: header, packet: bytes, payload: payload, payloadByteCount: payloadByteCount,
                index: index, track: trackIndex, now: now)
        }
        guard sender.pointee.flags.contains(.joined) else { return counters.drop(.rtpGateClosed) }
        if let reason { return counters.drop(reason) }
        announceMedia(track.pointee.lead, now: now)
        if track.pointee.awaitingCount > 0 {
            counters.drop(.rtpBeforeKeyFrame)
        } else if tracks[track.pointee.lead].pointee.nextLayer >= 0 {
            counters.drop(.rtpOtherLayer)
        }
    }
}
