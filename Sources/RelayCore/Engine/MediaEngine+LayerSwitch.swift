import RTPCore

// Which stream of its track a slot is in. A slot waits for a key frame of the stream it goes to, in which it then takes part from
// that packet on; until then it stays where it is.

extension MediaEngine {
    /// Makes the state of a track whose layers are chosen among, and the further streams of a simulcast: each a track of its
    /// own, reached from the first.
    func addLayers(_ section: MediaSection, to lead: Int32, isPeerRoom: Bool) {
        tracks[lead].pointee.lead = lead
        guard section.kind == .video, !isPeerRoom || section.streamIDs.count > 1 else { return }
        tracks[lead].pointee.layer = LayerState.create(section, position: 0)
        var last = lead
        for position in 1..<max(1, section.streamIDs.count) {
            var track = tracks[lead].pointee
            track.layer = LayerState.create(section, position: position)
            (track.nextOfTransport, track.nextLayer) = (-1, -1)
            // Told by the first stream.
            track.isAnnounced = true
            guard let next = tracks.insert(track) else { return release(layersOf: track) }
            tracks[last].pointee.nextLayer = next
            last = next
        }
    }

    private func release(layersOf track: Track) {
        track.loss?.destroy()
        if let kept = track.history { history.release(kept) }
        if let layer = track.layer { LayerState.destroy(layer) }
    }

    /// Gives back a track with all of its streams.
    func releaseStreams(of lead: Int32) {
        var at = lead
        while at >= 0 {
            let next = tracks[at].pointee.nextLayer
            release(layersOf: tracks[at].pointee)
            tracks.remove(at)
            at = next
        }
    }

    /// The stream that a packet says it belongs to, by its stream id or, for a repair, the id of what it repairs; without one
    /// by its place among the SSRCs that the offer names. -1: none of the negotiated ones.
    func stream(
        of lead: Int32, _ section: MediaSection, role: SourceRole, header: RTPHeader, _ packet: Span<UInt8>
    ) -> Int32 {
        guard tracks[lead].pointee.nextLayer >= 0 else { return lead }
        let kinds: [HeaderExtensionKind] = role == .retransmission ? [.repairedRID, .rid] : [.rid]
        for kind in kinds where section.extensions[kind] != 0 {
            var cursor = HeaderExtensionCursor(header)
            while let element = cursor.next(in: packet) {
                guard element.id == section.extensions[kind] else { continue }
                let position = section.streamIDs.firstIndex { id in
                    id.utf8.count == element.byteCount
                        && id.utf8.enumerated().allSatisfy { packet[element.offset + $0.offset] == $0.element }
                }
                return position.map { stream(of: lead, at: $0) } ?? -1
            }
        }
        let named = role == .retransmission ? section.signalledRTXSSRCs : section.signalledSSRCs
        guard named.count == section.streamIDs.count, let position = named.firstIndex(of: header.ssrc) else {
            return -1
        }
        return stream(of: lead, at: position)
    }

    private func stream(of lead: Int32, at position: Int) -> Int32 {
        var at = lead
        for _ in 0..<position where at >= 0 { at = tracks[at].pointee.nextLayer }
        return at
    }

    // MARK: Slots

    /// A gate has opened before a slot whose track has layers: it takes part from a key frame on; from the packet at hand, where
    /// one of the track's first stream begins with it.
    func startLayers(_ slot: Int32, atKeyFrame: Bool, now: Instant) {
        let subscription = subscriptions[slot]
        let lead = subscription.pointee.track
        if subscription.pointee.layered == nil { subscription.pointee.layered = LayeredSlot.create() }
        subscription.pointee.layered?.pointee.restart()
        let track = tracks[lead]
        let hasOneStream = track.pointee.nextLayer < 0
        // The first picture of all may as well begin in the middle: nothing is shown before the key frame.
        if atKeyFrame || !track.pointee.asksKeyFrames || hasOneStream && subscription.pointee.packetsSent == 0 {
            makeHistory(of: lead, for: slot)
            noteLosses(of: track)
            if track.pointee.asksKeyFrames, !atKeyFrame { askForKeyFrame(lead, now: now) }
            enchain(slot, in: lead)
        } else {
            subscription.pointee.flow = .untilKeyFrame
            subscription.pointee.layer = lead
        }
        watchLayers(of: subscription.pointee.receiver, now: now)
        watchLayers(of: track.pointee.transport, now: now)
        chooseLayers(of: subscription.pointee.receiver, now: now)
    }

    /// A stream of a track has its first packet: who waits for any may wait for this one.
    func streamAppeared(_ stream: Int32, now: Instant) {
        let lead = tracks[stream].pointee.lead
        let room = transports[Int(tracks[lead].pointee.transport)].room
        watchLayers(of: tracks[lead].pointee.transport, now: now)
        for member in rooms[Int(room)]?.members ?? [] {
            var isWaiting = false
            forEachSlot(of: member) { slot in
                let subscription = subscriptions[slot]
                if subscription.pointee.track == lead, subscription.pointee.flow == .untilKeyFrame { isWaiting = true }
            }
            if isWaiting { chooseLayers(of: member, now: now) }
        }
    }

    /// Lets a slot wait for the next key frame of `stream`, which is asked for; -1: it waits for none any more.
    func aim(_ slot: Int32, at stream: Int32, now: Instant) {
        let subscription = subscriptions[slot]
        guard let layered = subscription.pointee.layered, layered.pointee.target != stream else { return }
        if layered.pointee.target >= 0 { tracks[layered.pointee.target].pointee.awaitingCount -= 1 }
        layered.pointee.target = stream
        layered.pointee.targetSince = now
        guard stream >= 0 else { return }
        let track = tracks[stream]
        noteLosses(of: track)
        track.pointee.awaitingCount += 1
        makeHistory(of: stream, for: slot)
        if subscription.pointee.flow == .untilKeyFrame { subscription.pointee.layer = stream }
        askForKeyFrame(stream, now: now)
    }

    /// A key frame of `stream` begins: slots that waited for it take part from here on.
    func passToAimedSlots(_ stream: Int32) {
        let track = tracks[stream]
        let room = transports[Int(track.pointee.transport)].room
        for member in rooms[Int(room)]?.members ?? [] {
            forEachSlot(of: member) { slot in
                if subscriptions[slot].pointee.layered?.pointee.target == stream { switchStream(slot) }
            }
        }
    }

    /// Moves a slot into the stream that it is aimed at: the next packet of it is the first that passes.
    private func switchStream(_ slot: Int32) {
        let subscription = subscriptions[slot]
        guard let layered = subscription.pointee.layered else { return }
        let stream = layered.pointee.target
        layered.pointee.target = -1
        tracks[stream].pointee.awaitingCount -= 1
        // A key frame is where every temporal layer begins.
        layered.pointee.limit = layered.pointee.wishedLimit
        layered.pointee.earlierLimit = layered.pointee.limit
        if subscription.pointee.flow == .passing { unchain(slot) }
        // The source is kept: the new one's time goes on from it.
        let source = subscription.pointee.source
        enchain(slot, in: stream)
        subscription.pointee.source = source
        // Its first picture was decided by another packet's number.
        layered.pointee.limitSince = 0
    }

    /// Takes a slot out of what it waits for and of what it gets.
    func stopLayers(_ slot: Int32) {
        let subscription = subscriptions[slot]
        guard let layered = subscription.pointee.layered else { return }
        if layered.pointee.target >= 0 {
            let track = tracks[layered.pointee.target]
            track.pointee.awaitingCount -= 1
            layered.pointee.target = -1
            dropHistory(of: track)
        }
    }

    /// How far `timestamp` of `source` lies after the newest one that the slot sent, by the sender's own clock: ticks, where both
    /// streams have reports that can be believed (R05). Nil: only arrival tells.
    func ticks(
        to timestamp: UInt32, of source: Int32, in subscription: UnsafeMutablePointer<Subscription>, clockRate: UInt32,
        arrival: Int64
    ) -> Int64? {
        let old = subscription.pointee.source
        guard subscription.pointee.layered != nil, old >= 0, old != source,
            Int(old) / Limits.sourcesPerTransport == Int(source) / Limits.sourcesPerTransport
        else { return nil }
        let (before, after) = (sourceAt(Int(old)), sourceAt(Int(source)))
        guard before.pointee.hasReport, after.pointee.hasReport else { return nil }
        func clock(_ source: UnsafeMutablePointer<Source>) -> SenderClock {
            SenderClock(
                ntp: source.pointee.reportNTP, rtpTimestamp: source.pointee.reportTimestamp,
                clockRate: clockRate)
        }
        let ticks = clock(after).ticks(
            to: timestamp, since: subscription.pointee.timestamp.lastSource, of: clock(before))
        // Layers of one picture come within a second of each other.
        return abs(ticks - arrival) < Int64(clockRate) ? max(1, ticks) : nil
    }

    /// A packet of nothing but one byte of padding under a number that has to be filled.
    func writePadding(
        _ subscription: UnsafeMutablePointer<Subscription>, sequence: UInt64, header: RTPHeader,
        packet: UnsafeMutablePointer<UInt8>, now: Instant
    ) {
        let receiver = transports + Int(subscription.pointee.receiver)
        guard let cipher = receiver.pointee.sendCipher, receiver.pointee.hasPeer else {
            return counters.drop(.sendWithoutPath)
        }
        guard let out = transmit.reserve() else { return counters.drop(.transmitFull) }
        out[0] = 0xA0
        out[1] = subscription.pointee.payloadType
        storeBigEndian(UInt16(truncatingIfNeeded: sequence), at: out + 2)
        storeBigEndian(subscription.pointee.timestamp.output(of: header.timestamp), at: out + 4)
        storeBigEndian(subscription.pointee.ssrc, at: out + 8)
        out[12] = 1
        let total = cipher.sealRTP(
            out, headerByteCount: 12, payload: out + 12, payloadByteCount: 1, ssrc: subscription.pointee.ssrc,
            index: sequence)
        transmit.commit(byteCount: total, to: receiver.pointee.peer, local: receiver.pointee.local)
        subscription.pointee.packetsSent &+= 1
        receiver.pointee.statistics.packetsSent &+= 1
        receiver.pointee.statistics.bytesSent &+= UInt64(truncatingIfNeeded: total)
    }
}
