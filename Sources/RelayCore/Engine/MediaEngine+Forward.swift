import RTPCore

// The way out: what one authenticated packet means for its track, and one fresh packet for every slot it is forwarded into.
// This is the hot function of the relay.

extension MediaEngine {
    /// Accounts for one decrypted packet and forwards it. `count`: bytes without the authentication tag. `index`: the
    /// source's extended sequence number.
    @inline(__always) func deliver(
        _ bytes: UnsafeMutablePointer<UInt8>, count: Int, header: RTPHeader, index: UInt64, source sourceIndex: Int32,
        transport transportIndex: Int32, now: Instant
    ) {
        let source = sources + Int(sourceIndex)
        let transport = transports + Int(transportIndex)
        let trackIndex = source.pointee.track
        let track = tracks[trackIndex]
        let packet = UnsafeBufferPointer(start: bytes, count: count).span
        guard readElements(header, packet) else { return counters.drop(.rtpMalformed) }
        if track.pointee.transportCCID != 0 {
            let interval =
                track.pointee.kind == .video ? Limits.transportFeedbackInterval : Limits.audioFeedbackInterval
            recordTransportCC(
                track.pointee.transportCCID, packet, transportIndex, feedbackBy: now + interval, now: now)
        }
        transport.pointee.statistics.packetsReceived &+= 1
        transport.pointee.statistics.bytesReceived &+= UInt64(truncatingIfNeeded: count)
        var payloadByteCount = count &- header.headerByteCount
        if header.hasPadding {
            guard
                let padding = RTPHeader.paddingByteCount(packet, payloadOffset: header.headerByteCount)
            else { return counters.drop(.rtpMalformed) }
            payloadByteCount &-= padding
        }
        if source.pointee.role == .retransmission {
            return restore(
                bytes, header: header, payloadByteCount: payloadByteCount, track: trackIndex, now: now)
        }
        var payload = bytes + header.headerByteCount
        if header.payloadType != track.pointee.payloadType {
            guard
                let primary = openRED(
                    track, payloadType: header.payloadType, payload, byteCount: payloadByteCount)
            else { return }
            payload += primary.offset
            payloadByteCount = primary.byteCount
        }
        if track.pointee.levels != .nowhere {
            noteLevel(
                track, packet, payload: payload, byteCount: payloadByteCount, room: transport.pointee.room, now: now)
        }
        source.pointee.packetsSinceReport &+= 1
        source.pointee.statistics.received(
            extendedSequence: index, rtpTimestamp: header.timestamp, arrival: now,
            clockRate: track.pointee.codec.clockRate)
        let gap = now - track.pointee.lastArrival
        if gap > track.pointee.longestGap { track.pointee.longestGap = gap }
        track.pointee.lastArrival = now
        forward(
            bytes, header: header, payload: payload, payloadByteCount: payloadByteCount, index: index,
            source: sourceIndex, track: trackIndex, now: now)
    }

    /// RFC 4588: the original packet out of an RTX packet, forwarded unless it has come meanwhile.
    private func restore(
        _ bytes: UnsafeMutablePointer<UInt8>, header: RTPHeader, payloadByteCount: Int, track trackIndex: Int32,
        now: Instant
    ) {
        let end = header.headerByteCount + payloadByteCount
        // Probes carry nothing or padding only (CLIENTS.md 4.8).
        guard
            let original = RTXPacket.originalSequenceNumber(
                UnsafeBufferPointer(start: bytes, count: end).span, payloadOffset: header.headerByteCount,
                payloadEnd: end)
        else { return counters.drop(.rtpPaddingOnly) }
        let sourceIndex = tracks[trackIndex].pointee.currentSource
        guard sourceIndex >= 0 else { return counters.drop(.rtxWithoutOriginal) }
        let payload = bytes + header.headerByteCount
        let source = sources + Int(sourceIndex)
        let index = source.pointee.estimator.estimate(original)
        guard source.pointee.replay.check(index) else { return counters.drop(.rtxDuplicate) }
        source.pointee.replay.mark(index)
        forward(
            bytes, header: header, payload: payload + 2, payloadByteCount: payloadByteCount - 2, index: index,
            source: sourceIndex, track: trackIndex, now: now)
    }

    /// `payload` may lie anywhere behind the header in the same packet. `header` gives marker, timestamp and extensions.
    @inline(__always) private func forward(
        _ bytes: UnsafeMutablePointer<UInt8>, header: RTPHeader, payload: UnsafeMutablePointer<UInt8>,
        payloadByteCount: Int, index: UInt64, source sourceIndex: Int32, track trackIndex: Int32, now: Instant
    ) {
        let track = tracks[trackIndex]
        guard track.pointee.currentSource == sourceIndex else { return counters.drop(.rtpSuperseded) }
        if track.pointee.kind == .video {
            if let layer = track.pointee.layer {
                observeLayers(
                    track, layer, header: header, packet: bytes, payload: payload, payloadByteCount: payloadByteCount,
                    index: index, now: now)
            }
            observeVideo(
                trackIndex, payload: payload, payloadByteCount: payloadByteCount, index: index, now: now)
        }
        guard track.pointee.firstSubscription >= 0 else {
            return holdBack(
                bytes, header: header, payload: payload, payloadByteCount: payloadByteCount, index: index,
                track: trackIndex, now: now)
        }
        announceMedia(track.pointee.lead, now: now)
        guard payloadByteCount > 0 || track.pointee.kind == .audio else {
            return skipPadding(trackIndex, source: sourceIndex, index: index)
        }
        if let stored = track.pointee.history {
            history.store(
                stored, sequence: index, header: bytes, headerByteCount: header.headerByteCount, payload: payload,
                payloadByteCount: payloadByteCount)
        }
        if let recent = track.pointee.recent {
            return forwardAudio(
                recent, header: header, packet: bytes, payload: payload, payloadByteCount: payloadByteCount,
                index: index, track: trackIndex, now: now)
        }
        if let layer = track.pointee.layer {
            return forwardLayer(
                layer, header: header, packet: bytes, payload: payload, payloadByteCount: payloadByteCount,
                index: index, track: trackIndex, now: now)
        }
        var slot = track.pointee.firstSubscription
        while slot >= 0 {
            let subscription = subscriptions[slot]
            if subscription.pointee.source != sourceIndex
                || subscription.pointee.sequence.isJump(index, over: Limits.longestJump)
            {
                align(subscription, to: sourceIndex, index: index, timestamp: header.timestamp, now: now)
                if track.pointee.kind == .audio {
                    passFirst(
                        subscription, header: header, packet: bytes, payload: payload,
                        payloadByteCount: payloadByteCount, index: index, now: now)
                    slot = subscription.pointee.nextOfTrack
                    continue
                }
            }
            pass(
                subscription, header: header, packet: bytes, payload: payload, payloadByteCount: payloadByteCount,
                index: index, now: now)
            slot = subscription.pointee.nextOfTrack
        }
    }

    /// The first packet of a source into a slot of sound: marked, so that the receiver may settle anew (RFC 3551 §4.1).
    /// It takes no earlier packet along: those are another source's, or from before the slot's turn.
    @inline(never) func passFirst(
        _ subscription: UnsafeMutablePointer<Subscription>, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, now: Instant
    ) {
        var header = header
        header.marker = true
        pass(
            subscription, header: header, packet: packet, payload: payload, payloadByteCount: payloadByteCount,
            index: index, now: now)
    }

    /// One packet into a slot that is aligned to its source.
    @inline(__always) func pass(
        _ subscription: UnsafeMutablePointer<Subscription>, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, now: Instant
    ) {
        pass(
            subscription, as: subscription.pointee.payloadType, header: header, packet: packet, payload: payload,
            payloadByteCount: payloadByteCount, index: index, now: now)
    }

    /// The same under another of the slot's payload types.
    @inline(__always) func pass(
        _ subscription: UnsafeMutablePointer<Subscription>, as payloadType: UInt8, header: RTPHeader,
        packet: UnsafeMutablePointer<UInt8>, payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int,
        index: UInt64, now: Instant
    ) {
        guard let sequence = subscription.pointee.sequence.map(index) else { return counters.drop(.rtpTooOld) }
        write(
            subscription, payloadType: payloadType, ssrc: subscription.pointee.ssrc,
            sequence: sequence, header: header, packet: packet, originalSequence: -1, payload: payload,
            payloadByteCount: payloadByteCount, now: now)
        subscription.pointee.packetsSent &+= 1
        subscription.pointee.octetsSent &+= UInt32(truncatingIfNeeded: payloadByteCount)
        subscription.pointee.lastSent = now
    }

    /// Writes one packet for one receiver straight into its send slot and seals it there.
    /// - Parameter originalSequence: RFC 4588's OSN for a repair, written before the payload; -1 for media.
    func write(
        _ subscription: UnsafeMutablePointer<Subscription>, payloadType: UInt8, ssrc: UInt32, sequence: UInt64,
        header: RTPHeader, packet: UnsafeMutablePointer<UInt8>, originalSequence: Int,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, now: Instant
    ) {
        let receiver = transports + Int(subscription.pointee.receiver)
        guard let cipher = receiver.pointee.sendCipher, receiver.pointee.hasPeer else {
            return counters.drop(.sendWithoutPath)
        }
        guard let out = transmit.reserve() else { return counters.drop(.transmitFull) }
        out[1] = payloadType | (header.marker ? 0x80 : 0)
        storeBigEndian(UInt16(truncatingIfNeeded: sequence), at: out + 2)
        storeBigEndian(subscription.pointee.timestamp.map(header.timestamp), at: out + 4)
        storeBigEndian(ssrc, at: out + 8)
        let isNumbered =
            receiver.pointee.flags.contains(.numbered) && subscription.pointee.transportCCID != 0
        let extensionByteCount = writeExtensions(
            subscription, packet: packet,
            transportNumber: isNumbered ? receiver.pointee.downlink?.pointee.estimator.nextNumber : nil, to: out + 12)
        out[0] = extensionByteCount > 0 ? 0x90 : 0x80
        let headerByteCount = 12 &+ extensionByteCount
        // The OSN is payload of the RTX packet, so it is sealed with it: the payload must be contiguous.
        var body = payload
        var bodyByteCount = payloadByteCount
        guard headerByteCount &+ bodyByteCount &+ 18 <= TransmitBatch.slotByteCount else {
            return counters.drop(.rtpTooLarge)
        }
        if originalSequence >= 0 {
            body = out + headerByteCount
            (body + 2).update(from: payload, count: payloadByteCount)
            storeBigEndian(UInt16(truncatingIfNeeded: originalSequence), at: body)
            bodyByteCount &+= 2
        }
        let total = cipher.sealRTP(
            out, headerByteCount: headerByteCount, payload: body, payloadByteCount: bodyByteCount, ssrc: ssrc,
            index: sequence)
        transmit.commit(byteCount: total, to: receiver.pointee.peer, local: receiver.pointee.local)
        if isNumbered {
            receiver.pointee.downlink?.pointee.estimator.sent(
                byteCount: total &+ Downlink.pathByteCount, at: now, probe: activeProbe)
        }
        receiver.pointee.statistics.packetsSent &+= 1
        receiver.pointee.statistics.bytesSent &+= UInt64(truncatingIfNeeded: total)
        counters.packetsForwarded &+= 1
        counters.bytesForwarded &+= UInt64(truncatingIfNeeded: total)
    }

    /// The receiver's own MID, its transport-wide number, and the elements that pass from leg to leg, under the receiver's ids (RFC 8285). Returns the
    /// block's byte count, 0 for none. Two-byte form only where an element needs it.
    @inline(__always) private func writeExtensions(
        _ subscription: UnsafeMutablePointer<Subscription>, packet: UnsafeMutablePointer<UInt8>,
        transportNumber: UInt16?, to block: UnsafeMutablePointer<UInt8>
    ) -> Int {
        let passed = subscription.pointee.passedIDs
        var isTwoByte = subscription.pointee.midID > 14
        var i = 0
        while i < elementCount {
            let element = elements[i]
            let id = passed[Int(element.id & 15)]
            if id > 14 || (id != 0 && (element.byteCount > 16 || element.byteCount == 0)) { isTwoByte = true }
            i &+= 1
        }
        var at = 4
        if subscription.pointee.midID != 0, subscription.pointee.midByteCount > 0 {
            let byteCount = subscription.pointee.midByteCount
            at = writeElementHead(block, at: at, id: subscription.pointee.midID, byteCount: byteCount, isTwoByte)
            let mid = subscription.pointee.mid
            var k = 0
            while k < Int(byteCount) {
                block[at &+ k] = mid[k]
                k &+= 1
            }
            at &+= Int(byteCount)
        }
        if let transportNumber {
            at = writeElementHead(block, at: at, id: subscription.pointee.transportCCID, byteCount: 2, isTwoByte)
            storeBigEndian(transportNumber, at: block + at)
            at &+= 2
        }
        i = 0
        while i < elementCount {
            let element = elements[i]
            let id = passed[Int(element.id & 15)]
            if id != 0, at &+ Int(element.byteCount) < 200 {
                at = writeElementHead(block, at: at, id: id, byteCount: element.byteCount, isTwoByte)
                (block + at).update(from: packet + Int(element.offset), count: Int(element.byteCount))
                at &+= Int(element.byteCount)
            }
            i &+= 1
        }
        guard at > 4 else { return 0 }
        while at & 3 != 0 {
            block[at] = 0
            at &+= 1
        }
        storeBigEndian(isTwoByte ? UInt16(0x1000) : UInt16(0xBEDE), at: block)
        storeBigEndian(UInt16(truncatingIfNeeded: (at &- 4) &>> 2), at: block + 2)
        return at
    }

    @inline(__always) private func writeElementHead(
        _ block: UnsafeMutablePointer<UInt8>, at: Int, id: UInt8, byteCount: UInt8, _ isTwoByte: Bool
    ) -> Int {
        guard isTwoByte else {
            block[at] = id &<< 4 | (byteCount &- 1)
            return at &+ 1
        }
        block[at] = id
        block[at &+ 1] = byteCount
        return at &+ 2
    }

    /// Notes the packet's extension elements in `elements` (at most 16; ids above 15 never pass). False when the block lies.
    @inline(__always) func readElements(_ header: RTPHeader, _ packet: Span<UInt8>) -> Bool {
        elementCount = 0
        guard header.extensionByteCount > 0 else { return true }
        var cursor = HeaderExtensionCursor(header)
        while let element = cursor.next(in: packet) {
            guard element.id <= 15, elementCount < 16 else { continue }
            elements[elementCount] = (
                element.id, UInt16(truncatingIfNeeded: element.offset),
                UInt8(truncatingIfNeeded: element.byteCount)
            )
            elementCount &+= 1
        }
        return !cursor.isMalformed
    }

    @inline(__always) private func recordTransportCC(
        _ id: UInt8, _ packet: Span<UInt8>, _ transportIndex: Int32, feedbackBy due: Instant, now: Instant
    ) {
        var i = 0
        while i < elementCount {
            let element = elements[i]
            if element.id == id, element.byteCount == 2 {
                let at = Int(element.offset)
                let sequence = UInt16(packet[at]) &<< 8 | UInt16(packet[at &+ 1])
                let transport = transports + Int(transportIndex)
                transport.pointee.transportFeedback?.record(sequence, arrival: now)
                if due < transport.pointee.nextTransportFeedback {
                    transport.pointee.nextTransportFeedback = due
                    timers.setIfEarlier(transportIndex, to: due)
                }
                return
            }
            i &+= 1
        }
    }

    /// Key frames and losses of a video track.
    @inline(__always) private func observeVideo(
        _ trackIndex: Int32, payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, now: Instant
    ) {
        let track = tracks[trackIndex]
        if track.pointee.keyFrames.isWaiting,
            isKeyFrameStart(
                track.pointee.codec, UnsafeBufferPointer(start: payload, count: payloadByteCount).span)
        {
            track.pointee.keyFrames.keyFrameArrived(now: now)
            track.pointee.loss?.keyFrameStarts(at: index)
            if track.pointee.awaitingCount > 0 { keyFrameForWaiting(trackIndex, now: now) }
        }
        guard track.pointee.repairsLoss else { return }
        if case .needsKeyFrame? = track.pointee.loss?.received(index, now: now) {
            track.pointee.keyFrames.request(now: now, urgent: false)
            wake(track.pointee.transport, forRepairAt: now)
        }
        if let deadline = track.pointee.loss?.deadline, deadline < .distantFuture {
            wake(track.pointee.transport, forRepairAt: deadline)
        }
    }

    /// A payload that cannot be read is not a key frame; it is forwarded all the same (T06).
    func isKeyFrameStart(_ codec: MediaCodec, _ payload: Span<UInt8>) -> Bool {
        switch codec {
        case .opus: false
        case .vp8: VP8Descriptor.startsKeyFrame(payload)
        case .vp9: VP9Descriptor.startsKeyFrame(payload)
        case .h264: H264Payload.startsKeyFrame(payload)
        case .av1: AV1Payload.startsKeyFrame(payload)
        }
    }

    @inline(__always) func announceMedia(_ trackIndex: Int32, now: Instant) {
        let track = tracks[trackIndex]
        guard !track.pointee.isAnnounced else { return }
        track.pointee.isAnnounced = true
        news.append(.media(transports[Int(track.pointee.transport)].handle, track.pointee.kind, at: now))
    }

    /// A packet of padding only is not forwarded; the outgoing numbers close over it (T59).
    private func skipPadding(_ trackIndex: Int32, source: Int32, index: UInt64) {
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

@inline(__always) func storeBigEndian<Integer: FixedWidthInteger>(
    _ value: Integer, at pointer: UnsafeMutablePointer<UInt8>
) {
    UnsafeMutableRawPointer(pointer).storeBytes(of: value.bigEndian, as: Integer.self)
}
