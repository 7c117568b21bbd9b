import RTPCore

/// All that is known of a room, as the journal keeps it: a restarted conductor goes on from it. Deadlines are
/// instants of the boot clock, so they hold for every process of one boot.
public struct RoomRecord: Hashable, Sendable, Codable {
    public let id: RoomID
    public let handle: RoomHandle
    /// The node-wide count of rooms at its creation: the order of listings and their cursor.
    public let ordinal: UInt64
    public let specification: RoomSpecification
    public internal(set) var lifecycle: RoomLifecycle
    /// Why it ended, as the API tells it.
    public internal(set) var reason: String?
    public let createdAtMs: Int64
    public internal(set) var startedAtMs: Int64?
    public internal(set) var endedAtMs: Int64?
    /// Peer: both users joined for the first time; group: the first one. The call's duration counts from
    /// here.
    public internal(set) var talkingSince: Instant?
    public internal(set) var talkingSinceMs: Int64?
    /// The `roomSeq` of its next event; the first is 1.
    public internal(set) var nextRoomSeq: UInt64
    /// Who carries its media; nil while nobody is in.
    public internal(set) var worker: WorkerID?
    /// Everybody who is in, in the order they came; a replacement stands in its predecessor's place.
    public internal(set) var participants: [ParticipantRecord]
    /// The latest who left, oldest first, at most 64.
    public internal(set) var departed: [DepartedParticipant]
    /// Nil for a room without ring.
    public internal(set) var ring: Ring?
    /// What the call is now, and the wish for video that waits.
    public internal(set) var callMedia: CallMedia {
        get { otherCallMedia ?? CallMedia(specification.media) }
        set { otherCallMedia = newValue == CallMedia(specification.media) ? nil : newValue }
    }
    // Nil is what the room was made as, so that records from before this are read as well.
    private var otherCallMedia: CallMedia?
    /// What is being played, the oldest first.
    public internal(set) var prompts: [PromptRecord] {
        get { otherPrompts ?? [] }
        set { otherPrompts = newValue.isEmpty ? nil : newValue }
    }
    /// The latest that ended, oldest first: a repeated stop gets its answer from here.
    var endedPrompts: [PromptID] {
        get { otherEndedPrompts ?? [] }
        set { otherEndedPrompts = newValue.isEmpty ? nil : newValue }
    }
    /// What is recorded, or was until its end is told.
    public internal(set) var recording: RecordingRecord?
    /// The latest that ended, oldest first: a repeated stop gets its answer from here.
    var endedRecordings: [RecordingID]?
    private var otherPrompts: [PromptRecord]?
    private var otherEndedPrompts: [PromptID]?
    /// Who spoke last in a group; nil: nobody has yet, or has left.
    public internal(set) var speaker: ParticipantHandle?
    public internal(set) var emptyDeadline: Instant?
    public internal(set) var warningDeadline: Instant?
    public internal(set) var durationDeadline: Instant?
    /// Nobody sends; nil while that does not count.
    public internal(set) var idle: Countdown?
    /// One is left of a group; nil while that does not count.
    public internal(set) var alone: Countdown?
    /// What its call record will tell; nil while there is nothing.
    public internal(set) var history: RoomHistory?

    init(id: RoomID, handle: RoomHandle, ordinal: UInt64, specification: RoomSpecification, createdAtMs: Int64) {
        self.id = id
        self.handle = handle
        self.ordinal = ordinal
        self.specification = specification
        self.createdAtMs = createdAtMs
        lifecycle = RoomLifecycle(kind: specification.kind)
        nextRoomSeq = 1
        participants = []
        departed = []
    }

    public var status: RoomStatus { lifecycle.status }
    public var outcome: RoomOutcome? { lifecycle.outcome }

    /// The room as the API shows it. `seq`: the number of the newest event that the view knows of.
    public func view(seq: UInt64) -> RoomView {
        var view = RoomView(
            id: id, specification: specification, status: status, createdAtMs: createdAtMs, seq: seq)
        view.outcome = outcome
        view.reason = reason
        view.startedAtMs = startedAtMs
        view.endedAtMs = endedAtMs
        view.participants = participants.indices.map { self.view(ofParticipantAt: $0) }
        view.speaker = speaker.flatMap { index(of: $0) }.map { participants[$0].id }
        view.ring = ring?.view
        view.callMedia = callMedia
        view.prompts = prompts.map { self.view(of: $0) }
        view.recording = recording.map { self.view(of: $0) }
        return view
    }

    func index(of handle: ParticipantHandle) -> Int? {
        participants.firstIndex { $0.handle == handle }
    }
    func index(of participant: ParticipantID) -> Int? {
        participants.firstIndex { $0.id == participant }
    }
}

/// One who is out, by name: a repeated leave gets its answer from here.
public struct DepartedParticipant: Hashable, Sendable, Codable {
    public let id: ParticipantID
    public let uid: String
    public let device: String
    /// Nil: replaced by the same device preparing anew.
    public let reason: LeaveReason?
}
