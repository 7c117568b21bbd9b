// The names of RTCP: packet types, formats, and one member of a datagram as the cursor hands it out. Reads no
// contents.

/// RTCP packet types (RFC 3550 §12.1, RFC 4585, RFC 3611).
public enum RTCPPacketType {
    public static let senderReport: UInt8 = 200
    public static let receiverReport: UInt8 = 201
    public static let sourceDescription: UInt8 = 202
    public static let goodbye: UInt8 = 203
    public static let application: UInt8 = 204
    public static let transportFeedback: UInt8 = 205
    public static let payloadFeedback: UInt8 = 206
    public static let extendedReport: UInt8 = 207
}

/// What a member of an RTCP datagram is, told by packet type, format and, for application feedback, its name.
public enum RTCPKind: UInt8, Sendable {
    /// SR and RR (RFC 3550 §6.4): `SenderReport`, `ReportBlock`.
    case senderReport, receiverReport
    /// SDES (RFC 3550 §6.5): `SDESCursor`.
    case sourceDescription
    /// BYE (RFC 3550 §6.6): `Goodbye`.
    case goodbye
    /// APP (RFC 3550 §6.7): not read further.
    case application
    /// Generic NACK (RFC 4585 §6.2.1): `NACKCursor`.
    case nack
    /// Rapid resynchronisation request (RFC 6051): nothing but its SSRCs.
    case rapidResynchronisation
    /// Congestion control feedback (RFC 8888): `CongestionFeedbackCursor`.
    case congestionFeedback
    /// Transport-wide congestion control (draft-holmer-rmcat-transport-wide-cc-extensions-01):
    /// `TransportFeedback`.
    case transportFeedback
    /// PLI (RFC 4585 §6.3.1): nothing but its SSRCs.
    case pictureLoss
    /// SLI (RFC 4585 §6.3.2): `SliceLoss`.
    case sliceLoss
    /// FIR (RFC 5104 §4.3.1): `FIRCursor`.
    case fullIntraRequest
    /// REMB (draft-alvestrand-rmcat-remb-03): `ReceiverEstimate`.
    case receiverEstimate
    /// XR (RFC 3611): `ExtendedReportCursor`.
    case extendedReport
    /// Well framed, of a type or format that is not known here: skipped.
    case unknown
}

/// One well-formed member of an RTCP datagram: where it lies and what it is. Made by `RTCPCursor` only, which
/// has checked that everything its kind promises (report blocks, chunks, entries) lies inside it.
@frozen public struct RTCPItem: Sendable {
    public let kind: RTCPKind
    public let packetType: UInt8
    /// The five bits behind version and padding: a count or a format.
    public let format: UInt8
    /// Of its header, in the datagram.
    public let offset: Int
    /// Header and body, without padding.
    public let byteCount: Int

    /// Behind the four header bytes.
    @inlinable public var bodyOffset: Int { offset + 4 }
    /// Behind the last byte that is not padding.
    @inlinable public var end: Int { offset + byteCount }

    init(kind: RTCPKind, packetType: UInt8, format: UInt8, offset: Int, byteCount: Int) {
        self.kind = kind
        self.packetType = packetType
        self.format = format
        self.offset = offset
        self.byteCount = byteCount
    }

    /// The SSRC of who sent the member: all kinds but SDES and BYE begin with it; nil for those, and for
    /// unknown members without a body.
    public func senderSSRC(in bytes: Span<UInt8>) -> UInt32? {
        guard kind != .sourceDescription, kind != .goodbye, byteCount >= 8 else { return nil }
        return bytes.uint32(at: bodyOffset)
    }

    /// The SSRC of the source that feedback is about; nil when the member is no feedback. 0 in FIR and REMB,
    /// which name their sources in entries, and in congestion feedback another field.
    public func mediaSSRC(in bytes: Span<UInt8>) -> UInt32? {
        let isFeedback =
            packetType == RTCPPacketType.transportFeedback
            || packetType == RTCPPacketType.payloadFeedback
        guard isFeedback, kind != .congestionFeedback else { return nil }
        return bytes.uint32(at: offset + 8)
    }
}
