import RTPCore
import RelayCore
import Testing

@Suite("Negotiation: cases S01 to S04")
struct NegotiationCaseTests {
    // MARK: S01, bundle-only

    private static let bundleOnlyVideo = Offer.base
        .replacing(1, "m=", with: "m=video 0 UDP/TLS/RTP/SAVPF 96 97")
        .removing(1, "a=ice-", "a=fingerprint", "a=setup").adding(1, "a=bundle-only")

    @Test("S01: a bundle-only section with port 0 is accepted under the first section's transport")
    func bundleOnly() throws {
        let negotiated = try Negotiated(Self.bundleOnlyVideo)
        #expect(negotiated.answer.media.map(\.port) == [9, 9])
        #expect(negotiated.answer.media.map(\.mid) == ["0", "1"])
        #expect(negotiated.answer.bundle?.mids == ["0", "1"])
        #expect(negotiated.session.sections.map(\.kind) == [.audio, .video])
        #expect(negotiated.session.remoteICE.ufrag == "cliU")
        #expect(!negotiated.text.contains("null"))
    }

    @Test("S01: the same with video first and audio bundle-only")
    func bundleOnlySwapped() throws {
        let offer = Offer.base.group("1 0").replacing(0, "m=", with: "m=audio 0 UDP/TLS/RTP/SAVPF 111")
            .removing(0, "a=ice-", "a=fingerprint", "a=setup").adding(0, "a=bundle-only").keeping(1, 0)
        let negotiated = try Negotiated(offer)
        #expect(negotiated.answer.media.map(\.kind) == ["video", "audio"])
        #expect(negotiated.answer.media.map(\.port) == [9, 9])
        #expect(negotiated.answer.bundle?.mids == ["1", "0"])
        #expect(negotiated.media(0).hasEndOfCandidates && !negotiated.media(1).hasEndOfCandidates)
    }

    @Test("S01: when the tagged video is refused, the bundle-only audio still has the tag's transport")
    func bundleOnlyTagRefused() throws {
        let offer = Offer.base.group("1 0").replacing(0, "m=", with: "m=audio 0 UDP/TLS/RTP/SAVPF 111")
            .removing(0, "a=ice-", "a=fingerprint", "a=setup").adding(0, "a=bundle-only").keeping(1, 0)
        let negotiated = try Negotiated(offer, .room(.av1))
        #expect(negotiated.answer.media.map(\.port) == [0, 9])
        #expect(negotiated.answer.bundle?.mids == ["0"])
        #expect(negotiated.session.remoteICE.ufrag == "cliU")
        #expect(negotiated.media(1).hasEndOfCandidates)
    }

    @Test("S01: port 0 without bundle-only stays refused")
    func portZero() throws {
        let offer = Offer.base.replacing(1, "m=", with: "m=video 0 UDP/TLS/RTP/SAVPF 96 97").group("0")
        let negotiated = try Negotiated(offer)
        #expect(negotiated.answer.media.map(\.port) == [9, 0])
        #expect(negotiated.answer.bundle?.mids == ["0"])
        #expect(!negotiated.session.videoUnsupported)
    }

    // MARK: S02, mid and msid are optional

    @Test("S02a: one audio section without mid, group and msid is answered without mid and group")
    func onlyAudioWithoutMid() throws {
        var offer = Offer.base.keeping(0).removing(0, "a=mid", "a=msid", "a=extmap:4")
        offer.session.removeAll { $0.hasPrefix("a=group") }
        let negotiated = try Negotiated(offer)
        #expect(!negotiated.text.contains("a=mid"))
        #expect(!negotiated.text.contains("a=group"))
        #expect(negotiated.session.sections.map(\.mid) == [""])
        #expect(negotiated.session.sections[0].signalledSSRCs == [286_331_153])
        #expect(negotiated.media(0).hasEndOfCandidates)
    }

    @Test("S02a: one audio section with a mid needs no group")
    func onlyAudioWithMid() throws {
        var offer = Offer.base.keeping(0)
        offer.session.removeAll { $0.hasPrefix("a=group") }
        #expect(try Negotiated(offer).media(0).mid == "0")
    }

    @Test("S02b: an offer without msid is served")
    func withoutStreams() throws {
        let negotiated = try Negotiated(Offer.base.removingEverywhere("a=msid"))
        #expect(negotiated.session.sections.count == 2)
    }

    @Test("S02c: an msid without stream or without track is served")
    func partialStreams() throws {
        let offer = Offer.base.replacing(0, "a=msid", with: "a=msid:- a1").replacing(
            1, "a=msid", with: "a=msid:s1")
        #expect(try Negotiated(offer).session.sections.count == 2)
    }

    @Test("S02d: two sections without mid and group are 406, naming BUNDLE and the m-line")
    func withoutBundle() throws {
        let found = try #require(problem(Offer.base.removingEverywhere("a=mid", "a=group")))
        #expect(found.status == 406)
        #expect(found.code == "sdp-no-bundle")
        #expect(found.detail.contains("m-line 1"))
        #expect(found.detail.contains("BUNDLE"))
    }

    @Test("a section outside the BUNDLE group is 406")
    func outsideBundle() throws {
        let found = try #require(problem(Offer.base.group("0")))
        #expect(found.status == 406)
        #expect(found.detail.hasPrefix("m-line 1 (mid 1) at line 20:"))
    }

    @Test("a BUNDLE group that names an unknown mid, or one twice, is 400", arguments: ["0 1 2", "0 1 1"])
    func badGroup(mids: String) throws {
        #expect(try #require(problem(Offer.base.group(mids))).code == "sdp-bad-bundle")
    }

    @Test("two sections with one mid are 400")
    func sameMid() throws {
        let found = try #require(problem(Offer.base.replacing(1, "a=mid", with: "a=mid:0")))
        #expect(found.status == 400)
        #expect(found.code == "sdp-bad-mid")
    }

    @Test("a mid of 16 bytes is served, one of 17 is 400")
    func midLength() throws {
        let sixteen = String(repeating: "m", count: 16)
        let good = Offer.base.replacing(1, "a=mid", with: "a=mid:" + sixteen).group("0 " + sixteen)
        #expect(try Negotiated(good).session.sections[1].mid == sixteen)
        let bad = Offer.base.replacing(1, "a=mid", with: "a=mid:m" + sixteen).group("0 m" + sixteen)
        let found = try #require(problem(bad))
        #expect(found.status == 400)
        #expect(found.code == "sdp-bad-mid")
        #expect(found.detail.contains("limit 16"))
    }

    // MARK: S03, refused sections

    private static let fourSections: Offer = {
        var offer = Offer.base.group("0 2 3")
        let transport = offer.media[1].filter {
            $0.hasPrefix("a=ice") || $0.hasPrefix("a=finger") || $0 == "a=setup:actpass"
        }
        offer.media = [
            offer.media[0], ["m=video 0 UDP/TLS/RTP/SAVPF 96", "a=mid:1"],
            ["m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "a=mid:2", "a=sctp-port:5000"] + transport,
            ["m=video 9 UDP/TLS/RTP/SAVPF 120", "a=mid:3", "a=rtcp-mux", "a=rtpmap:120 H265X/90000"]
                + transport,
        ]
        return offer
    }()

    @Test("S03: refused, data and unknown sections keep their place with port 0")
    func refusedSections() throws {
        let negotiated = try Negotiated(Self.fourSections)
        #expect(negotiated.answer.media.map(\.kind) == ["audio", "video", "application", "video"])
        #expect(negotiated.answer.media.map(\.port) == [9, 0, 0, 0])
        #expect(negotiated.answer.media.map(\.mid) == ["0", "1", "2", "3"])
        #expect(negotiated.answer.bundle?.mids == ["0"])
        #expect(negotiated.media(2).formats == ["webrtc-datachannel"])
        #expect(negotiated.media(2).transportProtocol == "UDP/DTLS/SCTP")
        #expect(negotiated.session.sections.map(\.index) == [0])
    }

    @Test("a refused section repeats the transport, without which aiortc takes no answer, and names no codec")
    func refusedTransport() throws {
        let refused = try Negotiated(Self.fourSections).media(3)
        #expect(refused.transport.setup == .passive)
        #expect(refused.transport.iceUfrag != nil)
        #expect(refused.hasRTCPMux)
        #expect(refused.codecs.isEmpty)
        #expect(refused.direction == .inactive)
    }

    @Test(
        "S03: the answer's direction is the offer's, seen from the other side",
        arguments: [
            ("a=sendrecv", SessionDescription.Direction.sendrecv, true, true),
            ("a=sendonly", .recvonly, true, false), ("a=recvonly", .sendonly, false, true),
            ("a=inactive", .inactive, false, false), ("a=x-none", .sendrecv, true, true),
        ])
    func directions(
        line: String, answer: SessionDescription.Direction, sends: Bool, receives: Bool
    ) throws {
        let negotiated = try Negotiated(Offer.base.replacing(0, "a=sendrecv", with: line))
        #expect(negotiated.media(0).direction == answer)
        #expect(negotiated.media(0).port == 9)
        #expect(negotiated.session.sections[0].clientSends == sends)
        #expect(negotiated.session.sections[0].clientReceives == receives)
    }

    @Test("S03: when the tagged section is refused, the tag moves to the next accepted one")
    func tagMoves() throws {
        let offer = Offer.base.group("1 0").replacing(1, "a=rtpmap:96", with: "a=rtpmap:96 H265X/90000")
        let negotiated = try Negotiated(offer)
        #expect(negotiated.answer.bundle?.mids == ["0"])
        #expect(negotiated.answer.media.map(\.port) == [9, 0])
        #expect(negotiated.media(0).candidates.count == 2)
    }

    @Test("an offer of a data channel alone is 422: there is no audio")
    func onlyData() throws {
        for name in ["chromium-datachannel", "chromium-loopback-datachannel"] {
            let found = try #require(problem(try recordedSDP(name)))
            #expect(found.status == 422)
            #expect(found.code == "sdp-no-opus")
        }
    }

    @Test("an offer of video alone is 422: there is no audio")
    func onlyVideo() throws {
        #expect(try #require(problem(Offer.base.keeping(1).group("1"))).code == "sdp-no-opus")
    }

    // MARK: S04, header extensions

    @Test("S04a: each section's own id for one extension is repeated")
    func differentIDs() throws {
        let negotiated = try Negotiated(
            Offer.base.replacing(1, "a=extmap:4", with: "a=extmap:7 \(HeaderExtensionKind.mid.uri)"))
        #expect(negotiated.session.sections.map { $0.extensions[.mid] } == [4, 7])
        #expect(
            negotiated.media(0).extensions.contains { $0.id == 4 && $0.uri == HeaderExtensionKind.mid.uri })
        #expect(negotiated.media(1).extensions.map(\.id) == [7])
    }

    @Test("S04b: one id for two extensions in two sections is 400, naming id and m-line")
    func conflictAcrossSections() throws {
        let found = try #require(problem(Offer.base.adding(1, "a=extmap:1 urn:3gpp:video-orientation")))
        #expect(found.status == 400)
        #expect(found.code == "sdp-extmap-conflict")
        #expect(found.detail.contains("m-line 1 (mid 1)"))
        #expect(found.detail.contains("a=extmap:1 "))
    }

    @Test(
        "S04b: an id that a section knows and another uses for something unknown is a conflict in either order"
    )
    func conflictWithUnknown() throws {
        #expect(problem(Offer.base.adding(1, "a=extmap:1 urn:unknown"))?.code == "sdp-extmap-conflict")
        let later = Offer.base.adding(0, "a=extmap:9 urn:unknown").adding(
            1, "a=extmap:9 urn:3gpp:video-orientation")
        #expect(problem(later)?.code == "sdp-extmap-conflict")
    }

    @Test("an id that two sections use for two unknown extensions is no concern of ours")
    func conflictOfUnknown() throws {
        let offer = Offer.base.adding(0, "a=extmap:9 urn:one").adding(1, "a=extmap:9 urn:two")
        #expect(try !Negotiated(offer).text.contains("extmap:9"))
    }

    @Test("S04c: one id for two extensions in one section is 400")
    func conflictInSection() throws {
        let found = try #require(problem(Offer.base.adding(0, "a=extmap:4 urn:unknown")))
        #expect(found.code == "sdp-extmap-conflict")
        #expect(found.detail.contains("m-line 0 (mid 0)"))
    }

    @Test("S04d: ids 0 and 256 are 400", arguments: ["0", "256"])
    func invalidIDs(id: String) throws {
        let found = try #require(problem(Offer.base.adding(1, "a=extmap:\(id) urn:3gpp:video-orientation")))
        #expect(found.status == 400)
        #expect(found.code == "sdp-malformed")
        #expect(found.detail.contains("a=extmap"))
    }

    @Test(
        "S04d: ids above 14 are answered only where mixed headers were offered, 15 never",
        arguments: [
            (14, false, true), (15, false, false), (15, true, false), (16, false, false), (16, true, true),
            (255, true, true), (4096, true, false),
        ])
    func largeIDs(id: Int, mixed: Bool, isAnswered: Bool) throws {
        var offer = Offer.base.adding(1, "a=extmap:\(id) urn:3gpp:video-orientation")
        if mixed { offer = offer.addingToSession("a=extmap-allow-mixed") }
        let negotiated = try Negotiated(offer)
        #expect(negotiated.session.sections[1].extensions[.videoOrientation] == (isAnswered ? UInt8(id) : 0))
        #expect(negotiated.media(1).extensions.contains { $0.id == id } == isAnswered)
    }

    @Test("S04d: mixed headers are answered at the level where they were offered")
    func allowMixed() throws {
        let session = try Negotiated(Offer.base.addingToSession("a=extmap-allow-mixed"))
        #expect(session.answer.transport.allowsMixedExtensions)
        #expect(session.answer.media.map(\.transport.allowsMixedExtensions) == [false, false])
        let media = try Negotiated(
            Offer.base.adding(1, "a=extmap-allow-mixed", "a=extmap:20 urn:3gpp:video-orientation"))
        #expect(!media.answer.transport.allowsMixedExtensions)
        #expect(media.answer.media.map(\.transport.allowsMixedExtensions) == [false, true])
        #expect(media.session.sections[1].extensions[.videoOrientation] == 20)
    }

    @Test("S04d: an extension that the client only receives is answered as one that we only send")
    func extensionDirection() throws {
        let uri = HeaderExtensionKind.playoutDelay.uri
        let negotiated = try Negotiated(Offer.base.adding(1, "a=extmap:3/recvonly \(uri)"))
        #expect(negotiated.media(1).extensions.contains { $0.id == 3 && $0.direction == .sendonly })
        #expect(negotiated.session.sections[1].extensions[.playoutDelay] == 3)
    }

    @Test(
        "an extension that the client only sends is left out, since it may not be sent to it",
        arguments: ["sendonly", "inactive"])
    func extensionNotForClient(direction: String) throws {
        let uri = HeaderExtensionKind.playoutDelay.uri
        let negotiated = try Negotiated(Offer.base.adding(1, "a=extmap:3/\(direction) \(uri)"))
        #expect(negotiated.session.sections[1].extensions[.playoutDelay] == 0)
        #expect(!negotiated.text.contains(uri))
    }

    @Test("unknown extensions and stream ids are not answered")
    func unknownExtensions() throws {
        let offer = Offer.base.adding(
            1, "a=extmap:5 urn:unknown", "a=extmap:10 \(HeaderExtensionKind.rid.uri)",
            "a=extmap:11 \(HeaderExtensionKind.repairedRID.uri)")
        let negotiated = try Negotiated(offer)
        #expect(negotiated.media(1).extensions.map(\.id) == [4])
        #expect(negotiated.session.sections[1].extensions[.rid] == 0)
    }

    @Test("the first of two ids for one extension counts")
    func twoIDs() throws {
        let negotiated = try Negotiated(Offer.base.adding(0, "a=extmap:6 \(HeaderExtensionKind.mid.uri)"))
        #expect(negotiated.session.sections[0].extensions[.mid] == 4)
        #expect(negotiated.media(0).extensions.map(\.id) == [1, 4])
    }
}
