import RTPCore
import Testing

@Suite("SDP reader: limits at n and n+1")
struct SDPLimitTests {
    private func padded(to count: Int) -> [UInt8] {
        var bytes = sdpBytes(sessionLines)
        while count - bytes.count > 1_100 {
            bytes += Array(("a=" + String(repeating: "x", count: 996) + "\r\n").utf8)
        }
        bytes += Array(("a=" + String(repeating: "x", count: count - bytes.count - 4) + "\r\n").utf8)
        return bytes
    }

    @Test("a description of 32 KiB is read, one byte more is not")
    func byteCount() throws {
        let atLimit = padded(to: SDPLimits.byteCount)
        #expect(atLimit.count == 32_768)
        #expect(sdpError(atLimit) == nil)
        let error = try #require(sdpError(padded(to: SDPLimits.byteCount + 1)))
        #expect(error.kind == .limit)
        #expect(error.limit == 32_768)
    }

    @Test("64 m-lines are read, the 65th is refused by its line")
    func mediaCount() throws {
        let lines =
            sessionLines + Array(repeating: "m=audio 9 UDP/TLS/RTP/SAVPF 0", count: SDPLimits.mediaCount)
        #expect(try SessionDescription(parsing: sdpBytes(lines)).media.count == 64)
        let error = try #require(sdpError(sdpBytes(lines + ["m=audio 9 UDP/TLS/RTP/SAVPF 0"])))
        #expect(error.kind == .limit)
        #expect(error.attribute == "m=")
        #expect(error.line == 69)
    }

    @Test("256 lines of a section are read, its m-line counted, the 257th is refused")
    func mediaLines() throws {
        let lines = sessionLines + ["m=audio 9 UDP/TLS/RTP/SAVPF 0"] + Array(repeating: "a=x", count: 255)
        #expect(sdpError(sdpBytes(lines)) == nil)
        let error = try #require(sdpError(sdpBytes(lines + ["a=x"])))
        #expect(error.kind == .limit)
        #expect(error.limit == 256)
        #expect(error.line == 4 + 257)
    }

    @Test("256 lines at session level are read, the 257th is refused")
    func sessionLevelLines() throws {
        let lines = sessionLines + Array(repeating: "a=x", count: 252)
        #expect(sdpError(sdpBytes(lines)) == nil)
        #expect(try #require(sdpError(sdpBytes(lines + ["a=x"]))).limit == 256)
    }

    @Test("every section has its own 256 lines")
    func linesPerSection() {
        let section = ["m=audio 9 UDP/TLS/RTP/SAVPF 0"] + Array(repeating: "a=x", count: 255)
        #expect(sdpError(sdpBytes(sessionLines + section + section + section)) == nil)
    }

    @Test(
        "a line of 2,048 bytes is read with either ending, one byte more is not", arguments: ["\n", "\r\n"])
    func lineByteCount(ending: String) throws {
        let atLimit = "a=" + String(repeating: "x", count: SDPLimits.lineByteCount - 2)
        #expect(sdpError(sdpBytes(sessionLines + [atLimit], ending: ending)) == nil)
        let error = try #require(sdpError(sdpBytes(sessionLines + [atLimit + "x"], ending: ending)))
        #expect(error.kind == .limit)
        #expect(error.limit == 2_048)
        #expect(error.line == 5)
    }

    @Test("a user fragment has 4 to 256 bytes, a password 22 to 256")
    func credentials() {
        func ufrag(_ count: Int) -> SDPError? {
            mediaError("a=ice-ufrag:" + String(repeating: "u", count: count))
        }
        func password(_ count: Int) -> SDPError? {
            mediaError("a=ice-pwd:" + String(repeating: "p", count: count))
        }
        #expect([3, 4, 256, 257].map { ufrag($0) == nil } == [false, true, true, false])
        #expect([21, 22, 256, 257].map { password($0) == nil } == [false, true, true, false])
    }

    @Test("a payload type is at most 127, an extension id at most 255")
    func numbers() {
        #expect(mediaError("a=rtpmap:127 x/1") == nil)
        #expect(mediaError("a=rtpmap:128 x/1")?.limit == 127)
        #expect(mediaError("a=extmap:255 urn:a") == nil)
        #expect(mediaError("a=extmap:256 urn:a")?.limit == 255)
    }

    @Test("a number of more digits than fit is refused, not wrapped")
    func overflow() {
        #expect(mediaError("a=ssrc:18446744073709551617 cname:x") != nil)
        #expect(mediaError("a=ssrc:99999999999999999999999999 cname:x") != nil)
    }
}
