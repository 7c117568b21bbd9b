import Glibc

/// A value that several threads use one at a time, under a pthread mutex.
///
/// Not `Synchronization.Mutex`: ThreadSanitizer does not know its futex and reports races that are none.
final class Lock<Value>: Sendable {
    // Both live as long as the lock and are only touched between lock and unlock.
    private nonisolated(unsafe) let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private nonisolated(unsafe) let value: UnsafeMutablePointer<Value>

    init(_ initial: sending Value) {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        precondition(pthread_mutex_init(mutex, nil) == 0, "no mutex")
        value = .allocate(capacity: 1)
        value.initialize(to: initial)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
        value.deinitialize(count: 1)
        value.deallocate()
    }

    /// Runs `body` alone. `body` must not take the same lock.
    func withLock<Result>(_ body: (inout Value) -> sending Result) -> sending Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&value.pointee)
    }
}

/// Opens once; whoever waits goes on then.
final class Latch: Sendable {
    private nonisolated(unsafe) let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private nonisolated(unsafe) let condition: UnsafeMutablePointer<pthread_cond_t>
    private nonisolated(unsafe) let isOpen: UnsafeMutablePointer<Bool>

    init() {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        condition = .allocate(capacity: 1)
        condition.initialize(to: pthread_cond_t())
        precondition(
            pthread_mutex_init(mutex, nil) == 0 && pthread_cond_init(condition, nil) == 0, "no latch")
        isOpen = .allocate(capacity: 1)
        isOpen.initialize(to: false)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
        isOpen.deallocate()
    }

    func open() {
        pthread_mutex_lock(mutex)
        isOpen.pointee = true
        pthread_cond_broadcast(condition)
        pthread_mutex_unlock(mutex)
    }

    func wait() {
        pthread_mutex_lock(mutex)
        while !isOpen.pointee { pthread_cond_wait(condition, mutex) }
        pthread_mutex_unlock(mutex)
    }
}
