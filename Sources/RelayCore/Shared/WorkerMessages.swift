import RTPCore

// The vocabulary of the link between the conductor and the workers: commands one way, news the other. Meaning only; the
// bytes are in Link/.

/// What the conductor tells a worker. Commands for one participant are carried out in the order given; one that names a
/// participant or room which the worker no longer has is a no-op.
public enum WorkerCommand: Hashable, Sendable {
    /// Make a transport. The same handle again replaces nothing: it is ignored.
    case create(TransportConfiguration)
    /// Open the gate, now or as soon as keys are in.
    case join(ParticipantHandle)
    /// Send close_notify, stop, forget. Answered by `removed` where there is such a transport.
    case remove(ParticipantHandle)
    /// New ICE generation (RFC 8445 §9, RFC 9725): DTLS, SRTP and the gate stay.
    case restartICE(ParticipantHandle, local: ICECredentials, remote: ICECredentials)
    /// What keeps the participant's media from passing, as a whole: it replaces what was said before.
    case gates(ParticipantHandle, MediaGates)
    /// What the participant wishes for its slots, as a whole: it replaces what was said before.
    case slots(ParticipantHandle, [SlotWish])
    /// A part of a sound that prompts may play; the parts of one sound follow each other.
    case sound(SoundID, packets: [[UInt8]], isLast: Bool)
    /// Play a sound to the participant, prepared or joined, in place of what else it would hear. Answered by `played` when it
    /// is over. The order before it ends unanswered.
    case play(ParticipantHandle, PromptOrder)
    /// End that prompt, unless another one plays by now. Not answered.
    case stopPlaying(ParticipantHandle, PromptHandle)
    /// Tell the headers of a room's datagrams, in and out. Answered by `LinkMessage.captured`, to the last part.
    case capture(CaptureOrder)
    case stopCapture(CaptureID)
    /// Record the room from now on. The same recording again is ignored. Answered by `recorded` when it has ended.
    case record(RecordingOrder)
    /// Whom a recording's files belong to; before its media, or a little later.
    case nameRecorded(RecordingHandle, RecordedParticipant)
    /// End that recording. Unknown ones are no-ops.
    case stopRecording(RecordingHandle)
    /// Everything known up to the hello's snapshot has been taken over: kept news may be dropped.
    case adopted
    /// Send close_notify to everybody and exit.
    case shutDown
}

/// Why a worker's transport ended by itself.
public enum TransportEnd: UInt8, Hashable, Sendable, Codable {
    /// The client's authenticated DTLS close_notify or fatal alert.
    case closed
    /// Nothing authenticated for 30 s.
    case lost
    /// DTLS finished with a certificate that the SDP did not name.
    case fingerprintMismatch
    /// DTLS finished without a common SRTP profile, or no common version or cipher.
    case noSRTPProfile
    /// The handshake's time or attempts ran out.
    case handshakeFailed
    /// The other side of the peer room left while control was away.
    case peerLeft
}

/// What a worker tells the conductor: media facts, each with the time it happened.
public enum WorkerNews: Hashable, Sendable {
    /// Keys installed: ICE and DTLS are up, media gated.
    case prepared(ParticipantHandle, at: Instant)
    /// Keys are in and the gate is open.
    case joined(ParticipantHandle, at: Instant)
    case ended(ParticipantHandle, TransportEnd, at: Instant, TransportStatistics)
    case interrupted(ParticipantHandle, at: Instant)
    case recovered(ParticipantHandle, at: Instant)
    /// The selected path moved to another validated address.
    case pathChanged(ParticipantHandle, at: Instant)
    /// First media packet of a kind after the gate opened.
    case media(ParticipantHandle, MediaKind, at: Instant)
    /// Every 2 s per joined participant.
    case statistics(ParticipantHandle, TransportStatistics, at: Instant)
    /// Who is in the participant's slots now, as a whole. Of group rooms only.
    case slots(ParticipantHandle, [SlotOccupant], at: Instant)
    /// It became the one who speaks in its room. Of group rooms only.
    case speaker(ParticipantHandle, at: Instant)
    /// A prompt is over for the participant.
    case played(ParticipantHandle, PromptHandle, PromptEnd, at: Instant)
    /// A recording is over, and its files are whole.
    case recorded(RecordingReport, at: Instant)
    /// Removed by command: its last counters.
    case removed(ParticipantHandle, TransportStatistics, at: Instant)
}

public enum TransportPhase: UInt8, Hashable, Sendable, Codable { case connecting, prepared, joined }

/// One transport as a worker holds it, told in its hello.
public struct TransportSnapshot: Hashable, Sendable, Codable {
    public var participant: ParticipantHandle
    public var room: RoomHandle
    public var phase: TransportPhase
    public var isInterrupted: Bool
    /// When the phase was reached.
    public var since: Instant
    public var gates: MediaGates
    /// As `WorkerNews.slots` tells it.
    public var slots: [SlotOccupant]
    /// The one who spoke last in its group room.
    public var isSpeaker: Bool
    /// What it is being played.
    public var prompt: PromptHandle?
    public init(
        participant: ParticipantHandle, room: RoomHandle, phase: TransportPhase, isInterrupted: Bool, since: Instant,
        gates: MediaGates = [], slots: [SlotOccupant] = [], isSpeaker: Bool = false,
        prompt: PromptHandle? = nil
    ) {
        self.participant = participant
        self.room = room
        self.phase = phase
        self.isInterrupted = isInterrupted
        self.since = since
        self.gates = gates
        self.slots = slots
        self.isSpeaker = isSpeaker
        self.prompt = prompt
    }
}

/// Where clients reach a worker, as its answers announce it.
public struct WorkerEndpoint: Hashable, Sendable, Codable {
    /// Announced addresses as IP text with the UDP port, then with the TCP port where there is one: one host candidate
    /// each. At least one.
    public var candidates: [Candidate]
    /// SHA-256 of the worker's DTLS certificate, 32 bytes.
    public var fingerprint: [UInt8]
    public struct Candidate: Hashable, Sendable, Codable {
        public var address: String
        public var port: UInt16
        /// TCP, where the worker waits for the client's connection (RFC 6544); else UDP.
        public var isStream: Bool
        public init(address: String, port: UInt16, isStream: Bool = false) {
            self.address = address
            self.port = port
            self.isStream = isStream
        }
    }
    public init(candidates: [Candidate], fingerprint: [UInt8]) {
        self.candidates = candidates
        self.fingerprint = fingerprint
    }
}

/// The first message of a worker on every connection to control. `news` is what was kept while control was away, in order.
public struct WorkerHello: Hashable, Sendable {
    public var worker: WorkerID
    public var processID: Int32
    public var endpoint: WorkerEndpoint
    public var transports: [TransportSnapshot]
    /// What it records.
    public var recordings: [RecordingHandle]
    public var news: [WorkerNews]
    /// Which program file the worker runs, to be compared only; empty: from before it was told.
    public var build: String
    public init(
        worker: WorkerID, processID: Int32, endpoint: WorkerEndpoint, transports: [TransportSnapshot],
        news: [WorkerNews], recordings: [RecordingHandle] = [], build: String = ""
    ) {
        self.worker = worker
        self.processID = processID
        self.endpoint = endpoint
        self.transports = transports
        self.recordings = recordings
        self.news = news
        self.build = build
    }
}
