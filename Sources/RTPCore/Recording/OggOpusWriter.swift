/// Writes Opus packets into an Ogg stream (RFC 3533, RFC 7845): two header pages, then pages of whole packets with their
/// granule positions. Owns one logical stream and the page that is being filled; knows no file and no clock. Whoever calls
/// `flush` has every packet so far in complete pages, so that what was taken plays, whatever happens next.
public struct OggOpusWriter: Sendable {
    /// Segments of a page at most (RFC 3533 §6).
    private static let segmentLimit = 255
    private static let headByteCount = 27

    private let serial: UInt32
    private var sequence: UInt32 = 0
    private var lacing: [UInt8] = []
    private var body: [UInt8] = []
    private var output: [UInt8] = []
    private var isFirst = true
    private var isFinished = false
    /// Samples at 48 kHz up to the end of the last packet.
    public private(set) var sampleCount: Int64 = 0

    /// - Parameters:
    ///   - serial: tells logical streams apart; any number.
    ///   - channels: 1 or 2.
    ///   - comments: `NAME=value` each, as players show them.
    public init(serial: UInt32, channels: UInt8, comments: [String]) {
        precondition((1...2).contains(channels), "mono or stereo")
        self.serial = serial
        var head = Array("OpusHead".utf8)
        // Version, channels, pre-skip 0 (the first packet's first sample is time 0), rate of the input, gain, family.
        head += [1, channels, 0, 0]
        head.append(littleEndian: 48_000 as UInt32)
        head += [0, 0, 0]
        put(head)
        emitPage(granule: 0)
        var tags = Array("OpusTags".utf8)
        tags.append(text: "media-relay")
        tags.append(littleEndian: UInt32(comments.count))
        for comment in comments { tags.append(text: comment) }
        put(tags)
        emitPage(granule: 0)
    }

    /// - Parameter samples: how long the packet lasts, at 48 kHz.
    /// - Precondition: at most 60,000 bytes, and not behind `finish`.
    public mutating func append(_ packet: [UInt8], samples: Int) {
        precondition(!isFinished && packet.count <= 60_000, "a packet that no page can hold")
        if lacing.count + packet.count / 255 + 1 > Self.segmentLimit { emitPage(granule: sampleCount) }
        put(packet)
        sampleCount += Int64(samples)
    }

    /// Ends the page that is being filled.
    public mutating func flush() {
        guard !lacing.isEmpty else { return }
        emitPage(granule: sampleCount)
    }

    /// Ends the stream.
    public mutating func finish() {
        guard !isFinished else { return }
        isFinished = true
        emitPage(granule: sampleCount)
    }

    /// The pages that were completed since the last call.
    public mutating func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }

    private mutating func put(_ packet: [UInt8]) {
        lacing += Array(repeating: 255, count: packet.count / 255)
        lacing.append(UInt8(packet.count % 255))
        body += packet
    }

    private mutating func emitPage(granule: Int64) {
        let start = output.count
        output += Array("OggS".utf8)
        // Version, then flags: 2 begins the stream, 4 ends it.
        output += [0, (isFirst ? 2 : 0) | (isFinished ? 4 : 0)]
        output.append(littleEndian: granule)
        output.append(littleEndian: serial)
        output.append(littleEndian: sequence)
        output.append(littleEndian: 0 as UInt32)
        output.append(UInt8(lacing.count))
        output += lacing
        output += body
        let sum = OggChecksum.of(output, start..<output.count, skipping: start + 22)
        for k in 0..<4 { output[start + 22 + k] = UInt8(truncatingIfNeeded: sum >> UInt32(8 * k)) }
        lacing = []
        body = []
        sequence &+= 1
        isFirst = false
    }
}

extension [UInt8] {
    mutating func append<Integer: FixedWidthInteger>(littleEndian value: Integer) {
        for k in 0..<Integer.bitWidth / 8 { append(UInt8(truncatingIfNeeded: value >> (8 * k))) }
    }

    mutating func append<Integer: FixedWidthInteger>(bigEndian value: Integer) {
        for k in (0..<Integer.bitWidth / 8).reversed() { append(UInt8(truncatingIfNeeded: value >> (8 * k))) }
    }

    /// As in a Vorbis comment header: a length in four bytes, then UTF-8.
    fileprivate mutating func append(text: String) {
        append(littleEndian: UInt32(text.utf8.count))
        self += Array(text.utf8)
    }
}
