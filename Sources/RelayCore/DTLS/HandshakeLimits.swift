import RTPCore

/// What one handshake, and all of them together, may cost.
public struct HandshakeLimits: Hashable, Sendable {
    /// From the first ClientHello to the end, repeats and new starts included.
    public var duration: Interval = .seconds(10)
    /// Datagrams and bytes that a handshake may take in: a whole post-quantum one in pieces of 256 bytes, sent several times.
    public var datagrams = 64
    public var bytes = 64 * 1024
    /// SSL objects that one handshake may use up.
    public var attempts = 5
    /// Unfinished SSL objects of the process; a ClientHello beyond is dropped, and the client's next one may find room.
    public var inFlight = 2_000
    /// First repeat of an unanswered flight; doubles.
    public var firstRepeat: Interval = .milliseconds(200)
    /// How long a client may stay silent after its hello failed or an alert in its name came, before it is given up.
    public var silenceAfterFailure: Interval = .seconds(3)
    /// Datagrams that an established association takes in per `duration`; what is beyond is dropped.
    public var establishedDatagrams = 64
    public init() {}
}

/// What became of requests and datagrams, since the start.
public struct HandshakeCounters: Hashable, Sendable {
    public var begun: UInt64 = 0
    public var established: UInt64 = 0
    /// Ended before it was established, for any reason.
    public var failed: UInt64 = 0
    /// Ended by the peer's authenticated alert.
    public var closedByPeer: UInt64 = 0
    /// SSL objects beyond the first of an association.
    public var restarted: UInt64 = 0
    /// Flights sent again for want of an answer.
    public var repeatedFlights: UInt64 = 0
    public var droppedUnknownParticipant: UInt64 = 0
    /// Over the datagrams or bytes of one association.
    public var droppedOverBudget: UInt64 = 0
    /// More unfinished handshakes than `inFlight`.
    public var droppedAtCapacity: UInt64 = 0
    /// Datagrams with nothing in them that a client sends, or with a part taken out.
    public var refusedRecords: UInt64 = 0
    /// Good records, but no ClientHello, while there is no association they could belong to.
    public var droppedWithoutHello: UInt64 = 0
    public init() {}
}
