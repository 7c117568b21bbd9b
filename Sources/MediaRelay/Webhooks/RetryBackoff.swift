import RTPCore

/// How long to wait before the next try: twice as long each time up to a limit, and of that a random part, so that
/// endpoints and rooms that failed together do not come back together. A pure value.
package struct RetryBackoff: Hashable, Sendable {
    package var first = Interval.milliseconds(500)
    package var longest = Interval.seconds(300)
    package init() {}

    /// Half of the doubled time, and up to the other half at random.
    /// - Parameter attempt: failures so far, 1 or more.
    package func delay(attempt: Int, random: inout RandomSource) -> Interval {
        precondition(attempt >= 1, "a wait without a failure")
        var whole = first
        for _ in 1..<min(attempt, 64) where whole < longest { whole = whole * 2 }
        whole = min(whole, longest)
        return whole / 2 + .nanoseconds(Int64.random(in: 0...whole.nanoseconds / 2, using: &random))
    }
}
