import CLinuxIO
import Glibc
import RTPCore

/// Waits for descriptors and a deadline (epoll, level-triggered, nanoseconds). Owns the epoll set, not the
/// descriptors in it. One thread waits; a `WakeUp` in the set lets others interrupt it.
package final class Poller {
    package struct Event {
        package var token: UInt64
        package var isReadable: Bool
        package var isWritable: Bool
        /// The other end is gone or the descriptor is in error: reading tells which.
        package var isHungUp: Bool
    }

    package enum Interest {
        case reading, writing, both

        fileprivate var bits: UInt32 {
            switch self {
            case .reading: UInt32(LIO_READABLE)
            case .writing: UInt32(LIO_WRITABLE)
            case .both: UInt32(LIO_READABLE | LIO_WRITABLE)
            }
        }
    }

    private static let capacity = 64
    /// The set itself: readable when something in it is ready.
    package let descriptor: Int32
    private let events: UnsafeMutablePointer<lio_event>

    package init() throws(SystemError) {
        descriptor = try Syscall.checked("epoll_create") { lio_epoll_create() }
        events = .allocate(capacity: Self.capacity)
    }

    deinit {
        events.deallocate()
        Syscall.close(descriptor)
    }

    /// Adds a descriptor that is not in the set yet. Throws ENOSPC or ENOMEM when the system is out of room.
    package func add(_ watched: Int32, token: UInt64, for interest: Interest) throws(SystemError) {
        try Syscall.checked("epoll add") { lio_epoll_add(descriptor, watched, token, interest.bits) }
    }

    package func modify(_ watched: Int32, token: UInt64, for interest: Interest) {
        Syscall.required("epoll modify") { lio_epoll_modify(descriptor, watched, token, interest.bits) }
    }

    /// Must be called before the descriptor is closed.
    package func remove(_ watched: Int32) {
        Syscall.required("epoll remove") { lio_epoll_remove(descriptor, watched) }
    }

    /// Waits until something is ready or `deadline` has come; returns how many events there are (at most 64,
    /// 0 at the deadline or after a signal). Wakes at least once a second, so that a jump of the clock
    /// (sleep) is noticed.
    package func wait(until deadline: Instant, now: Instant) -> Int {
        let remaining = min(max((deadline - now).nanoseconds, 0), 1_000_000_000)
        let count = lio_epoll_wait(descriptor, events, Int32(Self.capacity), remaining)
        if count == -EINTR { return 0 }
        precondition(count >= 0, "epoll_wait: \(Syscall.text(of: -count))")
        return Int(count)
    }

    /// - Precondition: `index` is below the last result of `wait`.
    package func event(at index: Int) -> Event {
        let event = events[index]
        return Event(
            token: event.token, isReadable: event.ready & UInt32(LIO_READABLE) != 0,
            isWritable: event.ready & UInt32(LIO_WRITABLE) != 0,
            isHungUp: event.ready & UInt32(LIO_HUNG_UP) != 0)
    }
}

/// Interrupts a `Poller` from another thread (eventfd). `signal` from any thread, `clear` by the waiting one.
package final class WakeUp: Sendable {
    package let descriptor: Int32

    package init() throws(SystemError) {
        descriptor = try Syscall.checked("eventfd") { lio_eventfd() }
    }

    deinit { Syscall.close(descriptor) }

    package func signal() { Syscall.required("eventfd signal") { lio_eventfd_signal(descriptor) } }

    /// How often it was signalled since the last time.
    @discardableResult
    package func clear() -> Int64 { Syscall.required("eventfd take") { lio_eventfd_take(descriptor) } }
}
