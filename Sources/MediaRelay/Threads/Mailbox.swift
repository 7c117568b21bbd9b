/// Where one thread leaves values for another: bounded, in order, never a wait. The receiver takes everything
/// at once; the senders wake it once per batch. When it is full, a value is refused and counted.
package final class Mailbox<Value: Sendable>: @unchecked Sendable {
    // @unchecked: everything mutable is touched under `lock` only.
    private let lock = Lock()
    private let capacity: Int
    private var waiting: [Value] = []
    private var refused: UInt64 = 0
    /// The receiver adds its descriptor to its poller and when it is readable calls `wakeUp.clear()` first
    /// and `take` then: the other way round a value could wait unnoticed.
    package let wakeUp: WakeUp

    /// Shares `wakeUp` with other mailboxes of the same receiver where one is given.
    package init(capacity: Int, wakeUp: WakeUp) {
        precondition(capacity > 0, "a mailbox without room")
        self.capacity = capacity
        self.wakeUp = wakeUp
    }

    package convenience init(capacity: Int) throws(SystemError) {
        self.init(capacity: capacity, wakeUp: try WakeUp())
    }

    /// False: full, the value is dropped and counted.
    @discardableResult
    package func post(_ value: Value) -> Bool {
        let (isAccepted, wasEmpty) = lock.withLock {
            guard waiting.count < capacity else {
                refused += 1
                return (false, false)
            }
            waiting.append(value)
            return (true, waiting.count == 1)
        }
        if wasEmpty { wakeUp.signal() }
        return isAccepted
    }

    /// How many were accepted, from the front; the rest is dropped and counted.
    @discardableResult
    package func post(contentsOf values: [Value]) -> Int {
        guard !values.isEmpty else { return 0 }
        let (accepted, wasEmpty) = lock.withLock {
            let wasEmpty = waiting.isEmpty
            let accepted = min(values.count, capacity - waiting.count)
            waiting.append(contentsOf: values.prefix(accepted))
            refused += UInt64(values.count - accepted)
            return (accepted, wasEmpty && accepted > 0)
        }
        if wasEmpty { wakeUp.signal() }
        return accepted
    }

    /// Swaps everything that waits into `batch`, whose storage is kept for the next batch. Empty when nothing
    /// waits.
    package func take(into batch: inout [Value]) {
        batch.removeAll(keepingCapacity: true)
        lock.withLock { swap(&batch, &waiting) }
    }

    package var refusedCount: UInt64 { lock.withLock { refused } }
}
