import CMediaCrypto
import RTPCore

/// Recent video packets, decrypted, kept once per source for all of its receivers, so that a NACK can be answered. One ring
/// of bytes for the whole engine (bounded by size, so by time under load) and one small index per track. Refuses packets
/// longer than a slot. Nothing from before a track had a receiver is ever in it.
final class PacketHistory {
    /// Where one track's recent packets lie. Owned by the track; freed by `destroy()`.
    struct Index {
        static let capacity = 512
        fileprivate struct Entry {
            var sequence: UInt64
            var position: UInt64
            var byteCount: UInt16
            var headerByteCount: UInt16
            var repeats: UInt8
        }
        fileprivate let entries: UnsafeMutablePointer<Entry>

        static func create() -> Index {
            let entries = UnsafeMutablePointer<Entry>.allocate(capacity: capacity)
            entries.initialize(
                repeating: Entry(sequence: .max, position: 0, byteCount: 0, headerByteCount: 0, repeats: 0),
                count: capacity)
            return Index(entries: entries)
        }
        func destroy() { entries.deallocate() }

        /// Asks for the entry that `sequence` will be kept under. A hint.
        @inline(__always) func prefetch(_ sequence: UInt64) {
            mc_prefetch(entries + Int(sequence % UInt64(Self.capacity)))
        }
    }

    struct Found {
        var packet: UnsafeMutablePointer<UInt8>
        var headerByteCount: Int
        var byteCount: Int
        /// How often it was given out, this time included.
        var repeats: Int
    }

    private let bytes: UnsafeMutablePointer<UInt8>
    private let capacity: Int
    /// Bytes ever written; the next packet lies at `position % capacity`.
    private var position: UInt64 = 0

    init(byteCount: Int) {
        precondition(byteCount >= 64 * TransmitBatch.slotByteCount, "history too small to hold a frame")
        capacity = byteCount
        bytes = .allocate(capacity: byteCount)
    }

    deinit { bytes.deallocate() }

    /// Keeps header and payload (which may lie apart, as with RTX) under the source's extended sequence number.
    func store(
        _ index: Index, sequence: UInt64, header: UnsafePointer<UInt8>, headerByteCount: Int,
        payload: UnsafePointer<UInt8>, payloadByteCount: Int
    ) {
        let byteCount = headerByteCount + payloadByteCount
        guard byteCount <= TransmitBatch.slotByteCount else { return }
        var at = Int(position % UInt64(capacity))
        if at + byteCount > capacity {
            position += UInt64(capacity - at)
            at = 0
        }
        (bytes + at).update(from: header, count: headerByteCount)
        (bytes + at + headerByteCount).update(from: payload, count: payloadByteCount)
        index.entries[Int(sequence % UInt64(Index.capacity))] = Index.Entry(
            sequence: sequence, position: position, byteCount: UInt16(byteCount),
            headerByteCount: UInt16(headerByteCount), repeats: 0)
        position += UInt64(byteCount)
    }

    /// The packet kept under `sequence`, counted as given out once more; nil when it is gone or never came.
    func find(_ index: Index, sequence: UInt64) -> Found? {
        let entry = index.entries + Int(sequence % UInt64(Index.capacity))
        guard entry.pointee.sequence == sequence, position - entry.pointee.position <= UInt64(capacity) else {
            return nil
        }
        if entry.pointee.repeats < .max { entry.pointee.repeats += 1 }
        return Found(
            packet: bytes + Int(entry.pointee.position % UInt64(capacity)),
            headerByteCount: Int(entry.pointee.headerByteCount), byteCount: Int(entry.pointee.byteCount),
            repeats: Int(entry.pointee.repeats))
    }
}
