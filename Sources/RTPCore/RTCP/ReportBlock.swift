/// One reception report (RFC 3550 §6.4.1), in sender and receiver reports alike: 24 bytes on the wire.
@frozen public struct ReportBlock: Hashable, Sendable {
    public static let byteCount = 24

    /// The source reported on.
    public var ssrc: UInt32
    /// Loss since the last report, in 1/256.
    public var fractionLost: UInt8
    /// Packets lost since the beginning, 24 bits signed: -8388608…8388607.
    public var cumulativeLost: Int32
    /// The highest number received, rollovers in the upper half.
    public var extendedHighest: UInt32
    /// In ticks of the media clock.
    public var jitter: UInt32
    /// Middle 32 bits of the last sender report's NTP time; 0: none came yet.
    public var lastSenderReport: UInt32
    /// Time since that report came, in 1/65536 s.
    public var delaySinceLastSenderReport: UInt32

    public init(
        ssrc: UInt32, fractionLost: UInt8, cumulativeLost: Int32, extendedHighest: UInt32, jitter: UInt32,
        lastSenderReport: UInt32, delaySinceLastSenderReport: UInt32
    ) {
        self.ssrc = ssrc
        self.fractionLost = fractionLost
        self.cumulativeLost = cumulativeLost
        self.extendedHighest = extendedHighest
        self.jitter = jitter
        self.lastSenderReport = lastSenderReport
        self.delaySinceLastSenderReport = delaySinceLastSenderReport
    }
}
