import RTPCore

extension FuzzTarget {
    /// Every member of an RTCP datagram lies within it, and what it says is said again by our writers and read as the same.
    static let rtcp = FuzzTarget(
        name: "rtcp", byteLimit: 1_500,
        seeds: {
            vectors("rtcp_packets", "cases", "drop") + vectors("rtcp_ccfb", "cases", "drop")
                + vectors("rtcp_twcc", "cases", "drop") + keptInputs("rtcp")
        }
    ) { bytes in
        var cursor = RTCPCursor(bytes.span)
        var end = 0
        while let item = cursor.next(in: bytes.span) {
            require(
                item.offset >= end && item.byteCount >= 4 && item.end <= bytes.count, "a member beyond the datagram")
            end = item.end
            _ = item.senderSSRC(in: bytes.span)
            _ = item.mediaSSRC(in: bytes.span)
            checkReports(item, bytes)
            checkSources(item, bytes)
            checkRequests(item, bytes)
            checkCongestion(item, bytes)
        }
        require(cursor.next(in: bytes.span) == nil, "a member behind the last one")
    }

    /// The only member of a datagram of ours.
    private static func only(_ bytes: [UInt8], _ kind: RTCPKind) -> RTCPItem {
        var cursor = RTCPCursor(bytes.span)
        guard let item = cursor.next(in: bytes.span), item.kind == kind, cursor.next(in: bytes.span) == nil,
            !cursor.isMalformed
        else { fatalError("broken promise: a \(kind) of ours is not read") }
        return item
    }

    private static func checkReports(_ item: RTCPItem, _ bytes: [UInt8]) {
        let blocks = (0..<item.reportBlockCount).compactMap { ReportBlock(at: $0, of: item, in: bytes.span) }
        require(blocks.count == item.reportBlockCount, "a report block is missing")
        if let report = SenderReport(item, in: bytes.span) {
            let again = written(1_000) {
                require(RTCPWriter.appendSenderReport(to: &$0, report, blocks: blocks.span), "a report does not fit")
            }
            require(SenderReport(only(again, .senderReport), in: again.span) == report, "another sender report")
        }
        guard item.kind == .receiverReport, let ssrc = item.senderSSRC(in: bytes.span) else { return }
        let again = written(1_000) {
            require(RTCPWriter.appendReceiverReport(to: &$0, ssrc: ssrc, blocks: blocks.span), "a report does not fit")
        }
        let copy = only(again, .receiverReport)
        let copies = (0..<copy.reportBlockCount).compactMap { ReportBlock(at: $0, of: copy, in: again.span) }
        require(copies == blocks && copy.senderSSRC(in: again.span) == ssrc, "another receiver report")
    }

    private static func checkSources(_ item: RTCPItem, _ bytes: [UInt8]) {
        var chunks = SDESCursor(item)
        var count = 0
        while let chunk = chunks.next(in: bytes.span) {
            count += 1
            require(chunk.cname.upperBound <= item.end, "a CNAME beyond its member")
            let name = Array(bytes[chunk.cname])
            guard !name.isEmpty else { continue }
            let again = written(300) {
                let fits = RTCPWriter.appendSourceDescription(to: &$0, ssrc: chunk.ssrc, cname: name.span)
                require(fits, "a CNAME does not fit")
            }
            var copies = SDESCursor(only(again, .sourceDescription))
            guard let copy = copies.next(in: again.span) else { fatalError("broken promise: no chunk") }
            require(copy.ssrc == chunk.ssrc && Array(again[copy.cname]) == name, "another chunk")
        }
        require(count == (item.kind == .sourceDescription ? Int(item.format) : 0), "a chunk is missing")
        guard let goodbye = Goodbye(item, in: bytes.span) else { return }
        require(goodbye.reason.upperBound <= item.end, "a reason beyond its member")
        let ssrcs = (0..<goodbye.ssrcCount).map { goodbye.ssrc(at: $0, in: bytes.span) }
        let reason = Array(bytes[goodbye.reason])
        let again = written(500) {
            require(RTCPWriter.appendGoodbye(to: &$0, ssrcs: ssrcs.span, reason: reason.span), "a BYE does not fit")
        }
        guard let copy = Goodbye(only(again, .goodbye), in: again.span) else { fatalError("broken promise: no BYE") }
        require(Array(again[copy.reason]) == reason && copy.ssrcCount == ssrcs.count, "another BYE")
    }

    private static func checkRequests(_ item: RTCPItem, _ bytes: [UInt8]) {
        var lost: [UInt16] = []
        var numbers = NACKCursor(item)
        while let number = numbers.next(in: bytes.span) { lost.append(number) }
        require(lost.count <= (item.byteCount / 4) * 17, "a NACK of \(lost.count) numbers")
        if !lost.isEmpty {
            let again = written(70_000) {
                require(RTCPWriter.appendNACK(to: &$0, senderSSRC: 1, mediaSSRC: 2, lost: lost.span), "no room")
            }
            var copies: Set<UInt16> = []
            var cursor = NACKCursor(only(again, .nack))
            while let number = cursor.next(in: again.span) { copies.insert(number) }
            require(copies == Set(lost), "another NACK")
        }
        var entries = FIRCursor(item)
        while let entry = entries.next(in: bytes.span) {
            let again = written(20) {
                let fits = RTCPWriter.appendFIR(
                    to: &$0, senderSSRC: 1, mediaSSRC: entry.ssrc, commandNumber: entry.commandNumber)
                require(fits, "a FIR does not fit")
            }
            var copies = FIRCursor(only(again, .fullIntraRequest))
            require(copies.next(in: again.span) == entry, "another FIR")
        }
        var index = 0
        while SliceLoss(at: index, of: item, in: bytes.span) != nil { index += 1 }
        checkEstimate(item, bytes)
    }

    private static func checkEstimate(_ item: RTCPItem, _ bytes: [UInt8]) {
        guard let estimate = ReceiverEstimate(item, in: bytes.span) else { return }
        let ssrcs = (0..<estimate.ssrcCount).map { estimate.ssrc(at: $0, in: bytes.span) }
        let again = written(1_100) {
            let fits = RTCPWriter.appendREMB(
                to: &$0, senderSSRC: estimate.senderSSRC, bitRate: estimate.bitRate, ssrcs: ssrcs.span)
            require(fits, "a REMB does not fit")
        }
        guard let copy = ReceiverEstimate(only(again, .receiverEstimate), in: again.span) else {
            fatalError("broken promise: no REMB")
        }
        require(copy.ssrcCount == ssrcs.count && copy.senderSSRC == estimate.senderSSRC, "another REMB")
        // What is beyond 64 bits was held to them.
        require(copy.bitRate == estimate.bitRate || estimate.bitRate == .max, "another rate")
    }

    private static func checkCongestion(_ item: RTCPItem, _ bytes: [UInt8]) {
        var sources = CongestionFeedbackCursor(item)
        while let report = sources.next(in: bytes.span) {
            for index in 0..<report.metricCount { _ = report.metric(at: index, in: bytes.span) }
        }
        _ = item.congestionTimestamp(in: bytes.span)
        checkBlocks(item, bytes)
        checkStatuses(item, bytes)
    }

    private static func checkStatuses(_ item: RTCPItem, _ bytes: [UInt8]) {
        guard let feedback = TransportFeedback(item, in: bytes.span) else { return }
        var cursor = TransportFeedbackCursor(feedback)
        var expected = feedback.baseSequence
        var count = 0
        while let status = cursor.next(in: bytes.span) {
            require(status.sequence == expected, "numbers do not count on")
            expected &+= 1
            count += 1
        }
        require(count == feedback.statusCount, "\(count) statuses of \(feedback.statusCount)")
    }

    private static func checkBlocks(_ item: RTCPItem, _ bytes: [UInt8]) {
        var cursor = ExtendedReportCursor(item)
        while let block = cursor.next(in: bytes.span) {
            require(block.offset + block.byteCount <= item.end, "a block beyond its report")
            if let time = block.receiverReferenceTime(in: bytes.span) {
                let again = written(20) {
                    let fits = RTCPWriter.appendReceiverReferenceTime(to: &$0, senderSSRC: 1, time: time)
                    require(fits, "a reference time does not fit")
                }
                var copy = ExtendedReportCursor(only(again, .extendedReport))
                require(copy.next(in: again.span)?.receiverReferenceTime(in: again.span) == time, "another time")
            }
            var delays: [ReceiverReferenceDelay] = []
            while let delay = block.delay(at: delays.count, in: bytes.span) { delays.append(delay) }
            guard !delays.isEmpty else { continue }
            let again = written(2_000) {
                require(RTCPWriter.appendDLRR(to: &$0, senderSSRC: 1, delays: delays.span), "delays do not fit")
            }
            var copy = ExtendedReportCursor(only(again, .extendedReport))
            guard let read = copy.next(in: again.span) else { fatalError("broken promise: no block") }
            require(delays.indices.allSatisfy { read.delay(at: $0, in: again.span) == delays[$0] }, "another delay")
        }
    }

    /// The contents of an extended report, without what is around them.
    static let extendedReport = FuzzTarget(
        name: "xr", byteLimit: 1_400,
        seeds: {
            let time: [UInt8] = [4, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8]
            let delay: [UInt8] = [5, 0, 0, 3] + [UInt8](repeating: 9, count: 12)
            return [time, delay, time + delay, [0, 0, 0, 0], [4, 0, 0xFF, 0xFF]]
        }
    ) { bytes in member(RTCPPacketType.extendedReport, format: 0, [0, 0, 0, 1], bytes) }

    /// The contents of transport-wide feedback, without what is around them.
    static let feedback = FuzzTarget(
        name: "transport-cc", byteLimit: 1_400,
        seeds: { vectors("rtcp_twcc", "cases", "drop").map { Array($0.dropFirst(12)) } }
    ) { bytes in member(RTCPPacketType.transportFeedback, format: 15, [0, 0, 0, 1, 0, 0, 0, 2], bytes) }

    /// Reads a datagram of one member whose frame is right.
    private static func member(_ type: UInt8, format: UInt8, _ head: [UInt8], _ contents: [UInt8]) {
        let body = head + contents + [UInt8](repeating: 0, count: -contents.count & 3)
        let words = body.count / 4
        rtcp.run([0x80 | format, type, UInt8(words >> 8), UInt8(words & 255)] + body)
    }
}
