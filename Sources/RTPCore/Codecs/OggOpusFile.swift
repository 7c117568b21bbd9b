/// Why bytes are no Ogg Opus file that can be played.
public struct OggOpusRefusal: Error, Hashable, Sendable {
    public var detail: String
    /// Where it shows.
    public var offset: Int
}

/// The Opus packets of a whole Ogg file, as `OggOpusReader` reads them: for files of an operator's, read at the start. Never traps;
/// allocates no more than a few times the file's own size.
public enum OggOpusFile {
    /// All audio packets, in order. Empty where the file has none.
    public static func packets(_ file: [UInt8]) throws(OggOpusRefusal) -> [[UInt8]] {
        var reader = OggOpusReader()
        reader.append(file)
        var packets: [[UInt8]] = []
        while let packet = try reader.next() { packets.append(packet) }
        try reader.finish()
        return packets
    }
}
