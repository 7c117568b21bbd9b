import RTPCore

/// A rate limit: `rate` tokens a second, at most one second's worth saved.
struct TokenBucket {
    private var tokens: Int64 = -1
    private var last: Int64 = 0

    /// Takes `count` tokens; false when there are too few.
    @inline(__always) mutating func take(_ count: Int64 = 1, rate: Int64, now: Instant) -> Bool {
        let unit: Int64 = 1_000_000_000
        if tokens < 0 {
            tokens = rate * unit
        } else {
            let elapsed = min(now.nanoseconds - last, unit)
            tokens = min(tokens + elapsed * rate, rate * unit)
        }
        last = now.nanoseconds
        guard tokens >= count * unit else { return false }
        tokens -= count * unit
        return true
    }

    /// One of those taken was not used after all.
    mutating func giveBack(rate: Int64) { tokens = min(tokens + 1_000_000_000, rate * 1_000_000_000) }
}
