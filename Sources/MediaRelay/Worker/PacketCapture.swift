import RTPCore
import RelayCore

/// One capture that a worker carries out: writes the headers of a room's datagrams as pcapng, and gives it away in parts. Bounded in
/// time and bytes. Media loop's thread, which has one at most and asks whether there is one before it calls.
struct PacketCapture {
    static let flushInterval = Interval.milliseconds(250)

    let order: CaptureOrder
    private var writer = PcapngWriter()
    private var writtenByteCount = 0
    private let until: Instant
    private var nextFlush: Instant
    /// What the wall clock is ahead of ours.
    private let epoch: Int64
    private(set) var end: CaptureEnd?

    init(_ order: CaptureOrder, worker: WorkerID, now: Instant) {
        self.order = order
        until = now + order.duration
        nextFlush = now
        epoch = WallClock.nowNs - now.nanoseconds
        writer.begin(program: "media-relay \(Version.text)", interface: "worker \(worker.index)")
    }

    /// When `advance` is wanted.
    var deadline: Instant { min(until, nextFlush) }

    mutating func note(
        _ bytes: UnsafePointer<UInt8>, count: Int, from: PeerAddress, to: PeerAddress, isInbound: Bool, now: Instant
    ) {
        guard end == nil else { return }
        let kept = CapturedHeaders.byteCount(bytes, count: count)
        guard kept > 0 else { return }
        let before = writer.bytes.count
        writer.datagram(
            bytes, kept: kept, byteCount: count, from: from, to: to, isInbound: isInbound,
            unixNanoseconds: UInt64(max(0, epoch + now.nanoseconds)))
        // The one that no longer fits is left out whole.
        if writtenByteCount + writer.bytes.count > order.byteLimit {
            writer.removeLast(writer.bytes.count - before)
            end = .size
        }
    }

    mutating func stop(_ end: CaptureEnd) { if self.end == nil { self.end = end } }

    /// Parts that are due; the last one has an end, and then the capture is over.
    mutating func advance(to now: Instant, roomIsHere: Bool) -> [CapturePart] {
        if !roomIsHere { stop(.roomEmpty) }
        if now >= until { stop(.time) }
        guard end != nil || now >= nextFlush else { return [] }
        nextFlush = now + Self.flushInterval
        var rest = writer.take()[...]
        writtenByteCount += rest.count
        var parts: [CapturePart] = []
        while !rest.isEmpty {
            parts.append(CapturePart(id: order.id, bytes: Array(rest.prefix(CapturePart.byteLimit))))
            rest = rest.dropFirst(CapturePart.byteLimit)
        }
        if let end {
            if parts.isEmpty { parts.append(CapturePart(id: order.id, bytes: [])) }
            parts[parts.count - 1].end = end
        }
        return parts
    }
}
