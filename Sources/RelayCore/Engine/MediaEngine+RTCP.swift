import RTPCore

// RTCP from clients: reports about what we send, wishes for repair and key frames, sender reports of their own. Only feedback
// about SSRCs that we send to that client counts (T55). BYE never ends anything: DTLS, the API and liveness do.

extension MediaEngine {
    func receiveRTCP(_ bytes: UnsafeMutablePointer<UInt8>, count: Int, from peer: PeerAddress, now: Instant) {
        guard let flow = flows.find(peer) else { return counters.drop(.rtcpUnknownAddress) }
        let transport = transports + Int(flow.transport)
        guard let cipher = transport.pointee.receiveCipher else { return counters.drop(.rtcpBeforeKeys) }
        guard count >= 8 + 4 + 10 else { return counters.drop(.rtcpTooShort) }
        guard let opened = cipher.openRTCP(bytes, count: count) else {
            return counters.drop(.rtcpAuthentication)
        }
        let packet = UnsafeBufferPointer(start: bytes, count: opened.byteCount).span
        guard acceptRTCPIndex(opened.index, ssrc: packet.uint32(at: 4), flow.transport) else {
            return counters.drop(.rtcpReplayed)
        }
        authenticated(flow.transport, path: flow.path, count: count, now: now)
        guard transport.pointee.packets.take(rate: Int64(Limits.packetsPerSecond), now: now) else {
            return counters.drop(.rtpRateLimited)
        }
        var cursor = RTCPCursor(packet)
        while let item = cursor.next(in: packet) {
            receive(item, packet, from: flow.transport, now: now)
        }
        if cursor.isMalformed { counters.drop(.rtcpMalformed) }
    }

    private func acceptRTCPIndex(_ index: UInt32, ssrc: UInt32, _ transportIndex: Int32) -> Bool {
        let transport = transports + Int(transportIndex)
        let contexts = rtcpContexts + Int(transportIndex) * Limits.sourcesPerTransport
        let count = Int(transport.pointee.rtcpContextCount)
        for k in 0..<count where contexts[k].ssrc == ssrc { return contexts[k].accept(index) }
        guard count < Limits.sourcesPerTransport else { return false }
        (contexts + count).initialize(to: RTCPContext(ssrc: ssrc, highest: 0, window: 0))
        transport.pointee.rtcpContextCount += 1
        return contexts[count].accept(index)
    }

    private func receive(_ item: RTCPItem, _ packet: Span<UInt8>, from index: Int32, now: Instant) {
        switch item.kind {
        case .senderReport:
            if let report = SenderReport(item, in: packet) { receiveSenderReport(report, from: index, now: now) }
            receiveReportBlocks(item, packet, from: index, now: now)
        case .receiverReport:
            receiveReportBlocks(item, packet, from: index, now: now)
        case .nack:
            receiveNACK(item, packet, from: index, now: now)
        case .pictureLoss:
            if let media = item.mediaSSRC(in: packet) { receiveKeyFrameWish(media, from: index, now: now) }
        case .fullIntraRequest:
            var entries = FIRCursor(item)
            while let entry = entries.next(in: packet) { receiveKeyFrameWish(entry.ssrc, from: index, now: now) }
        case .transportFeedback:
            receiveTransportFeedback(item, packet, from: index, now: now)
        case .extendedReport:
            receiveExtendedReport(item, packet, from: index, now: now)
        default:
            // SDES, BYE, APP, REMB: of no consequence for forwarding.
            break
        }
    }

    private func receiveSenderReport(_ report: SenderReport, from index: Int32, now: Instant) {
        let first = Int(index) * Limits.sourcesPerTransport
        for k in 0..<Int(transports[Int(index)].sourceCount) where sourceSSRCs[first + k] == report.ssrc {
            let source = sourceAt(first + k)
            source.pointee.hasReport = true
            source.pointee.reportNTP = report.ntp
            source.pointee.reportTimestamp = report.rtpTimestamp
            source.pointee.reportArrival = now
            transports[Int(index)].clock.note(report.ntp, arrival: wallClock(at: now))
            source.pointee.statistics.receivedSenderReport(compactNTP: report.ntp.compact, at: now)
            recordReport(report.ntp, report.rtpTimestamp, of: first + k, on: index, now: now)
            return
        }
        counters.drop(.rtcpForeignSSRC)
    }

    private func receiveReportBlocks(_ item: RTCPItem, _ packet: Span<UInt8>, from index: Int32, now: Instant) {
        for position in 0..<item.reportBlockCount {
            guard let block = ReportBlock(at: position, of: item, in: packet),
                let subscription = subscription(ofSSRC: block.ssrc, receiver: index)
            else { continue }
            note(block, of: subscription, now: now)
        }
    }

    /// The slot that we send to `receiver` with `ssrc`.
    func subscription(ofSSRC ssrc: UInt32, receiver: Int32) -> UnsafeMutablePointer<Subscription>? {
        var at = transports[Int(receiver)].firstSubscription
        while at >= 0 {
            if subscriptions[at].pointee.ssrc == ssrc { return subscriptions[at] }
            at = subscriptions[at].pointee.nextOfReceiver
        }
        return nil
    }

    private func receiveKeyFrameWish(_ ssrc: UInt32, from index: Int32, now: Instant) {
        guard let subscription = subscription(ofSSRC: ssrc, receiver: index) else {
            return counters.drop(.rtcpForeignSSRC)
        }
        guard subscription.pointee.flow != .stopped else { return }
        let track = tracks[subscription.pointee.layer]
        guard track.pointee.asksKeyFrames else { return }
        track.pointee.keyFrames.request(now: now, urgent: false)
        wake(track.pointee.transport, forRepairAt: track.pointee.keyFrames.deadline)
    }
}
