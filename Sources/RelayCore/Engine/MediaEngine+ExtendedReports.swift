import RTPCore

// Extended reports (RFC 3611): a client that only receives knows its round trip by the answers to its reference times. We
// send none ourselves: our checks tell the round trip of every leg.

extension MediaEngine {
    /// Notes what is to be answered; every other block is skipped and counted.
    func receiveExtendedReport(_ item: RTCPItem, _ packet: Span<UInt8>, from index: Int32, now: Instant) {
        guard transports[Int(index)].flags.contains(.answersReferenceTimes),
            let ssrc = item.senderSSRC(in: packet)
        else { return counters.drop(.xrSkipped) }
        var cursor = ExtendedReportCursor(item)
        while let block = cursor.next(in: packet) {
            guard let time = block.receiverReferenceTime(in: packet) else {
                counters.drop(.xrSkipped)
                continue
            }
            note(ReferenceTime(ssrc: ssrc, time: time.compact, arrival: now), of: index)
        }
    }

    /// The newest of each SSRC; one SSRC too many takes the place of the one that has been silent the longest.
    private func note(_ reference: ReferenceTime, of index: Int32) {
        let transport = transports + Int(index)
        let first = referenceTimes + Int(index) * Limits.referenceTimesPerTransport
        let count = Int(transport.pointee.referenceTimeCount)
        var place = count
        for k in 0..<count where first[k].ssrc == reference.ssrc { place = k }
        if place == Limits.referenceTimesPerTransport {
            place = 0
            for k in 1..<count where first[k].arrival < first[place].arrival { place = k }
        } else if place == count {
            transport.pointee.referenceTimeCount += 1
        }
        (first + place).initialize(to: reference)
    }

    /// DLRR for what came since the last report, each once.
    func appendReferenceDelays(_ index: Int32, to out: inout OutputSpan<UInt8>, now: Instant) {
        let first = referenceTimes + Int(index) * Limits.referenceTimesPerTransport
        var delays: [ReceiverReferenceDelay] = []
        for k in 0..<Int(transports[Int(index)].referenceTimeCount) where !first[k].isAnswered {
            first[k].isAnswered = true
            delays.append(
                ReceiverReferenceDelay(
                    ssrc: first[k].ssrc, lastReference: first[k].time, delay: (now - first[k].arrival).compactUnits))
        }
        guard !delays.isEmpty else { return }
        _ = RTCPWriter.appendDLRR(
            to: &out, senderSSRC: transports[Int(index)].reporterSSRC, delays: delays.span)
    }
}
