import RTPCore
import RelayTesting
import Testing

@Suite("CRC-32")
struct CRC32Tests {
    static func checksum(_ bytes: [UInt8]) -> UInt32 { CRC32.checksum(bytes.span) }

    @Test("the check value of the standard")
    func checkValue() {
        #expect(Self.checksum(Array("123456789".utf8)) == 0xCBF4_3926)
    }

    @Test("no bytes give zero")
    func empty() {
        #expect(Self.checksum([]) == 0)
    }

    @Test("every single-bit change of a message changes the checksum")
    func singleBits() {
        let bytes = Array("the quick brown fox".utf8)
        for index in bytes.indices {
            for bit in 0..<8 {
                var changed = bytes
                changed[index] ^= 1 << UInt8(bit)
                #expect(Self.checksum(changed) != Self.checksum(bytes))
            }
        }
    }
}
