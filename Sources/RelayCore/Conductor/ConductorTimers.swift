import RTPCore

/// What the conductor has to do at a time.
package enum ConductorTimer: Hashable {
    /// A participant's connecting or prepared expiry: it has one at a time.
    case participant(ParticipantHandle)
    case emptyRoom(RoomHandle)
    case durationWarning(RoomHandle)
    case duration(RoomHandle)
    /// Nobody sends: the warning, then the end.
    case idle(RoomHandle)
    /// One is left of a group: the warning, then the end.
    case alone(RoomHandle)
    /// Nobody has answered in the ring's window.
    case ringWindow(RoomHandle)
    /// Caller and claimer had to be joined by now.
    case joinAfterClaim(RoomHandle)
    /// Restored rooms have waited long enough for their workers.
    case workerWait
    /// What a worker of an earlier build still carries ends.
    case retirement(WorkerID)
    /// What is left of a draining node ends.
    case drain
    /// The oldest ended room may be forgotten.
    case retention
    /// The oldest idempotency key may be forgotten.
    case idempotency

    /// The timers that a room may have, all cancelled at its end.
    package static func all(ofRoom room: RoomHandle) -> [ConductorTimer] {
        [
            .emptyRoom(room), .durationWarning(room), .duration(room), .idle(room), .alone(room), .ringWindow(room),
            .joinAfterClaim(room),
        ]
    }
}

/// All deadlines in one binary heap that also knows where each one lies, so that setting, moving and
/// cancelling are exact: nothing stale is left behind, and the number of entries is the number of things that
/// are really awaited. Equal deadlines come out in the order they were set.
/// - Complexity: O(log n) for every change, O(1) for `next`.
package struct ConductorTimers {
    private struct Entry {
        var deadline: Instant
        var order: UInt64
        var timer: ConductorTimer
        func precedes(_ other: Entry) -> Bool {
            deadline == other.deadline ? order < other.order : deadline < other.deadline
        }
    }
    private var heap: [Entry] = []
    private var positions: [ConductorTimer: Int] = [:]
    private var order: UInt64 = 0

    package init() {}

    package var count: Int { heap.count }
    /// The earliest deadline; `.distantFuture` when there is none.
    package var next: Instant { heap.first?.deadline ?? .distantFuture }
    package var all: [(timer: ConductorTimer, deadline: Instant)] { heap.map { ($0.timer, $0.deadline) } }

    package func deadline(of timer: ConductorTimer) -> Instant? {
        positions[timer].map { heap[$0].deadline }
    }

    /// Sets or moves a deadline.
    package mutating func set(_ timer: ConductorTimer, to deadline: Instant) {
        cancel(timer)
        order += 1
        heap.append(Entry(deadline: deadline, order: order, timer: timer))
        positions[timer] = heap.count - 1
        siftUp(heap.count - 1)
    }

    package mutating func cancel(_ timer: ConductorTimer) {
        guard let index = positions.removeValue(forKey: timer) else { return }
        let last = heap.removeLast()
        guard index < heap.count else { return }
        heap[index] = last
        positions[last.timer] = index
        siftDown(index)
        siftUp(index)
    }

    /// Removes and returns the earliest timer whose deadline is not after `now`.
    package mutating func removeDue(at now: Instant) -> ConductorTimer? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        cancel(first.timer)
        return first.timer
    }

    private mutating func siftUp(_ start: Int) {
        var index = start
        while index > 0 {
            let parent = (index - 1) / 2
            guard heap[index].precedes(heap[parent]) else { return }
            swap(index, parent)
            index = parent
        }
    }

    private mutating func siftDown(_ start: Int) {
        var index = start
        while true {
            var first = index
            for child in [2 * index + 1, 2 * index + 2] where child < heap.count {
                if heap[child].precedes(heap[first]) { first = child }
            }
            guard first != index else { return }
            swap(index, first)
            index = first
        }
    }

    private mutating func swap(_ a: Int, _ b: Int) {
        heap.swapAt(a, b)
        positions[heap[a].timer] = a
        positions[heap[b].timer] = b
    }
}
