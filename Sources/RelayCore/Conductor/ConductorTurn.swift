/// What reaches the conductor, one at a time.
public enum ConductorInput: Sendable {
    case request(RequestID, Principal, ControlRequest)
    case news(WorkerID, WorkerNews)
    /// A worker's (re)connection, with all that it holds and kept.
    case workerConnected(WorkerHello)
    /// The worker's process is gone; its rooms with it.
    case workerGone(WorkerID)
    /// `deadline` has come.
    case timer
    /// The node ends everything (SIGTERM).
    case drain
}

/// What one decision brings about. Commands leave at once; events are stored in one transaction together with the changed
/// rooms; replies and events go out after the commit.
public struct ConductorTurn: Sendable {
    public var commands: [(worker: WorkerID, command: WorkerCommand)] = []
    public var events: [RelayEvent] = []
    public var replies: [(request: RequestID, reply: ControlReply)] = []
    /// Rooms to store (`Conductor.record(of:)`), each once.
    public var changedRooms: Set<RoomID> = []
    public init() {}
}
