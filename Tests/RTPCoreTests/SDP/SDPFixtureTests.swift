import RTPCore
import Testing

@Suite("SDP reader and writer: recorded descriptions")
struct SDPFixtureTests {
    @Test("every recorded description is read, with mids and credentials", arguments: recordedSDPNames)
    func read(name: String) throws {
        let description = try SessionDescription(parsing: try recordedSDP(name))
        #expect(
            description.media.count == (name.contains("datachannel") && !name.contains("libdata") ? 1 : 2))
        #expect(description.bundle?.mids == description.media.compactMap(\.mid))
        for media in description.media {
            #expect(media.transport.iceUfrag != nil)
            #expect(media.transport.icePassword != nil)
            #expect(media.transport.setup != nil)
            #expect(!media.transport.fingerprints.isEmpty || !description.transport.fingerprints.isEmpty)
        }
    }

    @Test("a recorded description reads the same with LF as with CRLF", arguments: recordedSDPNames)
    func lineEndings(name: String) throws {
        let crlf = try recordedSDP(name)
        let lf = crlf.filter { $0 != 0x0D }
        #expect(lf.count < crlf.count)
        #expect(try SessionDescription(parsing: lf) == SessionDescription(parsing: crlf))
    }

    @Test("what was read and written reads the same again", arguments: recordedSDPNames)
    func roundTrip(name: String) throws {
        var first = try SessionDescription(parsing: try recordedSDP(name))
        var second = try SessionDescription(parsing: first.serialized())
        for index in first.media.indices {
            first.media[index].line = 0
            second.media[index].line = 0
        }
        #expect(first == second)
    }

    @Test("Chromium's video section has its codecs, extensions and sources")
    func chromium() throws {
        let media = try SessionDescription(parsing: try recordedSDP("chromium-plain")).media[1]
        #expect(media.codecs.count == 23)
        #expect(media.codecs[0].feedback == ["goog-remb", "transport-cc", "ccm fir", "nack", "nack pli"])
        #expect(media.codecs[1].parameter("apt") == "96")
        #expect(media.extensions.count == 11)
        #expect(media.sources.map(\.ssrc) == [1_979_478_781, 1_444_673_223])
        #expect(media.sourceGroups[0].ssrcs == [1_979_478_781, 1_444_673_223])
        #expect(media.hasRTCPMux && media.hasReducedSizeRTCP)
    }

    @Test("Firefox's fingerprint stands at session level and its mixed extensions at media level")
    func firefox() throws {
        let description = try SessionDescription(parsing: try recordedSDP("firefox-p2p-offer"))
        #expect(description.transport.fingerprints.count == 1)
        #expect(description.media.allSatisfy { $0.transport.fingerprints.isEmpty })
        #expect(!description.transport.allowsMixedExtensions)
        #expect(description.media.map(\.transport.allowsMixedExtensions) == [true, true])
        #expect(description.media[0].extensions[1].direction == .recvonly)
    }

    @Test("aiortc lists one certificate under three hash functions")
    func aiortc() throws {
        let description = try SessionDescription(parsing: try recordedSDP("aiortc-p2p-offer"))
        #expect(description.media[0].transport.fingerprints.map(\.bytes.count) == [32, 48, 64])
    }

    @Test("GStreamer's bundle-only section has port 0 and is no refusal")
    func gstreamer() throws {
        let media = try SessionDescription(parsing: try recordedSDP("gst-p2p-offer")).media[1]
        #expect(media.port == 0 && media.isBundleOnly && !media.isRejected && media.hasRTCPMuxOnly)
    }

    @Test(
        "every prefix of a real offer is read or refused",
        arguments: ["gst-sfu-offer", "libdatachannel-sfu-offer", "chromium-datachannel"])
    func prefixes(name: String) throws {
        let bytes = try recordedSDP(name)
        var readCount = 0
        for length in 0...bytes.count where sdpError(Array(bytes[..<length])) == nil { readCount += 1 }
        #expect(readCount > 0 && readCount < bytes.count)
    }

    @Test("ten thousand mutated offers are read or refused, with what was read within the limits")
    func mutations() throws {
        var random = RandomSource.seeded(0x5D9)
        let seeds = try ["chromium-datachannel", "libdatachannel-sfu-offer", "gst-sfu-offer"]
            .map { try recordedSDP($0) }
        var outcomes = [true: 0, false: 0]
        for round in 0..<10_000 {
            let bytes = mutated(seeds[round % seeds.count], &random)
            guard let description = try? SessionDescription(parsing: bytes) else {
                outcomes[false, default: 0] += 1
                continue
            }
            outcomes[true, default: 0] += 1
            #expect(description.media.count <= SDPLimits.mediaCount)
        }
        #expect(outcomes[true]! > 1_000 && outcomes[false]! > 1_000)
    }

    /// One to four changes: a byte replaced, a stretch removed or repeated, a line doubled or dropped.
    private func mutated(_ original: [UInt8], _ random: inout RandomSource) -> [UInt8] {
        var bytes = original
        for _ in 0..<Int.random(in: 1...4, using: &random) where !bytes.isEmpty {
            let at = Int.random(in: 0..<bytes.count, using: &random)
            let end = min(bytes.count, at + Int.random(in: 1...40, using: &random))
            switch Int.random(in: 0..<6, using: &random) {
            case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes[at] = [0x0A, 0x0D, 0x00, 0x20, 0x3A, 0x2F, 0x39].randomElement(using: &random) ?? 0
            case 2: bytes.removeSubrange(at..<end)
            case 3: bytes.insert(contentsOf: bytes[at..<end], at: end)
            case 4: bytes.insert(contentsOf: Array("\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n".utf8), at: at)
            default: bytes.insert(contentsOf: Array("99999999999999999999".utf8), at: at)
            }
        }
        return bytes
    }
}
