// Writers of reports, SDES and BYE. They append whole members to the caller's buffer or nothing, and keep no
// state.

/// Appends RTCP members to a buffer. Every verb writes one whole member and returns true, or writes nothing
/// and returns false when it does not fit into what is left.
public enum RTCPWriter {
    /// The most report blocks of one report, SSRCs of one BYE: five bits count them.
    public static let countLimit = 31

    /// Appends a sender report with up to 31 report blocks (RFC 3550 §6.4.1).
    public static func appendSenderReport(
        to output: inout OutputSpan<UInt8>, _ report: SenderReport, blocks: Span<ReportBlock>
    ) -> Bool {
        let byteCount = 28 + blocks.count * ReportBlock.byteCount
        guard begin(&output, RTCPPacketType.senderReport, count: blocks.count, byteCount) else {
            return false
        }
        output.appendBigEndian(report.ssrc)
        output.appendBigEndian(report.ntp.rawValue)
        output.appendBigEndian(report.rtpTimestamp)
        output.appendBigEndian(report.packetCount)
        output.appendBigEndian(report.octetCount)
        for index in blocks.indices { append(blocks[index], to: &output) }
        return true
    }

    /// Appends a receiver report with up to 31 report blocks (RFC 3550 §6.4.2).
    public static func appendReceiverReport(
        to output: inout OutputSpan<UInt8>, ssrc: UInt32, blocks: Span<ReportBlock>
    ) -> Bool {
        let byteCount = 8 + blocks.count * ReportBlock.byteCount
        guard begin(&output, RTCPPacketType.receiverReport, count: blocks.count, byteCount) else {
            return false
        }
        output.appendBigEndian(ssrc)
        for index in blocks.indices { append(blocks[index], to: &output) }
        return true
    }

    /// Appends an SDES member with one chunk that holds a CNAME of up to 255 bytes (RFC 3550 §6.5.1).
    public static func appendSourceDescription(
        to output: inout OutputSpan<UInt8>, ssrc: UInt32, cname: Span<UInt8>
    ) -> Bool {
        precondition(cname.count <= 255, "a CNAME has up to 255 bytes")
        // SSRC, item header and text, then one to four zero bytes up to the next word.
        let chunkByteCount = (6 + cname.count) / 4 * 4 + 4
        guard begin(&output, RTCPPacketType.sourceDescription, count: 1, 4 + chunkByteCount) else {
            return false
        }
        output.appendBigEndian(ssrc)
        output.append(1)
        output.append(UInt8(cname.count))
        for index in cname.indices { output.append(cname[index]) }
        for _ in 6 + cname.count..<chunkByteCount { output.append(0) }
        return true
    }

    /// Appends a BYE for up to 31 sources (RFC 3550 §6.6), with a reason of up to 255 bytes when there is
    /// one.
    public static func appendGoodbye(
        to output: inout OutputSpan<UInt8>, ssrcs: Span<UInt32>, reason: Span<UInt8> = Span()
    ) -> Bool {
        precondition(reason.count <= 255, "a reason has up to 255 bytes")
        let reasonByteCount = reason.isEmpty ? 0 : (1 + reason.count + 3) / 4 * 4
        let byteCount = 4 + ssrcs.count * 4 + reasonByteCount
        guard begin(&output, RTCPPacketType.goodbye, count: ssrcs.count, byteCount) else { return false }
        for index in ssrcs.indices { output.appendBigEndian(ssrcs[index]) }
        guard !reason.isEmpty else { return true }
        output.append(UInt8(reason.count))
        for index in reason.indices { output.append(reason[index]) }
        for _ in 1 + reason.count..<reasonByteCount { output.append(0) }
        return true
    }

    /// Writes a member's header when all of it fits. `byteCount`: with the header, a multiple of 4.
    static func begin(
        _ output: inout OutputSpan<UInt8>, _ packetType: UInt8, count: Int, _ byteCount: Int
    ) -> Bool {
        precondition(count <= countLimit, "five bits hold a count of up to 31")
        assert(byteCount % 4 == 0)
        let words = byteCount / 4 - 1
        guard output.freeCapacity >= byteCount, words <= 0xFFFF else { return false }
        output.append(0x80 | UInt8(count))
        output.append(packetType)
        output.appendBigEndian(UInt16(words))
        return true
    }

    private static func append(_ block: ReportBlock, to output: inout OutputSpan<UInt8>) {
        // 24 bits, two's complement; the value is held to what they can say.
        let lost = UInt32(bitPattern: max(-0x80_0000, min(0x7F_FFFF, block.cumulativeLost))) & 0xFF_FFFF
        output.appendBigEndian(block.ssrc)
        output.appendBigEndian(UInt32(block.fractionLost) << 24 | lost)
        output.appendBigEndian(block.extendedHighest)
        output.appendBigEndian(block.jitter)
        output.appendBigEndian(block.lastSenderReport)
        output.appendBigEndian(block.delaySinceLastSenderReport)
    }
}
