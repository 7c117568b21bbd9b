/// The first byte of an Opus packet (RFC 6716 section 3.1) and, for code 3, its frame count: how long the packet lasts and
/// what it is coded with. It does not look into the frames.
///
///      0 1 2 3 4 5 6 7
///     | config  |s| c |
@frozen public struct OpusTOC: Sendable, Hashable {
    @frozen public enum Mode: Sendable, Hashable { case silk, hybrid, celt }
    /// 4, 6, 8, 12 and 20 kHz of audio.
    @frozen public enum Bandwidth: Sendable, Hashable { case narrow, medium, wide, superWide, full }

    /// 0…31.
    public var config: UInt8
    public var isStereo: Bool
    /// 0: one frame; 1: two of equal size; 2: two; 3: any number.
    public var code: UInt8
    /// 1…48.
    public var frameCount: Int
    /// The packet has at most one byte besides the TOC, so its frames are empty or tell only that nothing is said:
    /// discontinuous transmission.
    public var isDTX: Bool

    /// Nil for an empty packet, and for code 3 without a count, with none, or with more than 120 ms (section 3.2.5).
    public init?(_ packet: Span<UInt8>) {
        guard packet.count >= 1 else { return nil }
        config = packet[0] >> 3
        isStereo = packet[0] & 0x04 != 0
        code = packet[0] & 0x03
        isDTX = packet.count <= 2 && code == 0
        switch code {
        case 0: frameCount = 1
        case 1, 2: frameCount = 2
        default:
            guard packet.count >= 2 else { return nil }
            frameCount = Int(packet[1] & 0x3F)
            guard frameCount > 0, duration <= .milliseconds(120) else { return nil }
        }
    }

    public var mode: Mode {
        switch config {
        case 0...11: .silk
        case 12...15: .hybrid
        default: .celt
        }
    }

    public var bandwidth: Bandwidth {
        switch config {
        case 0...3, 16...19: .narrow
        case 4...7: .medium
        case 8...11, 20...23: .wide
        case 12, 13, 24...27: .superWide
        default: .full
        }
    }

    /// 2.5, 5, 10, 20, 40 or 60 ms.
    public var frameDuration: Interval {
        switch mode {
        case .silk: config & 3 == 3 ? .milliseconds(60) : .milliseconds(10 << Int64(config & 3))
        case .hybrid: .milliseconds(10 << Int64(config & 1))
        case .celt: .microseconds(2_500 << Int64(config & 3))
        }
    }

    /// 2.5…120 ms.
    public var duration: Interval { frameDuration * Int64(frameCount) }

    /// The duration in units of the RTP clock, 48 kHz: 120…5760.
    public var timestampUnits: UInt32 { UInt32(duration.nanoseconds * 48 / 1_000_000) }
}
