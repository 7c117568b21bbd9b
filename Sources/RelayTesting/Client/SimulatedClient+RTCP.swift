import RTPCore
import RelayCore

// Reports and feedback, both ways.

extension SimulatedClient {

    func receiveRTCP(_ bytes: [UInt8]) {
        guard let cipher = receiveCipher else { return }
        guard let opened = cipher.openedRTCP(bytes) else {
            counters.unopenedRTCP += 1
            return
        }
        guard receivedControl.insert(opened.index).inserted else {
            counters.replayedRTCP += 1
            return
        }
        guard let packets = TestRTCP.read(opened.plain) else {
            counters.malformedRTCP += 1
            return
        }
        for packet in packets { receive(packet) }
    }

    private func receive(_ packet: TestRTCP) {
        switch packet {
        case .senderReport(let ssrc, let ntp, let rtp, let packets, _, let blocks):
            counters.senderReports += 1
            senderReports[ssrc] = SenderReportSeen(ntp: NTPTime(rawValue: ntp), rtp: rtp, packetCount: packets)
            received[ssrc]?.receivedSenderReport(compactNTP: UInt32(truncatingIfNeeded: ntp >> 16), at: now)
            note(blocks)
        case .receiverReport(_, let blocks):
            counters.receiverReports += 1
            note(blocks)
        case .pictureLoss(_, let media):
            counters.pictureLossRequests += 1
            wishForKeyFrame(media)
        case .fullIntra(_, let requests):
            counters.fullIntraRequests += 1
            for request in requests { wishForKeyFrame(request.ssrc) }
        case .nack(_, let media, let numbers):
            counters.nackedPackets += numbers.count
            guard let stream = (sent.values + streams).first(where: { $0.ssrc == media }) else { return }
            for number in numbers { resend(stream, number) }
        case .transportFeedback(let feedback):
            counters.transportFeedbacks += 1
            acknowledged.formUnion(feedback.received)
        case .maximumBitrate(_, let bitsPerSecond, _):
            counters.bitrateLimits += 1
            bitrateLimit = bitsPerSecond
        case .goodbye:
            counters.goodbyes += 1
        case .referenceDelays(_, let delays):
            referenceDelays += delays
        case .sourceDescription, .referenceTime, .other:
            break
        }
    }

    private func note(_ blocks: [ReportBlock]) {
        guard !blocks.isEmpty else { return }
        lastReceiverBlocks = blocks
        for block in blocks {
            let roundTrip = NTPTime.roundTrip(
                arrival: NTPTime(now + options.clockOffset), lastSenderReport: block.lastSenderReport,
                delaySinceLastSenderReport: block.delaySinceLastSenderReport)
            if let roundTrip { reportRoundTrip = roundTrip }
        }
    }

    /// What a load generator sent in its place, all in all: its reports tell of that. `timestamp`: of what it sent last.
    public func noteSent(_ kind: MediaKind, packets: UInt32, octets: UInt32, timestamp: UInt32, now: Instant) {
        guard let stream = sent[kind] else { return }
        stream.packetCount = packets
        stream.octetCount = octets
        stream.timestampBase = timestamp &- (stream.timestamp(at: now) &- stream.timestampBase)
    }

    private func wishForKeyFrame(_ ssrc: UInt32) {
        if ssrc == sent[.video]?.ssrc { wantsKeyFrame = true }
        guard let stream = streams.first(where: { $0.ssrc == ssrc }) else { return }
        stream.keyFrameRequestCount += 1
        stream.wantsKeyFrame = true
    }

    /// Protects and sends a compound.
    public func sendRTCP(_ packets: [TestRTCP]) { sendProtected(rtcp: packets.flatMap(\.bytes)) }

    /// Protects and sends any bytes (8 at least) as RTCP.
    public func sendProtected(rtcp compound: [UInt8]) {
        guard let cipher = sendCipher, compound.count >= 8 else { return }
        controlIndex += 1
        send(cipher.sealedRTCP(compound, index: controlIndex))
    }

    /// Asks for a key frame of what the relay sends on the n-th video section.
    public func requestKeyFrame(slot: Int = 0) {
        guard let stream = stream(.video, slot: slot) else { return }
        sendRTCP([.pictureLoss(sender: reportSSRC, media: stream.ssrc)])
    }

    private var reportSSRC: UInt32 { sent[.audio]?.ssrc ?? sent[.video]?.ssrc ?? 1 }

    func sendReports() {
        reportAt = now + options.reportInterval
        var blocks = received.keys.sorted().compactMap { received[$0]?.makeReportBlock(now: now) }
        blocks = Array(blocks.prefix(31))
        let all = Array(sent.values) + streams.dropFirst()
        let active = all.filter { $0.packetCount > 0 }.sorted { $0.kind.rawValue < $1.kind.rawValue }
        let name = TestRTCP.sourceDescription(ssrc: reportSSRC, cname: "c\(tag)")
        guard !active.isEmpty else {
            sendRTCP([.receiverReport(ssrc: reportSSRC, blocks: blocks), name])
            return
        }
        for (index, stream) in active.enumerated() {
            let report = TestRTCP.senderReport(
                ssrc: stream.ssrc, ntp: NTPTime(now + options.clockOffset).rawValue, rtp: stream.timestamp(at: now),
                packets: stream.packetCount, octets: stream.octetCount, blocks: index == 0 ? blocks : [])
            sendRTCP([report, .sourceDescription(ssrc: stream.ssrc, cname: "c\(tag)")])
        }
    }

    /// Everything that was recorded, in as many packets as that takes.
    func sendTransportFeedback() {
        feedbackAt = .distantFuture
        while feedback.pendingCount > 0 {
            let packet = [UInt8](capacity: TransportFeedbackRecorder.byteLimit) { output in
                _ = feedback.appendFeedback(to: &output, senderSSRC: reportSSRC, mediaSSRC: 0)
            }
            guard !packet.isEmpty else { return }
            counters.feedbackSent += 1
            sendProtected(rtcp: packet)
        }
    }

    /// Takes note of a packet with a transport-wide number that a load generator received in its place; it goes into the
    /// next feedback. Returns whether that has become due at a new time.
    public func noteArrival(_ number: UInt16, now: Instant, within delay: Interval) -> Bool {
        feedback.record(number, arrival: now)
        guard feedbackAt == .distantFuture else { return false }
        feedbackAt = now + delay
        return true
    }

    func askForRepairs() {
        for ssrc in received.keys.sorted() {
            guard let stream = received[ssrc], stream.repairDeadline <= now else { continue }
            let due = stream.dueRepairs(now: now)
            if !due.numbers.isEmpty {
                sendRTCP([.nack(sender: reportSSRC, media: ssrc, numbers: due.numbers)])
            }
            if due.gaveUp, stream.kind == .video, options.asksForKeyFrames {
                sendRTCP([.pictureLoss(sender: reportSSRC, media: ssrc)])
            }
        }
    }
}
