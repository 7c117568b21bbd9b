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
        let source = sourceAt(Int(sourceIndex))
        let transport = transports + Int(transportIndex)
        let trackIndex = source.pointee.track
        let track = tracks[trackIndex]
        let packet = UnsafeBufferPointer(start: bytes, count: count).span
        guard readElements(header, bytes, count: count) else { return counters.drop(.rtpMalformed) }
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
        let source = sourceAt(Int(sourceIndex))
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
        if track.pointee.isRecorded {
            record(
                timestamp: header.timestamp, marker: header.marker, payload: payload,
                payloadByteCount: payloadByteCount, index: index, source: sourceIndex, track: track, now: now)
        }
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
            remember(
                stored, of: track, index: index, header: bytes, headerByteCount: header.headerByteCount,
                payload: payload, payloadByteCount: payloadByteCount, now: now)
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
            if !isAligned(subscription, to: sourceIndex, index: index) {
                align(subscription, to: sourceIndex, index: index, timestamp: header.timestamp, now: now)
                if track.pointee.kind == .audio {
                    passFirst(
                        subscription, header: header, packet: bytes, payload: payload,
                        payloadByteCount: payloadByteCount, index: index, now: now)
                    slot = subscription.pointee.nextOfTrack
                    continue
                }
            }
            passInline(
                subscription, as: subscription.pointee.payloadType, header: header, packet: bytes, payload: payload,
                payloadByteCount: payloadByteCount, index: index, now: now)
            slot = subscription.pointee.nextOfTrack
        }
    }
}
