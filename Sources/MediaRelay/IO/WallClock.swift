import Glibc

/// The time of day, for tokens and for the times that events carry. It may jump; nothing waits by it. Any
/// thread.
package enum WallClock {
    /// Milliseconds since 1970.
    package static var nowMs: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Nanoseconds since 1970.
    package static var nowNs: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
