import RTPCore
import Testing

/// Reads EBML (RFC 8794) as far as the tests need it.
struct EBMLElement {
    var id: UInt32
    var content: ArraySlice<UInt8>

    static let masters: Set<UInt32> = [
        0x1A45_DFA3, 0x1853_8067, 0x1549_A966, 0x1654_AE6B, 0xAE, 0xE0, 0x1F43_B675, 0x1C53_BB6B, 0xBB, 0xB7,
        0x114D_9B74, 0x4DBB,
    ]

    /// The elements of `bytes` one after the other; nil where they do not end with them.
    static func read(_ bytes: ArraySlice<UInt8>) -> [EBMLElement]? {
        var elements: [EBMLElement] = []
        var at = bytes.startIndex
        while at < bytes.endIndex {
            let idWidth = bytes[at].leadingZeroBitCount + 1
            guard idWidth <= 4, at + idWidth < bytes.endIndex else { return nil }
            let id = bytes[at..<at + idWidth].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            at += idWidth
            let width = bytes[at].leadingZeroBitCount + 1
            guard width <= 8, at + width <= bytes.endIndex else { return nil }
            var size = UInt64(bytes[at] & (0xFF >> UInt8(width)))
            for byte in bytes[(at + 1)..<(at + width)] { size = size << 8 | UInt64(byte) }
            at += width
            let isUnknown = size == 1 << UInt64(7 * width) - 1
            let end = isUnknown ? bytes.endIndex : at + Int(size)
            guard end <= bytes.endIndex else { return nil }
            elements.append(EBMLElement(id: id, content: bytes[at..<end]))
            at = end
        }
        return elements
    }

    var children: [EBMLElement] { Self.read(content) ?? [] }
    subscript(id: UInt32) -> EBMLElement? { children.first { $0.id == id } }
    var unsigned: UInt64 { content.reduce(0) { $0 << 8 | UInt64($1) } }
    var text: String { String(decoding: content, as: UTF8.self) }
}

@Suite("Matroska and WebM recordings") struct MatroskaWriterTests {
    private static let size = PictureSize(width: 640, height: 360)

    private func writer(_ format: VideoFormat = .vp8, configuration: [UInt8] = []) -> MatroskaWriter {
        MatroskaWriter(format: format, size: Self.size, configuration: configuration, name: "test")
    }

    private func patched(_ bytes: [UInt8], _ patches: [MatroskaWriter.Patch]) -> [UInt8] {
        var bytes = bytes
        for patch in patches {
            bytes.replaceSubrange(patch.offset..<patch.offset + patch.bytes.count, with: patch.bytes)
        }
        return bytes
    }

    /// Frames of a file: ms, whether it is a key frame, bytes.
    private func frames(_ segment: EBMLElement) -> [(Int, Bool, [UInt8])] {
        segment.children.filter { $0.id == 0x1F43_B675 }.flatMap { cluster -> [(Int, Bool, [UInt8])] in
            let start = Int(cluster[0xE7]?.unsigned ?? 0)
            return cluster.children.filter { $0.id == 0xA3 }.map { block in
                let bytes = Array(block.content)
                let time = Int16(bitPattern: UInt16(bytes[1]) << 8 | UInt16(bytes[2]))
                return (start + Int(time), bytes[3] & 0x80 != 0, Array(bytes[4...]))
            }
        }
    }

    @Test("a finished file has its parts where it says, at their times")
    func whole() throws {
        var writer = writer()
        var bytes: [UInt8] = []
        for number in 0..<100 {
            writer.append([UInt8(number), 1, 2], isKey: number % 40 == 0, at: Int64(number) * 33)
            if number % 30 == 29 { writer.flush() }
            bytes += writer.takeOutput()
        }
        writer.finish()
        bytes = patched(bytes + writer.takeOutput(), writer.patches)
        let top = try #require(EBMLElement.read(bytes[...]))
        #expect(top.map(\.id) == [0x1A45_DFA3, 0x1853_8067])
        #expect(top[0][0x4282]?.text == "webm")
        let segment = top[1]
        let track = try #require(segment[0x1654_AE6B]?[0xAE])
        #expect(track[0x86]?.text == "V_VP8" && track[0x83]?.unsigned == 1 && track[0x63A2] == nil)
        #expect(track[0xE0]?[0xB0]?.unsigned == 640 && track[0xE0]?[0xBA]?.unsigned == 360)
        let duration = try #require(segment[0x1549_A966]?[0x4489])
        #expect(Double(bitPattern: duration.unsigned) == 100 * 33)
        let frames = frames(segment)
        #expect(frames.map(\.0) == (0..<100).map { $0 * 33 })
        #expect(frames.map { Int($0.2[0]) } == Array(0..<100))
        #expect(frames.enumerated().allSatisfy { $0.element.1 == ($0.offset % 40 == 0) })
        // Cues lead to clusters that begin with a key frame.
        let cues = try #require(segment[0x1C53_BB6B]).children
        #expect(cues.compactMap { $0[0xB3]?.unsigned } == [0, 40 * 33, 80 * 33])
        for cue in cues {
            let position = Int(try #require(cue[0xB7]?[0xF1]).unsigned)
            let cluster = try #require(EBMLElement.read(segment.content.dropFirst(position))?.first)
            #expect(cluster.id == 0x1F43_B675 && cluster[0xE7]?.unsigned == cue[0xB3]?.unsigned)
        }
        let seek = try #require(segment[0x114D_9B74]?[0x4DBB]?[0x53AC])
        #expect(EBMLElement.read(segment.content.dropFirst(Int(seek.unsigned)))?.first?.id == 0x1C53_BB6B)
    }

    @Test("what was flushed plays without the end")
    func cutOff() throws {
        var writer = writer(.av1, configuration: [0x81, 0, 0, 0])
        for number in 0..<30 { writer.append([UInt8(number)], isKey: number == 0, at: Int64(number) * 40) }
        writer.flush()
        writer.append([99], isKey: false, at: 1_300)
        let top = try #require(EBMLElement.read(writer.takeOutput()[...]))
        #expect(frames(top[1]).count == 30)
        #expect(top[1][0x1654_AE6B]?[0xAE]?[0x63A2].map { Array($0.content) } == [0x81, 0, 0, 0])
    }

    @Test("times go on over an hour's silence and never back; H.264 is Matroska")
    func times() throws {
        var writer = writer(.h264, configuration: [1])
        writer.append([1], isKey: true, at: 0)
        writer.append([2], isKey: false, at: 0)
        writer.append([3], isKey: false, at: 3_600_000)
        writer.append([4], isKey: false, at: 10)
        writer.finish()
        let top = try #require(EBMLElement.read(patched(writer.takeOutput(), writer.patches)[...]))
        #expect(top[0][0x4282]?.text == "matroska")
        #expect(frames(top[1]).map(\.0) == [0, 1, 3_600_000, 3_600_001])
    }

    @Test("a file without a picture is a file")
    func empty() throws {
        var writer = writer()
        writer.finish()
        let top = try #require(EBMLElement.read(patched(writer.takeOutput(), writer.patches)[...]))
        #expect(frames(top[1]).isEmpty && writer.duration == 0)
    }
}
