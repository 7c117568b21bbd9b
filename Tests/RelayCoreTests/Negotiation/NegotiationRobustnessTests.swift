import RTPCore
import RelayCore
import Testing

@Suite("Negotiation: hostile offers")
struct NegotiationRobustnessTests {
    /// What holds for every answer, whatever was offered.
    private static func check(_ bytes: [UInt8], _ session: NegotiatedSession) throws {
        let offer = try SessionDescription(parsing: bytes)
        let answer = try SessionDescription(parsing: session.answer)
        #expect(answer.media.map(\.kind) == offer.media.map(\.kind))
        #expect(answer.media.map(\.mid) == offer.media.map(\.mid))
        #expect(answer.media.map(\.transportProtocol) == offer.media.map(\.transportProtocol))
        #expect(answer.isICELite)
        let accepted = answer.media.indices.filter { answer.media[$0].port != 0 }
        #expect(accepted == session.sections.map(\.index))
        if offer.bundle != nil {
            #expect(Set(answer.bundle?.mids ?? []) == Set(accepted.compactMap { answer.media[$0].mid }))
        }
        #expect(accepted.count { answer.media[$0].hasEndOfCandidates } == 1)
        for (index, section) in zip(accepted, session.sections) {
            let media = answer.media[index]
            #expect(media.transport.setup == .passive)
            #expect(media.hasRTCPMux)
            #expect(media.transport.fingerprints.count == 1)
            #expect(media.direction.sends == section.clientReceives)
            #expect(media.direction.receives == section.clientSends)
            #expect(Set(media.formats).isSubset(of: offer.media[index].formats))
            #expect((section.sendSSRC != 0) == section.clientReceives)
        }
        #expect(!session.fingerprints.isEmpty)
        #expect(Set(session.fingerprints.map(\.algorithm)).count == 1)
    }

    @Test("every answer to a recorded offer keeps the rules of answers", arguments: RecordedOffer.all)
    func invariants(offer: RecordedOffer) throws {
        let bytes = try recordedSDP(offer.name)
        for policy in [
            NegotiationPolicy.room(.vp8), .room(.h264, kind: .group), .room(.vp9), .room(.av1),
            .room(media: .audio),
        ] {
            try Self.check(bytes, try Negotiated(bytes, policy).session)
        }
    }

    @Test("a recorded offer is answered the same with LF as with CRLF", arguments: RecordedOffer.all)
    func lineEndings(offer: RecordedOffer) throws {
        let bytes = try recordedSDP(offer.name)
        #expect(try Negotiated(bytes).session == Negotiated(bytes.filter { $0 != 0x0D }).session)
    }

    @Test(
        "an answer of a client is no offer: its role is active, and it is served all the same",
        arguments: [
            "aiortc-p2p-answer", "chromium-p2p-answer", "firefox-p2p-answer", "gst-p2p-answer",
            "wrtc-p2p-answer",
        ])
    func clientAnswers(name: String) throws {
        let bytes = try recordedSDP(name)
        try Self.check(bytes, try Negotiated(bytes).session)
    }

    @Test("every prefix of BASE is answered or refused with a problem of 4xx")
    func prefixes() throws {
        let bytes = Offer.base.bytes
        var answered = 0
        for length in 0...bytes.count {
            let prefix = Array(bytes[..<length])
            guard let found = problem(prefix) else {
                answered += 1
                continue
            }
            #expect((400..<500).contains(found.status))
        }
        #expect(answered > 0 && answered < bytes.count / 2)
    }

    @Test("ten thousand mutated offers are answered by the rules or refused")
    func mutations() throws {
        var random = RandomSource.seeded(0xFA57)
        let seed = Offer.base.removingEverywhere("c=", "a=msid").lines
        var counts = [0, 0]
        for round in 0..<10_000 {
            let bytes = Self.mutated(seed, &random)
            var draws = RandomSource.seeded(UInt64(round))
            do {
                let session = try Negotiator.negotiate(
                    offer: bytes, policy: .room(), endpoint: testEndpoint, random: &draws)
                counts[0] += 1
                if round % 16 == 0 { try Self.check(bytes, session) }
            } catch let found as Problem {
                counts[1] += 1
                if !(400..<500).contains(found.status) { Issue.record("status \(found.status)") }
            }
        }
        #expect(counts[0] > 500 && counts[1] > 500)
    }

    /// One to three changes of a line or of a byte.
    private static func mutated(_ original: [String], _ random: inout RandomSource) -> [UInt8] {
        var lines = original
        for _ in 0..<Int.random(in: 0...2, using: &random) {
            let at = Int.random(in: 0..<lines.count, using: &random)
            let other = Int.random(in: 0..<lines.count, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0: lines.remove(at: at)
            case 1: lines.insert(lines[other], at: at)
            case 2: lines.swapAt(at, other)
            default: lines[at] = String(lines[at].dropLast(Int.random(in: 1...3, using: &random)))
            }
        }
        var bytes = Array(lines.map { $0 + "\n" }.joined().utf8)
        if Bool.random(using: &random) {
            let at = Int.random(in: 0..<bytes.count, using: &random)
            bytes[at] = UInt8.random(in: 0...255, using: &random)
        }
        return bytes
    }

    @Test("limits are 413 and name the limit")
    func limits() throws {
        let tooLarge = Offer.base.bytes + Array(repeating: 0x0A, count: 33_000)
        let found = try #require(problem(tooLarge))
        #expect(found.status == 413)
        #expect(found.code == "sdp-too-large")
        #expect(found.detail.contains("limit 32768"))
        var many = Offer.base
        for _ in 0..<63 { many.media.append(["m=audio 0 UDP/TLS/RTP/SAVPF 0"]) }
        #expect(problem(many)?.detail.contains("limit 64") == true)
        let long = Offer.base.addingToSession("a=" + String(repeating: "x", count: 2_047))
        #expect(problem(long)?.detail.contains("limit 2048") == true)
    }

    @Test("what is not SDP is 400", arguments: ["", "v=0", "{}", "v=0\r\nm=audio"])
    func notSDP(text: String) throws {
        let found = try #require(problem(Array(text.utf8)))
        #expect((400..<500).contains(found.status))
    }

    @Test("no problem repeats the client's ICE password or an SDES key")
    func secrets() {
        let lines = ["a=ice-pwd:clientPassword0123456789 x", "a=crypto:1 A inline:clientPassword0123456789"]
        for offer in [
            Offer.base.replacing(0, "a=ice-pwd", with: lines[0]), Offer.base.adding(1, lines[1]),
            Offer.base.removingEverywhere("a=setup"), Offer.base.removingEverywhere("a=group"),
        ] {
            let found = problem(offer)
            #expect(found != nil)
            #expect(found?.detail.contains("clientPassword") == false)
        }
    }

    @Test("neither credentials nor sessions print a password")
    func descriptions() throws {
        let session = try Negotiated(Offer.base).session
        #expect(!"\(session.localICE)".contains(session.localICE.password))
        #expect(!"\(session.remoteICE)".contains("clientPassword"))
    }

    @Test("text that only a refused section carries cannot add a line to the answer")
    func injection() throws {
        var offer = Offer.base
        offer.media.append(["m=application 9 UDP/DTLS/SCTP x\u{85}y", "a=mid:2"])
        #expect(problem(offer.group("0 1 2"))?.code == "sdp-malformed")
    }
}
