import RTPCore

/// Decides whether a wake-up is followed by a short wait for more packets. At one packet a wake the wake-up
/// is most of the cost; 200 µs of patience halves it (PERFORMANCE.md section 2, "Live"). Worth it only while
/// the core is busy and wakes bring little; at saturation batches are full by themselves. Pure arithmetic
/// over windows of 100 ms.
package struct GatherPolicy {
    /// With the kernel's timer slack of 50 µs at most 250 µs.
    package static let wait = Interval.microseconds(200)
    package static let window = Interval.milliseconds(100)

    private let mode: WorkerOptions.Gather
    package private(set) var isGathering: Bool
    private var windowStart: Instant
    private var windowCPU: Interval
    private var packetCount = 0
    private var wakeCount = 0

    package init(mode: WorkerOptions.Gather, now: Instant, cpu: Interval) {
        self.mode = mode
        isGathering = mode == .on
        windowStart = now
        windowCPU = cpu
    }

    /// Notes one wake-up that brought `packets`. `cpu`: CPU time of the thread, read only where a window
    /// ends.
    package mutating func note(packets: Int, now: Instant, cpu: () -> Interval) {
        guard mode == .auto else { return }
        packetCount += packets
        wakeCount += 1
        let elapsed = now - windowStart
        guard elapsed >= Self.window else { return }
        let used = cpu()
        let busyPercent = (used - windowCPU).nanoseconds * 100 / elapsed.nanoseconds
        decide(busyPercent: busyPercent)
        windowStart = now
        windowCPU = used
        packetCount = 0
        wakeCount = 0
    }

    private mutating func decide(busyPercent: Int64) {
        if isGathering {
            // Gathering lowers the load by half: it ends where it brings nothing, or where there is too
            // little or too much.
            let bringsSomething = packetCount >= wakeCount * 3 / 2
            isGathering = bringsSomething && packetCount < wakeCount * 32 && busyPercent >= 15
        } else {
            isGathering = packetCount < wakeCount * 4 && busyPercent > 40
        }
    }
}
