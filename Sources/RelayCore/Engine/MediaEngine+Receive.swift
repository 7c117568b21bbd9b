import RTPCore

// The way in of an RTP packet: flow, source, index, replay, open. What passes goes to `deliver` in MediaEngine+Forward.

extension MediaEngine {
    func receiveRTP(_ bytes: UnsafeMutablePointer<UInt8>, count: Int, from peer: PeerAddress, now: Instant) {
        guard let flow = flows.find(peer) else { return counters.drop(.rtpUnknownAddress) }
        let transport = transports + Int(flow.transport)
        guard let cipher = transport.pointee.receiveCipher else { return counters.drop(.rtpBeforeKeys) }
        guard let header = RTPHeader(UnsafeBufferPointer(start: bytes, count: count).span) else {
            return counters.drop(.rtpMalformed)
        }
        let first = Int(flow.transport) &* Limits.sourcesPerTransport
        let sourceCount = Int(transport.pointee.sourceCount)
        var k = 0
        while k < sourceCount, sourceSSRCs[first &+ k] != header.ssrc { k &+= 1 }
        guard k < sourceCount else {
            return receiveUnknownSource(bytes, count: count, header: header, flow: flow, now: now)
        }
        let source = sourceAt(first &+ k)
        var index = source.pointee.estimator.estimate(header.sequenceNumber)
        let alternative = source.pointee.estimator.alternative(header.sequenceNumber)
        var opened = -1
        if !source.pointee.replay.check(index) {
            // Far behind, or after a gap of more than 2^15 far ahead: then only the next rollover counter opens it (C02).
            if let alternative {
                index = alternative
                opened = cipher.openRTP(
                    bytes, count: count, headerByteCount: header.headerByteCount, ssrc: header.ssrc, index: index)
            }
            guard opened >= 0 else {
                source.pointee.estimator.noteRejected()
                return counters.drop(.rtpReplayed)
            }
        } else if let alternative {
            // After a long gap the rollover counter may have moved on without us (C02).
            if let found = cipher.openRTPTrying(
                bytes, count: count, headerByteCount: header.headerByteCount, ssrc: header.ssrc, index: index,
                alternative: alternative)
            {
                (opened, index) = found
            }
        } else {
            opened = cipher.openRTP(
                bytes, count: count, headerByteCount: header.headerByteCount, ssrc: header.ssrc, index: index)
        }
        guard opened >= 0 else {
            source.pointee.estimator.noteRejected()
            return counters.drop(.rtpAuthentication)
        }
        source.pointee.estimator.update(index)
        source.pointee.replay.mark(index)
        authenticated(flow.transport, path: flow.path, count: count, now: now)
        // Only authentic packets count: forged ones would take the client's places (T13).
        guard transport.pointee.packets.take(rate: Int64(Limits.packetsPerSecond), now: now) else {
            return counters.drop(.rtpRateLimited)
        }
        deliver(
            bytes, count: opened, header: header, index: index, source: Int32(first &+ k),
            transport: flow.transport, now: now)
    }

    /// An SSRC that this participant has not used before: verified first, bound to a track then (T54, R07).
    private func receiveUnknownSource(
        _ bytes: UnsafeMutablePointer<UInt8>, count: Int, header: RTPHeader, flow: (transport: Int32, path: Int32),
        now: Instant
    ) {
        let transport = transports + Int(flow.transport)
        guard isNegotiated(header.payloadType, on: flow.transport) else {
            return counters.drop(.rtpUnknownPayloadType)
        }
        guard Int(transport.pointee.sourceCount) < Limits.sourcesPerTransport else {
            return counters.drop(.rtpSourceLimit)
        }
        // An SSRC that the offer names is always tried: forged packets of others must not keep it out.
        guard
            isNamed(header.ssrc, on: flow.transport)
                || transport.pointee.unknownSources.take(
                    rate: Int64(Limits.unknownSourceTriesPerSecond), now: now),
            let cipher = transport.pointee.receiveCipher
        else { return counters.drop(.rtpUnknownSourceRateLimited) }
        // A stream may be seen first after its number wrapped: rollover 1 is tried too (C02).
        let guess = UInt64(header.sequenceNumber)
        guard
            let opened = cipher.openRTPTrying(
                bytes, count: count, headerByteCount: header.headerByteCount, ssrc: header.ssrc, index: guess,
                alternative: guess + 0x1_0000)
        else { return counters.drop(.rtpAuthentication) }
        var estimator = PacketIndexEstimator()
        estimator.update(opened.index)
        authenticated(flow.transport, path: flow.path, count: count, now: now)
        let packet = UnsafeBufferPointer(start: bytes, count: opened.byteCount).span
        guard let binding = bind(header, packet, on: flow.transport) else {
            return counters.drop(.rtpUnknownPayloadType)
        }
        guard binding.track >= 0 else { return counters.drop(.rtpUnknownStreamID) }
        let k = Int(transport.pointee.sourceCount)
        let sourceIndex = Int(flow.transport) * Limits.sourcesPerTransport + k
        let replay = ReplayWindow.create()
        sourceAt(sourceIndex).initialize(
            to: Source(
                track: binding.track, role: binding.role, estimator: estimator, replay: replay,
                statistics: ReceptionStatistics(),
                packetsSinceReport: 0, reportNTP: NTPTime(rawValue: 0), reportTimestamp: 0,
                reportArrival: Instant(nanoseconds: 0), hasReport: false))
        sourceSSRCs[sourceIndex] = header.ssrc
        transport.pointee.sourceCount += 1
        sourceAt(sourceIndex).pointee.replay.mark(opened.index)
        if binding.role == .media { activate(Int32(sourceIndex), on: binding.track, now: now) }
        guard transport.pointee.packets.take(rate: Int64(Limits.packetsPerSecond), now: now) else {
            return counters.drop(.rtpRateLimited)
        }
        deliver(
            bytes, count: opened.byteCount, header: header, index: opened.index, source: Int32(sourceIndex),
            transport: flow.transport, now: now)
    }

    /// Makes `source` the one that its track forwards; an SSRC change in mid-call goes on under the same outgoing numbers.
    private func activate(_ source: Int32, on trackIndex: Int32, now: Instant) {
        let track = tracks[trackIndex]
        let isChange = track.pointee.currentSource >= 0
        track.pointee.currentSource = source
        let transport = transports + Int(track.pointee.transport)
        if transport.pointee.nextReport == .distantFuture || transport.pointee.sourceCount == 1 {
            transport.pointee.nextReport = now + Limits.reportInterval
            timers.setIfEarlier(track.pointee.transport, to: transport.pointee.nextReport)
        }
        if isChange { track.pointee.loss?.reset() }
        if !isChange, track.pointee.kind == .video, rooms[Int(transport.pointee.room)]?.group != nil {
            // There is a picture to choose now.
            roomTimers.setIfEarlier(transport.pointee.room, to: now)
        }
        if track.pointee.layer != nil { streamAppeared(trackIndex, now: now) }
        guard track.pointee.asksKeyFrames, track.pointee.isWatched else { return }
        // Asked before the source was known, or to be asked anew: the request needs the SSRC.
        track.pointee.keyFrames.request(now: now, urgent: true)
        wake(track.pointee.transport, forRepairAt: now)
    }

    private func isNegotiated(_ payloadType: UInt8, on transport: Int32) -> Bool {
        var at = transports[Int(transport)].firstTrack
        while at >= 0 {
            let track = tracks[at]
            if track.pointee.payloadType == payloadType { return true }
            if payloadType != 0,
                track.pointee.rtxPayloadType == payloadType || track.pointee.redPayloadType == payloadType
            {
                return true
            }
            at = track.pointee.nextOfTransport
        }
        return false
    }

    private func isNamed(_ ssrc: UInt32, on transport: Int32) -> Bool {
        var at = transports[Int(transport)].firstTrack
        while at >= 0 {
            let section = section(of: transport, tracks[at].pointee.section)
            if section.signalledSSRCs.contains(ssrc) || section.signalledRTXSSRCs.contains(ssrc) { return true }
            at = tracks[at].pointee.nextOfTransport
        }
        return false
    }

    /// Which track an SSRC belongs to: named in the SDP, else by MID, else by a payload type that only one m-line uses
    /// (RFC 9143 §9.2). Nil when none of these decides; -1 where it is the track's, but of none of its streams.
    private func bind(
        _ header: RTPHeader, _ packet: Span<UInt8>, on transport: Int32
    ) -> (track: Int32, role: SourceRole)? {
        var byPayloadType: Int32 = -1
        var candidates = 0
        var at = transports[Int(transport)].firstTrack
        while at >= 0 {
            let track = tracks[at]
            let isRTX = track.pointee.rtxPayloadType == header.payloadType && header.payloadType != 0
            let isRED = track.pointee.redPayloadType == header.payloadType && header.payloadType != 0
            if isRTX || isRED || track.pointee.payloadType == header.payloadType {
                let section = section(of: transport, track.pointee.section)
                let role: SourceRole = isRTX ? .retransmission : .media
                if (isRTX ? section.signalledRTXSSRCs : section.signalledSSRCs).contains(header.ssrc) {
                    return (stream(of: at, section, role: role, header: header, packet), role)
                }
                if let mid = mid(header, packet, id: section.extensions[.mid]) {
                    if matches(packet, mid, section.mid) {
                        return (stream(of: at, section, role: role, header: header, packet), role)
                    }
                } else {
                    byPayloadType = at
                    candidates += 1
                }
            }
            at = track.pointee.nextOfTransport
        }
        guard candidates == 1 else { return nil }
        let isRTX = tracks[byPayloadType].pointee.rtxPayloadType == header.payloadType && header.payloadType != 0
        let role: SourceRole = isRTX ? .retransmission : .media
        let section = section(of: transport, tracks[byPayloadType].pointee.section)
        return (stream(of: byPayloadType, section, role: role, header: header, packet), role)
    }

    private func mid(_ header: RTPHeader, _ packet: Span<UInt8>, id: UInt8) -> (offset: Int, byteCount: Int)? {
        guard id != 0 else { return nil }
        var cursor = HeaderExtensionCursor(header)
        while let element = cursor.next(in: packet) {
            if element.id == id { return (element.offset, element.byteCount) }
        }
        return nil
    }

    private func matches(_ packet: Span<UInt8>, _ range: (offset: Int, byteCount: Int), _ text: String) -> Bool {
        guard text.utf8.count == range.byteCount else { return false }
        for (i, byte) in text.utf8.enumerated() where packet[range.offset + i] != byte { return false }
        return true
    }
}
