import COpus
import Glibc
import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

@Suite("Tones") struct ToneTests {
    private func tone(_ name: String) throws -> Tone { try #require(Tone.all.first { $0.name == name }) }

    private func decoded(_ sound: Sound) throws -> [Int16] {
        let decoder = try #require(opus_decoder_create(48_000, 1, nil))
        defer { opus_decoder_destroy(decoder) }
        var samples: [Int16] = []
        var block = [Int16](repeating: 0, count: 5_760)
        for packet in sound.packets {
            let count = opus_decode(decoder, packet, Int32(packet.count), &block, Int32(block.count), 0)
            samples += block[..<Int(max(0, count))]
        }
        return samples
    }

    /// How much of the samples' energy is at a frequency, 0…1 (Goertzel).
    private func share(of frequency: Double, in samples: ArraySlice<Int16>) -> Double {
        let factor = 2 * cos(2 * .pi * frequency / 48_000)
        var (one, two, energy) = (0.0, 0.0, 0.0)
        for sample in samples {
            (one, two) = (Double(sample) + factor * one - two, one)
            energy += Double(sample) * Double(sample)
        }
        guard energy > 0 else { return 0 }
        return (one * one + two * two - factor * one * two) * 2 / (Double(samples.count) * energy)
    }

    @Test("each tone decodes to its frequencies, then to silence")
    func frequencies() throws {
        for tone in Tone.all {
            let samples = try decoded(try #require(tone.sound()))
            // The middle of the first burst, behind the codec's delay.
            let burst = tone.bursts[0] * 48
            let middle = samples[burst / 4 + 312..<burst * 3 / 4 + 312]
            let found = tone.frequencies.map { share(of: $0, in: middle) }
            #expect(found.reduce(0, +) > 0.9, "\(tone.name): \(found)")
            #expect(share(of: 2_400, in: middle) < 0.01)
            let end = samples.suffix(960)
            #expect(end.allSatisfy { abs(Int($0)) < 200 }, "\(tone.name) ends in sound")
            let peak = samples.map { abs(Int($0)) }.max() ?? 0
            #expect((4_000...16_000).contains(peak), "\(tone.name): \(peak)")
        }
    }

    @Test("a cadence is whole packets of 20 ms, and its names are the contract's")
    func cadence() throws {
        for tone in Tone.all {
            let sound = try #require(tone.sound())
            #expect(sound.packets.allSatisfy { OpusTOC($0.span)?.duration == .milliseconds(20) && $0.count <= 80 })
            #expect(sound.duration >= .milliseconds(Int64(tone.bursts.reduce(0, +))))
        }
        #expect(
            Tone.all.map(\.name).prefix(6) == ["ringback", "busy", "congestion", "waiting", "recording", "warning"])
        #expect(Set(Tone.all.map(\.name)).count == 18)
        #expect(try tone("ringback").pause == .seconds(4) && tone("dtmf-0").frequencies == [941, 1_336])
    }

    @Test("the same tone is the same sound each time it is made, and no two tones are")
    func identity() throws {
        let ids = try Tone.all.map { try #require($0.sound()).id }
        #expect(try Tone.all.map { try #require($0.sound()).id } == ids && Set(ids).count == ids.count)
    }

    @Test("a burst rises and falls without a step")
    func ramps() throws {
        let samples = try tone("warning").samples
        let steps = zip(samples, samples.dropFirst()).map { abs(Int($1) - Int($0)) }
        // The steepest of a sine at 1 kHz and a quarter of full scale.
        #expect((steps.max() ?? 0) <= 1_100 && samples.first == 0 && samples.last == 0)
    }
}

@Suite("The folder of sounds") struct SoundFolderTests {
    /// A file of `count` packets, made by hand: headers, then one page for each packet.
    private func file(_ count: Int, byteCount: Int = 3) -> [UInt8] {
        var bytes: [UInt8] = []
        let head = Array("OpusHead".utf8) + [1, 1, 0, 0, 0x80, 0xBB, 0, 0, 0, 0, 0]
        let tags = Array("OpusTags".utf8) + [UInt8](repeating: 0, count: 8)
        let packets =
            [head, tags] + Array(repeating: [0xF8] + [UInt8](repeating: 1, count: byteCount - 1), count: count)
        for (sequence, packet) in packets.enumerated() {
            let lacing = Array(repeating: UInt8(255), count: packet.count / 255) + [UInt8(packet.count % 255)]
            var page: [UInt8] = Array("OggS".utf8) + [UInt8](repeating: 0, count: 10) + [7, 0, 0, 0]
            page +=
                [UInt8(sequence & 255), UInt8(sequence >> 8), 0, 0, 0, 0, 0, 0, UInt8(lacing.count)] + lacing + packet
            var checksum: UInt32 = 0
            for byte in page {
                checksum ^= UInt32(byte) << 24
                for _ in 0..<8 { checksum = checksum & 0x8000_0000 != 0 ? checksum << 1 ^ 0x04C1_1DB7 : checksum << 1 }
            }
            for index in 0..<4 { page[22 + index] = UInt8(truncatingIfNeeded: checksum >> (8 * UInt32(index))) }
            bytes += page
        }
        return bytes
    }

    private func write(_ bytes: [UInt8], _ name: String, in folder: TemporaryFolder) throws {
        let file = try #require(fopen(folder.path + "/" + name, "w"))
        defer { fclose(file) }
        #expect(fwrite(bytes, 1, bytes.count, file) == bytes.count)
    }

    @Test("without a folder there are the tones")
    func tonesOnly() {
        let (library, faults) = SoundFolder.library(folder: nil)
        #expect(library.count == Tone.all.count && faults.isEmpty)
        #expect(library[SoundName(.tone, "ringback")]?.pause == .seconds(4))
        #expect(library.names(of: .file).isEmpty)
    }

    @Test("files are known by their names; what is none of them is left out and said why")
    func files() throws {
        let folder = TemporaryFolder()
        try write(file(100), "hello.opus", in: folder)
        try write(Array("not sound".utf8), "broken.opus", in: folder)
        try write(file(2, byteCount: 1_100), "wide.opus", in: folder)
        try write(file(0), "empty.opus", in: folder)
        try write(file(3), "a b.opus", in: folder)
        try write(file(3), "other.txt", in: folder)
        let (library, faults) = SoundFolder.library(folder: folder.path)
        #expect(library.names(of: .file) == ["hello"])
        #expect(library[SoundName(.file, "hello")]?.sound.duration == .seconds(2))
        #expect(library[SoundName(.file, "hello")]?.pause == .zero)
        let said = ["a b.opus: its name", "broken.opus: it ends", "empty.opus: not 1", "wide.opus: not 1"]
        #expect(faults.count == said.count)
        for (fault, start) in zip(faults, said) { #expect(fault.hasPrefix(start), "\(fault)") }
    }

    @Test("a folder that is not there is one fault, and the tones are there")
    func noFolder() {
        let (library, faults) = SoundFolder.library(folder: "/nowhere/at/all")
        #expect(library.count == Tone.all.count && faults.count == 1)
    }

    @Test("a file beyond the bound is not read to its end")
    func tooLong() throws {
        let folder = TemporaryFolder()
        try write([UInt8](repeating: 0, count: (3 << 20) + 1), "long.opus", in: folder)
        #expect(SoundFolder.library(folder: folder.path).faults == ["long.opus: more than 3145728 bytes"])
    }
}
