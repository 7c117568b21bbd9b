import RTPCore

/// Answers SDP offers: decides what of an offer is served under a room's policy, draws our credentials and
/// SSRCs, and writes the one answer of a session (RFC 3264, RFC 9143, RFC 9429 §5.3.1). Pure: everything
/// random comes from `random`. The order of the checks is the order of the functions in `negotiate`: form,
/// BUNDLE, sections, transport.
public enum Negotiator {
    /// The CNAME of everything that we send to a client (RFC 5576 §6.1): one a transport, and the same for
    /// all, since it tells nobody apart.
    public static let cname = "relay"
    /// SSRCs that one participant may name (SECURITY T54).
    public static let signalledSSRCCount = 16
    /// Fingerprints of the chosen algorithm that one offer may list.
    public static let fingerprintCount = 8
    /// Bytes of a mid: what a one-byte header extension carries (RFC 8285 §4.2, RFC 9143 §15).
    public static let midByteCount = 16

    /// - Throws: what the API tells the caller: 400 for what is malformed or unprotected, 406 for what needs
    ///   a transport that we do not have, 413 for what passes a limit, 422 for what cannot be served. Nothing
    ///   has changed then.
    public static func negotiate(
        offer bytes: [UInt8], policy: NegotiationPolicy, endpoint: WorkerEndpoint, random: inout RandomSource
    ) throws(Problem) -> NegotiatedSession {
        let offer = try read(bytes)
        let bundle = try OfferBundle(of: offer)
        var plan = SectionPlan(offer: offer, policy: policy)
        try plan.decide()
        let transport = try OfferTransport(of: offer, preferring: bundle.tag(accepted: plan.acceptedIndices))
        plan.drawSSRCs(&random)
        let localICE = ICECredentials.drawn(&random)
        let answer = AnswerWriter(
            offer: offer, bundle: bundle, plan: plan, kind: policy.kind, localICE: localICE,
            endpoint: endpoint
        ).answer(sessionID: random.next() >> 2)
        return NegotiatedSession(
            answer: answer.serialized(), localICE: localICE, remoteICE: transport.ice,
            fingerprints: transport.fingerprints, sections: plan.sections,
            videoUnsupported: plan.videoUnsupported,
            identity: try OfferTransport(of: offer, preferring: nil).identity)
    }

    /// Reads an offer and checks what holds for every one, whatever the room.
    static func read(_ bytes: [UInt8]) throws(Problem) -> SessionDescription {
        let offer: SessionDescription
        do {
            offer = try SessionDescription(parsing: bytes)
        } catch {
            throw Problem(error)
        }
        if offer.isICELite {
            throw Problem(
                status: 422, code: "sdp-ice-lite",
                detail: "a=ice-lite: the relay is ICE-lite itself, so the client has to make the checks")
        }
        var mids: Set<String> = []
        for (index, media) in offer.media.enumerated() {
            if let mid = media.mid {
                guard mid.utf8.count <= midByteCount else {
                    throw Problem(
                        status: 400, code: "sdp-bad-mid", section: media, index: index,
                        detail: "a=mid has \(mid.utf8.count) bytes (limit \(midByteCount))")
                }
                guard mids.insert(mid).inserted else {
                    throw Problem(
                        status: 400, code: "sdp-bad-mid", section: media, index: index,
                        detail: "a=mid is that of an earlier m-line")
                }
            }
            if media.isActiveRTP { try checkProtection(media, index) }
        }
        return offer
    }

    /// SRTP keyed by DTLS or nothing (RFC 8827 §6.5, SECURITY T36).
    private static func checkProtection(_ media: SessionDescription.Media, _ index: Int) throws(Problem) {
        // RFC 9429 §5.1.2: the TCP form is what clients write whose default candidate is TCP.
        guard ["UDP/TLS/RTP/SAVPF", "TCP/DTLS/RTP/SAVPF"].contains(media.transportProtocol) else {
            throw Problem(
                status: 400, code: "sdp-not-dtls-srtp", section: media, index: index,
                detail: "the m-line's protocol is not UDP/TLS/RTP/SAVPF, and nothing else is served")
        }
        if media.hasCrypto {
            throw Problem(
                status: 400, code: "sdp-sdes", section: media, index: index,
                detail: "a=crypto (SDES keys) is never accepted, DTLS-SRTP is")
        }
    }
}

extension SessionDescription.Media {
    /// Audio or video that the offerer wants: only such an m-line can be accepted.
    var isActiveRTP: Bool { mediaKind != nil && !isRejected }

    var mediaKind: MediaKind? {
        switch kind {
        case "audio": .audio
        case "video": .video
        default: nil
        }
    }
}

extension Problem {
    /// What the reader found: 413 for a limit that was passed, else 400. Names line, attribute and limit.
    public init(_ error: SDPError) {
        self.init(
            status: error.kind == .limit ? 413 : 400,
            code: error.kind == .limit ? "sdp-too-large" : "sdp-malformed", detail: error.description)
    }

    init(status: Int, code: String, section: SessionDescription.Media, index: Int, detail: String) {
        var place = "m-line \(index)"
        if let mid = section.mid, mid.utf8.count <= Negotiator.midByteCount { place += " (mid \(mid))" }
        if section.line > 0 { place += " at line \(section.line)" }
        self.init(status: status, code: code, detail: "\(place): \(detail)")
    }
}
