import RTPCore

/// What a media loop hands to the recorder: packets of recorded rooms in the clear, and sender reports, copied end to end into one bounded
/// block. Filled by the engine, emptied by the shell after each batch of datagrams; what finds no room is counted by recording. Confined
/// to the media loop.
public final class RecordedBatch {
    /// More than one batch of datagrams is.
    public static let byteCapacity = 512 << 10

    /// Absent until the first room is recorded.
    private var block: UnsafeMutablePointer<UInt8>?
    public private(set) var byteCount = 0
    public private(set) var dropped: [RecordingHandle: UInt64] = [:]

    public init() {}

    deinit { block?.deallocate() }

    public var isEmpty: Bool { byteCount == 0 && dropped.isEmpty }

    /// The entries as they follow each other.
    public var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: block.map { UnsafeRawPointer($0) }, count: byteCount)
    }

    func append(_ entry: RecordedEntry, _ payload: UnsafePointer<UInt8>?, byteCount count: Int) {
        let size = MemoryLayout<RecordedEntry>.stride + count
        guard byteCount + size <= Self.byteCapacity else {
            dropped[entry.recording, default: 0] += 1
            return
        }
        let block = block ?? .allocate(capacity: Self.byteCapacity)
        self.block = block
        UnsafeMutableRawPointer(block + byteCount).storeBytes(of: entry, as: RecordedEntry.self)
        if let payload, count > 0 {
            (block + byteCount + MemoryLayout<RecordedEntry>.stride).update(from: payload, count: count)
        }
        byteCount += size
    }

    public func removeAll() {
        byteCount = 0
        if !dropped.isEmpty { dropped = [:] }
    }

    /// Reads entries that follow each other in `bytes`, as `append` wrote them.
    public static func forEach(
        in bytes: UnsafeRawBufferPointer, _ body: (RecordedEntry, UnsafeRawBufferPointer) -> Void
    ) {
        var at = 0
        while at + MemoryLayout<RecordedEntry>.stride <= bytes.count {
            let entry = bytes.loadUnaligned(fromByteOffset: at, as: RecordedEntry.self)
            at += MemoryLayout<RecordedEntry>.stride
            let count = Int(entry.byteCount)
            precondition(at + count <= bytes.count, "an entry that is cut off")
            body(entry, UnsafeRawBufferPointer(rebasing: bytes[at..<at + count]))
            at += count
        }
    }
}

/// What stands in front of each payload of a `RecordedBatch`. Plain data.
public struct RecordedEntry {
    public enum Kind: UInt8 {
        /// One packet; its payload follows.
        case packet
        /// A sender report.
        case report
    }
    public var recording: RecordingHandle
    public var participant: ParticipantHandle
    public var arrival: Instant
    /// Of a packet: the source's extended sequence number.
    public var index: UInt64
    /// Of a report: what it says, and the same by our clock.
    public var ntp: NTPTime
    public var ourNTP: NTPTime
    public var timestamp: UInt32
    public var ssrc: UInt32
    public var byteCount: UInt16
    /// The m-line, by its position among the transport's.
    public var section: UInt8
    public var kind: Kind
    public var codec: MediaCodec
    public var marker: Bool

    public init(
        recording: RecordingHandle, participant: ParticipantHandle, arrival: Instant, index: UInt64, ntp: NTPTime,
        ourNTP: NTPTime, timestamp: UInt32, ssrc: UInt32, byteCount: UInt16, section: UInt8, kind: Kind,
        codec: MediaCodec, marker: Bool
    ) {
        self.recording = recording
        self.participant = participant
        self.arrival = arrival
        self.index = index
        self.ntp = ntp
        self.ourNTP = ourNTP
        self.timestamp = timestamp
        self.ssrc = ssrc
        self.byteCount = byteCount
        self.section = section
        self.kind = kind
        self.codec = codec
        self.marker = marker
    }
}
