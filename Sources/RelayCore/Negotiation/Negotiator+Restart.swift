import RTPCore

extension Negotiator {
    /// Answers an ICE restart (RFC 9725 §4.3.3): new credentials on the same DTLS association. Whether a
    /// restart is meant at all (`If-Match`) is the caller's to decide.
    ///
    /// - Parameters:
    ///   - bytes: the request's `application/trickle-ice-sdpfrag`.
    ///   - fingerprints: the session's; a fragment that names another certificate is 422.
    ///   - sections: the session's; the answer's m-line is the first one's where the fragment has none.
    public static func restart(
        fragment bytes: [UInt8], fingerprints: [CertificateFingerprint], sections: [MediaSection],
        endpoint: WorkerEndpoint, random: inout RandomSource
    ) throws(Problem) -> ICERestart {
        let fragment = try readFragment(bytes)
        guard let ufrag = fragment.iceUfrag, let password = fragment.icePassword else {
            throw Problem(
                status: 400, code: "sdp-no-ice",
                detail: "a=ice-ufrag or a=ice-pwd is missing from the fragment")
        }
        if let algorithm = fingerprints.first?.algorithm, !fragment.fingerprints.isEmpty {
            let named = OfferTransport.of(algorithm, in: fragment.fingerprints)
            guard !named.isEmpty, named.allSatisfy(fingerprints.contains) else {
                throw Problem(
                    status: 422, code: "sdp-fingerprint-changed",
                    detail: "a=fingerprint is not the session's: an ICE restart keeps the certificate")
            }
        }
        let localICE = ICECredentials.drawn(&random)
        return ICERestart(
            localICE: localICE, remoteICE: ICECredentials(ufrag: ufrag, password: password),
            fragment: answer(to: fragment, sections, localICE, endpoint).serialized())
    }

    /// Checks the form of a trickle fragment, whose candidates are then ignored.
    public static func readFragment(_ bytes: [UInt8]) throws(Problem) -> TrickleFragment {
        do {
            return try TrickleFragment(parsing: bytes)
        } catch {
            throw Problem(error)
        }
    }

    private static func answer(
        to fragment: TrickleFragment, _ sections: [MediaSection], _ ice: ICECredentials,
        _ endpoint: WorkerEndpoint
    ) -> TrickleFragment {
        var content = SessionDescription()
        content.isICELite = true
        content.groups = fragment.content.bundle.map { [$0] } ?? []
        let line = fragment.content.media.first
        let first = sections.first
        // RFC 8840 §9: the m-line is only there so that a=mid has a place.
        var section = SessionDescription.Media(
            kind: line?.kind ?? (first?.kind == .video ? "video" : "audio"), port: 9,
            transportProtocol: line?.transportProtocol ?? "UDP/TLS/RTP/SAVPF",
            formats: line?.formats ?? [String(first?.payloadType ?? 0)])
        section.mid = line?.mid ?? first.flatMap { $0.mid.isEmpty ? nil : $0.mid }
        section.transport = SessionDescription.Transport()
        section.transport.iceUfrag = ice.ufrag
        section.transport.icePassword = ice.password
        section.candidates = endpoint.hostCandidates
        section.hasEndOfCandidates = true
        content.media = [section]
        return TrickleFragment(content: content)
    }
}
