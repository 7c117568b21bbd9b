import RTPCore
import Testing

@Suite("Pictures out of packets") struct FrameAssemblerTests {
    private func packet(
        _ payload: [UInt8], index: UInt64 = 0, timestamp: UInt32, marker: Bool = false
    ) -> RecordedPacket {
        RecordedPacket(
            index: index, timestamp: timestamp, marker: marker, arrival: Instant(nanoseconds: 0), payload: payload)
    }

    // VP8: descriptor (start, extended or not), then the frame's bytes.
    private static let keyHead: [UInt8] = [0x10, 0x02, 0x00, 0x9D, 0x01, 0x2A, 0x40, 0x01, 0xF0, 0x00]
    private func vp8(key: Bool, start: Bool = true, _ rest: [UInt8]) -> [UInt8] {
        (start ? [0x10] : [0x00]) + (start ? (key ? Self.keyHead : [0x11, 0, 0]) : []) + rest
    }

    @Test("VP8: a picture is the payloads without descriptors; only from a key frame on; it says its size")
    func vp8() throws {
        var assembler = FrameAssembler(format: .vp8)
        #expect(assembler.append(packet(vp8(key: false, [1]), timestamp: 1, marker: true)).isEmpty)
        #expect(assembler.append(packet(vp8(key: true, [1, 2]), timestamp: 2)).isEmpty)
        let key = try #require(
            assembler.append(packet(vp8(key: true, start: false, [3]), timestamp: 2, marker: true)).first)
        #expect(key.isKey && key.bytes == Self.keyHead + [1, 2, 3])
        #expect(key.size == PictureSize(width: 320, height: 240))
        let next = assembler.append(packet(vp8(key: false, [9]), timestamp: 3, marker: true))
        #expect(next.map(\.isKey) == [false] && assembler.unusedFrames == 1)
    }

    @Test("a hole costs the pictures up to the next key frame")
    func hole() {
        var assembler = FrameAssembler(format: .vp8)
        _ = assembler.append(packet(vp8(key: true, [1]), timestamp: 1, marker: true))
        _ = assembler.append(packet(vp8(key: false, [1]), timestamp: 2))
        assembler.noteGap()
        #expect(assembler.awaitsKeyFrame)
        #expect(assembler.append(packet(vp8(key: false, start: false, [2]), timestamp: 2, marker: true)).isEmpty)
        #expect(assembler.append(packet(vp8(key: false, [3]), timestamp: 3, marker: true)).isEmpty)
        #expect(assembler.append(packet(vp8(key: true, [4]), timestamp: 4, marker: true)).count == 1)
        #expect(assembler.unusedFrames == 3 && !assembler.awaitsKeyFrame)
    }

    @Test("a picture whose marker is missing ends where the next one begins")
    func noMarker() {
        var assembler = FrameAssembler(format: .vp8)
        #expect(assembler.append(packet(vp8(key: true, [1]), timestamp: 1)).isEmpty)
        #expect(assembler.append(packet(vp8(key: false, [2]), timestamp: 2, marker: true)).count == 2)
    }

    @Test("VP9: spatial layers of one picture get an index behind them")
    func vp9() throws {
        // A key frame of profile 0, 640 × 360: marker 2, sync code, no RGB, the size in 16 bits each.
        var bits = BitWriter()
        for (value, count) in [
            (2, 2), (0, 2), (0, 1), (0, 1), (1, 1), (0, 1), (0x49_8342, 24), (1, 3), (0, 1), (639, 16), (359, 16),
        ] {
            bits.append(value, count)
        }
        let head = bits.bytes
        var assembler = FrameAssembler(format: .vp9)
        // B, E; not predicted: a key frame. Then a second layer: L, B, E, SID 1.
        _ = assembler.append(packet([0x2C, 0x00, 0x01] + head, timestamp: 1))
        let frame = try #require(
            assembler.append(packet([0x2C, 0x03, 0x01, 7, 8, 9], timestamp: 1, marker: true)).first)
        #expect(frame.isKey && frame.size == PictureSize(width: 640, height: 360))
        #expect(Array(frame.bytes.prefix(head.count)) == head)
        let marker = UInt8(0xC0 | 3 << 3 | 1)
        let index: [UInt8] = [marker, UInt8(head.count), 0, 0, 0, 3, 0, 0, 0, marker]
        #expect(Array(frame.bytes.suffix(10)) == index && frame.bytes.count == head.count + 3 + 10)
        let single = assembler.append(packet([0x4C, 1, 2], timestamp: 2, marker: true))
        #expect(single.first?.bytes == [1, 2], "one layer has no index")
    }

    /// Constrained baseline, 320 × 240.
    private static let sps: [UInt8] = [
        0x67, 0x42, 0xE0, 0x1F, 0x8C, 0x8D, 0x40, 0xA0, 0xFD, 0x00, 0xF0, 0x88, 0x45, 0x38,
    ]
    private static let pps: [UInt8] = [0x68, 0xCE, 0x3C, 0x80]

    @Test("H.264: NAL units get their lengths, fragments are joined, parameter sets go into the configuration")
    func h264() throws {
        var assembler = FrameAssembler(format: .h264)
        let aggregate: [UInt8] =
            [0x78, 0, UInt8(Self.sps.count)] + Self.sps + [0, UInt8(Self.pps.count)] + Self.pps
        #expect(assembler.append(packet(aggregate, timestamp: 1)).isEmpty)
        #expect(assembler.append(packet([0x7C, 0x85, 0xAA, 0xBB], timestamp: 1)).isEmpty)
        let frame = try #require(assembler.append(packet([0x7C, 0x45, 0xCC], timestamp: 1, marker: true)).first)
        let lengths: (Int) -> [UInt8] = { [0, 0, 0, UInt8($0)] }
        #expect(
            frame.bytes == lengths(Self.sps.count) + Self.sps + lengths(4) + Self.pps + lengths(4) + [
                0x65, 0xAA, 0xBB, 0xCC,
            ])
        #expect(frame.isKey && frame.size != nil)
        #expect(frame.configuration.prefix(6) == [1, 0x42, 0xE0, 0x1F, 0xFF, 0xE1])
        let next = assembler.append(packet([0x41, 1, 2], timestamp: 2, marker: true))
        #expect(next.first?.bytes == [0, 0, 0, 3, 0x41, 1, 2] && next.first?.isKey == false)
        // A fragment whose beginning is missing is no picture.
        #expect(assembler.append(packet([0x7C, 0x41, 1], timestamp: 3, marker: true)).isEmpty)
    }

    @Test("AV1: OBUs get their sizes, fragments are joined, delimiters are left out")
    func av1() throws {
        // A sequence header of a still picture's short form: profile 0, level 8, 16 bits for each side.
        var bits = BitWriter()
        for (value, count) in [
            (0, 3), (1, 1), (1, 1), (8, 5), (15, 4), (15, 4), (639, 16), (359, 16), (0, 3), (0, 3), (0, 1), (0, 1),
            (0, 1),
            (0, 1), (0, 2), (0, 1), (0, 1), (1, 1),
        ] { bits.append(value, count) }
        let sequence = [0x08] + bits.bytes
        var assembler = FrameAssembler(format: .av1)
        // N, two elements: the sequence header with its size, the beginning of a frame; then its end.
        let first: [UInt8] = [0x68, UInt8(sequence.count)] + sequence + [0x30, 1, 2]
        #expect(assembler.append(packet(first, timestamp: 1)).isEmpty)
        let frame = try #require(assembler.append(packet([0x90, 3, 4], timestamp: 1, marker: true)).first)
        let sized: [UInt8] = [0x0A, UInt8(sequence.count - 1)] + sequence.dropFirst()
        #expect(frame.bytes == sized + [0x32, 4, 1, 2, 3, 4])
        #expect(frame.isKey && frame.size == PictureSize(width: 640, height: 360))
        #expect(frame.configuration == [0x81, 8, 0x0C, 0] + sized)
        #expect(assembler.append(packet([0x90, 3, 4], timestamp: 2, marker: true)).isEmpty, "it continues nothing")
    }

    @Test("no bytes trap, whatever they are taken for", arguments: VideoFormat.allCases)
    func hostile(format: VideoFormat) {
        var random = RandomSource.seeded(UInt64(format.rawValue) + 5)
        var assembler = FrameAssembler(format: format)
        var count = 0
        for number in 0..<20_000 {
            let payload = (0..<Int.random(in: 0..<40, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            if number % 97 == 0 { assembler.noteGap() }
            count += assembler.append(packet(payload, timestamp: UInt32(number / 3), marker: number % 3 == 2)).count
        }
        #expect(count <= 20_000)
    }
}

/// Bits, the highest of each byte first.
private struct BitWriter {
    private(set) var bytes: [UInt8] = []
    private var count = 0

    mutating func append(_ value: Int, _ width: Int) {
        for bit in (0..<width).reversed() {
            if count % 8 == 0 { bytes.append(0) }
            bytes[count / 8] |= UInt8(value >> bit & 1) << UInt8(7 - count % 8)
            count += 1
        }
    }
}
