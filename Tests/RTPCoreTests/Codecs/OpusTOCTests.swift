import COpus
import RTPCore
import RelayTesting
import Testing

@Suite("Opus TOC")
struct OpusTOCTests {
    static let file = VectorFile("opus")
    static func read(_ bytes: [UInt8]) -> OpusTOC? { OpusTOC(bytes.span) }
    static let bandwidths: [String: OpusTOC.Bandwidth] = [
        "NB": .narrow, "MB": .medium, "WB": .wide, "SWB": .superWide, "FB": .full,
    ]
    static let modes: [String: OpusTOC.Mode] = ["SILK": .silk, "Hybrid": .hybrid, "CELT": .celt]

    @Test("config, code and frame count of every TOC byte")
    func fields() throws {
        for row in Self.file.rows() {
            let toc = try #require(Self.read(row.bytes), "\(row)")
            #expect(Int(toc.config) == row["config"].integer, "\(row)")
            #expect(toc.isStereo == row["stereo"].bool, "\(row)")
            #expect(Int(toc.code) == row["code"].integer, "\(row)")
            #expect(toc.frameCount == row["frames"].integer, "\(row)")
        }
    }

    @Test("mode and bandwidth of every TOC byte")
    func modeAndBandwidth() throws {
        for row in Self.file.rows() {
            let toc = try #require(Self.read(row.bytes), "\(row)")
            #expect(toc.mode == Self.modes[row["mode"].string ?? ""], "\(row)")
            #expect(toc.bandwidth == Self.bandwidths[row["bandwidth"].string ?? ""], "\(row)")
        }
    }

    @Test("frame and packet durations of every TOC byte")
    func durations() throws {
        for row in Self.file.rows() {
            let toc = try #require(Self.read(row.bytes), "\(row)")
            #expect(Double(toc.frameDuration.microseconds) / 1_000 == row["frame_ms"].number, "\(row)")
            #expect(Double(toc.duration.microseconds) / 1_000 == row["duration_ms"].number, "\(row)")
            #expect(Int(toc.timestampUnits) == row["samples_48k"].integer, "\(row)")
        }
    }

    @Test("libopus gives the same frames, samples, bandwidth and channels")
    func libopus() throws {
        let bandwidths: [OpusTOC.Bandwidth: Int32] = [
            .narrow: OPUS_BANDWIDTH_NARROWBAND, .medium: OPUS_BANDWIDTH_MEDIUMBAND,
            .wide: OPUS_BANDWIDTH_WIDEBAND,
            .superWide: OPUS_BANDWIDTH_SUPERWIDEBAND, .full: OPUS_BANDWIDTH_FULLBAND,
        ]
        for row in Self.file.rows() {
            let bytes = row.bytes
            let toc = try #require(Self.read(bytes), "\(row)")
            #expect(opus_packet_get_nb_frames(bytes, Int32(bytes.count)) == Int32(toc.frameCount), "\(row)")
            let samples = opus_packet_get_nb_samples(bytes, Int32(bytes.count), 48_000)
            #expect(samples == Int32(toc.timestampUnits), "\(row)")
            #expect(opus_packet_get_bandwidth(bytes) == bandwidths[toc.bandwidth], "\(row)")
            #expect(opus_packet_get_nb_channels(bytes) == (toc.isStereo ? 2 : 1), "\(row)")
        }
    }

    @Test("libopus and we refuse the same frame counts of code 3")
    func libopusCodeThree() {
        for config in UInt8(0)..<32 {
            for count in UInt8(0)..<64 {
                let bytes = [config << 3 | 3, count]
                let samples = opus_packet_get_nb_samples(bytes, 2, 48_000)
                // libopus answers 0 samples for 0 frames, which no packet may have.
                #expect((samples > 0) == (Self.read(bytes) != nil), "\(hexText(bytes))")
            }
        }
    }

    @Test("a packet that is no Opus packet is refused", arguments: file.rows("unparsable"))
    func unparsable(_ row: VectorRow) {
        #expect(Self.read(row.bytes) == nil)
    }

    @Test(
        "a TOC with at most one byte behind it is discontinuous transmission, Chrome's coded silence is not")
    func discontinuousTransmission() {
        #expect(Self.read([0x78])?.isDTX == true)
        #expect(Self.read([0x78, 0x0B])?.isDTX == true)
        #expect(Self.read([0xF8, 0xFF, 0xFE])?.isDTX == false)
        #expect(Self.read([0xFB, 0x01])?.isDTX == false)
    }

    @Test("every prefix and every changed byte is read without a trap")
    func mutations() {
        for row in Self.file.rows() + Self.file.rows("unparsable") {
            let count = readEveryMutation(of: row.bytes) { bytes in
                guard let toc = Self.read(bytes) else { return }
                #expect(toc.duration <= .milliseconds(120))
            }
            #expect(count >= 1)
        }
    }
}
