import RTPCore
import RelayCore

/// A WebRTC client without sockets and clocks: offer, ICE (controlling), DTLS (client), SRTP both ways, made-up audio and
/// video, feedback. For engine tests, simulations, loopback tests and the load generator.
///
/// It does what browsers do and remembers what it received; it never guesses what the relay should do. After every call take
/// `takeDatagrams()`; `now` never goes back. Confined to one thread.
public final class SimulatedClient {
    public struct Options {
        public var name = "client"
        /// Every random choice follows from it, those of OpenSSL excepted.
        public var seed: UInt64 = 1
        public var dialect = ClientDialect.chromium
        public var videoCodec = MediaCodec.vp8
        public var hasVideo = true
        /// Video m-lines that only receive, for group rooms.
        public var extraVideoSlots = 0
        /// Audio m-lines that only receive, for group rooms.
        public var extraAudioSlots = 0
        /// Sends media from the moment its keys are in; false: only after `startMedia` (null tracks until answered).
        public var sendsAtOnce = true
        public var audioInterval = Interval.milliseconds(20)
        public var audioPayloadByteCount = 60
        /// Writes how loud it is into its packets, where that was agreed on (RFC 6464).
        public var tellsLevels = true
        /// Says of loud packets that they carry voice.
        public var marksVoice = true
        /// Offers RED for its sound (RFC 2198).
        public var offersRED = false
        /// Earlier packets that go along with each of its own, where RED was agreed on and comes first.
        public var repeatedPackets = 1
        /// Real Opus packets to cycle through instead of made-up payloads; they carry no stamp.
        public var opusPackets: [[UInt8]] = []
        public var videoInterval = Interval.milliseconds(40)
        public var packetsPerKeyFrame = 6
        public var packetsPerFrame = 2
        public var videoPayloadByteCount = 1_000
        /// The streams of a simulcast by id, the smallest picture first; empty: one stream. VP8 only.
        public var streamIDs: [String] = []
        /// Packets in a picture of each stream of a simulcast; a key frame has twice as many.
        public var packetsPerStream = [1, 2, 5]
        /// 1…3. With more than one, and with a simulcast, pictures are made for `LayerAudit`.
        public var temporalLayerCount = 1
        public var consentInterval = Interval.seconds(5)
        /// Between two of its RTCP reports.
        public var reportInterval = Interval.seconds(1)
        /// Nominates with its first check, as Firefox does.
        public var nominatesAtOnce = false
        /// Nominates its address once and no later one, as aiortc does.
        public var nominatesOnce = false
        /// Answers the relay's checks.
        public var answersChecks = true
        /// Names its SSRCs in the offer.
        public var signalsSSRCs = true
        public var asksForRepairs = true
        /// Asks for a key frame when a repair has not come.
        public var asksForKeyFrames = true
        /// Tells the relay which of its numbered packets came, each 50 ms, as browsers do.
        public var sendsTransportFeedback = true
        /// How far its wall clock, which its sender reports tell, is ahead of the scene's.
        public var clockOffset = Interval.zero
        /// Makes its pictures smaller when the relay limits its rate.
        public var obeysBitrateLimits = true
        /// Offers that its receiver reference times be answered (RFC 3611).
        public var offersReferenceTimes = false
        /// Keeps what it received packet by packet (else only counts).
        public var keepsPackets = true
        /// Notes whom it heard when, also where it does not keep packets.
        public var notesSenders = false
        /// Shared by many clients of a load generator; nil: its own.
        public var identity: DTLSClientIdentity?
        /// Takes the DTLS client's role in its offer, as RFC 9725 lets a client that has no other; else the answer decides.
        public var namesDTLSRole = false
        /// False: publishes only.
        public var receives = true
        public var audioSSRC: UInt32?
        public var videoSSRC: UInt32?
        public init() {}
    }

    public enum Phase: Hashable, Sendable { case new, checking, handshaking, connected, closed }

    public struct Datagram: Sendable {
        public var from: PeerAddress
        public var to: PeerAddress
        public var bytes: [UInt8]

        public init(from: PeerAddress, to: PeerAddress, bytes: [UInt8]) {
            self.from = from
            self.to = to
            self.bytes = bytes
        }
    }

    public struct SenderReportSeen: Hashable, Sendable {
        public var ntp: NTPTime
        public var rtp: UInt32
        public var packetCount: UInt32
    }

    public struct Counters: Hashable, Sendable {
        public var checksSent = 0
        public var checksAnswered = 0
        public var relayChecks = 0
        /// Relay checks that an ICE-lite relay must not send: controlling, nominating, without priority or role.
        public var improperRelayChecks = 0
        public var unauthenticRelayChecks = 0
        public var checkErrors: [Int: Int] = [:]
        public var pictureLossRequests = 0
        public var fullIntraRequests = 0
        public var nackedPackets = 0
        public var repairsSent = 0
        public var transportFeedbacks = 0
        public var receiverReports = 0
        public var senderReports = 0
        public var bitrateLimits = 0
        public var feedbackSent = 0
        public var goodbyes = 0
        public var malformedRTCP = 0
        /// Came before this side's keys: the relay's last DTLS flight was lost.
        public var earlyRTP = 0
        /// Did not open, or came again.
        public var unopenedRTP = 0
        /// RED whose blocks do not fit, or that carries another payload type than was agreed on.
        public var malformedRED = 0
        public var unopenedRTCP = 0
        public var replayedRTP = 0
        public var replayedRTCP = 0
        public var unknownSSRC = 0
    }

    public let options: Options
    /// Where it sends from. Change it with `move(to:now:)`.
    public internal(set) var address: PeerAddress
    public internal(set) var relayAddress = PeerAddress.none
    public internal(set) var phase = Phase.new
    public internal(set) var counters = Counters()
    public internal(set) var sections: [ClientSection] = []
    /// By SSRC.
    public internal(set) var received: [UInt32: ReceivedStream] = [:]
    /// Transport-wide numbers that the relay's feedback called received.
    public internal(set) var acknowledged: Set<UInt16> = []
    public internal(set) var transportNumber: UInt16 = 0
    /// What the relay's latest REMB allows, bits per second; nil before the first.
    public internal(set) var bitrateLimit: UInt64?
    /// The relay's last sender report of each SSRC.
    public internal(set) var senderReports: [UInt32: SenderReportSeen] = [:]
    public internal(set) var lastReceiverBlocks: [ReportBlock] = []
    /// The relay's answers to receiver reference times, in the order they came.
    public internal(set) var referenceDelays: [ReceiverReferenceDelay] = []
    public internal(set) var roundTrip: Interval?
    /// By the server's last report on what it sent (RFC 3550 §6.4.1).
    public internal(set) var reportRoundTrip: Interval?
    public internal(set) var connectedAt: Instant?
    /// The address that the relay saw, by its last answer.
    public internal(set) var mappedAddress: PeerAddress?
    public var isConsentLost: Bool { lastConsent.map { now - $0 >= .seconds(30) } ?? false }

    /// How loud it says that it is, −dBov: 0 (loudest) … 127.
    public var audioLevel: UInt8 = 30

    public internal(set) var localICE: ICECredentials
    public internal(set) var remoteICE = ICECredentials(ufrag: "", password: "")
    public let dtls: DTLSClient
    public let tag: UInt32

    // ICE.
    var now = Instant(nanoseconds: 0)
    var checkAt = Instant.distantFuture
    var outstandingChecks: [STUNTransactionID: Instant] = [:]
    var lastConsent: Instant?
    var isNominated = false
    // SRTP.
    var sendCipher: SRTPCipher?
    var receiveCipher: SRTPCipher?
    var controlIndex: UInt32 = 0
    var receivedControl: Set<UInt32> = []
    var receivedIndices: [UInt32: ReceivedIndices] = [:]
    // Media.
    var sent: [MediaKind: SentStream] = [:]
    /// The streams of video where it comes in layers.
    var streams: [SentStream] = []
    var pausedStreams: Set<Int> = []
    var isSendingMedia = false
    var isMuted: Set<MediaKind> = []
    var audioAt = Instant.distantFuture
    var videoAt = Instant.distantFuture
    var reportAt = Instant.distantFuture
    var feedbackAt = Instant.distantFuture
    var feedback = TransportFeedbackRecorder.create()
    /// Bytes of pictures that a limited rate has left over.
    var pictureCredit = 0.0
    var wantsKeyFrame = true
    var opusIndex = 0
    var random: RandomSource
    var outgoing: [Datagram] = []

    public init(_ options: Options = Options(), address: PeerAddress) {
        self.options = options
        self.address = address
        random = .seeded(options.seed)
        tag = UInt32.random(in: 1...UInt32.max, using: &random)
        localICE = ICECredentials.drawn(&random)
        dtls = DTLSClient(
            identity: options.identity ?? options.dialect.makeIdentity(),
            datagramByteCount: options.dialect.datagramByteCount)
    }

    deinit {
        sendCipher?.destroy()
        receiveCipher?.destroy()
        feedback.destroy()
    }

    public var isConnected: Bool { phase == .connected }

    /// Takes the relay's answer and begins with the checks. `relay`: where to send; nil: the answer's first candidate.
    public func accept(answer: [UInt8], relay: PeerAddress? = nil, now: Instant) throws(SDPError) {
        let description = try SessionDescription(parsing: answer)
        self.now = now
        sections = ClientSection.all(of: description)
        let transport = description.media.first { !$0.isRejected }?.transport ?? description.transport
        remoteICE = ICECredentials(
            ufrag: transport.iceUfrag ?? description.transport.iceUfrag ?? "",
            password: transport.icePassword ?? description.transport.icePassword ?? "")
        let candidate = description.media.lazy.flatMap(\.candidates).first
        relayAddress =
            relay ?? candidate.flatMap { PeerAddress(address: $0.address, port: $0.port) } ?? .none
        prepareStreams()
        phase = .checking
        sendCheck()
    }

    /// One datagram from the network.
    public func receive(_ bytes: [UInt8], from peer: PeerAddress, now: Instant) {
        self.now = now
        guard phase != .closed, phase != .new, bytes.count > 1 else { return }
        switch DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: bytes.count) {
        case .stun: receiveSTUN(bytes, from: peer)
        case .dtls:
            dtls.receive(bytes, now: now)
            driveDTLS()
        case .rtp: receiveRTP(bytes)
        case .rtcp: receiveRTCP(bytes)
        case .drop: break
        }
    }

    /// When `advance` is to be called next.
    public var deadline: Instant {
        guard phase != .closed, phase != .new else { return .distantFuture }
        var earliest = min(checkAt, dtls.deadline)
        guard phase == .connected else { return earliest }
        earliest = min(earliest, min(min(reportAt, feedbackAt), min(audioAt, videoAt)))
        for stream in received.values { earliest = min(earliest, stream.repairDeadline) }
        return earliest
    }

    public func advance(to now: Instant) {
        self.now = now
        guard phase != .closed, phase != .new else { return }
        if checkAt <= now { sendCheck() }
        if dtls.deadline <= now {
            dtls.advance(to: now)
            driveDTLS()
        }
        guard phase == .connected else { return }
        sendDueMedia()
        askForRepairs()
        if feedbackAt <= now { sendTransportFeedback() }
        if reportAt <= now { sendReports() }
    }

    /// What is to be sent, in order.
    public func takeDatagrams() -> [Datagram] {
        defer { outgoing.removeAll(keepingCapacity: true) }
        return outgoing
    }

    /// Leaves: close_notify, then silence.
    public func close(now: Instant) {
        self.now = now
        dtls.close()
        for datagram in dtls.takeDatagrams() { send(datagram) }
        phase = .closed
    }

    /// Goes silent without a word, as a killed tab does.
    public func vanish() { phase = .closed }

    /// Sends from another address from now on, and checks it at once.
    public func move(to address: PeerAddress, now: Instant) {
        self.now = now
        self.address = address
        if phase != .new, phase != .closed { sendCheck() }
    }

    /// Takes another address before anything was sent from the first.
    public func address(is address: PeerAddress) {
        precondition(phase == .new, "use move(to:now:)")
        self.address = address
    }

    /// A new ICE generation, as negotiated: new credentials, everything else stays.
    public func restartICE(local: ICECredentials, remote: ICECredentials, now: Instant) {
        self.now = now
        localICE = local
        remoteICE = remote
        outstandingChecks = [:]
        sendCheck()
    }

    /// Sends bytes as they are: for attacks.
    public func send(_ bytes: [UInt8]) {
        outgoing.append(Datagram(from: address, to: relayAddress, bytes: bytes))
    }

    func driveDTLS() {
        for datagram in dtls.takeDatagrams() { send(datagram) }
        if dtls.state == .established, sendCipher == nil, let keys = dtls.keys { install(keys) }
        if dtls.state == .closed, phase == .connected { phase = .closed }
    }

    private func install(_ keys: SRTPKeys) {
        sendCipher = SRTPCipher.create(
            profile: keys.profile, masterKey: keys.sendKey, masterSalt: keys.sendSalt)
        receiveCipher = SRTPCipher.create(
            profile: keys.profile, masterKey: keys.receiveKey, masterSalt: keys.receiveSalt)
        phase = .connected
        connectedAt = now
        reportAt = now + options.reportInterval
        if options.sendsAtOnce { startMedia(now: now) }
    }
}
