/// A binary heap of wake-ups. Entries are hints: a connection keeps its true deadline itself, and an entry
/// that comes too early is put back, so moving a deadline later costs nothing.
package struct DeadlineQueue {
    package struct Entry {
        /// Nanoseconds of the monotonic clock.
        package var time: UInt64
        package var key: ConnectionKey

        package init(time: UInt64, key: ConnectionKey) {
            self.time = time
            self.key = key
        }
    }

    package init() {}

    private var heap: [Entry] = []

    package var count: Int { heap.count }

    /// The earliest entry's time.
    package var first: UInt64? { heap.first?.time }

    package mutating func insert(_ entry: Entry) {
        heap.append(entry)
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child].time < heap[parent].time else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    /// Takes the earliest entry when its time has come.
    package mutating func take(until now: UInt64) -> Entry? {
        guard let first = heap.first, first.time <= now else { return nil }
        let last = heap.removeLast()
        guard !heap.isEmpty else { return first }
        heap[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].time < heap[least].time { least = child }
            guard least != parent else { return first }
            heap.swapAt(parent, least)
            parent = least
        }
    }

    package mutating func removeAll() { heap.removeAll() }
}
