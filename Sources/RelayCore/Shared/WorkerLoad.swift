import RTPCore

/// What a worker measures of itself and tells control once a second. Totals are since its start; what they come to a second is for
/// `WorkerAdmission` to find out.
public struct WorkerLoad: Hashable, Sendable {
    /// The worker's clock when it measured.
    public var at: Instant
    /// Processor time of the media loop's thread.
    public var cpu: Interval
    /// Datagrams and frames that came, whatever became of them.
    public var packets: UInt64
    /// Since the last report: the longest time in which its sockets were not seen empty. What came in then waited for as long at most.
    public var backlog: Interval
    /// Memory of the process that is its own, in bytes.
    public var residentBytes: UInt64
    /// Steps of the handshaker's thread, which makes one a second at least.
    public var handshakerSteps: UInt64

    public init(
        at: Instant, cpu: Interval, packets: UInt64, backlog: Interval, residentBytes: UInt64, handshakerSteps: UInt64
    ) {
        self.at = at
        self.cpu = cpu
        self.packets = packets
        self.backlog = backlog
        self.residentBytes = residentBytes
        self.handshakerSteps = handshakerSteps
    }
}
