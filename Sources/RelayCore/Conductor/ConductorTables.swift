import RTPCore

// Small ordered tables of the conductor: all rooms in the order of their creation, and the line that ended rooms
// and idempotency keys wait in to be forgotten.

/// Rooms by ordinal, for listings. Removed ones leave a gap that is closed when half of the table is gaps.
struct RoomListing {
    private(set) var entries: [(ordinal: UInt64, room: RoomHandle?)] = []
    private var gapCount = 0
    private(set) var nextOrdinal: UInt64 = 1

    /// - Precondition: `ordinal` is above all that were appended before.
    mutating func append(_ room: RoomHandle, ordinal: UInt64) {
        precondition(ordinal >= nextOrdinal, "rooms are listed in the order of their creation")
        entries.append((ordinal, room))
        nextOrdinal = ordinal + 1
    }

    mutating func remove(ordinal: UInt64) {
        let index = firstIndex(after: ordinal - 1)
        precondition(index < entries.count && entries[index].ordinal == ordinal, "an unlisted room was removed")
        entries[index].room = nil
        gapCount += 1
        guard gapCount > 64, gapCount * 2 > entries.count else { return }
        entries.removeAll { $0.room == nil }
        gapCount = 0
    }

    /// The index of the first entry whose ordinal is above `ordinal`; `entries.count` when there is none.
    func firstIndex(after ordinal: UInt64) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].ordinal > ordinal { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// A first-in-first-out queue over an array: its consumed front is dropped when it is the larger part.
struct Line<Element> {
    private var elements: [Element] = []
    private var start = 0

    var count: Int { elements.count - start }
    var first: Element? { start < elements.count ? elements[start] : nil }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func removeFirst() -> Element? {
        guard let element = first else { return nil }
        start += 1
        if start > 64, start * 2 > elements.count {
            elements.removeFirst(start)
            start = 0
        }
        return element
    }

    mutating func keep(where isKept: (Element) -> Bool) {
        elements = elements[start...].filter(isKept)
        start = 0
    }
}
