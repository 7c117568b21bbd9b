import RTPCore

// The engine's tables: plain structs in slabs, reached by index. What a packet touches stands here; what only set-up,
// ICE restarts and snapshots need is in `TransportDetails`.

/// One participant's transport: keys, the path media is sent on, liveness. What each packet touches stands first.
struct Transport {
    var flags: TransportFlags = []
    /// What keeps its media from passing once it is joined.
    var gates: MediaGates = []
    var sourceCount: UInt8 = 0
    var pathCount: UInt8 = 0
    /// Index of the selected path (0 ..< pathCount); -1 before the first check.
    var selectedPath: Int8 = -1
    /// Local address and peer of the selected path, copied here for sending.
    var local: UInt8 = 0
    var peer = PeerAddress.none
    /// There is somewhere to send to: no packet comes from port 0.
    @inline(__always) var hasPeer: Bool { peer.port != 0 }
    var room: Int32 = -1
    var receiveCipher: SRTPCipher?
    var sendCipher: SRTPCipher?
    /// What is known of the path to it; absent where its packets carry no transport-wide numbers.
    var downlink: UnsafeMutablePointer<Downlink>?
    var lastAuthenticated = Instant(nanoseconds: 0)
    /// Receiver of transport-cc numbers; absent before the first.
    var transportFeedback: TransportFeedbackRecorder?
    var nextTransportFeedback = Instant.distantFuture
    var packets = TokenBucket()
    var statistics = TransportStatistics()

    // From here on no packet of media looks.
    var handle = ParticipantHandle(0)
    /// First of the transport's tracks (what it sends) and subscriptions (its slots); -1: none.
    var firstTrack: Int32 = -1
    var firstSubscription: Int32 = -1
    /// What it may send at most, bits per second; what REMB told it last of that, and when a change was told last.
    var heldTo = Limits.openREMB
    var toldLast = Limits.openREMB
    var heldSince = Instant(nanoseconds: 0)
    /// The prompt that it hears; absent where it hears none.
    var player: UnsafeMutablePointer<PromptPlayer>?
    /// Its wall clock, as its sender reports show it.
    var clock = ReportClock()
    /// Our next SRTCP index: one count for all SSRCs that we report with.
    var rtcpSendIndex: UInt32 = 0
    var rtcpContextCount: UInt8 = 0
    var referenceTimeCount: UInt8 = 0
    /// SSRC that our reports and feedback to this client carry.
    var reporterSSRC: UInt32 = 1
    // Deadlines of the transport's periodic work; the timer wheel holds the earliest.
    var nextReport = Instant.distantFuture
    var nextCheck = Instant.distantFuture
    var nextStatistics = Instant.distantFuture
    var nextRepair = Instant.distantFuture
    var nextProbe = Instant.distantFuture
    var nextLayers = Instant.distantFuture
    var nextPrompt = Instant.distantFuture
    /// Since when nobody has wanted the highest of its streams; `distantFuture` while somebody does.
    var layersUnneededSince = Instant.distantFuture
    var lastPathSwitch = Instant(nanoseconds: -1_000_000_000_000)
    var phaseSince = Instant(nanoseconds: 0)
    var unknownSources = TokenBucket()
    var records = TokenBucket()

    /// Bytes from the beginning that a packet of media touches: up to the four counters.
    static var hotByteCount: Int {
        (MemoryLayout<Transport>.offset(of: \.statistics) ?? 0) + 4 * MemoryLayout<UInt64>.size
    }
}

struct TransportFlags: OptionSet {
    var rawValue: UInt16
    static let live = TransportFlags(rawValue: 1)
    static let hasKeys = TransportFlags(rawValue: 2)
    /// Told to join; the gate opens as soon as keys are in.
    static let joinWanted = TransportFlags(rawValue: 4)
    static let joined = TransportFlags(rawValue: 8)
    static let interrupted = TransportFlags(rawValue: 16)
    /// REMB was negotiated for what it sends.
    static let usesREMB = TransportFlags(rawValue: 32)
    /// A picture passes to it: its packets carry transport-wide numbers.
    static let numbered = TransportFlags(rawValue: 64)
    /// Its receiver reference times (XR) are answered.
    static let answersReferenceTimes = TransportFlags(rawValue: 128)
    /// What it sends carries transport-wide numbers, which are told back.
    static let feedsBack = TransportFlags(rawValue: 256)
}

/// An address that passed a check of ours or of the client's.
struct Path {
    var address = PeerAddress.none
    var local: UInt8 = 0
    /// It answered a check of ours, or DTLS completed on it, or it is a TCP connection: nobody is aimed at.
    var isValidated = false
    var isNominated = false
    /// Our check that waits for its answer.
    var isCheckPending = false
    /// Repeats of the pending check so far.
    var checkRetries: UInt8 = 0
    var transactionHigh: UInt32 = 0
    var transactionLow: UInt64 = 0
    var checkSentAt = Instant(nanoseconds: 0)
    var lastReceived = Instant(nanoseconds: 0)
    var bytesReceived: UInt64 = 0
    var bytesSent: UInt64 = 0
}

/// What one SSRC of a participant carries.
enum SourceRole: UInt8 { case media, retransmission }

/// One incoming SSRC, bound to a track by an authenticated packet.
struct Source {
    var track: Int32
    var role: SourceRole
    var estimator: PacketIndexEstimator
    var replay: ReplayWindow
    var statistics: ReceptionStatistics
    /// Packets that came since the last receiver report; none: no report block.
    var packetsSinceReport: UInt32
    // The latest sender report (RFC 3550 §6.4.1).
    var reportNTP: NTPTime
    var reportTimestamp: UInt32
    var reportArrival: Instant
    var hasReport: Bool

    /// Bytes from the beginning that every packet touches.
    static var hotByteCount: Int { MemoryLayout<Source>.offset(of: \.reportNTP) ?? 0 }
}

/// What a participant sends on one m-line, or one stream of it: at most one active source, and everybody it is forwarded to.
struct Track {
    var transport: Int32
    /// Index into the transport's sections.
    var section: Int32
    var kind: MediaKind
    var codec: MediaCodec
    var payloadType: UInt8
    /// 0: no RTX.
    var rtxPayloadType: UInt8
    /// What its packets come as that repeat earlier ones; 0: no RED.
    var redPayloadType: UInt8
    var transportCCID: UInt8
    /// Where its audio levels come from, and the sender's element id for them.
    var levels: LevelSource
    var levelID: UInt8
    var repairsLoss: Bool
    var asksKeyFrames: Bool
    var isAnnounced: Bool
    /// Its packets go to the recorder as well.
    var isRecorded = false
    var currentSource: Int32
    var firstSubscription: Int32
    var nextOfTransport: Int32
    /// The track whose stream this is: itself, or the first stream of its simulcast.
    var lead: Int32 = -1
    /// What is known of its layers; absent where nothing is chosen among.
    var layer: UnsafeMutablePointer<LayerState>?
    /// Its last packets; absent where neither it nor a slot that it was in has RED.
    var recent: UnsafeMutablePointer<RecentAudio>?
    var history: PacketHistory.Index?
    /// When its last packet came, and the longest time between two since the gate opened; `distantFuture` before the first.
    var lastArrival = Instant.distantFuture
    var longestGap = Interval.zero
    var keyFrames = KeyFrameRequester()
    /// What is missing; absent until somebody watches.
    var loss: LossTracker?

    // From here on only some packets look: levels of groups, requests.
    var firSequence: UInt8 = 0
    /// Slots that wait for its next key frame.
    var awaitingCount: Int32 = 0
    /// Where the newest key frame waits for somebody to get it; only while nobody does.
    var keptKeyFrame: KeyFrameKeeper?
    /// How much is spoken, by the levels.
    var speech = SpeechActivity()
    /// Packets in a row without a level where there should be one.
    var levelsMissed: UInt8 = 0
    /// Its levels have said that something is voice: what they do not say it of is none.
    var marksVoice = false
    var probe: LevelProbe?
    /// The next stream of the same simulcast; -1: none. Only first streams are in the transport's chain.
    var nextLayer: Int32 = -1

    /// Bytes from the beginning that every packet touches.
    static var hotByteCount: Int { MemoryLayout<Track>.offset(of: \.firSequence) ?? 0 }

    /// Somebody gets it, or it is recorded: repairs and key frames are worth asking for.
    @inline(__always) var isWatched: Bool { firstSubscription >= 0 || awaitingCount > 0 || isRecorded }
}

/// Where a track's audio levels come from.
enum LevelSource: UInt8 {
    /// Nobody asks: video, or a peer room.
    case nowhere
    /// Its packets say them (RFC 6464).
    case header
    /// The sender does not say: a `LevelProbe` hears.
    case probe
}

/// Whether a slot's track passes into it.
enum SlotFlow: UInt8 {
    /// The slot is free, a gate of its sender or its receiver is shut, or a prompt plays in it.
    case stopped
    /// The track begins, or goes on after its early key frame, with its next key frame.
    case untilKeyFrame
    /// It is in its track's chain: every packet passes.
    case passing
}

/// One track forwarded into one slot of one receiver. The slot keeps its SSRC and goes on counting whatever is forwarded.
struct Subscription {
    var receiver: Int32
    var section: Int32
    var kind: MediaKind
    var flow: SlotFlow
    /// -1: the slot is free.
    var track: Int32
    /// What takes its place with its next key frame; -1: nothing.
    var nextTrack: Int32 = -1
    /// A prompt plays here: the track waits.
    var isPrompted = false
    /// How far the time of a slot of sound is behind the clock's, by rounding at changes of its source.
    var ticksBehind: Int32 = 0
    /// The next slot that the track passes into; stopped ones are not in the chain.
    var nextOfTrack: Int32
    var nextOfReceiver: Int32
    /// The source that `sequence` and `timestamp` are aligned to, `PromptPlayer.source` for a prompt; -1 before the first
    /// packet.
    var source: Int32
    var sequence: SequenceMap
    var timestamp: TimestampMap
    var ssrc: UInt32
    var rtxSSRC: UInt32
    var payloadType: UInt8
    var rtxPayloadType: UInt8
    /// Under which the receiver takes RED; 0: none.
    var redPayloadType: UInt8
    /// How many earlier packets go along with each, whatever the sender repeats.
    var redDepth: UInt8 = 0
    var midID: UInt8
    /// The receiver's element id for transport-wide numbers; 0: the slot's packets carry none.
    var transportCCID: UInt8
    var midByteCount: UInt8
    var mid: SIMD16<UInt8>
    /// Sender's element id (0…15) → receiver's id; 0: not passed.
    var passedIDs: SIMD16<UInt8>
    /// One of those is above 14: the two-byte form may be needed.
    var passesWideID = false
    /// Next packet index of the RTX stream.
    var rtxIndex: UInt64
    var packetsSent: UInt32
    var octetsSent: UInt32
    var lastSent: Instant
    var repairBudget: TokenBucket
    /// Since when its picture waits for a repair that will not come; `.distantFuture`: it does not.
    var brokenSince = Instant.distantFuture
    /// Before this the relay asks for no other key frame for its sake.
    var nextMending = Instant(nanoseconds: 0)
    /// Bytes from the beginning that every packet touches.
    static var hotByteCount: Int { MemoryLayout<Subscription>.offset(of: \.repairBudget) ?? 0 }

    /// The first number sent; every number since then that was not sent was lost before it reached us.
    var firstOutput: UInt64
    /// The receiver's latest report of this slot.
    var remote: SlotReport
    /// The picture's height that the receiver wishes, in pixels; 0: any.
    var wantedHeight: UInt16 = 0
    /// Whom the receiver wishes to see here whenever it is in the room; 0: whom the engine chooses.
    var pinned = ParticipantHandle(0)
    /// The stream in whose chain the slot is or waits to be: `track`, or another one of its simulcast.
    var layer: Int32 = -1
    /// What it gets of its track's layers; absent before the first track that has some.
    var layered: UnsafeMutablePointer<LayeredSlot>?
    /// What the receiver's loss asks for in earlier packets.
    var redundancy = RedundancyControl()
}
