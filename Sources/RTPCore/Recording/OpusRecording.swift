/// One participant's sound as an Ogg Opus file that keeps real time: what was lost, muted or not sent (DTX) is told to decoders by
/// packets of empty frames (RFC 7845 §4.1), so that the position in the file is the sender's time. Transcodes nothing.
public struct OpusRecording: Sendable {
    /// Empty frames are written in packets of this length at most: 120 ms.
    private static let longestPacket: Int64 = 5_760

    private var writer: OggOpusWriter
    /// The TOC byte of the last packet, without its code: gaps go on with the same mode, width and frame size.
    private var lastConfiguration: UInt8?
    private var frameSamples: Int64 = 960
    /// Samples of 48 kHz that stand for what was not there.
    public private(set) var gapSamples: Int64 = 0
    /// Packets that are no Opus, or that cover what is there already.
    public private(set) var unusedPackets: UInt64 = 0

    /// - Parameter first: the first packet, which says how many channels there are.
    public init(serial: UInt32, first: [UInt8], comments: [String]) {
        let isStereo = OpusTOC(first.span)?.isStereo ?? false
        writer = OggOpusWriter(serial: serial, channels: isStereo ? 2 : 1, comments: comments)
    }

    public var sampleCount: Int64 { writer.sampleCount }

    /// - Parameter position: where the packet begins, in samples of 48 kHz behind the first one. Packets come in order.
    public mutating func append(_ packet: [UInt8], at position: Int64) {
        guard let toc = OpusTOC(packet.span) else {
            unusedPackets += 1
            return
        }
        let samples = Int64(toc.timestampUnits)
        let ahead = position - writer.sampleCount
        // Half a packet of overlap is rounding at a change of source; more is the same sound again.
        guard ahead > -(samples + 1) / 2 else {
            unusedPackets += 1
            return
        }
        if ahead > 0 { fill(ahead) }
        writer.append(packet, samples: Int(samples))
        lastConfiguration = packet[0] & 0xFC
        frameSamples = toc.frameDuration.nanoseconds * 48 / 1_000_000
    }

    public mutating func flush() { writer.flush() }
    public mutating func finish() { writer.finish() }
    public mutating func takeOutput() -> [UInt8] { writer.takeOutput() }

    /// As many whole frames as fit; what is left over is made up for by the next gap.
    private mutating func fill(_ samples: Int64) {
        guard let configuration = lastConfiguration else { return }
        var frames = samples / frameSamples
        gapSamples += frames * frameSamples
        let most = max(1, Self.longestPacket / frameSamples)
        while frames > 0 {
            let count = min(frames, most)
            // Code 0 for one empty frame; code 3, constant bit rate, for several.
            let packet = count == 1 ? [configuration] : [configuration | 3, UInt8(count)]
            writer.append(packet, samples: Int(count * frameSamples))
            frames -= count
        }
    }
}
