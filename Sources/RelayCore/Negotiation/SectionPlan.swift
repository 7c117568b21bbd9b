import RTPCore

/// Decides m-line by m-line what is accepted, and holds the outcome until the answer is written.
///
/// Only the first accepted m-line of a kind may send: a participant has one track of each kind, the other
/// m-lines are slots.
struct SectionPlan {
    let offer: SessionDescription
    let policy: NegotiationPolicy
    private(set) var sections: [MediaSection] = []
    /// For each of `sections`: the answer's codec lines.
    private(set) var codecs: [CodecChoice] = []
    /// For each of `sections`: the answer's extmap lines.
    private(set) var extensions: [[SessionDescription.Extension]] = []
    /// For each of `sections`: the simulcast that is accepted.
    private(set) var simulcasts: [SimulcastOffer?] = []
    private(set) var videoUnsupported = false
    /// What payload types and extension ids mean on this transport, so that none means two things.
    private var payloadTypes: [UInt8: String] = [:]
    private var extensionURIs: [Int: String] = [:]
    private var namedSSRCs: Set<UInt32> = []

    init(offer: SessionDescription, policy: NegotiationPolicy) {
        self.offer = offer
        self.policy = policy
    }

    var acceptedIndices: [Int] { sections.map(\.index) }

    mutating func decide() throws(Problem) {
        var offeredVideo = false
        var refusedAudio: Int?
        for (index, media) in offer.media.enumerated() where media.isActiveRTP {
            guard let kind = media.mediaKind else { continue }
            offeredVideo = offeredVideo || kind == .video
            if kind == .video && policy.media == .audio {
                acceptForLater(media, index)
                continue
            }
            guard let choice = try choose(kind == .audio ? .opus : policy.videoCodec, media, index) else {
                if kind == .audio { refusedAudio = refusedAudio ?? index }
                continue
            }
            try accept(media, index, kind, choice)
        }
        guard sections.contains(where: { $0.kind == .audio }) else { throw noAudio(refusedAudio) }
        videoUnsupported = offeredVideo && !sections.contains { $0.kind == .video }
    }

    /// Video of an audio room, which may become a video call. One that cannot be served is refused by itself: the call is
    /// about audio.
    private mutating func acceptForLater(_ media: SessionDescription.Media, _ index: Int) {
        var plan = self
        guard let choice = try? plan.choose(policy.videoCodec, media, index),
            (try? plan.accept(media, index, .video, choice)) != nil
        else { return }
        self = plan
    }

    private func noAudio(_ refused: Int?) -> Problem {
        guard let refused else {
            return Problem(
                status: 422, code: "sdp-no-opus",
                detail: "the offer has no audio m-line; one with opus/48000/2 is needed")
        }
        return Problem(
            status: 422, code: "sdp-no-opus", section: offer.media[refused], index: refused,
            detail: "no a=rtpmap is opus/48000/2")
    }

    private func choose(
        _ codec: MediaCodec, _ media: SessionDescription.Media, _ index: Int
    ) throws(Problem) -> CodecChoice? {
        do {
            return try CodecChoice(codec, in: media, red: policy.red)
        } catch {
            guard case .reservedPayloadType(let number) = error else { return nil }
            throw Problem(
                status: 422, code: "sdp-payload-type", section: media, index: index,
                detail: "a=rtpmap:\(number): payload types 64…95 collide with RTCP (RFC 5761)")
        }
    }

    private mutating func accept(
        _ media: SessionDescription.Media, _ index: Int, _ kind: MediaKind, _ choice: CodecChoice
    ) throws(Problem) {
        guard media.hasRTCPMux || media.hasRTCPMuxOnly else {
            throw Problem(
                status: 406, code: "sdp-no-rtcp-mux", section: media, index: index,
                detail: "a=rtcp-mux is missing, and there is no second port for RTCP")
        }
        let codec: MediaCodec = kind == .audio ? .opus : policy.videoCodec
        var section = MediaSection(
            index: index, mid: media.mid ?? "", kind: kind, codec: codec,
            payloadType: choice.codec.payloadType)
        section.rtxPayloadType = choice.retransmission?.payloadType
        section.redPayloadType = choice.redundancy?.payloadType
        section.feedback = choice.feedback
        if media.receiverRoundTrip != nil { section.feedback.insert(.referenceTime) }
        try claim(section.payloadType, as: codec.sdpName, media, index)
        if let rtx = section.rtxPayloadType {
            try claim(rtx, as: "rtx of \(section.payloadType)", media, index)
        }
        if let red = section.redPayloadType { try claim(red, as: "red of \(section.payloadType)", media, index) }
        let mayPublish = kind == .audio ? policy.grants.publishAudio : policy.grants.publishVideo
        let isFirstSender = !sections.contains { $0.kind == kind && $0.clientSends }
        section.clientSends = media.direction.sends && mayPublish && isFirstSender
        section.clientReceives = media.direction.receives && policy.grants.subscribe
        if section.clientSends { try readSources(media, index, &section) }
        let simulcast = section.clientSends && kind == .video ? acceptableSimulcast(media) : nil
        section.streamIDs = simulcast?.streamIDs ?? []
        simulcasts.append(simulcast)
        extensions.append(try mapExtensions(media, index, &section))
        sections.append(section)
        codecs.append(choice)
    }

    /// Simulcast that packets can tell apart: they carry their stream ids.
    private func acceptableSimulcast(_ media: SessionDescription.Media) -> SimulcastOffer? {
        let hasIDs = media.extensions.contains {
            $0.uri == HeaderExtensionKind.rid.uri && (1...14).contains($0.id) && ($0.direction ?? .sendrecv).sends
        }
        return hasIDs ? SimulcastOffer(media) : nil
    }

    /// One payload type means one thing on a transport (RFC 9143 §9.1.1).
    private mutating func claim(
        _ payloadType: UInt8, as meaning: String, _ media: SessionDescription.Media, _ index: Int
    ) throws(Problem) {
        if let earlier = payloadTypes.updateValue(meaning, forKey: payloadType), earlier != meaning {
            throw Problem(
                status: 400, code: "sdp-payload-type", section: media, index: index,
                detail:
                    "payload type \(payloadType) means \(meaning) here and \(earlier) on another m-line of the bundle"
            )
        }
    }

    /// The answer's extmap lines: the extensions we know, under the id that this section offered, direction
    /// mirrored. An id means one thing over the whole bundle, because a packet is read before its section is
    /// known.
    private mutating func mapExtensions(
        _ media: SessionDescription.Media, _ index: Int, _ section: inout MediaSection
    ) throws(Problem) -> [SessionDescription.Extension] {
        let isMixed = media.transport.allowsMixedExtensions || offer.transport.allowsMixedExtensions
        var answer: [SessionDescription.Extension] = []
        var own: [Int: String] = [:]
        for mapping in media.extensions {
            let kind = HeaderExtensionKind(uri: mapping.uri)
            let inSection = own.updateValue(mapping.uri, forKey: mapping.id)
            let inBundle = extensionURIs[mapping.id]
            // Two that we do not know cannot mislead us across sections; within one they are a fault of the
            // offer.
            let isKnown = kind != nil || inBundle.flatMap { HeaderExtensionKind(uri: $0) } != nil
            if inSection ?? mapping.uri != mapping.uri || (isKnown && inBundle ?? mapping.uri != mapping.uri) {
                throw Problem(
                    status: 400, code: "sdp-extmap-conflict", section: media, index: index,
                    detail: "a=extmap:\(mapping.id) stands for two extensions in one bundle (RFC 8285 §7)")
            }
            if inBundle == nil || kind != nil { extensionURIs[mapping.id] = mapping.uri }
            // Ids that no packet of ours could carry are passed over: 15 ends a one-byte header, those above
            // need two-byte headers, and 4096 up leave the choice to us.
            guard (1...14).contains(mapping.id) || (isMixed && (16...255).contains(mapping.id)) else {
                continue
            }
            guard let kind, section.extensions[kind] == 0 else { continue }
            let direction = mapping.direction ?? .sendrecv
            // Stream ids are the sender's; what passes to the receiver the client has to take as well.
            guard kind.namesStream ? direction.sends && !section.streamIDs.isEmpty : direction.receives else {
                continue
            }
            section.extensions[kind] = UInt8(mapping.id)
            answer.append(
                SessionDescription.Extension(
                    id: mapping.id, direction: mapping.direction?.mirrored, uri: mapping.uri))
        }
        return answer
    }

    /// The client's own SSRCs, where it names them (RFC 5576); a group's second member repairs the first.
    private mutating func readSources(
        _ media: SessionDescription.Media, _ index: Int, _ section: inout MediaSection
    ) throws(Problem) {
        var primary = media.sources.map(\.ssrc)
        for group in media.sourceGroups
        where ["FID", "FEC-FR"].contains(group.semantics) && group.ssrcs.count == 2 {
            guard group.ssrcs[0] != group.ssrcs[1] else {
                throw badSource("a=ssrc-group:\(group.semantics) names one SSRC twice", media, index)
            }
            primary.removeAll { $0 == group.ssrcs[1] }
            if !primary.contains(group.ssrcs[0]) { primary.append(group.ssrcs[0]) }
            let isRetransmission = group.semantics == "FID" && section.rtxPayloadType != nil
            if isRetransmission, !section.signalledRTXSSRCs.contains(group.ssrcs[1]) {
                section.signalledRTXSSRCs.append(group.ssrcs[1])
            }
        }
        section.signalledSSRCs = primary
        for ssrc in primary + section.signalledRTXSSRCs {
            guard ssrc != 0 else { throw badSource("a=ssrc:0 names no source", media, index) }
            guard namedSSRCs.insert(ssrc).inserted else {
                throw badSource("a=ssrc:\(ssrc) stands for two streams", media, index)
            }
        }
        guard namedSSRCs.count <= Negotiator.signalledSSRCCount else {
            throw badSource(
                "a=ssrc: \(namedSSRCs.count) streams are named up to here (limit \(Negotiator.signalledSSRCCount))",
                media,
                index)
        }
    }

    private func badSource(_ detail: String, _ media: SessionDescription.Media, _ index: Int) -> Problem {
        Problem(status: 400, code: "sdp-bad-ssrc", section: media, index: index, detail: detail)
    }

    /// Our SSRCs: nonzero, each once on this transport, none of the client's own.
    mutating func drawSSRCs(_ random: inout RandomSource) {
        var used = namedSSRCs.union([0])
        func draw() -> UInt32 {
            while true {
                let ssrc = UInt32(truncatingIfNeeded: random.next())
                if used.insert(ssrc).inserted { return ssrc }
            }
        }
        for index in sections.indices where sections[index].clientReceives {
            sections[index].sendSSRC = draw()
            if sections[index].rtxPayloadType != nil { sections[index].sendRTXSSRC = draw() }
        }
    }
}

extension HeaderExtensionKind {
    /// It tells the streams of a simulcast apart, and is of no use without one.
    var namesStream: Bool { self == .rid || self == .repairedRID }

    init?(uri: String) {
        guard let kind = HeaderExtensionKind.allCases.first(where: { $0.uri == uri }) else { return nil }
        self = kind
    }
}
