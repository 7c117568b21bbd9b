/// Reads bits, the highest of each byte first, for the few headers that have fields across bytes. Behind the end everything is 0, and
/// `isOver` says so.
struct BitReader {
    private let bytes: [UInt8]
    private var position = 0
    private(set) var isOver = false

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func bits(_ count: Int) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<count {
            guard position < bytes.count * 8 else {
                isOver = true
                return 0
            }
            value = value << 1 | UInt32(bytes[position / 8] >> UInt8(7 - position % 8) & 1)
            position += 1
        }
        return value
    }

    mutating func flag() -> Bool { bits(1) == 1 }

    /// Exp-Golomb, unsigned (H.264 §9.1). Over long: 0 and `isOver`.
    mutating func golomb() -> UInt32 {
        var zeros = 0
        while !isOver, !flag() { zeros += 1 }
        guard !isOver, zeros < 32 else {
            isOver = true
            return 0
        }
        return (1 << UInt32(zeros)) - 1 + bits(zeros)
    }

    /// AV1's uvlc() (§4.10.3).
    mutating func variable() -> UInt32 { golomb() }
}
