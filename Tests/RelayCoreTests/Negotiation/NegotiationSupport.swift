import Foundation
import RTPCore
import RelayCore

// What the negotiation tests share: the fixtures, the BASE offer of the cases, a policy, an endpoint, and one
// call.

let fixtureFolder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appendingPathComponent("Fixtures")

/// A recorded description of a real client.
func recordedSDP(_ name: String) throws -> [UInt8] {
    Array(try Data(contentsOf: fixtureFolder.appendingPathComponent("sdp/\(name).sdp")))
}

func fingerprintText(_ byte: UInt8, count: Int = 32) -> String {
    let digits = (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    return Array(repeating: digits, count: count).joined(separator: ":")
}

/// An offer as lines, to be changed line by line. Starts as the cases' BASE offer.
struct Offer {
    var session: [String]
    var media: [[String]]

    static let base: Offer = {
        let audio = """
            m=audio 9 UDP/TLS/RTP/SAVPF 111
            c=IN IP4 0.0.0.0
            a=rtcp-mux
            a=ice-ufrag:cliU
            a=ice-pwd:clientPassword0123456789
            a=fingerprint:sha-256 \(fingerprintText(0xA1))
            a=setup:actpass
            a=mid:0
            a=sendrecv
            a=msid:s1 a1
            a=rtpmap:111 opus/48000/2
            a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level
            a=extmap:4 urn:ietf:params:rtp-hdrext:sdes:mid
            a=ssrc:286331153 cname:c1
            """
        let video = """
            m=video 9 UDP/TLS/RTP/SAVPF 96 97
            c=IN IP4 0.0.0.0
            a=rtcp-mux
            a=ice-ufrag:cliU
            a=ice-pwd:clientPassword0123456789
            a=fingerprint:sha-256 \(fingerprintText(0xA1))
            a=setup:actpass
            a=mid:1
            a=sendrecv
            a=msid:s1 v1
            a=rtpmap:96 VP8/90000
            a=rtcp-fb:96 nack
            a=rtcp-fb:96 nack pli
            a=rtpmap:97 rtx/90000
            a=fmtp:97 apt=96
            a=extmap:4 urn:ietf:params:rtp-hdrext:sdes:mid
            a=ssrc-group:FID 858993459 572662306
            a=ssrc:858993459 cname:c1
            a=ssrc:572662306 cname:c1
            """
        return Offer(
            session: [
                "v=0", "o=- 4611731400430051336 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE 0 1",
            ], media: [audio, video].map { $0.split(separator: "\n").map(String.init) })
    }()

    /// Replaces every line of a section that begins with `prefix`; an empty replacement removes it.
    func replacing(_ section: Int, _ prefix: String, with lines: String...) -> Offer {
        var offer = self
        offer.media[section] = media[section].flatMap { $0.hasPrefix(prefix) ? lines : [$0] }
        return offer
    }
    func removing(_ section: Int, _ prefixes: String...) -> Offer {
        var offer = self
        offer.media[section].removeAll { line in prefixes.contains { line.hasPrefix($0) } }
        return offer
    }
    func removingEverywhere(_ prefixes: String...) -> Offer {
        var offer = self
        offer.session.removeAll { line in prefixes.contains { line.hasPrefix($0) } }
        for section in media.indices {
            offer.media[section].removeAll { line in prefixes.contains { line.hasPrefix($0) } }
        }
        return offer
    }
    func adding(_ section: Int, _ lines: String...) -> Offer {
        var offer = self
        offer.media[section] += lines
        return offer
    }
    func addingToSession(_ lines: String...) -> Offer {
        var offer = self
        offer.session += lines
        return offer
    }
    func group(_ mids: String) -> Offer {
        var offer = self
        offer.session = session.map { $0.hasPrefix("a=group:BUNDLE") ? "a=group:BUNDLE \(mids)" : $0 }
        return offer
    }
    func keeping(_ sections: Int...) -> Offer {
        var offer = self
        offer.media = sections.map { media[$0] }
        return offer
    }

    var lines: [String] { session + media.flatMap(\.self) }
    var bytes: [UInt8] { Array(lines.map { $0 + "\r\n" }.joined().utf8) }
}

extension NegotiationPolicy {
    static func room(
        _ codec: MediaCodec = .vp8, kind: RoomKind = .peer, media: RoomMedia = .video,
        grants: Grants = .standard
    ) -> NegotiationPolicy {
        NegotiationPolicy(kind: kind, media: media, videoCodec: codec, grants: grants)
    }
}

let testEndpoint = WorkerEndpoint(
    candidates: [
        WorkerEndpoint.Candidate(address: "192.0.2.10", port: 40_000),
        WorkerEndpoint.Candidate(address: "2001:db8::10", port: 40_000),
    ], fingerprint: Array(repeating: 0xBE, count: 32))

/// One negotiation with a fixed seed, and the answer read back.
struct Negotiated {
    var session: NegotiatedSession
    var answer: SessionDescription
    var text: String
    var lines: [String]

    init(_ bytes: [UInt8], _ policy: NegotiationPolicy = .room(), seed: UInt64 = 1) throws {
        var random = RandomSource.seeded(seed)
        session = try Negotiator.negotiate(
            offer: bytes, policy: policy, endpoint: testEndpoint, random: &random)
        answer = try SessionDescription(parsing: session.answer)
        text = String(decoding: session.answer, as: UTF8.self)
        lines = text.components(separatedBy: "\r\n")
    }
    init(_ offer: Offer, _ policy: NegotiationPolicy = .room(), seed: UInt64 = 1) throws {
        try self.init(offer.bytes, policy, seed: seed)
    }
    func media(_ index: Int) -> SessionDescription.Media { answer.media[index] }
}

/// The problem that an offer is refused with; nil when it is accepted.
func problem(_ bytes: [UInt8], _ policy: NegotiationPolicy = .room()) -> Problem? {
    var random = RandomSource.seeded(1)
    do {
        _ = try Negotiator.negotiate(offer: bytes, policy: policy, endpoint: testEndpoint, random: &random)
        return nil
    } catch {
        return error
    }
}
func problem(_ offer: Offer, _ policy: NegotiationPolicy = .room()) -> Problem? {
    problem(offer.bytes, policy)
}
