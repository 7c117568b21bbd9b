/// The ways in which one track can be sent to one receiver, from the cheapest up: the temporal layers of its lowest stream,
/// then its higher streams. Plain data.
public struct LayerLadder: Sendable, Hashable {
    public static let rungLimit = 8
    /// Every temporal layer passes.
    public static let allTemporalLayers: UInt8 = 7

    /// 1…8 once something was added.
    public private(set) var count = 0
    /// Bits per second, rising.
    private var rates = SIMD8<Int32>(repeating: 0)
    /// Stream in the upper four bits, temporal limit in the lower.
    private var steps = SIMD8<UInt8>(repeating: 0)

    public init() {}

    /// Adds a rung on top. One that costs no more than the last counts as one that costs a little more; beyond
    /// `rungLimit` nothing is added.
    public mutating func add(stream: Int, temporalLimit: UInt8, rate: Int) {
        guard count < Self.rungLimit else { return }
        let least = count > 0 ? rates[count - 1] + 1 : 0
        rates[count] = max(Int32(clamping: min(rate, Int(Int32.max) - Self.rungLimit)), least)
        steps[count] = UInt8(stream & 7) << 4 | min(temporalLimit, Self.allTemporalLayers)
        count += 1
    }

    public func rate(of rung: Int) -> Int { Int(rates[rung]) }
    public func stream(of rung: Int) -> Int { Int(steps[rung] >> 4) }
    public func temporalLimit(of rung: Int) -> UInt8 { steps[rung] & 0x0F }

    /// The highest rung of a stream, or of the highest one below it; 0 where there is none.
    public func top(ofStream stream: Int) -> Int {
        (0..<count).last { self.stream(of: $0) <= stream } ?? 0
    }
}
