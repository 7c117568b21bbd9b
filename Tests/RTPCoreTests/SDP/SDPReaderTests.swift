import RTPCore
import Testing

@Suite("SDP reader: what it understands")
struct SDPReaderTests {
    @Test("an m-line gives kind, port, protocol and formats in order")
    func mediaLine() throws {
        let media = try readMedia()
        #expect(media.kind == "audio")
        #expect(media.port == 9)
        #expect(media.transportProtocol == "UDP/TLS/RTP/SAVPF")
        #expect(media.formats == ["111", "96"])
        #expect(media.line == 5)
    }

    @Test("the origin gives session id and version")
    func origin() throws {
        let description = try readSession()
        #expect(description.sessionID == 1)
        #expect(description.sessionVersion == 2)
    }

    @Test("rtpmap, fmtp and rtcp-fb of one payload type meet, in whatever order they stand")
    func codecLinesInAnyOrder() throws {
        let media = try readMedia("a=rtcp-fb:111 nack", "a=fmtp:111 minptime=10", "a=rtpmap:111 opus/48000/2")
        var expected = SessionDescription.Codec(
            payloadType: 111, name: "opus", clockRate: 48_000, channelCount: 2)
        expected.formatParameters = "minptime=10"
        expected.feedback = ["nack"]
        #expect(media.codecs == [expected])
    }

    @Test("codecs stand in the m-line's order of preference, not in that of their lines")
    func preferenceOrder() throws {
        let media = try readMedia("a=rtpmap:96 VP8/90000", "a=rtpmap:111 opus/48000/2")
        #expect(media.codecs.map(\.payloadType) == [111, 96])
    }

    @Test("an rtpmap of a payload type that the m-line does not list is not a codec")
    func unlistedMap() throws {
        #expect(try readMedia("a=rtpmap:100 VP8/90000").codecs.isEmpty)
    }

    @Test("rtcp-fb with a star holds for every payload type, once")
    func wildcardFeedback() throws {
        let media = try readMedia(
            "a=rtpmap:111 opus/48000/2", "a=rtpmap:96 VP8/90000", "a=rtcp-fb:* nack", "a=rtcp-fb:96 nack",
            "a=rtcp-fb:96 nack pli")
        #expect(media.codecs.map(\.feedback) == [["nack"], ["nack", "nack pli"]])
    }

    @Test("a format parameter is found by name without case, spaces around it ignored")
    func parameters() throws {
        let codec = try #require(
            try readMedia(
                "a=rtpmap:96 H264/90000", "a=fmtp:96 Packetization-Mode=1; profile-level-id=42e01f ;x"
            ).codecs.first)
        #expect(codec.parameter("packetization-mode") == "1")
        #expect(codec.parameter("PROFILE-LEVEL-ID") == "42e01f")
        #expect(codec.parameter("x") == nil)
    }

    @Test(
        "a direction is that of the section, else of the session, else sendrecv",
        arguments: [
            (["a=recvonly"], ["a=sendonly"], SessionDescription.Direction.sendonly),
            (["a=recvonly"], [], .recvonly), ([], ["a=inactive"], .inactive), ([], [], .sendrecv),
        ])
    func direction(
        session: [String], media: [String], expected: SessionDescription.Direction
    ) throws {
        let lines = sessionLines + session + ["m=audio 9 UDP/TLS/RTP/SAVPF 111"] + media
        #expect(try SessionDescription(parsing: sdpBytes(lines)).media[0].direction == expected)
    }

    @Test("extmap gives id, direction and URI; attributes of the extension are passed over")
    func extensions() throws {
        let media = try readMedia("a=extmap:3/recvonly urn:a:b some attributes", "a=extmap:255 urn:c")
        #expect(
            media.extensions == [
                SessionDescription.Extension(id: 3, direction: .recvonly, uri: "urn:a:b"),
                SessionDescription.Extension(id: 255, uri: "urn:c"),
            ])
    }

    @Test("extmap-allow-mixed is kept at the level where it stands")
    func allowMixed() throws {
        #expect(try readSession("a=extmap-allow-mixed").transport.allowsMixedExtensions)
        #expect(try readMedia("a=extmap-allow-mixed").transport.allowsMixedExtensions)
        #expect(try !readMedia().transport.allowsMixedExtensions)
    }

    @Test("a source is one, however many lines speak of it")
    func sources() throws {
        let media = try readMedia("a=ssrc:7 msid:s t", "a=ssrc:7 cname:c", "a=ssrc:8", "a=ssrc-group:FID 7 8")
        #expect(
            media.sources == [
                SessionDescription.Source(ssrc: 7, cname: "c"),
                SessionDescription.Source(ssrc: 8, cname: nil),
            ])
        #expect(media.sourceGroups == [SessionDescription.SourceGroup(semantics: "FID", ssrcs: [7, 8])])
    }

    @Test("msid may lack its stream or its track")
    func streamIdentifiers() throws {
        let media = try readMedia("a=msid:s t", "a=msid:- t", "a=msid:s")
        #expect(
            media.streams == [
                SessionDescription.StreamIdentifier(stream: "s", track: "t"),
                SessionDescription.StreamIdentifier(stream: nil, track: "t"),
                SessionDescription.StreamIdentifier(stream: "s", track: nil),
            ])
    }

    @Test("rid and simulcast lines are recorded")
    func simulcast() throws {
        let media = try readMedia("a=rid:q send", "a=rid:h recv pt=96", "a=simulcast:send q;h")
        #expect(
            media.restrictions == [
                SessionDescription.Restriction(id: "q", sends: true),
                SessionDescription.Restriction(id: "h", sends: false),
            ])
        #expect(media.simulcast == "send q;h")
    }

    @Test("transport attributes stay at the level where they stand")
    func transportLevels() throws {
        let lines =
            sessionLines + [
                "a=ice-ufrag:abcd", "a=setup:actpass", "m=audio 9 UDP/TLS/RTP/SAVPF 111", "a=ice-ufrag:wxyz",
            ]
        let description = try SessionDescription(parsing: sdpBytes(lines))
        #expect(description.transport.iceUfrag == "abcd")
        #expect(description.transport.setup == .actpass)
        #expect(description.media[0].transport.iceUfrag == "wxyz")
        #expect(description.media[0].transport.setup == nil)
    }

    @Test("fingerprint hex is read in either case, and the hash function's name without case")
    func fingerprintCase() throws {
        let pairs = Array(repeating: "a1", count: 32).joined(separator: ":")
        let lower = try readMedia("a=fingerprint:sha-256 " + pairs)
        let upper = try readMedia("a=fingerprint:SHA-256 " + pairs.uppercased())
        #expect(lower.transport.fingerprints == upper.transport.fingerprints)
        #expect(lower.transport.fingerprints[0].bytes == Array(repeating: 0xA1, count: 32))
        #expect(lower.transport.fingerprints[0].algorithm == "sha-256")
    }

    @Test("setup roles are read without case", arguments: ["actpass", "ACTPASS", "ActPass"])
    func setupCase(text: String) throws {
        #expect(try readMedia("a=setup:" + text).transport.setup == .actpass)
    }

    @Test("port 0 is a refusal, unless the section is bundle-only")
    func bundleOnly() throws {
        let lines =
            sessionLines + [
                "m=audio 0 UDP/TLS/RTP/SAVPF 111", "m=video 0 UDP/TLS/RTP/SAVPF 96", "a=bundle-only",
            ]
        let description = try SessionDescription(parsing: sdpBytes(lines))
        #expect(description.media.map(\.isRejected) == [true, false])
    }

    @Test(
        "flags without a value are set",
        arguments: ["rtcp-mux", "rtcp-mux-only", "rtcp-rsize", "crypto:1 x y"])
    func flags(name: String) throws {
        let media = try readMedia("a=" + name)
        let set = [media.hasRTCPMux, media.hasRTCPMuxOnly, media.hasReducedSizeRTCP, media.hasCrypto]
        #expect(set.count { $0 } == 1)
    }

    @Test("candidates that are not of a host over UDP, or passive over TCP, are passed over, not refused")
    func candidates() throws {
        let media = try readMedia(
            "a=candidate:1 1 UDP 2122187007 192.0.2.1 5000 typ host generation 0",
            "a=candidate:2 1 tcp 1 192.0.2.1 9 typ host tcptype active",
            "a=candidate:4 1 TCP 7 192.0.2.1 443 typ host tcptype passive",
            "a=candidate:5 1 tcp 7 192.0.2.1 443 typ host",
            "a=candidate:6 1 sctp 7 192.0.2.1 443 typ host",
            "a=candidate:3 1 udp 1 192.0.2.1 9 typ srflx raddr 0.0.0.0 rport 0", "a=candidate:garbage",
            "a=candidate:")
        #expect(
            media.candidates == [
                SessionDescription.Candidate(
                    foundation: "1", component: 1, priority: 2_122_187_007, address: "192.0.2.1", port: 5000),
                SessionDescription.Candidate(
                    foundation: "4", component: 1, priority: 7, address: "192.0.2.1", port: 443, isStream: true),
            ])
    }

    @Test("the BUNDLE group is found among other groups")
    func groups() throws {
        let description = try readSession("a=group:LS 0 1", "a=group:BUNDLE 1 0", "a=group:BUNDLE 2")
        #expect(description.groups.count == 3)
        #expect(description.bundle?.mids == ["1", "0"])
    }

    @Test("unknown attributes and line types are passed over")
    func unknown() throws {
        let media = try readMedia(
            "b=AS:100", "k=clear:x", "a=cryptex", "a=:", "a=x")
        #expect(media.codecs.isEmpty)
    }

    @Test(
        "whose reference times are answered is read, other extended reports are passed over",
        arguments: [
            ("rcvr-rtt=all", "all"), ("pkt-loss-rle rcvr-rtt=sender:40", "sender"), ("rcvr-rtt=none", nil),
            ("rcvr-rtt", nil),
            ("stat-summary=loss,dup", nil), ("", nil),
        ] as [(String, String?)])
    func receiverRoundTrip(value: String, mode: String?) throws {
        #expect(try readMedia("a=rtcp-xr:" + value).receiverRoundTrip == mode)
        let whole = try SessionDescription(
            parsing: sdpBytes(sessionLines + ["a=rtcp-xr:" + value, "m=audio 9 UDP/TLS/RTP/SAVPF 111"]))
        #expect(whole.media[0].receiverRoundTrip == mode)
    }

    @Test("formats of other protocols than RTP need not be numbers")
    func dataChannel() throws {
        let lines = sessionLines + ["m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "a=fmtp:x y"]
        let description = try SessionDescription(parsing: sdpBytes(lines))
        #expect(description.media[0].formats == ["webrtc-datachannel"])
    }

    @Test("a last line without an ending is read, and empty lines at the end are passed over")
    func endings() throws {
        let text = (sessionLines + ["a=ice-lite"]).joined(separator: "\n")
        #expect(try SessionDescription(parsing: Array(text.utf8)).isICELite)
        #expect(try SessionDescription(parsing: Array((text + "\r\n\r\n\n").utf8)).isICELite)
    }

    @Test("bytes that are not UTF-8 in a line that nobody needs do no harm")
    func notUTF8() throws {
        let bytes = sdpBytes(sessionLines) + [0x61, 0x3D, 0xFF, 0xFE, 0x0A]
        #expect(try SessionDescription(parsing: bytes).media.isEmpty)
    }

    @Test("a mirrored direction swaps sending and receiving")
    func mirrored() {
        #expect(
            SessionDescription.Direction.allCases.map(\.mirrored) == [
                .sendrecv, .recvonly, .sendonly, .inactive,
            ])
    }
}
