import RTPCore

/// The conductor's bounds and times that are the node's, not a room's. Every bound is told in the problem
/// that it causes.
public struct ConductorConfiguration: Hashable, Sendable {
    /// Rooms that have not ended, over the node. More are refused with 503.
    public var roomsPerNode = 10_000
    /// Largest `maxParticipants` of a room, and what a room without one gets at most.
    public var participantsPerRoom = 100
    /// Sessions of one user that are not joined, over all rooms (T76). More are refused with 429.
    public var preparedPerUser = 5
    /// Transports that one worker has room for. More are refused with 503.
    public var transportsPerWorker = 2_000
    /// What a worker may carry before it takes nobody new; others are refused with 503.
    public var admission = AdmissionBounds()
    /// Ended rooms that are still told about in full; beyond it the oldest are forgotten before their time.
    public var endedRoomsKept = 20_000
    /// Idempotency keys remembered of all server keys together, and as many of all participants; beyond it the oldest
    /// are forgotten before their time.
    public var idempotencyKeysKept = 10_000
    /// Their answers in bytes, of servers and of participants.
    public var idempotencyBytesKept = 32 << 20
    /// Idempotency keys of one user in one room.
    public var idempotencyKeysPerUser = 32
    /// How long an ended room is told about in full: at least 5 min, since that is how long its participants
    /// may look.
    public var retention = Interval.seconds(3_600)
    /// How long a repeated `Idempotency-Key` gets the same answer.
    public var idempotencyLife = Interval.seconds(24 * 3_600)
    /// How long restored rooms wait for the worker that carries them.
    public var workerWait = Interval.seconds(2)
    /// How long before its end by max duration, silence or solitude the room is warned.
    public var warningLead = Interval.seconds(60)
    /// What may be recorded; nil: nothing, the node keeps no recordings.
    public var recording: RecordingBounds?
    /// How long a worker of an earlier build may carry on with its rooms.
    public var retirement = Interval.seconds(4 * 3_600)
    /// `Retry-After` of 503 and 429 answers.
    public var retryAfterSeconds = 5
    public init() {}

    /// How long a participant's token may look at its ended room (API.md).
    public static let participantsLook = Interval.seconds(300)
    /// Silence that has lasted so long goes to the journal; of a shorter one a restart knows nothing.
    static let silenceStoredAfter = Interval.seconds(10)
    /// How long a worker that has come back takes at most to report twice on everybody that it holds.
    static let reportsOfEverybody = Limits.statisticsInterval + Limits.statisticsInterval
    /// The longest time that a room may set for any of its timers.
    public static let longestTimeout = Interval.seconds(30 * 24 * 3_600)
    /// A room's metadata, in UTF-8 bytes.
    public static let metadataByteLimit = 4_096
    /// An `Idempotency-Key`, in UTF-8 bytes.
    public static let idempotencyKeyByteLimit = 255
    /// Most rooms in one page of a listing.
    public static let listLimit = 500
    /// Most rooms that one page of a filtered listing looks at; a page may therefore be short and still have
    /// a next one.
    static let listScanLimit = 5_000
    /// Prompts that are played in one room at a time.
    static let promptsPerRoom = 16
    /// Prompts of a room that ended and are remembered by name, so that a repeated stop is answered as the first.
    static let endedPromptsKept = 32
    /// Recordings of a room that ended and are remembered by name, so that a repeated stop is answered as the first.
    static let endedRecordingsKept = 8
    /// Rooms that one worker records at a time. More are refused with 503.
    static let recordingsPerWorker = 64
    /// Participants who left a room that are remembered by name, so that a repeated leave is answered as the
    /// first.
    static let departedKept = 64
}
