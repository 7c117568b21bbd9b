/// Takes the packets out of an Ogg Opus stream (RFC 3533, RFC 7845) as its bytes come: pages with checksums, one logical stream, an
/// identification header, a comment header, then packets, each of one or more pages' segments. Chained streams, several at once and
/// channel mappings beside mono and stereo are refused. Never traps; holds no more than what was given to it and not taken.
public struct OggOpusReader: Sendable {
    private static let headByteCount = 27

    private var buffer: [UInt8] = []
    private var at = 0
    /// Offset in the stream of the buffer's first byte.
    private var base = 0
    private var serial: UInt32?
    private var sequence: UInt32 = 0
    private var open: [UInt8] = []
    private var isOpen = false
    private var packets: [[UInt8]] = []
    private var nextPacket = 0
    private var headerCount = 0

    public init() {}

    public mutating func append(_ bytes: [UInt8]) {
        buffer.removeFirst(at)
        base += at
        at = 0
        buffer += bytes
    }

    /// The next audio packet; nil: more bytes are needed.
    public mutating func next() throws(OggOpusRefusal) -> [UInt8]? {
        while nextPacket == packets.count {
            packets.removeAll(keepingCapacity: true)
            nextPacket = 0
            guard try readPage() else { return nil }
        }
        nextPacket += 1
        return packets[nextPacket - 1]
    }

    /// Throws where the bytes so far are no whole stream.
    public func finish() throws(OggOpusRefusal) {
        guard at == buffer.count else { throw OggOpusRefusal(detail: "it ends within a page", offset: base + at) }
        guard headerCount == 2 else { throw OggOpusRefusal(detail: "its headers are missing", offset: base + at) }
    }

    /// False: it has not come whole.
    private mutating func readPage() throws(OggOpusRefusal) -> Bool {
        guard at < buffer.count, let page = try Page(buffer, at: at, offset: base + at) else { return false }
        let offset = base + at
        guard serial == nil || page.serial == serial else {
            throw OggOpusRefusal(detail: "a second logical stream begins", offset: offset)
        }
        guard page.sequence == sequence else {
            throw OggOpusRefusal(detail: "page \(sequence) is missing", offset: offset)
        }
        guard page.continuesPacket == isOpen else {
            throw OggOpusRefusal(detail: "a packet does not go on where it should", offset: offset)
        }
        serial = page.serial
        sequence &+= 1
        var from = page.bodyOffset
        for lacing in buffer[page.lacing] {
            open += buffer[from..<from + Int(lacing)]
            from += Int(lacing)
            // A segment of 255 bytes goes on in the next one.
            isOpen = lacing == 255
            guard !isOpen else { continue }
            try take(open, offset: offset)
            open = []
        }
        at = page.end
        return true
    }

    private mutating func take(_ packet: [UInt8], offset: Int) throws(OggOpusRefusal) {
        switch headerCount {
        case 0:
            // RFC 7845 §5.1: magic, version, channels, pre-skip, rate, gain, mapping family.
            guard packet.count >= 19, packet.starts(with: "OpusHead".utf8), packet[8] & 0xF0 == 0 else {
                throw OggOpusRefusal(detail: "not an Opus stream", offset: offset)
            }
            guard packet[18] == 0, (1...2).contains(packet[9]) else {
                throw OggOpusRefusal(detail: "more channels than two", offset: offset)
            }
            headerCount = 1
        case 1:
            guard packet.starts(with: "OpusTags".utf8) else {
                throw OggOpusRefusal(detail: "its comment header is missing", offset: offset)
            }
            headerCount = 2
        default: packets.append(packet)
        }
    }

    /// One page's head (RFC 3533 §6).
    private struct Page {
        let serial: UInt32
        let sequence: UInt32
        let continuesPacket: Bool
        let lacing: Range<Int>
        let bodyOffset: Int
        let end: Int

        /// Nil: it has not come whole.
        init?(_ bytes: [UInt8], at start: Int, offset: Int) throws(OggOpusRefusal) {
            func refuse(_ detail: String) -> OggOpusRefusal { OggOpusRefusal(detail: detail, offset: offset) }
            guard bytes.count - start >= OggOpusReader.headByteCount else { return nil }
            guard bytes[start...].starts(with: "OggS".utf8), bytes[start + 4] == 0 else { throw refuse("no Ogg page") }
            func word(_ offset: Int) -> UInt32 {
                (0..<4).reduce(0) { $0 | UInt32(bytes[start + offset + $1]) << UInt32(8 * $1) }
            }
            continuesPacket = bytes[start + 5] & 1 != 0
            serial = word(14)
            sequence = word(18)
            let segmentCount = Int(bytes[start + 26])
            lacing = start + OggOpusReader.headByteCount..<start + OggOpusReader.headByteCount + segmentCount
            guard bytes.count >= lacing.upperBound else { return nil }
            bodyOffset = lacing.upperBound
            end = bytes[lacing].reduce(bodyOffset) { $0 + Int($1) }
            guard bytes.count >= end else { return nil }
            guard OggChecksum.of(bytes, start..<end, skipping: start + 22) == word(22) else {
                throw refuse("a page's checksum is wrong")
            }
        }
    }
}
