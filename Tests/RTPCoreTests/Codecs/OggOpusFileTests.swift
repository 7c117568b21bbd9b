import RTPCore
import Testing

/// An Ogg Opus file as RFC 3533 and RFC 7845 describe it, page by page.
struct OggWriter {
    private(set) var bytes: [UInt8] = []
    private(set) var pageStarts: [Int] = []
    var serial: UInt32 = 7
    private var sequence: UInt32 = 0

    static func head(channels: UInt8 = 1, family: UInt8 = 0) -> [UInt8] {
        Array("OpusHead".utf8) + [1, channels, 0x38, 0x01, 0x80, 0xBB, 0, 0, 0, 0, family]
    }
    static let tags = Array("OpusTags".utf8) + [0, 0, 0, 0, 0, 0, 0, 0]

    init() {}

    /// A whole file: the headers on pages of their own, then the packets, `perPage` together.
    init(_ packets: [[UInt8]], perPage: Int = 5, channels: UInt8 = 1) {
        page([Self.head(channels: channels)], flags: 2)
        page([Self.tags])
        for start in stride(from: 0, to: packets.count, by: perPage) {
            page(Array(packets[start..<min(start + perPage, packets.count)]))
        }
    }

    /// `isCut`: the last packet goes on in the next page; it must be a multiple of 255 bytes.
    mutating func page(_ packets: [[UInt8]], flags: UInt8 = 0, isCut: Bool = false) {
        var lacing: [UInt8] = []
        for (index, packet) in packets.enumerated() {
            lacing += Array(repeating: 255, count: packet.count / 255)
            if !(isCut && index == packets.count - 1) { lacing.append(UInt8(packet.count % 255)) }
        }
        var page: [UInt8] = Array("OggS".utf8) + [0, flags] + [UInt8](repeating: 0, count: 8)
        page += Self.little(serial) + Self.little(sequence) + [0, 0, 0, 0, UInt8(lacing.count)] + lacing
        page += packets.flatMap { $0 }
        page.replaceSubrange(22..<26, with: Self.little(Self.checksum(page)))
        pageStarts.append(bytes.count)
        bytes += page
        sequence += 1
    }

    /// Bit by bit, as RFC 3533 §6 words it.
    private static func checksum(_ page: [UInt8]) -> UInt32 {
        var value: UInt32 = 0
        for byte in page {
            value ^= UInt32(byte) << 24
            for _ in 0..<8 { value = value & 0x8000_0000 != 0 ? value << 1 ^ 0x04C1_1DB7 : value << 1 }
        }
        return value
    }

    private static func little(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
}

@Suite("Ogg Opus files") struct OggOpusFileTests {
    private func refusal(_ bytes: [UInt8]) -> String? {
        do throws(OggOpusRefusal) {
            _ = try OggOpusFile.packets(bytes)
            return nil
        } catch {
            return error.detail
        }
    }

    private static let packets: [[UInt8]] = (0..<23).map { [0xF8] + [UInt8](repeating: UInt8($0), count: 10 * $0) }

    @Test("packets come out as they were put in, whatever page they stand on", arguments: [1, 5, 23])
    func packets(perPage: Int) throws {
        #expect(try OggOpusFile.packets(OggWriter(Self.packets, perPage: perPage).bytes) == Self.packets)
        #expect(try OggOpusFile.packets(OggWriter([], channels: 2).bytes).isEmpty)
    }

    @Test("a packet of exactly 255 bytes ends, and one over two pages is one")
    func lacing() throws {
        let exact = [UInt8](repeating: 0xF8, count: 255)
        #expect(try OggOpusFile.packets(OggWriter([exact, [1]]).bytes) == [exact, [1]])
        var writer = OggWriter([])
        writer.page([[0xF8, 1], exact], isCut: true)
        writer.page([[9, 9]], flags: 1)
        #expect(try OggOpusFile.packets(writer.bytes) == [[0xF8, 1], exact + [9, 9]])
    }

    @Test("what is no such file is refused in words")
    func refusals() {
        #expect(refusal([]) == "its headers are missing")
        #expect(refusal(Array("ID3 something else entirely, long enough".utf8)) == "no Ogg page")
        let file = OggWriter(Self.packets)
        #expect(refusal(Array(file.bytes.dropLast())) == "it ends within a page")
        var changed = file.bytes
        changed[changed.count - 1] ^= 1
        #expect(refusal(changed) == "a page's checksum is wrong")
        var gap = file.bytes
        gap.removeSubrange(file.pageStarts[2]..<file.pageStarts[3])
        #expect(refusal(gap) == "page 2 is missing")
        var vorbis = OggWriter()
        vorbis.page([[1] + Array("vorbis and more that it needs".utf8)], flags: 2)
        #expect(refusal(vorbis.bytes) == "not an Opus stream")
        var surround = OggWriter()
        surround.page([OggWriter.head(channels: 6, family: 1)], flags: 2)
        #expect(refusal(surround.bytes) == "more channels than two")
        var bare = OggWriter()
        bare.page([OggWriter.head()], flags: 2)
        bare.page([[0xF8, 1]])
        #expect(refusal(bare.bytes) == "its comment header is missing")
        var chained = OggWriter(Self.packets)
        chained.serial = 8
        chained.page([[0xF8]])
        #expect(refusal(chained.bytes) == "a second logical stream begins")
        var torn = OggWriter([])
        torn.page([[9, 9]], flags: 1)
        #expect(refusal(torn.bytes) == "a packet does not go on where it should")
    }

    @Test("no prefix and no changed byte of a file traps")
    func hostile() {
        let bytes = OggWriter(Array(Self.packets.prefix(6)), perPage: 2).bytes
        for count in 0..<bytes.count { _ = refusal(Array(bytes.prefix(count))) }
        var refused = 0
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 0xFF
            if refusal(changed) != nil { refused += 1 }
        }
        #expect(refused == bytes.count, "every byte stands under a checksum")
    }
}
