/// The rate of one stream, temporal layer by temporal layer, over windows of half a second. Plain memory.
public struct LayerRate: Sendable {
    /// Temporal layers that are told apart; what is above counts to the last one.
    public static let layerLimit = 4
    private static let window = Interval.milliseconds(500)

    private var byteCounts = SIMD4<Int64>(repeating: 0)
    private var startedAt = Instant.distantFuture
    private var rates = SIMD4<Int64>(repeating: 0)
    /// A whole window was measured.
    public private(set) var isKnown = false
    /// 1…4.
    public private(set) var temporalLayerCount = 1

    public init() {}

    /// A packet of `byteCount` bytes on the wire.
    public mutating func add(byteCount: Int, temporalLayer: UInt8, now: Instant) {
        roll(now: now)
        count(byteCount, min(Int(temporalLayer), Self.layerLimit - 1))
    }

    private mutating func count(_ byteCount: Int, _ layer: Int) {
        byteCounts[layer] &+= Int64(byteCount)
        if layer >= temporalLayerCount { temporalLayerCount = layer + 1 }
    }

    /// Ends the window if it is over. One that a pause made much longer says nothing: what was known before stands.
    private mutating func roll(now: Instant) {
        guard startedAt != .distantFuture else { return startedAt = now }
        let elapsed = now - startedAt
        guard elapsed >= Self.window else { return }
        if elapsed < Self.window * 3 {
            let measured = byteCounts &* 8_000_000 / SIMD4(repeating: max(1, elapsed.microseconds))
            rates = isKnown ? (rates &+ measured) / SIMD4(repeating: 2) : measured
            isKnown = true
        }
        byteCounts = SIMD4(repeating: 0)
        startedAt = now
    }

    /// Bits per second of the temporal layers up to `limit`; 0 until known.
    public func bitsPerSecond(upTo limit: UInt8 = 7) -> Int {
        var sum: Int64 = 0
        for layer in 0..<temporalLayerCount where layer <= Int(limit) { sum += rates[layer] }
        return Int(sum)
    }
}
