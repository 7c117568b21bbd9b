import RTPCore

// RTCP that we send: reports per leg, transport-cc and loss feedback to senders, key-frame requests. Each is one SRTCP packet,
// built in its send slot.

extension MediaEngine {
    /// Builds one RTCP packet in a send slot, seals it there and commits it. Nothing is sent when `build` writes nothing.
    private func sendRTCP(_ index: Int32, _ build: (inout OutputSpan<UInt8>) -> Void) {
        let transport = transports + Int(index)
        guard let cipher = transport.pointee.sendCipher, transport.pointee.hasPeer else {
            return counters.drop(.sendWithoutPath)
        }
        guard let slot = transmit.reserve() else { return counters.drop(.transmitFull) }
        let room = UnsafeMutableBufferPointer(start: slot, count: Limits.datagramByteCount - 32)
        var out = OutputSpan(buffer: room, initializedCount: 0)
        build(&out)
        let count = out.finalize(for: room)
        guard count > 0 else { return }
        let total = cipher.sealRTCP(slot, count: count, index: transport.pointee.rtcpSendIndex)
        transport.pointee.rtcpSendIndex = (transport.pointee.rtcpSendIndex &+ 1) & 0x7FFF_FFFF
        transmit.commit(byteCount: total, to: transport.pointee.peer, local: transport.pointee.local)
    }

    // MARK: Reports

    /// A receiver report on everything that came since the last one, a sender report for every slot in use, SDES, and REMB for
    /// a client whose sending nothing else would let rise.
    func sendReports(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        transport.pointee.nextReport = now + Limits.reportInterval
        let blocks = reportBlocks(index, now: now)
        let cname = cname
        sendRTCP(index) { out in
            guard
                RTCPWriter.appendReceiverReport(
                    to: &out, ssrc: transport.pointee.reporterSSRC, blocks: blocks.span)
            else { return }
            var slot = transport.pointee.firstSubscription
            while slot >= 0 {
                appendSenderReport(subscriptions[slot], to: &out, now: now)
                slot = subscriptions[slot].pointee.nextOfReceiver
            }
            _ = RTCPWriter.appendSourceDescription(
                to: &out, ssrc: transport.pointee.reporterSSRC, cname: cname.span)
            appendReferenceDelays(index, to: &out, now: now)
            if transport.pointee.flags.contains(.usesREMB),
                !transport.pointee.flags.contains(.feedsBack) || transport.pointee.heldTo < Limits.openREMB
            {
                appendREMB(index, to: &out)
            }
        }
        transport.pointee.downlink?.pointee.estimator.advance(to: now)
    }

    /// Tells the client at once what it may send: a compound, as RFC 3550 §6.1 wants it.
    func sendREMB(_ index: Int32) {
        sendRTCP(index) { out in
            guard
                RTCPWriter.appendReceiverReport(
                    to: &out, ssrc: transports[Int(index)].reporterSSRC, blocks: Span())
            else { return }
            appendREMB(index, to: &out)
        }
    }

    private func reportBlocks(_ index: Int32, now: Instant) -> [ReportBlock] {
        let first = Int(index) * Limits.sourcesPerTransport
        let isPeer = rooms[Int(transports[Int(index)].room)]?.isPeer ?? true
        var blocks: [ReportBlock] = []
        for k in 0..<Int(transports[Int(index)].sourceCount) {
            let source = sourceAt(first + k)
            guard source.pointee.role == .media, source.pointee.packetsSinceReport > 0 else { continue }
            source.pointee.packetsSinceReport = 0
            if var block = source.pointee.statistics.makeReportBlock(ssrc: sourceSSRCs[first + k], now: now) {
                let track = tracks[source.pointee.track]
                if track.pointee.kind == .audio {
                    block.fractionLost = composedLoss(block.fractionLost, of: track, inPeerRoom: isPeer)
                }
                blocks.append(block)
                noteJitter(block.jitter, of: tracks[source.pointee.track], from: index)
            }
        }
        return blocks
    }

    func wallClock(at now: Instant) -> NTPTime {
        NTPTime(rawValue: configuration.clockOrigin.rawValue &+ NTPTime(now).rawValue)
    }

    /// The sender's clock on our timeline: the time of its last report by our clock, moved on by what has passed since, and the
    /// RTP time of that moment under the slot's own offset; so both tracks of a participant stay in step (T07), and a slot
    /// has one clock whoever is in it. None after a pause.
    private func appendSenderReport(
        _ subscription: UnsafeMutablePointer<Subscription>, to out: inout OutputSpan<UInt8>, now: Instant
    ) {
        guard subscription.pointee.flow == .passing, subscription.pointee.source >= 0,
            subscription.pointee.packetsSent > 0,
            now - subscription.pointee.lastSent < .seconds(2)
        else { return }
        let source = sourceAt(Int(subscription.pointee.source)).pointee
        guard source.hasReport, subscription.pointee.track >= 0 else { return }
        let track = tracks[subscription.pointee.layer]
        guard track.pointee.currentSource == subscription.pointee.source else { return }
        let sender = transports[Int(track.pointee.transport)].clock
        let clockRate = Int64(track.pointee.codec.clockRate)
        let elapsed = now - source.reportArrival
        let ticks = elapsed.microseconds * clockRate / 1_000_000
        let seconds = UInt64(max(0, elapsed.nanoseconds)) / 1_000_000_000
        let fraction = (UInt64(max(0, elapsed.nanoseconds)) % 1_000_000_000) << 32 / 1_000_000_000
        _ = RTCPWriter.appendSenderReport(
            to: &out,
            SenderReport(
                ssrc: subscription.pointee.ssrc,
                ntp: NTPTime(rawValue: sender.ours(source.reportNTP).rawValue &+ (seconds << 32 | fraction)),
                rtpTimestamp: subscription.pointee.timestamp.output(
                    of: source.reportTimestamp &+ UInt32(truncatingIfNeeded: ticks)),
                packetCount: subscription.pointee.packetsSent, octetCount: subscription.pointee.octetsSent),
            blocks: Span())
    }

    private func appendREMB(_ index: Int32, to out: inout OutputSpan<UInt8>) {
        let first = Int(index) * Limits.sourcesPerTransport
        let ssrcs = (0..<Int(transports[Int(index)].sourceCount)).map { sourceSSRCs[first + $0] }
        guard !ssrcs.isEmpty else { return }
        transports[Int(index)].toldLast = transports[Int(index)].heldTo
        _ = RTCPWriter.appendREMB(
            to: &out, senderSSRC: transports[Int(index)].reporterSSRC, bitRate: transports[Int(index)].heldTo,
            ssrcs: ssrcs.span)
    }

    // MARK: transport-cc

    func sendTransportFeedback(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        transport.pointee.nextTransportFeedback = .distantFuture
        guard transport.pointee.transportFeedback != nil else { return }
        let media = transport.pointee.sourceCount > 0 ? sourceSSRCs[Int(index) * Limits.sourcesPerTransport] : 0
        // Large gaps make several packets; two a turn are plenty, the rest goes with the next feedback.
        for _ in 0..<2 where (transport.pointee.transportFeedback?.pendingCount ?? 0) > 0 {
            sendRTCP(index) { out in
                _ = transport.pointee.transportFeedback?.appendFeedback(
                    to: &out, senderSSRC: transport.pointee.reporterSSRC, mediaSSRC: media)
            }
        }
        if (transport.pointee.transportFeedback?.pendingCount ?? 0) > 0 {
            transport.pointee.nextTransportFeedback = now + Limits.transportFeedbackInterval
        }
    }

    /// Media has been made for a sender to whom feedback is soon due.
    @inline(never) func noteFeedbackRider(_ index: Int32) {
        guard feedbackRiderCount < Limits.feedbackRiders,
            feedbackRiderCount == 0 || feedbackRiders[feedbackRiderCount &- 1] != index
        else { return }
        feedbackRiders[feedbackRiderCount] = index
        feedbackRiderCount &+= 1
    }

    /// A receive batch has been worked on: feedback that is soon due goes along with media to the same client, as the last part of
    /// the same message, rather than later by a wake-up and a message of its own. Without this it leaves when its time has come.
    public func finishBatch(now: Instant) {
        guard feedbackRiderCount > 0 else { return }
        for place in 0..<feedbackRiderCount where transmit.room > 2 {
            let index = feedbackRiders[place]
            guard transports[Int(index)].flags.contains(.hasKeys),
                transports[Int(index)].nextTransportFeedback - now < Limits.feedbackLead
            else { continue }
            sendTransportFeedback(index, now: now)
            reschedule(index, now: now)
        }
        feedbackRiderCount = 0
    }

    // MARK: Repair upstream

    /// NACKs and key-frame requests that are due for what `index` sends.
    func sendRepairRequests(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        var next = Instant.distantFuture
        var at = transport.pointee.firstTrack
        while at >= 0 {
            var stream = at
            while stream >= 0 {
                next = min(next, sendRepairRequests(index, tracks[stream], now: now))
                stream = tracks[stream].pointee.nextLayer
            }
            at = tracks[at].pointee.nextOfTransport
        }
        transport.pointee.nextRepair = next
    }

    /// The same of one stream. Returns when to come again.
    private func sendRepairRequests(_ index: Int32, _ track: UnsafeMutablePointer<Track>, now: Instant) -> Instant {
        guard track.pointee.isWatched else {
            // Nobody watches: nothing is worth asking for, unless a key frame is to be kept.
            track.pointee.loss?.reset()
            dropHistory(of: track)
            if let keeper = track.pointee.keptKeyFrame { return askForKeyFrameToKeep(keeper, track, now: now) }
            track.pointee.keyFrames.cancel()
            return .distantFuture
        }
        sendNACK(index, track, now: now)
        if track.pointee.keyFrames.shouldSend(now: now) { sendKeyFrameRequest(index, track) }
        return min(track.pointee.keyFrames.deadline, track.pointee.loss?.deadline ?? .distantFuture)
    }

    private func sendNACK(_ index: Int32, _ track: UnsafeMutablePointer<Track>, now: Instant) {
        guard let deadline = track.pointee.loss?.deadline, now >= deadline, track.pointee.currentSource >= 0 else {
            return
        }
        let roundTrip = Interval.microseconds(Int64(transports[Int(index)].statistics.roundTripMicroseconds))
        var turn = LossTracker.Turn()
        withUnsafeTemporaryAllocation(of: UInt16.self, capacity: 64) { numbers in
            var out = OutputSpan(buffer: numbers, initializedCount: 0)
            turn = track.pointee.loss?.nextRequests(now: now, roundTrip: roundTrip, into: &out) ?? turn
            let count = out.finalize(for: numbers)
            guard count > 0 else { return }
            let wanted = UnsafeBufferPointer(rebasing: UnsafeBufferPointer(numbers)[..<count])
            // The sender answers a number once in a round trip, however often it is asked: a request that must not be lost
            // goes out twice.
            for _ in 0..<(turn.isAgain ? 2 : 1) { sendNACK(wanted.span, of: track, from: index) }
        }
        if turn.gaveUpCount > 0 { track.pointee.keyFrames.request(now: now, urgent: false) }
    }

    private func sendNACK(_ lost: Span<UInt16>, of track: UnsafeMutablePointer<Track>, from index: Int32) {
        sendRTCP(index) { packet in
            _ = RTCPWriter.appendNACK(
                to: &packet, senderSSRC: transports[Int(index)].reporterSSRC,
                mediaSSRC: sourceSSRCs[Int(track.pointee.currentSource)], lost: lost)
        }
    }

    func sendKeyFrameRequest(_ index: Int32, _ track: UnsafeMutablePointer<Track>) {
        let section = section(of: index, track.pointee.section)
        let media =
            track.pointee.currentSource >= 0
            ? sourceSSRCs[Int(track.pointee.currentSource)]
            : section.streamIDs.isEmpty ? section.signalledSSRCs.first : nil
        // Without a known SSRC the request waits for the first packet (`activate`).
        guard let media else { return }
        counters.keyFramesRequested &+= 1
        sendRTCP(index) { out in
            let reporter = transports[Int(index)].reporterSSRC
            if section.feedback.contains(.pli) {
                _ = RTCPWriter.appendPLI(to: &out, senderSSRC: reporter, mediaSSRC: media)
            } else {
                track.pointee.firSequence &+= 1
                _ = RTCPWriter.appendFIR(
                    to: &out, senderSSRC: reporter, mediaSSRC: media, commandNumber: track.pointee.firSequence)
            }
        }
    }
}
