import RTPCore

/// One deadline per transport, in slots of 5 ms: setting or moving one costs a few nanoseconds however many there are.
/// A deadline beyond the wheel's span waits in its last slot and is looked at again then. Never fires early; late by at
/// most one slot.
final class TimerWheel {
    static let slotInterval: Int64 = 5_000_000
    private static let slotCount = 1_024
    private static let none: Int32 = -1

    private struct Node {
        var deadline: Int64
        var next: Int32
        var previous: Int32
        /// -1: not set.
        var slot: Int32
    }

    private let heads: UnsafeMutablePointer<Int32>
    /// One bit a slot that has a timer.
    private let occupied: UnsafeMutablePointer<UInt64>
    private let nodes: UnsafeMutablePointer<Node>
    private let capacity: Int
    /// Ticks up to which everything has fired.
    private var tick: Int64
    private var armed = 0

    init(capacity: Int, now: Instant) {
        self.capacity = capacity
        heads = .allocate(capacity: Self.slotCount)
        heads.initialize(repeating: Self.none, count: Self.slotCount)
        occupied = .allocate(capacity: Self.slotCount / 64)
        occupied.initialize(repeating: 0, count: Self.slotCount / 64)
        nodes = .allocate(capacity: capacity)
        nodes.initialize(repeating: Node(deadline: 0, next: -1, previous: -1, slot: -1), count: capacity)
        tick = now.nanoseconds / Self.slotInterval
    }

    deinit {
        heads.deallocate()
        occupied.deallocate()
        nodes.deallocate()
    }

    /// When `timer` is due; `.distantFuture` when it is not set.
    func deadline(of timer: Int32) -> Instant {
        let node = nodes[Int(timer)]
        return node.slot < 0 ? .distantFuture : Instant(nanoseconds: node.deadline)
    }

    /// Sets `timer` to `deadline`, moving it if it was set.
    func set(_ timer: Int32, to deadline: Instant) {
        clear(timer)
        let due = (deadline.nanoseconds + Self.slotInterval - 1) / Self.slotInterval
        let at = min(max(due, tick + 1), tick + Int64(Self.slotCount) - 1)
        let slot = Int(at % Int64(Self.slotCount))
        let index = Int(timer)
        nodes[index] = Node(
            deadline: deadline.nanoseconds, next: heads[slot], previous: Self.none, slot: Int32(slot))
        if heads[slot] >= 0 { nodes[Int(heads[slot])].previous = timer }
        heads[slot] = timer
        occupied[slot >> 6] |= 1 << UInt64(slot & 63)
        armed += 1
    }

    /// Sets `timer` to `deadline` unless it is already due before.
    @inline(__always) func setIfEarlier(_ timer: Int32, to deadline: Instant) {
        let node = nodes[Int(timer)]
        if node.slot < 0 || node.deadline > deadline.nanoseconds { set(timer, to: deadline) }
    }

    func clear(_ timer: Int32) {
        precondition(timer >= 0 && Int(timer) < capacity, "timer out of range")
        let node = nodes[Int(timer)]
        guard node.slot >= 0 else { return }
        if node.previous >= 0 {
            nodes[Int(node.previous)].next = node.next
        } else {
            heads[Int(node.slot)] = node.next
            if node.next < 0 { occupied[Int(node.slot) >> 6] &= ~(1 << UInt64(node.slot & 63)) }
        }
        if node.next >= 0 { nodes[Int(node.next)].previous = node.previous }
        nodes[Int(timer)].slot = -1
        armed -= 1
    }

    /// When the wheel wants to be advanced next; `.distantFuture` when nothing is set.
    var deadline: Instant {
        guard armed > 0 else { return .distantFuture }
        var at = tick + 1
        let end = tick + Int64(Self.slotCount)
        while at < end {
            let slot = Int(at % Int64(Self.slotCount))
            let word = occupied[slot >> 6] >> UInt64(slot & 63)
            if word != 0 {
                let found = at + Int64(word.trailingZeroBitCount)
                return Instant(nanoseconds: found * Self.slotInterval)
            }
            at += Int64(64 - slot & 63)
        }
        preconditionFailure("armed timers without an occupied slot")
    }

    /// Takes out one timer that is due at `now`; nil when there is none left. Call until nil.
    func popDue(at now: Instant) -> Int32? {
        let last = now.nanoseconds / Self.slotInterval
        while tick < last {
            let slot = Int((tick + 1) % Int64(Self.slotCount))
            var timer = heads[slot]
            while timer >= 0 {
                let node = nodes[Int(timer)]
                if node.deadline <= now.nanoseconds {
                    clear(timer)
                    return timer
                }
                // It waited in the wheel's last slot for a later deadline.
                let next = node.next
                let deadline = Instant(nanoseconds: node.deadline)
                if (node.deadline + Self.slotInterval - 1) / Self.slotInterval > tick + 1 {
                    set(timer, to: deadline)
                }
                timer = next
            }
            // An idle stretch is skipped at once.
            if armed == 0 { tick = last } else { tick += 1 }
        }
        return nil
    }
}
