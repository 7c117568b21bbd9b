/// A session description (RFC 8866) reduced to what offers and answers of WebRTC say to a relay: transport,
/// codecs, extensions and sources. Holds the grammar's view, no policy: whether an offer can be served is not
/// decided here. Attributes that are not listed here are not kept. Plain data.
public struct SessionDescription: Hashable, Sendable {
    /// The `o=` line's session id and version.
    public var sessionID: UInt64 = 0
    public var sessionVersion: UInt64 = 0
    public var groups: [Group] = []
    /// Transport attributes at session level: they hold for every section that does not say otherwise.
    public var transport = Transport()
    public var isICELite = false
    /// A direction at session level, inherited by sections without one.
    public var direction: Direction?
    /// As `Media.receiverRoundTrip`, at session level.
    public var receiverRoundTrip: String?
    public var media: [Media] = []

    public init() {}

    /// `a=group` (RFC 5888).
    public struct Group: Hashable, Sendable {
        /// `BUNDLE`, `LS`, … as written.
        public var semantics: String
        public var mids: [String]
        public init(semantics: String, mids: [String]) {
            self.semantics = semantics
            self.mids = mids
        }
    }

    /// Attributes that describe a transport and may stand at either level.
    public struct Transport: Hashable, Sendable {
        public var iceUfrag: String?
        /// A secret: never logged.
        public var icePassword: String?
        public var iceOptions: [String] = []
        public var fingerprints: [Fingerprint] = []
        public var setup: Setup?
        /// `a=extmap-allow-mixed` (RFC 8285 §6).
        public var allowsMixedExtensions = false
        public init() {}
    }

    /// `a=fingerprint` (RFC 8122 §5): the hex is decoded, the byte count fits the function where that is
    /// known.
    public struct Fingerprint: Hashable, Sendable {
        /// The hash function's name in lower case, such as `sha-256`.
        public var algorithm: String
        public var bytes: [UInt8]
        public init(algorithm: String, bytes: [UInt8]) {
            self.algorithm = algorithm
            self.bytes = bytes
        }
    }

    /// `a=setup` (RFC 4145 §4).
    public enum Setup: String, Hashable, Sendable, CaseIterable { case active, passive, actpass, holdconn }

    /// Who sends, seen from the one who wrote the description.
    public enum Direction: String, Hashable, Sendable, CaseIterable {
        case sendrecv, sendonly, recvonly, inactive
        public init(sends: Bool, receives: Bool) {
            switch (sends, receives) {
            case (true, true): self = .sendrecv
            case (true, false): self = .sendonly
            case (false, true): self = .recvonly
            case (false, false): self = .inactive
            }
        }
        public var sends: Bool { self == .sendrecv || self == .sendonly }
        public var receives: Bool { self == .sendrecv || self == .recvonly }
        /// The same, seen from the other side.
        public var mirrored: Direction { Direction(sends: receives, receives: sends) }
    }

    /// The BUNDLE group (RFC 9143), the first one where there are several.
    public var bundle: Group? { groups.first { $0.semantics == "BUNDLE" } }
}

extension SessionDescription {
    /// One m-line and the lines below it.
    public struct Media: Hashable, Sendable {
        /// The line on which `m=` stands, counted from 1; 0 for a section that was not read.
        public var line = 0
        /// `audio`, `video`, `application`, …
        public var kind: String
        public var port: UInt16
        /// Such as `UDP/TLS/RTP/SAVPF`.
        public var transportProtocol: String
        /// As written, in order of preference: payload types where the protocol is RTP's.
        public var formats: [String]
        public var mid: String?
        /// This section's own transport attributes; see `SessionDescription.transport` for the rest.
        public var transport = Transport()
        /// The section's own direction, else the session's, else `sendrecv`.
        public var direction = Direction.sendrecv
        /// Payload types that have an `rtpmap`, in the m-line's order.
        public var codecs: [Codec] = []
        public var extensions: [Extension] = []
        public var hasRTCPMux = false
        public var hasRTCPMuxOnly = false
        public var hasReducedSizeRTCP = false
        /// `a=rtcp-xr:rcvr-rtt` (RFC 3611 §5.1): receivers' reference times are to be answered, those of `all` or of
        /// `sender`s only; the section's own or the session's.
        public var receiverRoundTrip: String?
        public var isBundleOnly = false
        /// `a=crypto`: the section offers SDES keys (RFC 4568).
        public var hasCrypto = false
        public var streams: [StreamIdentifier] = []
        /// SSRCs named by `a=ssrc`, each once, in order.
        public var sources: [Source] = []
        public var sourceGroups: [SourceGroup] = []
        public var restrictions: [Restriction] = []
        /// The value of `a=simulcast` as written.
        public var simulcast: String?
        /// Candidates by IP address or name; lines of any other form are passed over.
        public var candidates: [Candidate] = []
        public var hasEndOfCandidates = false

        public init(kind: String, port: UInt16, transportProtocol: String, formats: [String]) {
            self.kind = kind
            self.port = port
            self.transportProtocol = transportProtocol
            self.formats = formats
        }

        /// Port 0 refuses a section, unless it only waits to be bundled (RFC 9143 §6).
        public var isRejected: Bool { port == 0 && !isBundleOnly }
    }

    /// `a=rtpmap` with the `a=fmtp` and `a=rtcp-fb` lines of the same payload type.
    public struct Codec: Hashable, Sendable {
        /// 0…127.
        public var payloadType: UInt8
        /// As written; compare without case.
        public var name: String
        public var clockRate: UInt32
        /// Audio channels where given.
        public var channelCount: Int?
        /// The `a=fmtp` value after the payload type.
        public var formatParameters: String?
        /// `nack`, `nack pli`, …: lines for this payload type and for `*`.
        public var feedback: [String] = []

        public init(payloadType: UInt8, name: String, clockRate: UInt32, channelCount: Int? = nil) {
            self.payloadType = payloadType
            self.name = name
            self.clockRate = clockRate
            self.channelCount = channelCount
        }

        /// The value of one `name=value` of `formatParameters`, names without case; the first where there are
        /// several.
        public func parameter(_ name: String) -> String? {
            guard let formatParameters else { return nil }
            for part in formatParameters.utf8.split(separator: UInt8(ascii: ";")) {
                let pieces = part.split(
                    separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
                guard pieces.count == 2 else { continue }
                let key = String(decoding: Array(pieces[0])[...].trimmed, as: UTF8.self)
                guard key.lowercased() == name.lowercased() else { continue }
                return String(decoding: Array(pieces[1])[...].trimmed, as: UTF8.self)
            }
            return nil
        }
    }

    /// `a=extmap` (RFC 8285 §5).
    public struct Extension: Hashable, Sendable {
        /// 1…255, or 4096…4351 where the offerer leaves the choice of an id to the answerer.
        public var id: Int
        /// Nil where none is written.
        public var direction: Direction?
        public var uri: String
        public init(id: Int, direction: Direction? = nil, uri: String) {
            self.id = id
            self.direction = direction
            self.uri = uri
        }
    }

    /// `a=msid` (RFC 8830): nil for `-` or a missing part.
    public struct StreamIdentifier: Hashable, Sendable {
        public var stream: String?
        public var track: String?
        public init(stream: String?, track: String?) {
            self.stream = stream
            self.track = track
        }
    }

    /// `a=ssrc` (RFC 5576).
    public struct Source: Hashable, Sendable {
        public var ssrc: UInt32
        public var cname: String?
        public init(ssrc: UInt32, cname: String?) {
            self.ssrc = ssrc
            self.cname = cname
        }
    }

    /// `a=ssrc-group` (RFC 5576): `FID` pairs a stream with its retransmission.
    public struct SourceGroup: Hashable, Sendable {
        public var semantics: String
        public var ssrcs: [UInt32]
        public init(semantics: String, ssrcs: [UInt32]) {
            self.semantics = semantics
            self.ssrcs = ssrcs
        }
    }

    /// `a=rid` (RFC 8851): id and whether the writer sends it.
    public struct Restriction: Hashable, Sendable {
        public var id: String
        public var sends: Bool
        public init(id: String, sends: Bool) {
            self.id = id
            self.sends = sends
        }
    }

    /// `a=candidate` of type host, over UDP (RFC 8839 §5.1) or passively over TCP (RFC 6544 §4.5).
    public struct Candidate: Hashable, Sendable {
        public var foundation: String
        public var component: UInt16
        public var priority: UInt32
        public var address: String
        public var port: UInt16
        /// The peer connects to it over TCP; else UDP.
        public var isStream: Bool
        public init(
            foundation: String, component: UInt16, priority: UInt32, address: String, port: UInt16,
            isStream: Bool = false
        ) {
            self.foundation = foundation
            self.component = component
            self.priority = priority
            self.address = address
            self.port = port
            self.isStream = isStream
        }
    }
}
