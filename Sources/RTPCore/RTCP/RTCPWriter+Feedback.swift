// Writers of feedback: NACK, PLI, FIR, REMB, and the round trip blocks of extended reports. Transport-cc is
// written by `TransportFeedbackRecorder`, which knows the arrivals.

extension RTCPWriter {
    /// Appends a generic NACK (RFC 4585 §6.2.1) for numbers in rising order (modulo 2^16), duplicates
    /// allowed. At least one number.
    public static func appendNACK(
        to output: inout OutputSpan<UInt8>, senderSSRC: UInt32, mediaSSRC: UInt32, lost: Span<UInt16>
    ) -> Bool {
        precondition(!lost.isEmpty, "a NACK names at least one number")
        var pairCount = 0
        var index = 0
        while index < lost.count {
            _ = readPair(lost, at: &index)
            pairCount += 1
        }
        let byteCount = 12 + pairCount * 4
        guard begin(&output, RTCPPacketType.transportFeedback, count: 1, byteCount) else { return false }
        output.appendBigEndian(senderSSRC)
        output.appendBigEndian(mediaSSRC)
        index = 0
        while index < lost.count {
            output.appendBigEndian(readPair(lost, at: &index))
        }
        return true
    }

    /// PID and BLP of the number at `index` and those within 16 behind it; moves `index` behind them.
    private static func readPair(_ lost: Span<UInt16>, at index: inout Int) -> UInt32 {
        let first = lost[index]
        var bits: UInt32 = 0
        index += 1
        while index < lost.count {
            let distance = lost[index] &- first
            guard distance <= 16 else { break }
            if distance > 0 { bits |= 1 << UInt32(distance - 1) }
            index += 1
        }
        return UInt32(first) << 16 | bits
    }

    /// Appends a picture loss indication (RFC 4585 §6.3.1).
    public static func appendPLI(
        to output: inout OutputSpan<UInt8>, senderSSRC: UInt32, mediaSSRC: UInt32
    ) -> Bool {
        guard begin(&output, RTCPPacketType.payloadFeedback, count: 1, 12) else { return false }
        output.appendBigEndian(senderSSRC)
        output.appendBigEndian(mediaSSRC)
        return true
    }

    /// Appends a full intra request for one source (RFC 5104 §4.3.1). `commandNumber` rises with each new
    /// request and stays for a repetition.
    public static func appendFIR(
        to output: inout OutputSpan<UInt8>, senderSSRC: UInt32, mediaSSRC: UInt32, commandNumber: UInt8
    ) -> Bool {
        guard begin(&output, RTCPPacketType.payloadFeedback, count: 4, 20) else { return false }
        output.appendBigEndian(senderSSRC)
        // §4.3.1.2: the field for the media source is 0, the entry names it.
        output.appendBigEndian(UInt32(0))
        output.appendBigEndian(mediaSSRC)
        output.appendBigEndian(UInt32(commandNumber) << 24)
        return true
    }

    /// Appends a receiver's estimate (draft-alvestrand-rmcat-remb-03) of `bitRate` bits a second for up to
    /// 255 sources. The rate is rounded down to the 18 bits that the packet holds.
    public static func appendREMB(
        to output: inout OutputSpan<UInt8>, senderSSRC: UInt32, bitRate: UInt64, ssrcs: Span<UInt32>
    ) -> Bool {
        precondition(ssrcs.count <= 255, "a REMB names up to 255 sources")
        let byteCount = 20 + ssrcs.count * 4
        guard begin(&output, RTCPPacketType.payloadFeedback, count: 15, byteCount) else { return false }
        let exponent = max(0, 64 - 18 - bitRate.leadingZeroBitCount)
        let mantissa = UInt32(bitRate >> UInt64(exponent))
        output.appendBigEndian(senderSSRC)
        output.appendBigEndian(UInt32(0))
        output.appendBigEndian(ReceiverEstimate.name)
        output.appendBigEndian(UInt32(ssrcs.count) << 24 | UInt32(exponent) << 18 | mantissa)
        for index in ssrcs.indices { output.appendBigEndian(ssrcs[index]) }
        return true
    }

    /// Appends an extended report with a receiver reference time block (RFC 3611 §4.4).
    public static func appendReceiverReferenceTime(
        to output: inout OutputSpan<UInt8>, senderSSRC: UInt32, time: NTPTime
    ) -> Bool {
        guard begin(&output, RTCPPacketType.extendedReport, count: 0, 20) else { return false }
        output.appendBigEndian(senderSSRC)
        output.appendBigEndian(0x0400_0002 as UInt32)
        output.appendBigEndian(time.rawValue)
        return true
    }

    /// Appends an extended report with a DLRR block (RFC 3611 §4.5): the answers to receiver reference times.
    public static func appendDLRR(
        to output: inout OutputSpan<UInt8>, senderSSRC: UInt32, delays: Span<ReceiverReferenceDelay>
    ) -> Bool {
        let byteCount = 12 + delays.count * 12
        guard begin(&output, RTCPPacketType.extendedReport, count: 0, byteCount) else { return false }
        output.appendBigEndian(senderSSRC)
        output.appendBigEndian(0x0500_0000 | UInt32(delays.count * 3))
        for index in delays.indices {
            output.appendBigEndian(delays[index].ssrc)
            output.appendBigEndian(delays[index].lastReference)
            output.appendBigEndian(delays[index].delay)
        }
        return true
    }
}
