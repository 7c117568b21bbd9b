// The walk over one decrypted RTCP datagram. Owns framing: which bytes belong to which member; and refuses
// members whose contents lie about their size. Allocates nothing and never reads beyond a member.

/// Walks the members of a compound or reduced-size RTCP datagram (RFC 3550 §6.1, RFC 5506) by their length
/// fields.
///
/// ```
/// var cursor = RTCPCursor(bytes)
/// while let item = cursor.next(in: bytes) { … }
/// if cursor.isMalformed { … }
/// ```
/// Members of unknown type are handed out as `.unknown`. At the first member that lies (wrong version, beyond
/// the end, contents that overrun, padding that is not at the very end) the walk stops and `isMalformed` is
/// set; the members before stand.
@frozen public struct RTCPCursor: Sendable {
    private var offset = 0
    private let byteCount: Int
    /// The walk ended at a member that is malformed, or the datagram is empty.
    public private(set) var isMalformed = false

    public init(_ bytes: Span<UInt8>) {
        byteCount = bytes.count
        isMalformed = bytes.isEmpty
    }

    /// The next member, nil at the end or at a malformed one. `bytes`: the span that the cursor was made
    /// with.
    public mutating func next(in bytes: Span<UInt8>) -> RTCPItem? {
        precondition(bytes.count == byteCount, "a cursor reads the datagram that it was made with")
        guard !isMalformed, offset < byteCount else { return nil }
        guard let item = readItem(in: bytes) else {
            isMalformed = true
            return nil
        }
        return item
    }

    private mutating func readItem(in bytes: Span<UInt8>) -> RTCPItem? {
        guard byteCount - offset >= 4 else { return nil }
        let first = bytes[offset]
        guard first >> 6 == 2 else { return nil }
        let wireByteCount = (Int(bytes.uint16(at: offset + 2)) + 1) * 4
        guard wireByteCount <= byteCount - offset else { return nil }
        var itemByteCount = wireByteCount
        if first & 0x20 != 0 {
            // Padding stands at the end of the datagram only. RFC 3550 wants a multiple of four; transport-cc
            // of libwebrtc carries one to three bytes, so every count that leaves the header is taken.
            guard offset + wireByteCount == byteCount else { return nil }
            let padding = Int(bytes[byteCount - 1])
            guard padding > 0, padding <= wireByteCount - 4 else { return nil }
            itemByteCount -= padding
        }
        let packetType = bytes[offset + 1]
        let format = first & 0x1F
        let bounds = RTCPBounds(start: offset, end: offset + itemByteCount, format: Int(format))
        guard let kind = bounds.kind(packetType: packetType, in: bytes) else { return nil }
        defer { offset += wireByteCount }
        return RTCPItem(
            kind: kind, packetType: packetType, format: format, offset: offset, byteCount: itemByteCount)
    }
}

/// Checks that what a member's kind promises lies inside it.
struct RTCPBounds {
    let start: Int
    let end: Int
    let format: Int

    private var byteCount: Int { end - start }

    /// The kind, nil when the contents do not fit the member.
    func kind(packetType: UInt8, in bytes: Span<UInt8>) -> RTCPKind? {
        switch packetType {
        case RTCPPacketType.senderReport:
            byteCount >= 28 + format * ReportBlock.byteCount ? .senderReport : nil
        case RTCPPacketType.receiverReport:
            byteCount >= 8 + format * ReportBlock.byteCount ? .receiverReport : nil
        case RTCPPacketType.sourceDescription:
            SDESCursor.isWellFormed(offset: start + 4, end: end, chunkCount: format, in: bytes)
                ? .sourceDescription : nil
        case RTCPPacketType.goodbye:
            isGoodbye(in: bytes) ? .goodbye : nil
        case RTCPPacketType.application:
            byteCount >= 12 ? .application : nil
        case RTCPPacketType.transportFeedback:
            byteCount >= 12 ? transportFeedbackKind(in: bytes) : nil
        case RTCPPacketType.payloadFeedback:
            byteCount >= 12 ? payloadFeedbackKind(in: bytes) : nil
        case RTCPPacketType.extendedReport:
            ExtendedReportCursor.isWellFormed(offset: start, end: end, in: bytes) ? .extendedReport : nil
        default: .unknown
        }
    }

    private func isGoodbye(in bytes: Span<UInt8>) -> Bool {
        let reason = start + 4 + format * 4
        guard reason <= end else { return false }
        return reason == end || reason + 1 + Int(bytes[reason]) <= end
    }

    private func transportFeedbackKind(in bytes: Span<UInt8>) -> RTCPKind? {
        switch format {
        case 1: byteCount >= 16 ? .nack : nil
        case 5: .rapidResynchronisation
        case 11:
            CongestionFeedbackCursor.isWellFormed(offset: start, end: end, in: bytes)
                ? .congestionFeedback : nil
        case 15: TransportFeedback(offset: start, end: end, in: bytes) != nil ? .transportFeedback : nil
        default: .unknown
        }
    }

    private func payloadFeedbackKind(in bytes: Span<UInt8>) -> RTCPKind? {
        switch format {
        case 1: return .pictureLoss
        case 2: return byteCount >= 16 ? .sliceLoss : nil
        case 4: return byteCount >= 20 && (byteCount - 12) % 8 == 0 ? .fullIntraRequest : nil
        case 15:
            guard byteCount >= 16, bytes.uint32(at: start + 12) == ReceiverEstimate.name else {
                return .unknown
            }
            guard byteCount >= 20 else { return nil }
            return byteCount >= 20 + Int(bytes[start + 16]) * 4 ? .receiverEstimate : nil
        default: return .unknown
        }
    }
}
