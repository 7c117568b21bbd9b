/// Names an entry of a `ConnectionTable` for as long as it is there: a slot and how often the slot was used.
/// Also what epoll hands back, so that a stale event of a closed connection never reaches the next one with
/// the same number.
package struct ConnectionKey: Hashable, Sendable {
    package var slot: UInt32
    package var generation: UInt32

    package init(slot: UInt32, generation: UInt32) {
        self.slot = slot
        self.generation = generation
    }

    package init(rawValue: UInt64) {
        slot = UInt32(truncatingIfNeeded: rawValue)
        generation = UInt32(truncatingIfNeeded: rawValue >> 32)
    }

    package var rawValue: UInt64 { UInt64(generation) << 32 | UInt64(slot) }
}

/// Connections in slots that are used again under a new generation.
package struct ConnectionTable<Element> {
    private var slots: [Element?] = []
    private var generations: [UInt32] = []
    private var freeSlots: [UInt32] = []
    package private(set) var count = 0

    package init() {}

    /// How many slots there ever were at once.
    package var capacity: Int { slots.count }

    /// The entry of a key; nil when it was removed, whoever has its slot now.
    package subscript(key: ConnectionKey) -> Element? {
        guard Int(key.slot) < slots.count, generations[Int(key.slot)] == key.generation else { return nil }
        return slots[Int(key.slot)]
    }

    /// Puts in what `make` gives for its key.
    package mutating func insert(_ make: (ConnectionKey) -> Element) -> Element {
        let slot: UInt32
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = UInt32(slots.count)
            slots.append(nil)
            generations.append(0)
        }
        let element = make(ConnectionKey(slot: slot, generation: generations[Int(slot)]))
        slots[Int(slot)] = element
        count += 1
        return element
    }

    /// - Precondition: the entry is there.
    package mutating func remove(_ key: ConnectionKey) {
        precondition(self[key] != nil, "a connection is removed once")
        slots[Int(key.slot)] = nil
        generations[Int(key.slot)] &+= 1
        freeSlots.append(key.slot)
        count -= 1
    }

    /// All entries at this moment.
    package var all: [Element] { slots.compactMap { $0 } }
}
