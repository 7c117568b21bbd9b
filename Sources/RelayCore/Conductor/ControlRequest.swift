import RTPCore

// What the API asks of the conductor and what it answers: HTTP and JSON left behind, so that every decision can be tested
// without a socket.

/// Names one request of one HTTP connection while it waits for its answer. Opaque to the conductor.
public struct RequestID: Hashable, Sendable {
    public var value: UInt64
    public init(_ value: UInt64) { self.value = value }
}

/// Who asks, taken from a verified token, never from the message (T73).
public enum Principal: Hashable, Sendable {
    /// The server key: sees and does everything. `keyID` scopes idempotency keys; it has no colon.
    case server(keyID: String)
    case participant(ParticipantIdentity)
}

public struct ParticipantIdentity: Hashable, Sendable {
    public var uid: String
    public var device: String
    public var room: RoomID
    public var grants: Grants
    public init(uid: String, device: String, room: RoomID, grants: Grants) {
        self.uid = uid
        self.device = device
        self.room = room
        self.grants = grants
    }
}

public struct Grants: Hashable, Sendable, Codable {
    public var publishAudio: Bool
    public var publishVideo: Bool
    public var subscribe: Bool
    public var end: Bool
    /// Start and stop recordings of the room.
    public var record: Bool {
        get { otherRecord ?? false }
        set { otherRecord = newValue ? true : nil }
    }
    // Nil is the default, so that records from before it are read as well.
    private var otherRecord: Bool?
    public init(publishAudio: Bool, publishVideo: Bool, subscribe: Bool, end: Bool, record: Bool = false) {
        self.publishAudio = publishAudio
        self.publishVideo = publishVideo
        self.subscribe = subscribe
        self.end = end
        otherRecord = record ? true : nil
    }
    /// What a token without a `grants` claim may do.
    public static let standard = Grants(publishAudio: true, publishVideo: true, subscribe: true, end: false)
}

public enum RoomKind: String, Sendable, Codable, CaseIterable { case peer, group }
public enum RoomMedia: String, Sendable, Codable, CaseIterable { case audio, video }

/// Times that a room may set at its creation; the defaults are CALLS.md's.
public struct RoomTimeouts: Hashable, Sendable, Codable {
    public var prepared: Interval = .seconds(300)
    public var connecting: Interval = .seconds(30)
    /// Closing an empty room without ring.
    public var empty: Interval = .seconds(60)
    /// Nil: off.
    public var maxDuration: Interval?
    /// From the claim until caller and claimer are joined; 20 s.
    public var joinAfterClaim: Interval {
        get { otherJoinAfterClaim ?? .seconds(20) }
        set { otherJoinAfterClaim = newValue == .seconds(20) ? nil : newValue }
    }
    /// Nil is the default, so that records from before the ring are read as well.
    private var otherJoinAfterClaim: Interval?
    /// No media from anybody; 180 s. Nil: off.
    public var idle: Interval? {
        get { otherIdle == .zero ? nil : otherIdle ?? .seconds(180) }
        set { otherIdle = newValue == .seconds(180) ? nil : newValue ?? .zero }
    }
    /// Nil is the default, zero is off.
    private var otherIdle: Interval?
    /// One is left of a group. Nil: off.
    public var alone: Interval?
    public init() {}
}

/// The body of `POST /v1/rooms`, validated for form (lengths, known words), not for the room's state.
public struct RoomSpecification: Hashable, Sendable, Codable {
    /// Nil: the conductor draws one.
    public var id: RoomID?
    public var kind: RoomKind
    public var media: RoomMedia
    public var videoCodec: MediaCodec
    public var maxParticipants: Int
    public var allowParallel: Bool
    public var timeouts: RoomTimeouts
    /// Nil: a room without ring.
    public var ring: RingSpecification?
    public var ifBusy: BusyPolicy {
        get { otherIfBusy ?? .ring }
        set { otherIfBusy = newValue == .ring ? nil : newValue }
    }
    /// Nil is the default, so that records from before the ring are read as well.
    private var otherIfBusy: BusyPolicy?
    /// The tone that everybody who is joined hears when the room is warned of its end by max duration; nil: none.
    public var warningTone: String?
    /// Sound is sent with what was sent just before (RED), by clients that can and by the relay.
    public var red: Bool {
        get { otherRed ?? false }
        set { otherRed = newValue ? true : nil }
    }
    /// Nil is the default, so that records from before it are read as well.
    private var otherRed: Bool?
    /// The caller's own JSON text, given back unread; at most 4 KiB.
    public var metadata: String?
    public init(id: RoomID?, kind: RoomKind, media: RoomMedia) {
        self.id = id
        self.kind = kind
        self.media = media
        videoCodec = .vp8
        maxParticipants = kind == .peer ? 2 : 32
        allowParallel = false
        timeouts = RoomTimeouts()
        ring = nil
        otherIfBusy = nil
        warningTone = nil
        otherRed = nil
        metadata = nil
    }
}

public enum PrepareState: String, Sendable { case prepared, joined }

public enum ControlRequest: Hashable, Sendable {
    case createRoom(RoomSpecification)
    case listRooms(status: RoomStatus?, uid: String?, cursor: String?, limit: Int)
    case room(RoomID)
    case deleteRoom(RoomID, reason: String?)
    /// `state` nil: the default for the room (joined, where there is no ring; 400 where there is one).
    /// `joinOnAnswer`: of a ring's caller only (others: 400); it joins in the turn that decides the claim.
    /// `earlyKeyFrame`: of a ring's caller only (others: 400); its newest key frame goes first when media starts.
    case prepare(
        RoomID, state: PrepareState?, offer: [UInt8], joinOnAnswer: Bool = false, earlyKeyFrame: Bool = false)
    case join(RoomID, ParticipantID, endOthers: Bool, takeover: Bool)
    case leave(RoomID, ParticipantID)
    case kick(RoomID, ParticipantID)
    /// RFC 9725 §4.3.3: `ifMatch` is the header's value (`*` restarts), nil when absent (428).
    case trickle(RoomID, ParticipantID, ifMatch: String?, fragment: [UInt8])
    /// Own mute and hold. Answered by `.participant`.
    case changeMedia(RoomID, ParticipantID, MediaChange)
    /// The server mutes, or changes rights. Answered by `.participant`.
    case changeMediaByServer(RoomID, ParticipantID, ServerMediaChange)
    /// Who is to be seen in which slot, and how large; slots that are not named are as the relay chooses. Answered by
    /// `.participant`.
    case requestSlots(RoomID, ParticipantID, [SlotRequest])
    /// From an audio call to a video call. `uid`: for whom the server speaks; ignored with a participant's token.
    /// Answered by `.room`.
    case video(RoomID, VideoWord, uid: String?)
    /// The server lets participants hear a sound. Answered by `.prompt`.
    case playPrompt(RoomID, PromptSpecification)
    /// Answered by `.done`.
    case stopPrompt(RoomID, PromptID)
    /// Record the room from now on. Answered by `.recording`.
    case startRecording(RoomID, RecordingSpecification)
    /// Answered by `.done`; the files are whole when `recording.ended` says so.
    case stopRecording(RoomID, RecordingID)
    /// A callee's device rings. Answered by `.room`.
    case ringing(RoomID)
    /// A callee's user answered on this device. Answered by `.room`.
    case answer(RoomID)
    /// `uid`: for whom the server speaks (it must say it); ignored with a participant's token. Answered by
    /// `.room`, which tells the outcome, whether or not the room had ended before.
    case end(RoomID, EndStatus, uid: String?, scope: EndScope)
    /// The server sent the push for a callee's device. Answered by `.done`.
    case pushed(RoomID, uid: String, device: String)
    /// What everybody's legs measured over time, of those who are in and of those who left. Answered by `.series`.
    case series(RoomID)
    /// The headers of the room's datagrams. Answered by `.capturing`.
    case capture(RoomID, CaptureSpecification)
    /// The server ends everything that the user has: cancels, declines or leaves. Answered by `.done`.
    case logout(uid: String)
    /// No new rooms; what is left after this time ends as `drained`. Answered by `.drain`.
    case drain(within: Interval)
    /// New rooms are taken again. Answered by `.drain`.
    case undrain
}

extension ControlRequest {
    /// For callers that still name the key in the request: it has its own place now (`ConductorInput.keyedRequest`).
    public static func createRoom(_ specification: RoomSpecification, idempotencyKey: Never?) -> ControlRequest {
        .createRoom(specification)
    }
}

public enum ControlReply: Hashable, Sendable {
    /// 201, or 200 when `isNew` is false (the same id and body again). A repeated idempotency key repeats the first answer.
    case created(RoomView, isNew: Bool)
    /// `seq`: the newest event that the page knows of. Who follows the events behind the first page's misses none.
    case rooms([RoomView], nextCursor: String?, seq: UInt64)
    case room(RoomView)
    /// 201: the SDP answer, where the session lives and its ICE generation as a strong ETag (without quotes).
    case prepared(ParticipantID, answer: [UInt8], etag: String, isNew: Bool)
    /// 200: what is known of the room and the others.
    case joined(RoomView)
    /// 200: the participant as it is now.
    case participant(ParticipantView)
    /// 201: what is played now.
    case prompt(PromptView)
    /// 200: everybody's figures over time, who left first.
    case series([LegSeriesView])
    /// The worker was told to capture; what it tells is streamed.
    case capturing(CaptureID, WorkerID)
    /// 201: what is recorded now.
    case recording(RecordingView)
    /// 200: the node's drain as it is now.
    case drain(DrainView)
    /// 200: left, kicked, room deleted, prompt or recording stopped.
    case done
    /// 200: restarted; the fragment carries the new credentials, under a new ETag.
    case restarted(fragment: [UInt8], etag: String)
    /// 204: candidates are not needed.
    case trickleIgnored
    case problem(Problem)
    /// The answer that the same request with the same `Idempotency-Key` got before.
    case repeated(StoredAnswer)
}

/// Status of a room: `initiated` until someone has joined (with a ring: answered), `ongoing`, then `ended` with exactly one outcome.
public enum RoomStatus: String, Sendable, Codable { case initiated, ongoing, ended }

/// How a room, or one callee's ring, ended (CALLS.md).
public enum RoomOutcome: String, Sendable, Codable, CaseIterable {
    case ended, rejected, busy, cancelled, unanswered, unreachable, failed, expired, lost, drained
    case nodeLost = "node-lost"
}

public enum ParticipantState: String, Sendable, Codable { case connecting, prepared, joined, left }

/// Why a participant left: CALLS.md's closed set.
public enum LeaveReason: String, Sendable, Codable, CaseIterable {
    case hangup, declined, cancelled, kicked, lost, expired, failed, idle, drained
    case peerLeft = "peer-left"
    case answeredElsewhere = "answered-elsewhere"
    case roomEnded = "room-ended"
    case nodeLost = "node-lost"
}

/// A participant as the API shows it.
public struct ParticipantView: Hashable, Sendable {
    public var id: ParticipantID
    public var uid: String
    public var device: String
    public var state: ParticipantState
    public var isInterrupted: Bool
    public var leaveReason: LeaveReason?
    /// Kinds that the client sends and receives, as negotiated.
    public var sends: [MediaKind]
    public var receives: [MediaKind]
    /// The offer lacked the room's video codec: an audio call.
    public var videoUnsupported: Bool
    /// Who is where it receives; in a group, and where something was asked for.
    public var slots: [SlotView]
    /// Mute and hold, whoever said so.
    public var media: ParticipantMedia
    public var createdAtMs: Int64
    public var preparedAtMs: Int64?
    public var joinedAtMs: Int64?
    public var statistics: TransportStatistics
    /// What `participant.quality` told last; nil: nothing, so good.
    public var quality: LegQuality?
    public init(id: ParticipantID, uid: String, device: String, state: ParticipantState, createdAtMs: Int64) {
        self.id = id
        self.uid = uid
        self.device = device
        self.state = state
        self.createdAtMs = createdAtMs
        isInterrupted = false
        leaveReason = nil
        sends = []
        receives = []
        videoUnsupported = false
        slots = []
        media = ParticipantMedia()
        preparedAtMs = nil
        joinedAtMs = nil
        statistics = TransportStatistics()
    }
}

/// A room as the API shows it. `seq` is the cursor that goes with the snapshot: follow the events after it.
public struct RoomView: Hashable, Sendable {
    public var id: RoomID
    public var specification: RoomSpecification
    public var status: RoomStatus
    public var outcome: RoomOutcome?
    public var reason: String?
    public var createdAtMs: Int64
    /// When it became `ongoing`: the first joined participant, or the claim of a ring.
    public var startedAtMs: Int64?
    public var endedAtMs: Int64?
    /// Whether the call is an audio or a video call now, and who waits for an answer to its wish for video.
    public var callMedia: CallMedia
    /// Everybody who is in (not `left`), in the order they came.
    public var participants: [ParticipantView]
    /// Who spoke last in a group.
    public var speaker: ParticipantID?
    /// What is played to participants, the oldest first.
    public var prompts: [PromptView]
    /// Nil: it is not recorded.
    public var recording: RecordingView?
    /// Nil for a room without ring.
    public var ring: RingView?
    public var seq: UInt64
    public init(id: RoomID, specification: RoomSpecification, status: RoomStatus, createdAtMs: Int64, seq: UInt64) {
        self.id = id
        self.specification = specification
        self.status = status
        self.createdAtMs = createdAtMs
        self.seq = seq
        callMedia = CallMedia(specification.media)
        outcome = nil
        reason = nil
        startedAtMs = nil
        endedAtMs = nil
        participants = []
        prompts = []
        recording = nil
        ring = nil
    }
}
