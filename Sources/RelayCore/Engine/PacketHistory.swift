import CMediaCrypto
import RTPCore

/// Recent video packets, decrypted, kept once per source for all of its receivers, so that a NACK can be answered. One block
/// of memory, bounded, in pages: a track takes one when its newest is full, goes on in its oldest once that is older than
/// anybody will ask for, and gives back what it needs no more. So a track holds what its rate and the time make, and no
/// more of the block is ever touched than was needed at once. Refuses packets longer than a datagram. Nothing from before a
/// track had a receiver is ever in it.
final class PacketHistory {
    static let pageByteCount = 16_384
    /// So much of one track at most: 1 MB, half a second of 16 Mbit/s.
    static let pagesPerTrack = 64

    /// One track's recent packets. Owned by the track; given back by `release`.
    struct Index {
        static let capacity = 512
        /// Pages are counted from 1 on, as long as the track lives; those from `oldest` to `newest` are its own. A page is
        /// written once under its number, so a position within them can be trusted, and any other is gone.
        fileprivate struct Head {
            var oldest: UInt64 = 1
            var newest: UInt64 = 0
            /// The newest page, and where in it the next packet goes.
            var page: UnsafeMutableRawPointer
            var offset = PacketHistory.pageByteCount
        }
        /// Head, then the places of the pages by number, the instants at which each was full, and the packets' positions
        /// by sequence number: all in one piece.
        fileprivate let head: UnsafeMutablePointer<Head>
        fileprivate var pages: UnsafeMutablePointer<Int32> {
            UnsafeMutableRawPointer(head + 1).assumingMemoryBound(to: Int32.self)
        }
        fileprivate var instants: UnsafeMutablePointer<Instant> {
            UnsafeMutableRawPointer(pages + PacketHistory.pagesPerTrack).assumingMemoryBound(to: Instant.self)
        }
        fileprivate var positions: UnsafeMutablePointer<UInt64> {
            UnsafeMutableRawPointer(instants + PacketHistory.pagesPerTrack).assumingMemoryBound(to: UInt64.self)
        }
        static let byteCount =
            MemoryLayout<Head>.stride
            + PacketHistory.pagesPerTrack * (MemoryLayout<Int32>.stride + MemoryLayout<Instant>.stride)
            + capacity * MemoryLayout<UInt64>.stride

        /// Asks for the place that `sequence` will be kept under. A hint.
        @inline(__always) func prefetch(_ sequence: UInt64) {
            mc_prefetch(head)
            mc_prefetch(positions + Int(sequence % UInt64(Self.capacity)))
        }
    }

    /// What stands before each packet in its page; packets begin at multiples of 64 bytes.
    private struct Record {
        static let byteCount = 16
        var sequence: UInt64
        /// From the lowest bit on: bytes (16), those of them that are the header (16), repeats so far (8).
        var rest: UInt64

        @inline(__always) init(sequence: UInt64, byteCount: Int, headerByteCount: Int) {
            self.sequence = sequence
            rest = UInt64(truncatingIfNeeded: byteCount) | UInt64(truncatingIfNeeded: headerByteCount) &<< 16
        }
        var packetByteCount: Int { Int(rest & 0xFFFF) }
        var headerByteCount: Int { Int(rest >> 16 & 0xFFFF) }
        var repeats: Int { Int(rest >> 32) }
        mutating func countRepeat() { if repeats < 255 { rest += 1 << 32 } }
    }

    struct Found {
        var packet: UnsafeMutablePointer<UInt8>
        var headerByteCount: Int
        var byteCount: Int
        /// How often it was given out, this time included.
        var repeats: Int
    }

    private let bytes: UnsafeMutableRawPointer
    private let pageCount: Int
    /// Pages that were given back, and how many were ever used: the ones above are untouched memory.
    private let free: UnsafeMutablePointer<Int32>
    private var freeCount = 0
    private var usedCount = 0

    init(byteCount: Int) {
        precondition(byteCount >= 8 * Self.pageByteCount, "history too small to hold a frame")
        pageCount = byteCount / Self.pageByteCount
        bytes = .allocate(byteCount: pageCount * Self.pageByteCount, alignment: 4_096)
        free = .allocate(capacity: pageCount)
    }

    deinit {
        bytes.deallocate()
        free.deallocate()
    }

    /// Pages that tracks hold now.
    var heldPageCount: Int { usedCount - freeCount }

    func makeIndex() -> Index {
        let memory = UnsafeMutableRawPointer.allocate(byteCount: Index.byteCount, alignment: 64)
        let head = memory.bindMemory(to: Index.Head.self, capacity: 1)
        head.initialize(to: Index.Head(page: bytes))
        let index = Index(head: head)
        index.pages.initialize(repeating: 0, count: Self.pagesPerTrack)
        index.instants.initialize(repeating: Instant(nanoseconds: 0), count: Self.pagesPerTrack)
        index.positions.initialize(repeating: 0, count: Index.capacity)
        return index
    }

    /// Gives back the track's pages and the index. It may not be used afterwards.
    func release(_ index: Index) {
        while index.head.pointee.oldest <= index.head.pointee.newest { giveBackOldest(of: index) }
        UnsafeMutableRawPointer(index.head).deallocate()
    }

    /// Whether a packet of so many bytes wants a new page first: `turnPage`.
    @inline(__always) func needsPage(_ index: Index, byteCount: Int) -> Bool {
        index.head.pointee.offset &+ Record.byteCount &+ byteCount > Self.pageByteCount
    }

    /// Begins a new page.
    /// - Parameter keep: what is older is of no use to anybody.
    func turnPage(_ index: Index, keep: Interval, now: Instant) {
        let head = index.head
        if head.pointee.newest > 0 { index.instants[Self.slot(head.pointee.newest)] = now }
        // What has become too much since the rate fell: but the last one, which is gone on in.
        while head.pointee.oldest < head.pointee.newest, isPast(index, head.pointee.oldest + 1, keep, now) {
            giveBackOldest(of: index)
        }
        let isFull = freeCount == 0 && usedCount == pageCount
        let held = Int(head.pointee.newest &+ 1 &- head.pointee.oldest)
        let page: Int32
        if held > 0, isPast(index, head.pointee.oldest, keep, now) || held == Self.pagesPerTrack || isFull {
            page = index.pages[Self.slot(head.pointee.oldest)]
            head.pointee.oldest += 1
        } else if freeCount > 0 {
            freeCount -= 1
            page = free[freeCount]
        } else if !isFull {
            page = Int32(truncatingIfNeeded: usedCount)
            usedCount += 1
        } else {
            return
        }
        head.pointee.newest += 1
        index.pages[Self.slot(head.pointee.newest)] = page
        head.pointee.page = bytes + Int(page) * Self.pageByteCount
        head.pointee.offset = 0
    }

    @inline(__always) private static func slot(_ number: UInt64) -> Int {
        Int(truncatingIfNeeded: number & UInt64(pagesPerTrack - 1))
    }

    /// Whether the whole page is older than anybody will ask for.
    private func isPast(_ index: Index, _ number: UInt64, _ keep: Interval, _ now: Instant) -> Bool {
        now - index.instants[Self.slot(number)] > keep
    }

    private func giveBackOldest(of index: Index) {
        free[freeCount] = index.pages[Self.slot(index.head.pointee.oldest)]
        freeCount += 1
        index.head.pointee.oldest += 1
    }

    /// Keeps header and payload (which may lie apart, as with RTX) under the source's extended sequence number. Without
    /// effect where there is no room: the packet cannot be repeated then.
    @inline(__always) func store(
        _ index: Index, sequence: UInt64, header: UnsafePointer<UInt8>, headerByteCount: Int,
        payload: UnsafePointer<UInt8>, payloadByteCount: Int
    ) {
        let byteCount = headerByteCount &+ payloadByteCount
        let offset = index.head.pointee.offset
        let end = offset &+ Record.byteCount &+ byteCount
        guard byteCount <= TransmitBatch.slotByteCount, end <= Self.pageByteCount else { return }
        let place = index.head.pointee.page + offset
        let record = Record(sequence: sequence, byteCount: byteCount, headerByteCount: headerByteCount)
        if header + headerByteCount == payload {
            mc_store_past_cache(place, record.sequence, record.rest, header, byteCount)
        } else {
            place.storeBytes(of: record, as: Record.self)
            (place + Record.byteCount).copyMemory(from: header, byteCount: headerByteCount)
            (place + Record.byteCount + headerByteCount).copyMemory(from: payload, byteCount: payloadByteCount)
        }
        index.positions[Int(truncatingIfNeeded: sequence % UInt64(Index.capacity))] =
            index.head.pointee.newest &* UInt64(Self.pageByteCount) &+ UInt64(truncatingIfNeeded: offset)
        index.head.pointee.offset = (end &+ 63) & ~63
    }

    /// The packet kept under `sequence`, counted as given out once more; nil when it is gone or never came.
    func find(_ index: Index, sequence: UInt64) -> Found? {
        let position = index.positions[Int(sequence % UInt64(Index.capacity))]
        let number = position / UInt64(Self.pageByteCount)
        guard number >= index.head.pointee.oldest, number <= index.head.pointee.newest else { return nil }
        let page = bytes + Int(index.pages[Self.slot(number)]) * Self.pageByteCount
        let place = page + Int(position % UInt64(Self.pageByteCount))
        let record = place.assumingMemoryBound(to: Record.self)
        guard record.pointee.sequence == sequence else { return nil }
        record.pointee.countRepeat()
        return Found(
            packet: (place + Record.byteCount).assumingMemoryBound(to: UInt8.self),
            headerByteCount: record.pointee.headerByteCount, byteCount: record.pointee.packetByteCount,
            repeats: record.pointee.repeats)
    }
}
