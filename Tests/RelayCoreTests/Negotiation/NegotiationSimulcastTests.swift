import RTPCore
import RelayCore
import Testing

@Suite("Negotiation: simulcast")
struct NegotiationSimulcastTests {
    /// BASE with stream ids and simulcast lines on its video.
    private func offer(_ lines: String...) -> Offer {
        var offer = Offer.base.removing(1, "a=ssrc")
        offer.media[1] += [
            "a=extmap:10 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id",
            "a=extmap:11 urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id",
        ]
        offer.media[1] += lines
        return offer
    }

    private func streamIDs(_ offer: Offer) throws -> [String] {
        try Negotiated(offer.bytes).session.sections[1].streamIDs
    }

    @Test(
        "simulcast of real clients is accepted with all streams and their ids",
        arguments: ["chromium-simulcast", "chromium-loopback-simulcast", "firefox-simulcast", "wrtc-simulcast"],
        [RoomKind.peer, .group])
    func recorded(name: String, kind: RoomKind) throws {
        let negotiated = try Negotiated(try recordedSDP(name), .room(kind: kind))
        let section = negotiated.session.sections[1]
        #expect(section.clientSends)
        #expect(section.streamIDs == ["q", "h", "f"])
        #expect(section.extensions[.rid] != 0 && section.extensions[.repairedRID] != 0)
        let lines = negotiated.text.split(separator: "\r\n").filter { $0.contains("rid:") || $0.contains("simulcast") }
        #expect(lines == ["a=rid:q recv", "a=rid:h recv", "a=rid:f recv", "a=simulcast:recv q;h;f"])
        let mirrored = name.hasPrefix("firefox") ? "a=extmap:9/recvonly" : "a=extmap:10"
        #expect(negotiated.text.contains("\(mirrored) urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id\r\n"))
    }

    @Test("an offer without simulcast gets no stream ids")
    func plain() throws {
        let negotiated = try Negotiated(try recordedSDP("chromium-plain"))
        #expect(negotiated.session.sections[1].streamIDs.isEmpty)
        #expect(!negotiated.text.contains("stream-id") && !negotiated.text.contains("simulcast"))
    }

    @Test("the dialect of earlier Firefox is answered in kind")
    func early() throws {
        let negotiated = try Negotiated(offer("a=rid:a send", "a=rid:b send", "a=simulcast: send rid=a;b").bytes)
        #expect(negotiated.session.sections[1].streamIDs == ["a", "b"])
        #expect(negotiated.text.contains("a=simulcast:recv rid=a;b\r\n"))
    }

    @Test("of alternatives the first counts, and a paused stream is a stream")
    func alternatives() throws {
        let offer = offer(
            "a=rid:1 send", "a=rid:2 send", "a=rid:3 send", "a=rid:r recv", "a=simulcast:recv r send ~1,3;2;~3")
        #expect(try streamIDs(offer) == ["1", "2", "3"])
    }

    @Test("more than three streams are cut to the first three")
    func four() throws {
        let offer = offer(
            "a=rid:1 send", "a=rid:2 send", "a=rid:3 send", "a=rid:4 send", "a=simulcast:send 1;2;3;4")
        #expect(try streamIDs(offer) == ["1", "2", "3"])
        #expect(try !Negotiated(offer.bytes).text.contains("rid:4"))
    }

    @Test(
        "what is not told apart by ids is answered as one stream",
        arguments: [
            ["a=simulcast:send 1;2"], ["a=rid:1 send", "a=rid:2 recv", "a=simulcast:send 1;2"],
            ["a=rid:1 send", "a=simulcast:send 1"], ["a=rid:1 send", "a=simulcast:send 1;1"],
            ["a=rid:1 send", "a=rid:2 send", "a=simulcast:recv 1;2"],
            ["a=rid:1 send", "a=rid:2 send", "a=simulcast:send"],
            ["a=rid:1 send", "a=rid:2 send", "a=simulcast:send pt=96;97"],
            ["a=rid:1! send", "a=rid:2 send", "a=simulcast:send 1!;2"],
            ["a=rid:abcdefghijklmnopq send", "a=rid:2 send", "a=simulcast:send abcdefghijklmnopq;2"],
            ["a=rid:1 send", "a=rid:2 send", "a=simulcast:;;,;~ send ;;"],
        ])
    func one(lines: [String]) throws {
        var offer = offer()
        offer.media[1] += lines
        let negotiated = try Negotiated(offer.bytes)
        #expect(negotiated.session.sections[1].streamIDs.isEmpty)
        #expect(!negotiated.text.contains("simulcast") && !negotiated.text.contains("stream-id"))
    }

    @Test("without the stream ids' header extension, or where the client may not send, there is no simulcast")
    func withoutExtension() throws {
        let lines = ["a=rid:1 send", "a=rid:2 send", "a=simulcast:send 1;2"]
        var plain = Offer.base
        plain.media[1] += lines
        #expect(try streamIDs(plain).isEmpty)
        var receiving = offer().replacing(1, "a=sendrecv", with: "a=recvonly")
        receiving.media[1] += lines
        #expect(try streamIDs(receiving).isEmpty)
        var whole = offer()
        whole.media[1] += lines
        #expect(try streamIDs(whole) == ["1", "2"])
    }

    @Test("any simulcast line is answered or refused, never a trap")
    func random() throws {
        var random = RandomSource.seeded(3)
        let pieces = ["send", "recv", " ", ";", ",", "~", "q", "h", "f", "rid=", "pt=", "a=", "\u{1}", "é"]
        for _ in 0..<300 {
            let text = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                pieces.randomElement(using: &random) ?? ""
            }
            let offer = offer("a=rid:q send", "a=rid:h send", "a=rid:f send", "a=simulcast:" + text.joined())
            let count = (try? streamIDs(offer))?.count ?? 0
            #expect(count == 0 || (2...3).contains(count))
        }
    }
}
