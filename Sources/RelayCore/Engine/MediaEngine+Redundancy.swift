import RTPCore

// Redundant audio (RED, RFC 2198). What a sender repeats is taken apart on its way in: the primary is its packet as without
// RED, an earlier block is one only where it is missing. On the way out each slot gets what it negotiated: the primary
// alone, or RED made afresh of the track's last packets, as deep as the sender's, deeper where the receiver reports loss.
// So a slot that has just begun never gets a block from before, and no payload type passes from leg to leg.

extension MediaEngine {
    // MARK: In

    /// Finds the primary of a packet whose payload type is not its track's: RED, or nothing that it may be. Counts what is
    /// dropped and gives nil then. Notes the newest earlier blocks in `redBlocks`.
    @inline(never) func openRED(
        _ track: UnsafeMutablePointer<Track>, payloadType: UInt8, _ payload: UnsafeMutablePointer<UInt8>,
        byteCount: Int
    ) -> REDBlock? {
        redBlockCount = 0
        guard track.pointee.redPayloadType == payloadType, payloadType != 0 else {
            counters.drop(.rtpUnknownPayloadType)
            return nil
        }
        let content = UnsafeBufferPointer(start: payload, count: byteCount).span
        guard var cursor = REDBlockCursor(content) else {
            counters.drop(.redMalformed)
            return nil
        }
        while let block = cursor.next(in: content) {
            guard block.payloadType == track.pointee.payloadType else {
                // An earlier block of another kind is no packet of the track; a primary is nothing that was agreed on.
                guard block.isPrimary else { continue }
                counters.drop(.redMalformed)
                return nil
            }
            if block.isPrimary { return block }
            if redBlockCount == RecentAudio.deepest {
                for k in 1..<RecentAudio.deepest { redBlocks[k - 1] = redBlocks[k] }
                redBlockCount -= 1
            }
            redBlocks[redBlockCount] = block
            redBlockCount += 1
        }
        return nil
    }

    // MARK: Through

    /// One audio packet of a track that RED concerns, into every slot of its chain.
    @inline(never) func forwardAudio(
        _ recent: UnsafeMutablePointer<RecentAudio>, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, track trackIndex: Int32,
        now: Instant
    ) {
        let track = tracks[trackIndex]
        let source = track.pointee.currentSource
        switch recent.pointee.begin(index, of: source) {
        case .first: break
        case .again: return counters.drop(.redRecovered)
        case .late: return counters.drop(.rtpTooOld)
        }
        var repeated = 0
        if header.payloadType == track.pointee.redPayloadType, track.pointee.redPayloadType != 0 {
            repeated = redBlockCount
            recover(recent, track, header: header, packet: packet, index: index, now: now)
        }
        recent.pointee.store(index, timestamp: header.timestamp, payload, byteCount: payloadByteCount)
        var slot = track.pointee.firstSubscription
        while slot >= 0 {
            let subscription = subscriptions[slot]
            slot = subscription.pointee.nextOfTrack
            if !isAligned(subscription, to: source, index: index) {
                align(subscription, to: source, index: index, timestamp: header.timestamp, now: now)
                passFirst(
                    subscription, header: header, packet: packet, payload: payload, payloadByteCount: payloadByteCount,
                    index: index, now: now)
                continue
            }
            let depth = subscription.pointee.redPayloadType == 0 ? 0 : max(repeated, Int(subscription.pointee.redDepth))
            let byteCount =
                depth == 0 || payloadByteCount == 0
                ? 0
                : writeRED(
                    recent, into: redPayload, depth: depth, of: subscription, header: header, payload: payload,
                    payloadByteCount: payloadByteCount, index: index)
            guard byteCount > 0 else {
                pass(
                    subscription, header: header, packet: packet, payload: payload, payloadByteCount: payloadByteCount,
                    index: index, now: now)
                continue
            }
            counters.packetsMadeRedundant &+= 1
            pass(
                subscription, as: subscription.pointee.redPayloadType, header: header, packet: packet,
                payload: redPayload, payloadByteCount: byteCount, index: index, now: now)
        }
    }

    /// What the packet at hand repeats and its source lost: kept, and sent under its own number to slots without RED, and to
    /// those whose receiver loses packets, for which the packet at hand alone is too little. RED has no numbers for its
    /// blocks: the n-th before the primary is taken for the n-th packet before it where its age says so too.
    private func recover(
        _ recent: UnsafeMutablePointer<RecentAudio>, _ track: UnsafeMutablePointer<Track>, header: RTPHeader,
        packet: UnsafeMutablePointer<UInt8>, index: UInt64, now: Instant
    ) {
        let source = track.pointee.currentSource
        var position = 0
        while position < redBlockCount {
            let block = redBlocks[position]
            let age = UInt64(redBlockCount &- position)
            position &+= 1
            let payload = packet + header.headerByteCount + block.offset
            guard index >= age, sourceAt(Int(source)).pointee.replay.check(index &- age),
                let toc = OpusTOC(UnsafeBufferPointer(start: payload, count: block.byteCount).span),
                UInt64(block.timestampOffset) == age &* UInt64(toc.timestampUnits),
                recent.pointee.recover(index &- age)
            else { continue }
            var earlier = header
            earlier.timestamp = header.timestamp &- block.timestampOffset
            earlier.marker = false
            recent.pointee.store(index &- age, timestamp: earlier.timestamp, payload, byteCount: block.byteCount)
            counters.packetsRecovered &+= 1
            if track.pointee.isRecorded {
                record(
                    timestamp: earlier.timestamp, marker: false, payload: payload, payloadByteCount: block.byteCount,
                    index: index &- age, source: source, track: track, now: now)
            }
            var slot = track.pointee.firstSubscription
            while slot >= 0 {
                let subscription = subscriptions[slot]
                slot = subscription.pointee.nextOfTrack
                guard subscription.pointee.redPayloadType == 0 || subscription.pointee.redDepth > 0,
                    isAligned(subscription, to: source, index: index &- age),
                    subscription.pointee.sequence.covers(index &- age)
                else { continue }
                pass(
                    subscription, header: earlier, packet: packet, payload: payload, payloadByteCount: block.byteCount,
                    index: index &- age, now: now)
            }
        }
    }

    // MARK: Out

    /// Writes a RED payload: up to `depth` earlier packets of what the slot forwards, oldest first, and the primary. Left out:
    /// what is from before the slot's beginning, missing, too old for 14 bits (DTX), too long, or over the datagram's limit.
    /// - Returns: its byte count; 0 where no earlier packet can go along.
    private func writeRED(
        _ recent: UnsafeMutablePointer<RecentAudio>, into buffer: UnsafeMutablePointer<UInt8>, depth: Int,
        of subscription: UnsafeMutablePointer<Subscription>, header: RTPHeader, payload: UnsafeMutablePointer<UInt8>,
        payloadByteCount: Int, index: UInt64
    ) -> Int {
        var byteCount = payloadByteCount &+ REDWriter.primaryHeaderByteCount
        // Bit n: the n-th packet before this one goes along.
        var included: UInt8 = 0
        var age = 1
        while age <= depth, age <= RecentAudio.deepest {
            if let earlier = earlier(recent, age, of: subscription, header: header, index: index),
                byteCount &+ REDWriter.headerByteCount &+ earlier.byteCount <= Limits.redPayloadByteCount
            {
                byteCount &+= REDWriter.headerByteCount &+ earlier.byteCount
                included |= 1 << UInt8(age)
            }
            age &+= 1
        }
        guard included != 0 else { return 0 }
        let room = UnsafeMutableBufferPointer(start: buffer, count: byteCount)
        var out = OutputSpan(buffer: room, initializedCount: 0)
        age = RecentAudio.deepest
        while age > 0 {
            if included >> UInt8(age) & 1 == 1, let earlier = recent.pointee.find(index &- UInt64(age)) {
                _ = REDWriter.appendBlock(
                    to: &out, payloadType: subscription.pointee.payloadType,
                    timestampOffset: header.timestamp &- earlier.timestamp, byteCount: earlier.byteCount)
            }
            age &-= 1
        }
        _ = REDWriter.appendPrimary(to: &out, payloadType: subscription.pointee.payloadType)
        var at = buffer + out.finalize(for: room)
        age = RecentAudio.deepest
        while age > 0 {
            if included >> UInt8(age) & 1 == 1, let earlier = recent.pointee.find(index &- UInt64(age)) {
                at.update(from: recent.pointee.payload(of: earlier), count: earlier.byteCount)
                at += earlier.byteCount
            }
            age &-= 1
        }
        at.update(from: payload, count: payloadByteCount)
        return byteCount
    }

    @inline(__always) private func earlier(
        _ recent: UnsafeMutablePointer<RecentAudio>, _ age: Int, of subscription: UnsafeMutablePointer<Subscription>,
        header: RTPHeader, index: UInt64
    ) -> RecentAudio.Packet? {
        guard index >= UInt64(age), subscription.pointee.sequence.covers(index &- UInt64(age)),
            let packet = recent.pointee.find(index &- UInt64(age)),
            REDWriter.canWrite(
                timestampOffset: header.timestamp &- packet.timestamp, byteCount: packet.byteCount)
        else { return nil }
        return packet
    }

    // MARK: How deep

    /// A receiver's report of what it lost of a slot: whether earlier packets go along from now on.
    func noteLossForRED(
        lost: Int64, of expected: Int64, _ subscription: UnsafeMutablePointer<Subscription>, now: Instant
    ) {
        subscription.pointee.redundancy.report(lost: lost, of: expected, at: now)
        var depth = subscription.pointee.redundancy.depth
        if let downlink = transports[Int(subscription.pointee.receiver)].downlink, downlink.pointee.isLimiting {
            let room = (downlink.pointee.estimator.target - Limits.audioReserve) / Limits.redBlockRate
            depth = UInt8(clamping: min(Int(depth), room / 2))
        }
        subscription.pointee.redDepth = depth
    }

    /// What the relay adds in earlier packets on the path of `receiver`, bits per second.
    func redRate(of receiver: Int32) -> Int {
        var rate = 0
        forEachSlot(of: receiver) { slot in
            if subscriptions[slot].pointee.flow == .passing {
                rate += Int(subscriptions[slot].pointee.redDepth) * Limits.redBlockRate
            }
        }
        return rate
    }

    /// The track's last packets are kept from now on: somebody repeats them.
    func keepRecentAudio(of track: UnsafeMutablePointer<Track>) {
        guard track.pointee.kind == .audio, track.pointee.recent == nil else { return }
        // Out of one packet may come several.
        packetsOfOne = RecentAudio.capacity
        track.pointee.recent = RecentAudio.create()
    }
}
