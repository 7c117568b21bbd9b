import RTPCore
import RelayCore

/// What one socket's full buffer did not take, in the order in which it is to leave: what is worth most first, of equals the oldest.
/// Bounded in number and in time; when it is full the least worth goes, of equals the oldest. Owns its memory, which is untouched until
/// a send fails for the first time. Knows no socket. One thread.
package final class SendBacklog {
    package static let capacity = 512
    /// What could not leave for so long is of no use to anybody: sound is late, checks and handshakes are repeated.
    package static let longestWait = Interval.milliseconds(200)

    private struct Item {
        var entry: TransmitBatch.Entry
        var since: Instant
        /// The next one of its rank, or the next free one; -1: none.
        var next: Int32
    }

    private struct Queue {
        var first: Int32 = -1
        var last: Int32 = -1
    }

    private let slots: UnsafeMutablePointer<UInt8>
    private var items: [Item] = []
    private var queues = [Queue](repeating: Queue(), count: SendRank.allCases.count)
    private var firstFree: Int32 = -1
    package private(set) var count = 0
    /// Datagrams that were given up, by rank.
    package private(set) var dropped = [UInt64](repeating: 0, count: SendRank.allCases.count)

    package init() {
        slots = UnsafeMutableRawPointer.allocate(
            byteCount: Self.capacity * TransmitBatch.slotByteCount, alignment: 64
        ).assumingMemoryBound(to: UInt8.self)
    }

    deinit { slots.deallocate() }

    package var isEmpty: Bool { count == 0 }

    /// Keeps a copy, or gives up what is worth least. Returns how many were given up: 0 or 1.
    package func keep(
        _ bytes: UnsafePointer<UInt8>, _ entry: TransmitBatch.Entry, rank: SendRank, now: Instant
    ) -> Int {
        var lost = 0
        if count == Self.capacity {
            guard let least = SendRank.allCases.first(where: { queues[$0.rawValue].first >= 0 }), least <= rank else {
                dropped[rank.rawValue] += 1
                return 1
            }
            giveUpFirst(of: least)
            lost = 1
        }
        let index = takeFree()
        items[Int(index)] = Item(entry: entry, since: now, next: -1)
        slot(index).update(from: bytes, count: Int(entry.byteCount))
        append(index, to: rank)
        return lost
    }

    /// Gives up what has waited too long. Returns how many those were.
    package func expire(now: Instant) -> Int {
        var lost = 0
        for rank in SendRank.allCases {
            while queues[rank.rawValue].first >= 0,
                now - items[Int(queues[rank.rawValue].first)].since > Self.longestWait
            {
                giveUpFirst(of: rank)
                lost += 1
            }
        }
        return lost
    }

    /// The first `limit` that are to leave, in order.
    package func first(_ limit: Int, _ body: (UnsafeMutablePointer<UInt8>, TransmitBatch.Entry) -> Void) -> Int {
        var shown = 0
        for rank in SendRank.allCases.reversed() {
            var next = queues[rank.rawValue].first
            while next >= 0, shown < limit {
                body(slot(next), items[Int(next)].entry)
                shown += 1
                next = items[Int(next)].next
            }
        }
        return shown
    }

    /// The first `count` of that order have left.
    package func removeFirst(_ count: Int) {
        for _ in 0..<count {
            guard let rank = SendRank.allCases.last(where: { queues[$0.rawValue].first >= 0 }) else { return }
            release(of: rank)
        }
    }

    private func giveUpFirst(of rank: SendRank) {
        dropped[rank.rawValue] += 1
        release(of: rank)
    }

    private func slot(_ index: Int32) -> UnsafeMutablePointer<UInt8> {
        slots + Int(index) * TransmitBatch.slotByteCount
    }

    private func takeFree() -> Int32 {
        count += 1
        guard firstFree >= 0 else {
            items.append(
                Item(entry: .init(peer: .none, byteCount: 0, local: 0), since: Instant(nanoseconds: 0), next: -1))
            return Int32(items.count - 1)
        }
        defer { firstFree = items[Int(firstFree)].next }
        return firstFree
    }

    private func append(_ index: Int32, to rank: SendRank) {
        let last = queues[rank.rawValue].last
        if last >= 0 { items[Int(last)].next = index } else { queues[rank.rawValue].first = index }
        queues[rank.rawValue].last = index
    }

    /// The first of its rank is no longer kept.
    private func release(of rank: SendRank) {
        let index = queues[rank.rawValue].first
        queues[rank.rawValue].first = items[Int(index)].next
        if queues[rank.rawValue].first < 0 { queues[rank.rawValue].last = -1 }
        items[Int(index)].next = firstFree
        firstFree = index
        count -= 1
    }
}
