import RTPCore
import RelayTesting

/// An RTCP datagram read to the last field, in the words of the vector files; reading is the same for every
/// test, so that mutations go through every reader.
struct RTCPReading: Equatable {
    var members: [VectorValue] = []
    var kinds: [RTCPKind] = []
    var isMalformed = false

    init(_ bytes: [UInt8]) {
        let span = bytes.span
        var cursor = RTCPCursor(span)
        while let item = cursor.next(in: span) {
            kinds.append(item.kind)
            members.append(.object(readMember(item, bytes)))
        }
        isMalformed = cursor.isMalformed
    }
}

private func number(_ value: some FixedWidthInteger) -> VectorValue { .integer(Int64(value)) }
private func text(_ range: Range<Int>, _ bytes: [UInt8]) -> VectorValue {
    .string(String(decoding: bytes[range], as: UTF8.self))
}

private func readMember(_ item: RTCPItem, _ bytes: [UInt8]) -> [String: VectorValue] {
    let span = bytes.span
    var fields: [String: VectorValue] = [:]
    if item.mediaSSRC(in: span) != nil || item.kind == .congestionFeedback {
        fields["sender"] = item.senderSSRC(in: span).map(number)
        fields["media"] = item.mediaSSRC(in: span).map(number)
    }
    switch item.kind {
    case .senderReport, .receiverReport: readReport(item, bytes, &fields)
    case .sourceDescription:
        fields["name"] = .string("SDES")
        var chunks: [VectorValue] = []
        var cursor = SDESCursor(item)
        while let chunk = cursor.next(in: span) {
            chunks.append(.object(["ssrc": number(chunk.ssrc), "cname": text(chunk.cname, bytes)]))
        }
        fields["chunks"] = .array(chunks)
    case .goodbye:
        fields["name"] = .string("BYE")
        if let goodbye = Goodbye(item, in: span) {
            fields["ssrcs"] = .array(
                (0..<goodbye.ssrcCount).map { number(goodbye.ssrc(at: $0, in: bytes.span)) })
            fields["reason"] = text(goodbye.reason, bytes)
        }
    case .application: fields["name"] = .string("APP")
    case .nack:
        fields["name"] = .string("NACK")
        var lost: [VectorValue] = []
        var cursor = NACKCursor(item)
        while let sequence = cursor.next(in: span) { lost.append(number(sequence)) }
        fields["lost"] = .array(lost)
    case .rapidResynchronisation: fields["name"] = .string("RRR")
    case .pictureLoss: fields["name"] = .string("PLI")
    case .sliceLoss:
        fields["name"] = .string("SLI")
        var entries: [VectorValue] = []
        while let entry = SliceLoss(at: entries.count, of: item, in: span) {
            entries.append(.array([number(entry.first), number(entry.count), number(entry.pictureID)]))
        }
        fields["entries"] = .array(entries)
    case .fullIntraRequest:
        fields["name"] = .string("FIR")
        var entries: [VectorValue] = []
        var cursor = FIRCursor(item)
        while let entry = cursor.next(in: span) {
            entries.append(.array([number(entry.ssrc), number(entry.commandNumber)]))
        }
        fields["entries"] = .array(entries)
    case .receiverEstimate:
        fields["name"] = .string("REMB")
        if let estimate = ReceiverEstimate(item, in: span) {
            fields["bitrate"] =
                Int64(exactly: estimate.bitRate).map { .integer($0) } ?? .unsigned(estimate.bitRate)
            fields["ssrcs"] = .array(
                (0..<estimate.ssrcCount).map { number(estimate.ssrc(at: $0, in: bytes.span)) })
        }
    case .transportFeedback: readTransportFeedback(item, bytes, &fields)
    case .congestionFeedback: readCongestionFeedback(item, bytes, &fields)
    case .extendedReport:
        fields["name"] = .string("XR")
        var blocks: [VectorValue] = []
        var cursor = ExtendedReportCursor(item)
        while let block = cursor.next(in: span) {
            var values: [VectorValue] = [number(block.blockType)]
            if let time = block.receiverReferenceTime(in: span) { values.append(.string("\(time.rawValue)")) }
            var index = 0
            while let delay = block.delay(at: index, in: span) {
                values += [number(delay.ssrc), number(delay.lastReference), number(delay.delay)]
                index += 1
            }
            blocks.append(.array(values))
        }
        fields["blocks"] = .array(blocks)
    case .unknown:
        fields = ["name": .string("UNKNOWN"), "pt": number(item.packetType)]
    }
    return fields
}

private func readReport(_ item: RTCPItem, _ bytes: [UInt8], _ fields: inout [String: VectorValue]) {
    let span = bytes.span
    fields["name"] = .string(item.kind == .senderReport ? "SR" : "RR")
    fields["ssrc"] = item.senderSSRC(in: span).map(number)
    if let report = SenderReport(item, in: span) {
        let ntp = report.ntp.rawValue
        fields["ntp"] = Int64(exactly: ntp).map { .integer($0) } ?? .unsigned(ntp)
        fields["rtp"] = number(report.rtpTimestamp)
        fields["packets"] = number(report.packetCount)
        fields["octets"] = number(report.octetCount)
    }
    var blocks: [VectorValue] = []
    while let block = ReportBlock(at: blocks.count, of: item, in: span) {
        blocks.append(
            .object([
                "ssrc": number(block.ssrc), "fraction": number(block.fractionLost),
                "lost": number(block.cumulativeLost), "highest_seq": number(block.extendedHighest),
                "jitter": number(block.jitter), "lsr": number(block.lastSenderReport),
                "dlsr": number(block.delaySinceLastSenderReport),
            ]))
    }
    fields["blocks"] = .array(blocks)
}

private func readTransportFeedback(
    _ item: RTCPItem, _ bytes: [UInt8], _ fields: inout [String: VectorValue]
) {
    fields["name"] = .string("TWCC")
    guard let feedback = TransportFeedback(item, in: bytes.span) else { return }
    fields["base"] = number(feedback.baseSequence)
    fields["count"] = number(feedback.statusCount)
    fields["reference_time"] = number(feedback.referenceTime)
    fields["fb_count"] = number(feedback.feedbackCount)
    var packets: [VectorValue] = []
    var cursor = TransportFeedbackCursor(feedback)
    while let status = cursor.next(in: bytes.span) {
        let arrival = status.arrival.map { VectorValue.integer($0.microseconds) } ?? .null
        packets.append(.array([number(status.sequence), arrival]))
    }
    fields["packets"] = .array(packets)
}

private func readCongestionFeedback(
    _ item: RTCPItem, _ bytes: [UInt8], _ fields: inout [String: VectorValue]
) {
    fields["name"] = .string("CCFB")
    fields["rts"] = item.congestionTimestamp(in: bytes.span).map(number)
    var blocks: [VectorValue] = []
    var cursor = CongestionFeedbackCursor(item)
    while let report = cursor.next(in: bytes.span) {
        let metrics = (0..<report.metricCount).map { index -> VectorValue in
            let metric = report.metric(at: index, in: bytes.span)
            return .object([
                "received": .bool(metric.isReceived), "ecn": number(metric.ecn),
                "ato": number(metric.arrivalTimeOffset),
            ])
        }
        blocks.append(
            .object([
                "ssrc": number(report.ssrc), "begin_seq": number(report.firstSequence),
                "metrics": .array(metrics),
            ]))
    }
    fields["blocks"] = .array(blocks)
}
