import RTPCore

/// Puts the answer together: as many m-lines as the offer has, in its order; what is refused has port 0.
struct AnswerWriter {
    let offer: SessionDescription
    let bundle: OfferBundle
    let plan: SectionPlan
    let kind: RoomKind
    let localICE: ICECredentials
    let endpoint: WorkerEndpoint

    func answer(sessionID: UInt64) -> SessionDescription {
        var answer = SessionDescription()
        answer.sessionID = sessionID
        answer.sessionVersion = 1
        answer.isICELite = true
        answer.transport.allowsMixedExtensions = offer.transport.allowsMixedExtensions
        let accepted = plan.acceptedIndices
        if let indices = bundle.indices {
            let mids = indices.filter(accepted.contains).compactMap { offer.media[$0].mid }
            answer.groups = [SessionDescription.Group(semantics: "BUNDLE", mids: mids)]
        }
        let tag = bundle.tag(accepted: accepted)
        for (index, media) in offer.media.enumerated() {
            guard let position = plan.sections.firstIndex(where: { $0.index == index }) else {
                answer.media.append(refused(media))
                continue
            }
            answer.media.append(section(position, media, isTag: index == tag))
        }
        return answer
    }

    /// A refused m-line needs its place and its mid only (RFC 9429 §5.3.1); the transport is repeated because
    /// aiortc takes no answer with a section that lacks it.
    private func refused(_ media: SessionDescription.Media) -> SessionDescription.Media {
        var section = SessionDescription.Media(
            kind: media.kind, port: 0, transportProtocol: media.transportProtocol, formats: media.formats)
        section.mid = media.mid
        section.direction = .inactive
        section.transport = endpoint.transport(localICE)
        section.hasRTCPMux = media.hasRTCPMux
        return section
    }

    private func section(
        _ position: Int, _ media: SessionDescription.Media, isTag: Bool
    ) -> SessionDescription.Media {
        let agreed = plan.sections[position]
        let choice = plan.codecs[position]
        let codecs = choice.codecs
        var section = SessionDescription.Media(
            kind: media.kind, port: 9, transportProtocol: media.transportProtocol,
            formats: codecs.map { String($0.payloadType) })
        section.mid = media.mid
        section.codecs = codecs
        section.extensions = plan.extensions[position]
        plan.simulcasts[position]?.answer(in: &section)
        section.hasRTCPMux = true
        section.hasReducedSizeRTCP = media.hasReducedSizeRTCP
        section.receiverRoundTrip = media.receiverRoundTrip
        section.direction = SessionDescription.Direction(
            sends: agreed.clientReceives, receives: agreed.clientSends)
        section.transport = endpoint.transport(localICE)
        section.transport.allowsMixedExtensions = media.transport.allowsMixedExtensions
        if isTag {
            section.candidates = endpoint.hostCandidates
            section.hasEndOfCandidates = true
        }
        if agreed.clientReceives { addSources(&section, agreed) }
        return section
    }

    /// What the client will receive, announced before the other side exists. In a peer room everything is one
    /// stream, so that audio and video stay in step; in a group the n-th audio and the n-th video slot belong
    /// together.
    private func addSources(_ section: inout SessionDescription.Media, _ agreed: MediaSection) {
        let earlier = plan.sections.count {
            $0.kind == agreed.kind && $0.clientReceives && $0.index < agreed.index
        }
        let slot = kind == .peer ? 0 : earlier
        section.streams = [
            SessionDescription.StreamIdentifier(stream: "relay-\(slot)", track: "track-\(agreed.index)")
        ]
        var ssrcs = [agreed.sendSSRC]
        if agreed.sendRTXSSRC != 0 {
            ssrcs.append(agreed.sendRTXSSRC)
            section.sourceGroups = [SessionDescription.SourceGroup(semantics: "FID", ssrcs: ssrcs)]
        }
        section.sources = ssrcs.map { SessionDescription.Source(ssrc: $0, cname: Negotiator.cname) }
    }
}

extension WorkerEndpoint {
    /// Host candidates of component 1 (RTCP shares the port), UDP before TCP and priorities falling in the order given (RFC
    /// 8445 §5.1.2). A TCP candidate is passive: its type preference is below that of anything over UDP that a host has, and
    /// the upper bits of its local preference say which way the connection is made (RFC 6544 §4.2).
    var hostCandidates: [SessionDescription.Candidate] {
        candidates.enumerated().map { index, candidate in
            let typePreference: UInt32 = candidate.isStream ? 90 : 126
            let localPreference: UInt32 =
                candidate.isStream ? 4 << 13 | UInt32(8_191 - min(index, 8_191)) : UInt32(65_535 - min(index, 65_535))
            return SessionDescription.Candidate(
                foundation: String(index + 1), component: 1,
                priority: typePreference << 24 | localPreference << 8 | 255, address: candidate.address,
                port: candidate.port, isStream: candidate.isStream)
        }
    }

    /// Our side of the transport: always the DTLS server.
    func transport(_ ice: ICECredentials) -> SessionDescription.Transport {
        precondition(fingerprint.count == 32, "a worker's fingerprint is SHA-256")
        var transport = SessionDescription.Transport()
        transport.iceUfrag = ice.ufrag
        transport.icePassword = ice.password
        transport.fingerprints = [SessionDescription.Fingerprint(algorithm: "sha-256", bytes: fingerprint)]
        transport.setup = .passive
        return transport
    }
}

extension ICECredentials {
    /// Fresh credentials: 48 bits of ufrag, 144 bits of password (RFC 8445 §5.3 asks for 24 and 128), as
    /// ice-chars.
    public static func drawn(_ random: inout RandomSource) -> ICECredentials {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        func text(_ count: Int) -> String {
            var bytes: [UInt8] = []
            var bits: UInt64 = 0
            for position in 0..<count {
                // Ten characters of six bits from each number.
                if position % 10 == 0 { bits = random.next() }
                bytes.append(alphabet[Int(bits & 63)])
                bits >>= 6
            }
            return String(decoding: bytes, as: UTF8.self)
        }
        let ufrag = text(8)
        return ICECredentials(ufrag: ufrag, password: text(24))
    }
}
