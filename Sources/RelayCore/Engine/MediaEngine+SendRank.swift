import RTPCore

/// What a datagram of ours is worth when not all can leave: the lowest goes first.
public enum SendRank: Int, CaseIterable, Comparable, Sendable {
    /// RTX: repairs, probes, padding.
    case repair
    case video
    case audio
    /// RTCP, STUN and DTLS: few, and without them the rest is worth nothing.
    case control

    /// The metric's label.
    public var name: String { String(describing: self) }

    public static func < (a: SendRank, b: SendRank) -> Bool { a.rawValue < b.rawValue }
}

extension MediaEngine {
    /// What a datagram that the engine made for `peer` is worth. Found by its SSRC, when it could not leave: the way of a packet
    /// that can writes nothing down for it. What nobody is known for any more counts as video.
    public func rank(_ bytes: UnsafePointer<UInt8>, count: Int, to peer: PeerAddress) -> SendRank {
        guard count >= 12 else { return .control }
        guard DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: count) == .rtp else {
            return .control
        }
        guard let flow = flows.find(peer) else { return .video }
        let ssrc = UInt32(bytes[8]) << 24 | UInt32(bytes[9]) << 16 | UInt32(bytes[10]) << 8 | UInt32(bytes[11])
        var next = transports[Int(flow.transport)].firstSubscription
        while next >= 0 {
            let subscription = subscriptions[next]
            if subscription.pointee.ssrc == ssrc { return subscription.pointee.kind == .audio ? .audio : .video }
            if subscription.pointee.rtxSSRC == ssrc { return .repair }
            next = subscription.pointee.nextOfReceiver
        }
        return .video
    }
}
