import RTPCore
import Testing

/// Lines below the m-line (so at line 6) that are refused, and the attribute that is named.
struct FaultyLine: Sendable, CustomTestStringConvertible {
    var line: String
    var attribute: String
    var testDescription: String { String(line.prefix(60)) }
    init(_ line: String, _ attribute: String) {
        self.line = line
        self.attribute = attribute
    }
}

@Suite("SDP reader: what it refuses")
struct SDPErrorTests {
    private static let hex31 = Array(repeating: "A1", count: 31).joined(separator: ":")

    static let faults = [
        FaultyLine("a=rtpmap:128 opus/48000/2", "a=rtpmap"), FaultyLine("a=rtpmap:111", "a=rtpmap"),
        FaultyLine("a=rtpmap:111 opus", "a=rtpmap"), FaultyLine("a=rtpmap:111 opus/0", "a=rtpmap"),
        FaultyLine("a=rtpmap:111 opus/4294967296", "a=rtpmap"),
        FaultyLine("a=rtpmap:111 opus/48000/x", "a=rtpmap"),
        FaultyLine("a=rtpmap:-1 opus/48000", "a=rtpmap"), FaultyLine("a=rtcp-fb:111", "a=rtcp-fb"),
        FaultyLine("a=rtcp-fb:x nack", "a=rtcp-fb"), FaultyLine("a=extmap:0 urn:a", "a=extmap"),
        FaultyLine("a=extmap:256 urn:a", "a=extmap"), FaultyLine("a=extmap:4095 urn:a", "a=extmap"),
        FaultyLine("a=extmap:4352 urn:a", "a=extmap"), FaultyLine("a=extmap:1/both urn:a", "a=extmap"),
        FaultyLine("a=extmap:1", "a=extmap"), FaultyLine("a=ssrc:4294967296 cname:x", "a=ssrc"),
        FaultyLine("a=ssrc:", "a=ssrc"), FaultyLine("a=ssrc-group:FID", "a=ssrc-group"),
        FaultyLine("a=ssrc-group:FID 1 x", "a=ssrc-group"), FaultyLine("a=mid:", "a=mid"),
        FaultyLine("a=mid:a b", "a=mid"), FaultyLine("a=mid:\u{E9}", "a=mid"),
        FaultyLine("a=setup:both", "a=setup"), FaultyLine("a=setup:", "a=setup"),
        FaultyLine("a=ice-ufrag:abc", "a=ice-ufrag"), FaultyLine("a=ice-ufrag:ab:d", "a=ice-ufrag"),
        FaultyLine("a=ice-pwd:shortpassword", "a=ice-pwd"),
        FaultyLine("a=fingerprint:sha-256", "a=fingerprint"),
        FaultyLine("a=fingerprint:sha-256 ", "a=fingerprint"),
        FaultyLine("a=fingerprint:sha-256 " + hex31, "a=fingerprint"),
        FaultyLine("a=fingerprint:sha-256 " + hex31 + ":XY", "a=fingerprint"),
        FaultyLine("a=fingerprint:sha-256 " + hex31 + ":A", "a=fingerprint"),
        FaultyLine("a=fingerprint:sha-256 " + hex31 + "-A1", "a=fingerprint"),
        FaultyLine("a=fingerprint:sha-1 " + hex31, "a=fingerprint"),
        FaultyLine("m=video", "m="), FaultyLine("m=video 9 UDP/TLS/RTP/SAVPF", "m="),
        FaultyLine("m=video 65536 UDP/TLS/RTP/SAVPF 96", "m="),
        FaultyLine("m=video 9/2 UDP/TLS/RTP/SAVPF 96", "m="),
        FaultyLine("m=video 9 UDP/TLS/RTP/SAVPF VP8", "m="),
        FaultyLine("m=video 9 UDP/TLS/RTP/SAVPF 128", "m="),
    ]

    @Test("a malformed value of a known attribute is refused by line and attribute", arguments: faults)
    func malformed(fault: FaultyLine) throws {
        let error = try #require(mediaError(fault.line))
        #expect(error.kind == .value)
        #expect(error.line == 6)
        #expect(error.attribute == fault.attribute)
    }

    @Test(
        "a second, different value of what there is one of is refused",
        arguments: [
            ["a=mid:0", "a=mid:1"], ["a=ice-ufrag:abcd", "a=ice-ufrag:abce"],
            ["a=setup:active", "a=setup:actpass"],
            ["a=rtpmap:111 opus/48000/2", "a=rtpmap:111 VP8/90000"], ["a=fmtp:111 a=1", "a=fmtp:111 a=2"],
            ["a=sendonly", "a=recvonly"],
            ["a=ice-pwd:0123456789012345678901", "a=ice-pwd:0123456789012345678902"],
        ])
    func duplicates(lines: [String]) throws {
        let error = try #require(mediaError(lines[0], lines[1]))
        #expect(error.kind == .duplicate)
        #expect(error.line == 7)
        #expect(lines[1].hasPrefix(error.attribute))
    }

    @Test("the same value twice is no fault")
    func sameTwice() {
        #expect(mediaError("a=mid:0", "a=mid:0", "a=sendrecv", "a=sendrecv") == nil)
    }

    @Test(
        "what does not begin with v=0 is not a session description",
        arguments: [
            "", "\r\n", "v=1\r\n", "v=0 \r\n", "o=- 1 1 IN IP4 0.0.0.0\r\n", "{\"sdp\":\"v=0\"}",
            "\u{FEFF}v=0\r\n",
        ])
    func version(text: String) throws {
        #expect(try #require(sdpError(Array(text.utf8))).kind == .form)
    }

    @Test(
        "a line that is not a letter, an equals sign and a value is refused",
        arguments: ["a", "a:mid", "=x", "A=x", " a=x", "a =x"])
    func lineForm(line: String) throws {
        let error = try #require(sdpError(sdpBytes(sessionLines + [line])))
        #expect(error.kind == .form)
        #expect(error.line == 5)
    }

    @Test("an empty line in the middle is refused")
    func emptyLine() throws {
        let error = try #require(sdpError(sdpBytes(sessionLines + ["", "a=ice-lite"])))
        #expect(error.kind == .form)
        #expect(error.line == 6)
    }

    @Test("a NUL or a lone CR inside a line is refused", arguments: [UInt8(0), UInt8(13)])
    func controlBytes(byte: UInt8) throws {
        let bytes = sdpBytes(sessionLines) + Array("a=x".utf8) + [byte] + Array("y\r\n".utf8)
        let error = try #require(sdpError(bytes))
        #expect(error.kind == .form)
        #expect(error.line == 5)
    }

    @Test("an origin that is not one is refused")
    func origin() throws {
        let error = try #require(sdpError(sdpBytes(["v=0", "o=- x 1 IN IP4 0.0.0.0"])))
        #expect(error.attribute == "o=")
        #expect(error.line == 2)
    }

    @Test("an error says line, attribute and limit, and repeats nothing of the input")
    func text() throws {
        let error = try #require(mediaError("a=ice-ufrag:secret space"))
        #expect(error.description == "line 6, a=ice-ufrag: expected 4 to 256 ice-chars (limit 256)")
    }
}
