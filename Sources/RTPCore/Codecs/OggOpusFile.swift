/// Why bytes are no Ogg Opus file that can be played.
public struct OggOpusRefusal: Error, Hashable, Sendable {
    public var detail: String
    /// Where it shows.
    public var offset: Int
}

/// The Opus packets of an Ogg file (RFC 3533, RFC 7845): pages with checksums, one logical stream, an identification
/// header, a comment header, then packets, each of one or more pages' segments. For files of an operator's, read at the
/// start: chained streams, several streams at once and channel mappings beside mono and stereo are refused. Never traps;
/// allocates no more than the file's own size.
public enum OggOpusFile {
    private static let headByteCount = 27

    /// All audio packets, in order. Empty where the file has none.
    public static func packets(_ file: [UInt8]) throws(OggOpusRefusal) -> [[UInt8]] {
        var packets: [[UInt8]] = []
        var open: [UInt8] = []
        var isOpen = false
        var at = 0
        var serial: UInt32?
        var sequence: UInt32 = 0
        while at < file.count {
            let page = try Page(file, at: at)
            guard serial == nil || page.serial == serial else {
                throw OggOpusRefusal(detail: "a second logical stream begins", offset: at)
            }
            guard page.sequence == sequence else {
                throw OggOpusRefusal(detail: "page \(sequence) is missing", offset: at)
            }
            guard page.continuesPacket == isOpen else {
                throw OggOpusRefusal(detail: "a packet does not go on where it should", offset: at)
            }
            serial = page.serial
            sequence &+= 1
            var from = page.bodyOffset
            for lacing in file[page.lacing] {
                open += file[from..<from + Int(lacing)]
                from += Int(lacing)
                // A segment of 255 bytes goes on in the next one.
                isOpen = lacing == 255
                guard !isOpen else { continue }
                try add(open, to: &packets, offset: at)
                open = []
            }
            at = page.end
        }
        guard packets.count >= 2 else { throw OggOpusRefusal(detail: "its headers are missing", offset: file.count) }
        return Array(packets[2...])
    }

    private static func add(_ packet: [UInt8], to packets: inout [[UInt8]], offset: Int) throws(OggOpusRefusal) {
        switch packets.count {
        case 0:
            // RFC 7845 §5.1: magic, version, channels, pre-skip, rate, gain, mapping family.
            guard packet.count >= 19, packet.starts(with: "OpusHead".utf8), packet[8] & 0xF0 == 0 else {
                throw OggOpusRefusal(detail: "not an Opus stream", offset: offset)
            }
            guard packet[18] == 0, (1...2).contains(packet[9]) else {
                throw OggOpusRefusal(detail: "more channels than two", offset: offset)
            }
        case 1:
            guard packet.starts(with: "OpusTags".utf8) else {
                throw OggOpusRefusal(detail: "its comment header is missing", offset: offset)
            }
        default: break
        }
        packets.append(packet)
    }

    /// One page's head (RFC 3533 §6).
    private struct Page {
        let serial: UInt32
        let sequence: UInt32
        let continuesPacket: Bool
        let lacing: Range<Int>
        let bodyOffset: Int
        let end: Int

        init(_ file: [UInt8], at start: Int) throws(OggOpusRefusal) {
            func refuse(_ detail: String) -> OggOpusRefusal { OggOpusRefusal(detail: detail, offset: start) }
            guard file.count - start >= OggOpusFile.headByteCount else { throw refuse("it ends within a page") }
            guard file[start...].starts(with: "OggS".utf8), file[start + 4] == 0 else { throw refuse("no Ogg page") }
            func word(_ offset: Int) -> UInt32 {
                (0..<4).reduce(0) { $0 | UInt32(file[start + offset + $1]) << UInt32(8 * $1) }
            }
            continuesPacket = file[start + 5] & 1 != 0
            serial = word(14)
            sequence = word(18)
            let segmentCount = Int(file[start + 26])
            lacing = start + OggOpusFile.headByteCount..<start + OggOpusFile.headByteCount + segmentCount
            guard file.count >= lacing.upperBound else { throw refuse("it ends within a page") }
            bodyOffset = lacing.upperBound
            end = file[lacing].reduce(bodyOffset) { $0 + Int($1) }
            guard file.count >= end else { throw refuse("it ends within a page") }
            guard OggOpusFile.checksum(file, start..<end, skipping: start + 22) == word(22) else {
                throw refuse("a page's checksum is wrong")
            }
        }
    }

    /// RFC 3533's: polynomial 0x04C11DB7, no reflection, from 0; the field itself counts as 0.
    private static func checksum(_ file: [UInt8], _ range: Range<Int>, skipping field: Int) -> UInt32 {
        var value: UInt32 = 0
        for at in range {
            let byte = (field..<field + 4).contains(at) ? 0 : file[at]
            value = value << 8 ^ table[Int(UInt8(truncatingIfNeeded: value >> 24) ^ byte)]
        }
        return value
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index) << 24) { value, _ in
            value & 0x8000_0000 != 0 ? value << 1 ^ 0x04C1_1DB7 : value << 1
        }
    }
}
