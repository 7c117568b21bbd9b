/// Where random numbers come from: the system in the product, a seed in simulations (SplitMix64, so that one seed replays
/// one run exactly).
public enum RandomSource: RandomNumberGenerator, Sendable {
    case system
    case seeded(UInt64)

    public mutating func next() -> UInt64 {
        switch self {
        case .system:
            var generator = SystemRandomNumberGenerator()
            return generator.next()
        case .seeded(let state):
            let advanced = state &+ 0x9E37_79B9_7F4A_7C15
            self = .seeded(advanced)
            var z = advanced
            z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
            z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
            return z ^ (z >> 31)
        }
    }
}
