import RTPCore
import Testing

@Suite("SDP writer")
struct SDPWriterTests {
    private func lines(_ bytes: [UInt8]) -> [String] {
        bytes.split(separator: 0x0A).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("every line ends in CRLF")
    func endings() throws {
        let bytes = try SessionDescription(parsing: try recordedSDP("chromium-plain")).serialized()
        #expect(bytes.last == 0x0A)
        #expect(lines(bytes).allSatisfy { $0.hasSuffix("\r") })
    }

    @Test("the lines before the attributes are those that RFC 8866 asks for, in its order")
    func header() {
        var description = SessionDescription()
        description.sessionID = 42
        description.sessionVersion = 1
        let written = lines(description.serialized())
        #expect(written == ["v=0\r", "o=- 42 1 IN IP4 127.0.0.1\r", "s=-\r", "t=0 0\r"])
    }

    @Test("a fingerprint is written in upper-case hex with colons")
    func fingerprint() {
        var description = SessionDescription()
        description.transport.fingerprints = [
            SessionDescription.Fingerprint(algorithm: "sha-256", bytes: [0x00, 0x0A, 0xFF, 0x9C])
        ]
        #expect(lines(description.serialized()).contains("a=fingerprint:sha-256 00:0A:FF:9C\r"))
    }

    @Test("a source without a CNAME is not written")
    func sourceWithoutCNAME() {
        var description = SessionDescription()
        var media = SessionDescription.Media(
            kind: "audio", port: 9, transportProtocol: "UDP/TLS/RTP/SAVPF", formats: ["0"])
        media.sources = [
            SessionDescription.Source(ssrc: 1, cname: nil), SessionDescription.Source(ssrc: 2, cname: "c"),
        ]
        description.media = [media]
        #expect(lines(description.serialized()).filter { $0.hasPrefix("a=ssrc") } == ["a=ssrc:2 cname:c\r"])
    }
}

@Suite("Trickle fragments")
struct TrickleFragmentTests {
    private func fragment(_ lines: String...) throws(SDPError) -> TrickleFragment {
        try TrickleFragment(parsing: sdpBytes(lines))
    }

    @Test("credentials are found below the m-line")
    func mediaLevel() throws {
        let read = try fragment(
            "a=group:BUNDLE 0 1", "m=audio 9 RTP/AVP 0", "a=mid:0", "a=ice-ufrag:ysXw",
            "a=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k",
            "a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag EsAw",
            "a=end-of-candidates")
        #expect(read.iceUfrag == "ysXw")
        #expect(read.icePassword == "vw5LmwG4y/e6dPP/zAP9Gp5k")
        #expect(read.content.media[0].mid == "0")
        #expect(read.content.media[0].candidates.count == 1)
    }

    @Test("credentials are found at session level, without any m-line")
    func sessionLevel() throws {
        let read = try fragment("a=ice-ufrag:EsAw", "a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1")
        #expect(read.iceUfrag == "EsAw")
        #expect(read.content.media.isEmpty)
    }

    @Test("a user fragment without a password is no pair of credentials")
    func half() throws {
        let read = try fragment("a=ice-ufrag:EsAw")
        #expect(read.iceUfrag == nil)
    }

    @Test("fingerprints of both levels are listed")
    func fingerprints() throws {
        let line = "a=fingerprint:sha-256 " + Array(repeating: "0B", count: 32).joined(separator: ":")
        let read = try fragment(line, "m=audio 9 RTP/AVP 0", line)
        #expect(read.fingerprints.count == 2)
    }

    @Test("a whole description is read as a fragment too")
    func wholeDescription() throws {
        let read = try TrickleFragment(parsing: try recordedSDP("chromium-plain"))
        #expect(read.iceUfrag == "Jy08")
    }

    @Test("a fragment is held to the same limits, its lines counted from 1")
    func limits() {
        #expect(throws: SDPError.self) { try self.fragment("a=ice-ufrag:x") }
        do {
            _ = try fragment("a=ice-lite", "a=ice-ufrag:x")
        } catch {
            #expect(error.line == 2)
        }
    }

    @Test("a written fragment has attributes and m-lines only")
    func written() throws {
        let read = try fragment("a=ice-lite", "m=audio 9 RTP/AVP 0", "a=mid:0", "a=ice-ufrag:ysXw")
        let text = String(decoding: read.serialized(), as: UTF8.self)
        #expect(text == "a=ice-lite\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\na=ice-ufrag:ysXw\r\n")
    }
}
