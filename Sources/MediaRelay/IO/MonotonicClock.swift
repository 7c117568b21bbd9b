import CLinuxIO
import RTPCore

/// The product's clock: nanoseconds since boot, also while the machine sleeps (CLOCK_BOOTTIME), so that an
/// instant means the same in every process of one boot. Any thread.
package enum MonotonicClock {
    @inline(__always)
    package static func now() -> Instant { Instant(nanoseconds: lio_boottime_ns()) }
}
