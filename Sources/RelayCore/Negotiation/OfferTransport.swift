import RTPCore

/// The client's end of the one transport: ICE credentials, DTLS role and certificate fingerprints, taken from
/// the tagged section, else from the one that the offer tagged (a bundled section may leave them out), else
/// from the session level.
///
/// Fingerprints: a section's own lines hide those of the session level. Of several algorithms one is chosen,
/// sha-256 before sha-384 before sha-512, and any line of that algorithm may match (RFC 8122 §5); sha-1 and
/// md5 never count. sha-256 comes first because every client has it and computes it over the same
/// certificate; a peer that lists a wrong sha-512 line beside it is broken, not safer.
struct OfferTransport {
    let ice: ICECredentials
    let fingerprints: [CertificateFingerprint]

    var identity: OfferIdentity { OfferIdentity(remoteUfrag: ice.ufrag, fingerprints: fingerprints) }

    /// - Parameter tag: index of the accepted m-line that is asked first; nil to ask the offer's own tag.
    init(of offer: SessionDescription, preferring tag: Int?) throws(Problem) {
        let active = offer.media.indices.filter { offer.media[$0].isActiveRTP }
        let bundled = (offer.bundle?.mids ?? []).compactMap { mid in offer.media.firstIndex { $0.mid == mid }
        }
        var order: [Int] = []
        for index in (tag.map { [$0] } ?? []) + bundled + active where !order.contains(index) {
            order.append(index)
        }
        ice = try OfferTransport.credentials(offer, order)
        fingerprints = try OfferTransport.fingerprints(offer, order, active)
        try OfferTransport.checkSetup(offer, order, active)
    }

    private static func credentials(_ offer: SessionDescription, _ order: [Int]) throws(Problem)
        -> ICECredentials
    {
        let levels = order.map { offer.media[$0].transport } + [offer.transport]
        for level in levels {
            if let ufrag = level.iceUfrag ?? offer.transport.iceUfrag,
                let password = level.icePassword ?? offer.transport.icePassword
            {
                return ICECredentials(ufrag: ufrag, password: password)
            }
        }
        throw fault(offer, order.first, status: 400, "sdp-no-ice", "a=ice-ufrag or a=ice-pwd is missing")
    }

    private static func fingerprints(
        _ offer: SessionDescription, _ order: [Int], _ active: [Int]
    ) throws(Problem) -> [CertificateFingerprint] {
        let source = order.first { !offer.media[$0].transport.fingerprints.isEmpty }
        let lines = source.map { offer.media[$0].transport.fingerprints } ?? offer.transport.fingerprints
        guard !lines.isEmpty else {
            throw fault(
                offer, order.first, status: 400, "sdp-no-fingerprint",
                "a=fingerprint is missing here and at session level: media without DTLS is not served")
        }
        guard let chosen = chosen(of: lines) else {
            throw fault(
                offer, source, status: 400, "sdp-weak-fingerprint",
                "no a=fingerprint is of sha-256, sha-384 or sha-512")
        }
        guard chosen.count <= Negotiator.fingerprintCount else {
            throw fault(
                offer, source, status: 413, "sdp-too-large",
                "\(chosen.count) a=fingerprint lines of one hash function (limit \(Negotiator.fingerprintCount))"
            )
        }
        for index in active where index != source {
            let others = offer.media[index].transport.fingerprints
            if !others.isEmpty, Set(of(chosen[0].algorithm, in: others)) != Set(chosen) {
                throw fault(
                    offer, index, status: 400, "sdp-fingerprint-conflict",
                    "a=fingerprint differs from that of the bundle's first m-line")
            }
        }
        return chosen
    }

    /// The lines of the first algorithm in our order that is there, each once.
    static func chosen(of lines: [SessionDescription.Fingerprint]) -> [CertificateFingerprint]? {
        for algorithm in [FingerprintAlgorithm.sha256, .sha384, .sha512] {
            let matching = of(algorithm, in: lines)
            if !matching.isEmpty { return matching }
        }
        return nil
    }

    static func of(
        _ algorithm: FingerprintAlgorithm, in lines: [SessionDescription.Fingerprint]
    ) -> [CertificateFingerprint] {
        var result: [CertificateFingerprint] = []
        for line in lines where line.algorithm == algorithm.sdpName {
            let fingerprint = CertificateFingerprint(algorithm: algorithm, bytes: line.bytes)
            if !result.contains(fingerprint) { result.append(fingerprint) }
        }
        return result
    }

    /// We are always the DTLS server, so the client has to be able to be active (RFC 8842 §5.3). Absent is
    /// refused: RFC 4145 would read it as active, but every WebRTC offer states it, and a guess here costs a
    /// handshake that never starts.
    private static func checkSetup(
        _ offer: SessionDescription, _ order: [Int], _ active: [Int]
    ) throws(Problem) {
        let source = order.first { offer.media[$0].transport.setup != nil }
        guard let role = source.flatMap({ offer.media[$0].transport.setup }) ?? offer.transport.setup else {
            throw fault(
                offer, order.first, status: 422, "sdp-setup",
                "a=setup is missing; it has to be actpass or active")
        }
        let others = active.filter { $0 != source }.map {
            (index: Optional($0), role: offer.media[$0].transport.setup)
        }
        for entry in [(index: source, role: Optional(role))] + others {
            guard let stated = entry.role, stated == .passive || stated == .holdconn else { continue }
            throw fault(
                offer, entry.index, status: 422, "sdp-setup",
                "a=setup:\(stated.rawValue), but the relay is the DTLS server: it has to be actpass or active"
            )
        }
    }

    private static func fault(
        _ offer: SessionDescription, _ index: Int?, status: Int, _ code: String, _ detail: String
    ) -> Problem {
        guard let index else { return Problem(status: status, code: code, detail: detail) }
        return Problem(status: status, code: code, section: offer.media[index], index: index, detail: detail)
    }
}

extension FingerprintAlgorithm {
    /// The name in `a=fingerprint`, lower case.
    public var sdpName: String {
        switch self {
        case .sha256: "sha-256"
        case .sha384: "sha-384"
        case .sha512: "sha-512"
        }
    }
}
