/// Why a datagram (or a part of it) was not acted on. Every early return of the packet path counts exactly one of these;
/// operators, tests and attack drills read them. The raw value indexes `EngineCounters`; `name` is the metric's label.
public enum DropReason: Int, CaseIterable, Sendable {
    // Before any address is known.
    case empty, oversize, unknownClass
    // STUN.
    case stunMalformed, stunUnexpectedClass, stunNoCredentials, stunUnknownUfrag, stunRemoteUfrag, stunIntegrity
    case stunRateLimited, stunRoleConflict, stunUnknownAttribute, stunUnknownTransaction, stunAddressInUse
    // DTLS.
    case dtlsUnknownAddress, dtlsRateLimited, dtlsBacklog
    // RTP.
    case rtpUnknownAddress, rtpBeforeKeys, rtpMalformed, rtpUnknownPayloadType, rtpUnknownSourceRateLimited
    case rtpSourceLimit, rtpReplayed, rtpAuthentication, rtpGateClosed, rtpPaddingOnly, rtpSuperseded
    case rtpTooOld, rtpTooLarge, rtxWithoutOriginal, rtxDuplicate, rtpRateLimited
    /// RED: blocks that do not fit or are of another kind; a packet that came in a block of a later one before.
    case redMalformed, redRecovered
    // What a joined participant's gates keep.
    case rtpMuted, rtpMutedByServer, rtpHeld, rtpVideoClosed
    /// A slot got the early key frame and goes on with the next one.
    case rtpBeforeKeyFrame
    // Layers: a stream id that was not negotiated, a stream that nobody is in, a picture above a slot's temporal limit.
    case rtpUnknownStreamID, rtpOtherLayer, rtpUpperLayer
    // RTCP.
    case rtcpUnknownAddress, rtcpBeforeKeys, rtcpTooShort, rtcpAuthentication, rtcpReplayed, rtcpMalformed
    case rtcpForeignSSRC, nackUnknownPacket, nackBudget
    /// A block of an extended report that is of no use here, or a report that was not agreed on.
    case xrSkipped
    // Sending.
    case sendWithoutPath, sendBeforeValidation, transmitFull

    /// `stun-malformed`, `rtp-unknown-address`, …
    public var name: String {
        var text = ""
        var isInAcronym = false
        for character in String(describing: self) {
            if character.isUppercase, !isInAcronym { text += "-" }
            isInAcronym = character.isUppercase
            text += character.lowercased()
        }
        return text
    }
}

/// Counters of one engine. Owned by the media thread; others read copies that the worker sends over the link.
public final class EngineCounters {
    /// The numbers lie behind a pointer: Swift checks each access to what other modules can see of a class, which costs more
    /// than the counting.
    private struct Totals {
        var packetsReceived: UInt64 = 0
        var bytesReceived: UInt64 = 0
        var packetsForwarded: UInt64 = 0
        var bytesForwarded: UInt64 = 0
        var packetsRepaired: UInt64 = 0
        var packetsRecovered: UInt64 = 0
        var packetsMadeRedundant: UInt64 = 0
        var keyFramesRequested: UInt64 = 0
        var checksAnswered: UInt64 = 0
    }

    private let drops: UnsafeMutablePointer<UInt64>
    private let totals: UnsafeMutablePointer<Totals>

    public internal(set) var packetsReceived: UInt64 {
        @inline(__always) get { totals.pointee.packetsReceived }
        @inline(__always) set { totals.pointee.packetsReceived = newValue }
    }
    public internal(set) var bytesReceived: UInt64 {
        @inline(__always) get { totals.pointee.bytesReceived }
        @inline(__always) set { totals.pointee.bytesReceived = newValue }
    }
    /// Media packets sealed for a receiver, repairs included.
    public internal(set) var packetsForwarded: UInt64 {
        @inline(__always) get { totals.pointee.packetsForwarded }
        @inline(__always) set { totals.pointee.packetsForwarded = newValue }
    }
    public internal(set) var bytesForwarded: UInt64 {
        @inline(__always) get { totals.pointee.bytesForwarded }
        @inline(__always) set { totals.pointee.bytesForwarded = newValue }
    }
    public internal(set) var packetsRepaired: UInt64 {
        @inline(__always) get { totals.pointee.packetsRepaired }
        @inline(__always) set { totals.pointee.packetsRepaired = newValue }
    }
    /// Lost audio packets that were taken out of a later RED packet.
    public internal(set) var packetsRecovered: UInt64 {
        @inline(__always) get { totals.pointee.packetsRecovered }
        @inline(__always) set { totals.pointee.packetsRecovered = newValue }
    }
    /// Audio packets sent together with earlier ones, as RED.
    public internal(set) var packetsMadeRedundant: UInt64 {
        @inline(__always) get { totals.pointee.packetsMadeRedundant }
        @inline(__always) set { totals.pointee.packetsMadeRedundant = newValue }
    }
    public internal(set) var keyFramesRequested: UInt64 {
        @inline(__always) get { totals.pointee.keyFramesRequested }
        @inline(__always) set { totals.pointee.keyFramesRequested = newValue }
    }
    public internal(set) var checksAnswered: UInt64 {
        @inline(__always) get { totals.pointee.checksAnswered }
        @inline(__always) set { totals.pointee.checksAnswered = newValue }
    }

    public init() {
        drops = .allocate(capacity: DropReason.allCases.count)
        drops.initialize(repeating: 0, count: DropReason.allCases.count)
        totals = .allocate(capacity: 1)
        totals.initialize(to: Totals())
    }

    deinit {
        drops.deallocate()
        totals.deallocate()
    }

    public subscript(reason: DropReason) -> UInt64 { drops[reason.rawValue] }

    @inline(__always) public func drop(_ reason: DropReason) { drops[reason.rawValue] &+= 1 }

    /// All drops together.
    public var dropped: UInt64 { DropReason.allCases.reduce(0) { $0 + self[$1] } }
}
