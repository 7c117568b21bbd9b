import RTPCore
import Testing

@Suite("Ogg Opus recordings") struct OggOpusWriterTests {
    /// Page by page: flags, granule position, segments, bytes of the body.
    private struct Page {
        var flags: UInt8
        var granule: Int64
        var segments: [UInt8]
        var body: [UInt8]
    }

    private func pages(_ bytes: [UInt8]) -> [Page] {
        var pages: [Page] = []
        var at = 0
        while at + 27 <= bytes.count {
            let count = Int(bytes[at + 26])
            let segments = Array(bytes[at + 27..<at + 27 + count])
            let start = at + 27 + count
            let end = start + segments.reduce(0) { $0 + Int($1) }
            let granule = (0..<8).reduce(Int64(0)) { $0 | Int64(bytes[at + 6 + $1]) << Int64(8 * $1) }
            pages.append(
                Page(flags: bytes[at + 5], granule: granule, segments: segments, body: Array(bytes[start..<end])))
            at = end
        }
        return pages
    }

    /// CELT, full band, 20 ms.
    private func packet(_ number: Int, byteCount: Int = 60) -> [UInt8] {
        [0xF8] + (1..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* number) }
    }

    @Test("what was written is read again, packet by packet, whatever their sizes")
    func roundTrip() throws {
        var writer = OggOpusWriter(serial: 9, channels: 1, comments: ["TITLE=test"])
        let packets = (0..<700).map { packet($0, byteCount: [3, 255, 254, 256, 510, 1_200][$0 % 6]) }
        var bytes: [UInt8] = []
        for (number, packet) in packets.enumerated() {
            writer.append(packet, samples: 960)
            if number % 50 == 49 { writer.flush() }
            bytes += writer.takeOutput()
        }
        writer.finish()
        bytes += writer.takeOutput()
        #expect(try OggOpusFile.packets(bytes) == packets)
        let pages = pages(bytes)
        #expect(pages[0].flags == 2 && pages[0].body.starts(with: "OpusHead".utf8) && pages[0].granule == 0)
        #expect(pages[1].body.starts(with: "OpusTags".utf8))
        #expect(pages.last?.flags == 4 && pages.last?.granule == 700 * 960, "the last page ends the stream")
        #expect(pages.dropFirst(2).allSatisfy { $0.granule % 960 == 0 })
    }

    @Test("what was flushed is a whole file of its own, as after the death of its writer")
    func cutOff() throws {
        var writer = OggOpusWriter(serial: 9, channels: 2, comments: [])
        for number in 0..<75 { writer.append(packet(number), samples: 960) }
        writer.flush()
        let bytes = writer.takeOutput()
        writer.append(packet(75), samples: 960)
        #expect(try OggOpusFile.packets(bytes).count == 75)
        #expect(writer.takeOutput().isEmpty, "a page that is not full waits")
    }

    @Test("time in which nothing came is told by empty frames of the same kind, so that the position is the sender's")
    func gaps() throws {
        var recording = OpusRecording(serial: 1, first: packet(0), comments: [])
        recording.append(packet(0), at: 0)
        // One lost packet, then a second of silence.
        recording.append(packet(1), at: 1_920)
        recording.append(packet(2), at: 1_920 + 48_000)
        recording.finish()
        let packets = try OggOpusFile.packets(recording.takeOutput())
        #expect(packets[1] == [0xF8], "one empty frame")
        #expect(packets[3...10].allSatisfy { $0 == [0xFB, 6] }, "120 ms each")
        #expect(packets[11] == [0xF8], "and the rest")
        #expect(recording.sampleCount == 1_920 + 48_000 + 960 && recording.gapSamples == 960 + 47_040)
        let samples = packets.reduce(0) { $0 + Int(OpusTOC($1.span)?.timestampUnits ?? 0) }
        #expect(samples == Int(recording.sampleCount))
    }

    @Test("a gap that is no multiple of a frame is made up for by the next one")
    func oddGap() {
        var recording = OpusRecording(serial: 1, first: packet(0), comments: [])
        recording.append(packet(0), at: 0)
        recording.append(packet(1), at: 960 + 700)
        #expect(recording.sampleCount == 1_920 && recording.gapSamples == 0)
        recording.append(packet(2), at: 1_920 + 1_400)
        #expect(recording.sampleCount == 3_840 && recording.gapSamples == 960)
    }

    @Test("the same sound again, and what is no Opus, is left out and counted")
    func overlap() {
        var recording = OpusRecording(serial: 1, first: packet(0), comments: [])
        recording.append(packet(0), at: 0)
        recording.append(packet(0), at: 0)
        recording.append([], at: 960)
        recording.append([0xFB], at: 960)
        #expect(recording.sampleCount == 960 && recording.unusedPackets == 3)
    }

    @Test("a stereo stream is written as one")
    func channels() {
        var recording = OpusRecording(serial: 1, first: [0xFC, 1, 2], comments: [])
        recording.append([0xFC, 1, 2], at: 0)
        recording.flush()
        #expect(pages(recording.takeOutput())[0].body[9] == 2)
    }

    @Test("the reader takes a file in pieces of any size")
    func pieces() throws {
        var writer = OggOpusWriter(serial: 3, channels: 1, comments: [])
        let packets = (0..<300).map { packet($0, byteCount: 40 + $0) }
        for packet in packets { writer.append(packet, samples: 960) }
        writer.finish()
        let bytes = writer.takeOutput()
        for size in [1, 7, 27, 1_000, 65_536] {
            var reader = OggOpusReader()
            var found: [[UInt8]] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                reader.append(Array(bytes[start..<min(start + size, bytes.count)]))
                while let packet = try reader.next() { found.append(packet) }
            }
            try reader.finish()
            #expect(found == packets)
        }
    }
}
