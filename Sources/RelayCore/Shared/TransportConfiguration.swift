import RTPCore

// What the conductor settles from an offer and a worker needs to run one participant's transport. Plain data; travels over
// the link and is kept in the journal, so that a restarted control process knows what its workers hold.

public enum MediaKind: UInt8, Sendable, Codable, CaseIterable { case audio, video }

public enum MediaCodec: UInt8, Sendable, Codable, CaseIterable {
    case opus, vp8, h264, vp9, av1
    public var kind: MediaKind { self == .opus ? .audio : .video }
    public var clockRate: UInt32 { self == .opus ? 48_000 : 90_000 }
}

/// ICE short-term credentials of one side (RFC 8445 §5.3). The password is a secret: never logged.
public struct ICECredentials: Hashable, Sendable, Codable, CustomStringConvertible {
    public var ufrag: String
    public var password: String
    public init(ufrag: String, password: String) {
        self.ufrag = ufrag
        self.password = password
    }
    public var description: String { "ICECredentials(\(ufrag), redacted)" }
}

/// Hash functions that a certificate fingerprint may use (RFC 8122; sha-1 and md5 are refused).
public enum FingerprintAlgorithm: UInt8, Sendable, Codable { case sha256, sha384, sha512 }

public struct CertificateFingerprint: Hashable, Sendable, Codable {
    public var algorithm: FingerprintAlgorithm
    /// 32, 48 or 64 bytes.
    public var bytes: [UInt8]
    public init(algorithm: FingerprintAlgorithm, bytes: [UInt8]) {
        self.algorithm = algorithm
        self.bytes = bytes
    }
}

/// One accepted m-line with RTP, as both sides agreed on it. Rejected m-lines have no section.
public struct MediaSection: Hashable, Sendable, Codable {
    /// The m-line's index in the offer.
    public var index: Int
    /// The BUNDLE mid, 1…16 bytes; empty when the offer had none (then SSRC and payload type identify it).
    public var mid: String
    public var kind: MediaKind
    public var codec: MediaCodec
    public var payloadType: UInt8
    /// RTX payload type (RFC 4588) when negotiated.
    public var rtxPayloadType: UInt8?
    /// RED payload type (RFC 2198) of audio when negotiated: what it repeats is of `payloadType`.
    public var redPayloadType: UInt8?
    /// The client may send on this m-line.
    public var clientSends: Bool
    /// The client receives on this m-line: it is a slot that one other participant's track can be forwarded on.
    public var clientReceives: Bool
    public var extensions: HeaderExtensionIDs
    public var feedback: RTCPFeedback
    /// SSRCs that the offer names for the client's own stream, primary and RTX; empty when it names none.
    public var signalledSSRCs: [UInt32]
    public var signalledRTXSSRCs: [UInt32]
    /// The RTP stream ids of the simulcast that the client sends on this m-line, in the offer's order; empty: one stream.
    public var streamIDs: [String] {
        get { simulcast ?? [] }
        set { simulcast = newValue.isEmpty ? nil : newValue }
    }
    // Nil is the default, so that records from before it are read as well.
    private var simulcast: [String]?
    /// What we send with on this m-line: drawn by us and signalled in the answer (0 when `clientReceives` is false).
    public var sendSSRC: UInt32
    /// 0 when RTX is not negotiated.
    public var sendRTXSSRC: UInt32

    public init(index: Int, mid: String, kind: MediaKind, codec: MediaCodec, payloadType: UInt8) {
        self.index = index
        self.mid = mid
        self.kind = kind
        self.codec = codec
        self.payloadType = payloadType
        rtxPayloadType = nil
        redPayloadType = nil
        clientSends = false
        clientReceives = false
        extensions = HeaderExtensionIDs()
        feedback = []
        signalledSSRCs = []
        signalledRTXSSRCs = []
        simulcast = nil
        sendSSRC = 0
        sendRTXSSRC = 0
    }
}

/// RTCP feedback negotiated on an m-line (RFC 4585, RFC 5104, draft-holmer transport-cc, draft-alvestrand REMB, RFC 3611).
public struct RTCPFeedback: OptionSet, Hashable, Sendable, Codable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public static let nack = RTCPFeedback(rawValue: 1)
    public static let pli = RTCPFeedback(rawValue: 2)
    public static let fir = RTCPFeedback(rawValue: 4)
    public static let transportCC = RTCPFeedback(rawValue: 8)
    public static let remb = RTCPFeedback(rawValue: 16)
    /// The client's receiver reference times are answered.
    public static let referenceTime = RTCPFeedback(rawValue: 32)
}

/// Everything a worker needs to run one participant's transport.
public struct TransportConfiguration: Hashable, Sendable, Codable {
    public var participant: ParticipantHandle
    public var room: RoomHandle
    /// A peer room ends for both when one joined side leaves; the worker carries this rule while it is alone.
    public var isPeerRoom: Bool
    /// The gate opens by itself as soon as keys are in (`state=joined`).
    public var joinsWhenReady: Bool
    public var localICE: ICECredentials
    public var remoteICE: ICECredentials
    /// Any one of these must match the client's certificate. Never empty; all of one algorithm (S07: the strongest offered
    /// of sha-256 first).
    public var fingerprints: [CertificateFingerprint]
    public var sections: [MediaSection]
    /// What keeps its media from passing, joined or not.
    public var gates: MediaGates {
        get { otherGates ?? [] }
        set { otherGates = newValue.isEmpty ? nil : newValue }
    }
    /// While nobody gets its video, its newest key frame is kept, and sent first to the one who then gets it.
    public var keepsKeyFrame: Bool {
        get { otherKeepsKeyFrame ?? false }
        set { otherKeepsKeyFrame = newValue ? true : nil }
    }
    // Nil is the default, so that records from before these are read as well.
    private var otherGates: MediaGates?
    private var otherKeepsKeyFrame: Bool?

    public init(
        participant: ParticipantHandle, room: RoomHandle, isPeerRoom: Bool, joinsWhenReady: Bool,
        localICE: ICECredentials, remoteICE: ICECredentials, fingerprints: [CertificateFingerprint],
        sections: [MediaSection]
    ) {
        self.participant = participant
        self.room = room
        self.isPeerRoom = isPeerRoom
        self.joinsWhenReady = joinsWhenReady
        self.localICE = localICE
        self.remoteICE = remoteICE
        self.fingerprints = fingerprints
        self.sections = sections
    }
}
