/// One packet of a recorded source, its payload in the clear.
public struct RecordedPacket: Hashable, Sendable {
    /// The source's extended sequence number.
    public var index: UInt64
    public var timestamp: UInt32
    public var marker: Bool
    public var arrival: Instant
    /// Empty: padding.
    public var payload: [UInt8]

    public init(index: UInt64, timestamp: UInt32, marker: Bool, arrival: Instant, payload: [UInt8]) {
        self.index = index
        self.timestamp = timestamp
        self.marker = marker
        self.arrival = arrival
        self.payload = payload
    }
}

/// Puts the packets of one source into order, for somebody who is in no hurry: repairs are waited for. Owns packets that wait for an
/// earlier one, in bounds; what does not come in time is a gap. Plain data in virtual time.
public struct ReorderBuffer: Sendable {
    /// Packets and bytes that wait at most; more make the gap sure.
    private static let packetLimit = 2_048
    private static let byteLimit = 4 << 20

    public enum Step: Hashable, Sendable {
        case packet(RecordedPacket)
        /// So many packets never came.
        case gap(UInt64)
    }

    private let patience: Interval
    private var next: UInt64?
    private var waiting: [UInt64: RecordedPacket] = [:]
    private var byteCount = 0
    private var stuckSince: Instant?
    /// Packets that came again, or behind what followed them.
    public private(set) var lateCount: UInt64 = 0

    public init(patience: Interval) { self.patience = patience }

    /// When `step` may give something without a new packet.
    public var deadline: Instant { stuckSince.map { $0 + patience } ?? .distantFuture }

    public mutating func insert(_ packet: RecordedPacket) {
        let next = next ?? packet.index
        self.next = next
        guard packet.index >= next, waiting[packet.index] == nil else { return lateCount += 1 }
        waiting[packet.index] = packet
        byteCount += packet.payload.count
    }

    /// What comes next; nil: nothing, or something that an earlier packet keeps waiting.
    public mutating func step(now: Instant) -> Step? {
        guard let next, !waiting.isEmpty else { return nil }
        if let packet = waiting.removeValue(forKey: next) {
            self.next = next + 1
            byteCount -= packet.payload.count
            stuckSince = nil
            return .packet(packet)
        }
        let since = stuckSince ?? now
        stuckSince = since
        guard now - since >= patience || waiting.count > Self.packetLimit || byteCount > Self.byteLimit else {
            return nil
        }
        return skip(from: next)
    }

    /// The same without patience: nothing more will come.
    public mutating func drain() -> Step? {
        guard let next, !waiting.isEmpty else { return nil }
        if waiting[next] != nil { return step(now: Instant(nanoseconds: 0)) }
        return skip(from: next)
    }

    private mutating func skip(from next: UInt64) -> Step? {
        guard let first = waiting.keys.min() else { return nil }
        self.next = first
        stuckSince = nil
        return .gap(first - next)
    }
}
