/// Retransmission packets (RFC 4588 section 4): the original's header with number, SSRC and payload type of the RTX stream,
/// and in front of the original's payload two bytes with its original sequence number (OSN). Padding is not repeated.
///
/// It knows nothing of histories or of who asked; it reads and rebuilds bytes.
public enum RTXPacket {
    /// The OSN of a retransmission; nil when the payload has no room for it, as in probes of nothing but padding: such a
    /// packet counts as received and restores nothing.
    /// - Parameters:
    ///   - payloadOffset: the header's `headerByteCount`.
    ///   - payloadEnd: where the payload ends, padding excluded.
    @inlinable public static func originalSequenceNumber(
        _ bytes: Span<UInt8>, payloadOffset: Int, payloadEnd: Int
    ) -> UInt16? {
        guard payloadEnd <= bytes.count, payloadEnd - payloadOffset >= 2 else { return nil }
        return bytes.uint16(at: payloadOffset)
    }

    /// Appends the packet that a retransmission carries. False, with nothing appended, when it has no OSN or does not fit.
    /// - Parameters:
    ///   - header: read from `bytes`, the retransmission.
    ///   - payloadEnd: where its payload ends, padding excluded.
    ///   - payloadType: the original's, 0…127.
    public static func appendOriginal(
        of bytes: Span<UInt8>, header: RTPHeader, payloadEnd: Int, payloadType: UInt8, ssrc: UInt32,
        to out: inout OutputSpan<UInt8>
    ) -> Bool {
        let payloadOffset = header.headerByteCount
        guard
            let sequenceNumber = originalSequenceNumber(
                bytes, payloadOffset: payloadOffset, payloadEnd: payloadEnd),
            out.freeCapacity >= payloadEnd - 2
        else { return false }
        appendHeader(
            of: bytes, header: header, payloadType: payloadType, sequenceNumber: sequenceNumber, ssrc: ssrc,
            to: &out)
        for index in (payloadOffset + 2)..<payloadEnd { out.append(bytes[index]) }
        return true
    }

    /// Appends the retransmission of a packet. False, with nothing appended, when it does not fit.
    /// - Parameters:
    ///   - header: read from `bytes`, the original.
    ///   - payloadEnd: where its payload ends, padding excluded.
    ///   - payloadType: the RTX stream's, 0…127; so are `sequenceNumber` and `ssrc`.
    public static func appendRetransmission(
        of bytes: Span<UInt8>, header: RTPHeader, payloadEnd: Int, payloadType: UInt8, sequenceNumber: UInt16,
        ssrc: UInt32, to out: inout OutputSpan<UInt8>
    ) -> Bool {
        let payloadOffset = header.headerByteCount
        guard payloadEnd <= bytes.count, payloadEnd >= payloadOffset, out.freeCapacity >= payloadEnd + 2
        else {
            return false
        }
        appendHeader(
            of: bytes, header: header, payloadType: payloadType, sequenceNumber: sequenceNumber, ssrc: ssrc,
            to: &out)
        out.appendBigEndian(header.sequenceNumber)
        for index in payloadOffset..<payloadEnd { out.append(bytes[index]) }
        return true
    }

    /// The header with other numbers and no padding; CSRCs and extensions as they are.
    private static func appendHeader(
        of bytes: Span<UInt8>, header: RTPHeader, payloadType: UInt8, sequenceNumber: UInt16, ssrc: UInt32,
        to out: inout OutputSpan<UInt8>
    ) {
        precondition(payloadType < 128, "a payload type has seven bits")
        out.append(bytes[0] & 0xDF)
        out.append(header.marker ? payloadType | 0x80 : payloadType)
        out.appendBigEndian(sequenceNumber)
        out.appendBigEndian(header.timestamp)
        out.appendBigEndian(ssrc)
        for index in 12..<header.headerByteCount { out.append(bytes[index]) }
    }
}
