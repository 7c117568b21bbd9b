import RTPCore

/// Bytes that all kept key frames of an engine may take together.
final class KeptBytes {
    let limit: Int
    fileprivate(set) var used = 0
    init(limit: Int) { self.limit = limit }
}

/// The newest complete key frame of a track that nobody gets yet, decrypted, for a caller who asked for it: at most
/// `packetCount` packets and `byteCount` bytes, twice while the next one comes in. A frame with a hole, of another length or
/// another source is not kept. Used only where packets are held back, never on the hot path.
final class KeyFrameKeeper {
    static let packetCount = 256
    static let byteCount = 256 << 10
    /// How old a key frame may be when it is sent, from its first packet (CALLS.md, "Participant states").
    static let life = Interval.seconds(1)
    /// A fresh one is asked for this often, so that it is there before the last one is too old.
    static let askInterval = Interval.milliseconds(700)
    /// Nothing is asked of a sender who has been silent for so long.
    static let silence = Interval.seconds(2)

    struct Packet {
        var index: UInt64
        /// Where header and payload lie in the frame's bytes; the payload follows its header.
        var offset: Int
        var headerByteCount: Int
        var payloadByteCount: Int
    }

    struct Frame {
        var source: Int32
        var timestamp: UInt32
        var startedAt: Instant
        var firstIndex: UInt64
        /// The packet with the marker bit.
        var lastIndex: UInt64?
        /// In the order of their coming until the frame is complete, then by index.
        var packets: [Packet] = []
        var bytes: [UInt8] = []
        var isBroken = false

        var isComplete: Bool {
            guard !isBroken, let lastIndex else { return false }
            return UInt64(packets.count) == lastIndex - firstIndex + 1
        }
    }

    /// When to ask the sender for the next one; not before it has sent anything.
    var askAt = Instant.distantFuture
    private(set) var lastPacketAt = Instant(nanoseconds: 0)
    private let pool: KeptBytes
    private var kept: Frame?
    private var coming: Frame?

    init(pool: KeptBytes) { self.pool = pool }

    deinit { discard() }

    /// The kept key frame, unless it is too old or of another source.
    func frame(of source: Int32, now: Instant) -> Frame? {
        guard let kept, kept.source == source, now - kept.startedAt <= Self.life else { return nil }
        return kept
    }

    /// Forgets everything.
    func discard() {
        pool.used -= (kept?.bytes.count ?? 0) + (coming?.bytes.count ?? 0)
        kept = nil
        coming = nil
        askAt = .distantFuture
    }

    /// One packet of the track. `isStart`: a key frame begins with it.
    func receive(
        header: UnsafeBufferPointer<UInt8>, payload: UnsafeBufferPointer<UInt8>, index: UInt64, timestamp: UInt32,
        hasMarker: Bool, isStart: Bool, source: Int32, now: Instant
    ) {
        lastPacketAt = now
        // A second start in one frame is a parameter set before its picture.
        if isStart, coming?.timestamp != timestamp || coming?.source != source {
            pool.used -= coming?.bytes.count ?? 0
            coming = Frame(source: source, timestamp: timestamp, startedAt: now, firstIndex: index)
        }
        guard var frame = coming, frame.timestamp == timestamp, frame.source == source, index >= frame.firstIndex
        else { return }
        coming = nil
        let byteCount = header.count + payload.count
        if frame.packets.count == Self.packetCount || frame.bytes.count + byteCount > Self.byteCount
            || pool.used + byteCount > pool.limit
        {
            frame.isBroken = true
        }
        if !frame.isBroken {
            frame.packets.append(
                Packet(
                    index: index, offset: frame.bytes.count, headerByteCount: header.count,
                    payloadByteCount: payload.count))
            frame.bytes.append(contentsOf: header)
            frame.bytes.append(contentsOf: payload)
            pool.used += byteCount
            if hasMarker { frame.lastIndex = index }
        }
        guard frame.isComplete else {
            coming = frame
            return
        }
        frame.packets.sort { $0.index < $1.index }
        pool.used -= kept?.bytes.count ?? 0
        kept = frame
    }
}
