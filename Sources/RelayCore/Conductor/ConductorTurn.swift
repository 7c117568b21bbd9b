/// What reaches the conductor, one at a time.
public enum ConductorInput: Sendable {
    case request(RequestID, Principal, ControlRequest)
    /// A request that may come twice and is carried out once.
    case keyedRequest(RequestID, Principal, ControlRequest, IdempotencyKey)
    case news(WorkerID, WorkerNews)
    /// A worker's (re)connection, with all that it holds and kept.
    case workerConnected(WorkerHello)
    /// The link to a worker broke while its process lives: it gets nobody new until its next hello.
    case workerDetached(WorkerID)
    /// Another worker has taken its place: it is to leave when its rooms have ended.
    case workerRetiring(WorkerID)
    /// The worker's process is gone; its rooms with it.
    case workerGone(WorkerID)
    /// What a worker carries, as it measures itself.
    case load(WorkerID, WorkerLoad)
    /// `deadline` has come.
    case timer
    /// The node ends everything (SIGTERM).
    case drain
}

/// What one decision brings about. Commands leave at once; events are stored in one transaction together with
/// the changed rooms; replies and events go out after the commit.
public struct ConductorTurn: Sendable {
    public var commands: [(worker: WorkerID, command: WorkerCommand)] = []
    public var events: [RelayEvent] = []
    public var replies: [(request: RequestID, reply: ControlReply)] = []
    /// Rooms to store (`Conductor.record(of:)`), each once.
    public var changedRooms: Set<RoomID> = []
    /// Ended rooms that the conductor no longer holds: their records need not be given back at a restart.
    /// Their ids and outcomes stay in the journal, which answers `Conductor`'s `knownEnded` with them.
    public var forgottenRooms: Set<RoomID> = []
    /// Idempotency keys to store in the same transaction, and those to delete.
    public var idempotency: [IdempotencyRecord] = []
    public var forgottenKeys: [IdempotencyName] = []
    /// Records of rooms that ended, to store in the same transaction; a second one of a room replaces the first.
    public var calls: [CallRecord] = []
    /// For the node's histograms and counters; nothing depends on them.
    public var measures: [CallMeasure] = []
    /// What became of the node's drain, to store in the same transaction; nil: nothing.
    public var drain: DrainChange?
    public init() {}
}
