import RTPCore
import RelayCore
import Testing

@Suite("Negotiation: directions, grants, sources and slots")
struct NegotiationStreamTests {
    private static func grants(audio: Bool = true, video: Bool = true, subscribe: Bool = true) -> Grants {
        Grants(publishAudio: audio, publishVideo: video, subscribe: subscribe, end: false)
    }
    /// One sendrecv pair and `count` recvonly pairs.
    private static func group(_ count: Int) -> Offer {
        var offer = Offer.base
        for slot in 0..<count {
            for kind in 0..<2 {
                let mid = String(2 + slot * 2 + kind)
                offer.media.append(
                    Offer.base.replacing(kind, "a=mid", with: "a=mid:" + mid)
                        .replacing(kind, "a=sendrecv", with: "a=recvonly").removing(kind, "a=ssrc", "a=msid")
                        .media[kind])
            }
        }
        return offer.group((0..<(2 + count * 2)).map(String.init).joined(separator: " "))
    }

    @Test("without the grant to publish a kind, the client may only receive it")
    func noPublish() throws {
        let audio = try Negotiated(Offer.base, .room(grants: Self.grants(audio: false)))
        #expect(audio.answer.media.map(\.direction) == [.sendonly, .sendrecv])
        #expect(audio.session.sections.map(\.clientSends) == [false, true])
        let video = try Negotiated(Offer.base, .room(grants: Self.grants(video: false)))
        #expect(video.answer.media.map(\.direction) == [.sendrecv, .sendonly])
    }

    @Test("without the grant to subscribe, the client may only send, and we announce no stream")
    func noSubscribe() throws {
        let negotiated = try Negotiated(Offer.base, .room(grants: Self.grants(subscribe: false)))
        #expect(negotiated.answer.media.map(\.direction) == [.recvonly, .recvonly])
        #expect(negotiated.session.sections.map(\.sendSSRC) == [0, 0])
        #expect(!negotiated.text.contains("a=ssrc"))
        #expect(!negotiated.text.contains("a=msid"))
    }

    @Test("without any grant the m-lines are inactive, not refused")
    func noGrants() throws {
        let negotiated = try Negotiated(
            Offer.base, .room(grants: Self.grants(audio: false, video: false, subscribe: false)))
        #expect(negotiated.answer.media.map(\.direction) == [.inactive, .inactive])
        #expect(negotiated.answer.media.map(\.port) == [9, 9])
    }

    @Test("what we send is announced: an SSRC, its RTX, one CNAME and a stream")
    func announced() throws {
        let negotiated = try Negotiated(Offer.base)
        let sections = negotiated.session.sections
        #expect(negotiated.media(0).sources.map(\.ssrc) == [sections[0].sendSSRC])
        #expect(negotiated.media(0).sourceGroups.isEmpty)
        #expect(sections[0].sendRTXSSRC == 0)
        #expect(negotiated.media(1).sources.map(\.ssrc) == [sections[1].sendSSRC, sections[1].sendRTXSSRC])
        #expect(
            negotiated.media(1).sourceGroups == [
                SessionDescription.SourceGroup(
                    semantics: "FID", ssrcs: [sections[1].sendSSRC, sections[1].sendRTXSSRC])
            ])
        #expect(Set(negotiated.answer.media.flatMap(\.sources).map(\.cname)) == [Negotiator.cname])
    }

    @Test("our SSRCs are nonzero, unique and none of the client's", arguments: [UInt64(1), 2, 3, 4, 5])
    func uniqueSSRCs(seed: UInt64) throws {
        let negotiated = try Negotiated(Self.group(15), .room(kind: .group), seed: seed)
        let drawn = negotiated.session.sections.flatMap {
            [$0.sendSSRC] + ($0.kind == .video ? [$0.sendRTXSSRC] : [])
        }
        #expect(drawn.count == 48)
        #expect(Set(drawn).count == 48)
        #expect(Set(drawn).isDisjoint(with: [0, 286_331_153, 858_993_459, 572_662_306]))
    }

    @Test("an SSRC of ours that the client's own would clash with is drawn again")
    func clashWithClient() throws {
        let first = try Negotiated(Offer.base).session.sections[0].sendSSRC
        let offer = Offer.base.replacing(0, "a=ssrc", with: "a=ssrc:\(first) cname:c1")
        #expect(try Negotiated(offer).session.sections[0].sendSSRC != first)
    }

    @Test("in a peer room audio and video are one stream of two tracks")
    func peerStream() throws {
        let negotiated = try Negotiated(Offer.base)
        #expect(negotiated.answer.media.flatMap(\.streams).map(\.stream) == ["relay-0", "relay-0"])
        #expect(negotiated.answer.media.flatMap(\.streams).map(\.track) == ["track-0", "track-1"])
    }

    @Test("in a group each pair of slots is a stream of its own")
    func groupStreams() throws {
        let negotiated = try Negotiated(Self.group(2), .room(kind: .group))
        #expect(
            negotiated.answer.media.flatMap(\.streams).map(\.stream)
                == ["relay-0", "relay-0", "relay-1", "relay-1", "relay-2", "relay-2"])
        #expect(Set(negotiated.answer.media.flatMap(\.streams).map(\.track)).count == 6)
    }

    @Test("in a group a sendrecv pair and receive-only slots are all accepted")
    func groupSlots() throws {
        let negotiated = try Negotiated(Self.group(3), .room(kind: .group))
        let sections = negotiated.session.sections
        #expect(sections.count == 8)
        #expect(sections.map(\.clientSends) == [true, true] + Array(repeating: false, count: 6))
        #expect(sections.map(\.clientReceives) == Array(repeating: true, count: 8))
        #expect(
            negotiated.answer.media.map(\.direction) == [.sendrecv, .sendrecv]
                + Array(repeating: .sendonly, count: 6))
        #expect(negotiated.answer.bundle?.mids.count == 8)
    }

    @Test("64 m-lines are all answered")
    func manySlots() throws {
        var random = RandomSource.seeded(1)
        let session = try Negotiator.negotiate(
            offer: Self.group(31).bytes, policy: .room(kind: .group), endpoint: testEndpoint, random: &random)
        #expect(session.sections.count == 64)
        let lines = session.answer.split(separator: 0x0A)
        #expect(lines.count { $0.starts(with: "m=".utf8) } == 64)
    }

    @Test("a second m-line of a kind may not send: a participant has one track of each")
    func secondSender() throws {
        var offer = Offer.base.group("0 1 2")
        offer.media.append(
            Offer.base.replacing(1, "a=mid", with: "a=mid:2").removing(1, "a=ssrc").media[1])
        let negotiated = try Negotiated(offer)
        #expect(negotiated.answer.media.map(\.direction) == [.sendrecv, .sendrecv, .sendonly])
    }

    @Test("the client's SSRCs are taken from the offer, repair apart from media")
    func signalled() throws {
        let sections = try Negotiated(Offer.base).session.sections
        #expect(sections[0].signalledSSRCs == [286_331_153])
        #expect(sections[0].signalledRTXSSRCs.isEmpty)
        #expect(sections[1].signalledSSRCs == [858_993_459])
        #expect(sections[1].signalledRTXSSRCs == [572_662_306])
    }

    @Test("a repair SSRC without an RTX payload type is neither media nor repair")
    func repairWithoutRTX() throws {
        let sections = try Negotiated(Offer.base.removing(1, "a=rtpmap:97", "a=fmtp:97")).session.sections
        #expect(sections[1].signalledSSRCs == [858_993_459])
        #expect(sections[1].signalledRTXSSRCs.isEmpty)
    }

    @Test("sources of an m-line on which the client does not send are not taken")
    func notSending() throws {
        let sections = try Negotiated(Offer.base.replacing(0, "a=sendrecv", with: "a=recvonly")).session
            .sections
        #expect(sections[0].signalledSSRCs.isEmpty)
    }

    @Test(
        "SSRC 0, one SSRC in two sections, and a repair equal to its media are 400 (R07)",
        arguments: [
            Offer.base.replacing(0, "a=ssrc", with: "a=ssrc:0 cname:c1"),
            Offer.base.replacing(0, "a=ssrc", with: "a=ssrc:858993459 cname:c1"),
            Offer.base.replacing(0, "a=ssrc", with: "a=ssrc:572662306 cname:c1"),
            Offer.base.replacing(1, "a=ssrc-group", with: "a=ssrc-group:FID 858993459 858993459"),
        ])
    func badSources(offer: Offer) throws {
        let found = try #require(problem(offer))
        #expect(found.status == 400)
        #expect(found.code == "sdp-bad-ssrc")
    }

    @Test("16 SSRCs may be named, the 17th is 400")
    func sourceCount() throws {
        var offer = Offer.base.removing(0, "a=ssrc")
        for ssrc in 1...14 { offer.media[0].append("a=ssrc:\(ssrc) cname:c") }
        #expect(try Negotiated(offer).session.sections[0].signalledSSRCs.count == 14)
        offer.media[0].append("a=ssrc:15 cname:c")
        let found = try #require(problem(offer))
        #expect(found.code == "sdp-bad-ssrc")
        #expect(found.detail.contains("limit 16"))
    }

    @Test("without named sources the section is served: MID and payload type bind it")
    func unsignalled() throws {
        let sections = try Negotiated(Offer.base.removingEverywhere("a=ssrc")).session.sections
        #expect(sections.map(\.signalledSSRCs) == [[], []])
        #expect(sections.map(\.clientSends) == [true, true])
    }
}
