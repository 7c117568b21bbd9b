import RTPCore

// What goes into a negotiation beside the offer and what comes out of it. Plain data.

/// What a room and a token allow: everything that an answer depends on beside the offer itself.
public struct NegotiationPolicy: Hashable, Sendable {
    public var kind: RoomKind
    /// In an audio room every video m-line is refused.
    public var media: RoomMedia
    /// The room's one video codec.
    public var videoCodec: MediaCodec
    /// What is not granted is taken out of the answer's directions; the m-line itself stays.
    public var grants: Grants
    /// Sound is answered with RED where it is offered.
    public var red = false

    /// - Precondition: `videoCodec` is a video codec.
    public init(kind: RoomKind, media: RoomMedia, videoCodec: MediaCodec, grants: Grants) {
        precondition(videoCodec.kind == .video, "a room's video codec is no video codec")
        self.kind = kind
        self.media = media
        self.videoCodec = videoCodec
        self.grants = grants
    }
}

/// One offer, answered. Nothing of it changes later, except the ICE generation (`Negotiator.restart`).
public struct NegotiatedSession: Hashable, Sendable {
    /// The SDP answer with CRLF line endings. Holds our ICE password: a secret, not to be logged.
    public var answer: [UInt8]
    public var localICE: ICECredentials
    public var remoteICE: ICECredentials
    /// Never empty, all of one algorithm; any one may match the client's certificate.
    public var fingerprints: [CertificateFingerprint]
    /// Accepted m-lines in the order of the offer. At least one of audio.
    public var sections: [MediaSection]
    /// Video was offered in a video room, but on no m-line with the room's codec: an audio call.
    public var videoUnsupported: Bool
    /// What the identical offer is recognised by.
    public var identity: OfferIdentity

    public init(
        answer: [UInt8], localICE: ICECredentials, remoteICE: ICECredentials,
        fingerprints: [CertificateFingerprint],
        sections: [MediaSection], videoUnsupported: Bool, identity: OfferIdentity
    ) {
        self.answer = answer
        self.localICE = localICE
        self.remoteICE = remoteICE
        self.fingerprints = fingerprints
        self.sections = sections
        self.videoUnsupported = videoUnsupported
        self.identity = identity
    }
}

/// Tells whether two offers of one device are the same offer, sent again: the same ICE user fragment and
/// certificate (API.md: it gets the same answer). Independent of a room's policy.
public struct OfferIdentity: Hashable, Sendable, Codable {
    public var remoteUfrag: String
    public var fingerprints: [CertificateFingerprint]

    public init(remoteUfrag: String, fingerprints: [CertificateFingerprint]) {
        self.remoteUfrag = remoteUfrag
        self.fingerprints = fingerprints
    }

    /// Reads the identity of an offer without answering it; throws what `Negotiator.negotiate` would throw
    /// about the offer's form, its ICE credentials and its fingerprints.
    public init(offer bytes: [UInt8]) throws(Problem) {
        self = try OfferTransport(of: try Negotiator.read(bytes), preferring: nil).identity
    }
}

/// A new ICE generation of a running session.
public struct ICERestart: Hashable, Sendable {
    public var localICE: ICECredentials
    public var remoteICE: ICECredentials
    /// The body of the 200: `application/trickle-ice-sdpfrag`. Holds our ICE password.
    public var fragment: [UInt8]

    public init(localICE: ICECredentials, remoteICE: ICECredentials, fragment: [UInt8]) {
        self.localICE = localICE
        self.remoteICE = remoteICE
        self.fragment = fragment
    }
}
