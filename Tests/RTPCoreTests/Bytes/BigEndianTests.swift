import RTPCore
import Testing

@Suite("Big-endian bytes")
struct BigEndianTests {
    static let bytes: [UInt8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF, 0xFE]

    @Test("numbers are read most significant byte first, also at odd offsets")
    func loads() {
        let bytes = Self.bytes
        #expect([bytes.span.uint16(at: 0), bytes.span.uint16(at: 7)] == [0x0123, 0xEFFE])
        #expect([bytes.span.uint24(at: 0), bytes.span.uint24(at: 6)] == [0x012345, 0xCDEFFE])
        #expect([bytes.span.uint32(at: 0), bytes.span.uint32(at: 5)] == [0x0123_4567, 0xABCD_EFFE])
        #expect(
            [bytes.span.uint64(at: 0), bytes.span.uint64(at: 1)] == [
                0x0123_4567_89AB_CDEF, 0x2345_6789_ABCD_EFFE,
            ])
    }

    @Test("numbers are appended most significant byte first")
    func appends() {
        let written = [UInt8](capacity: 14) { out in
            out.appendBigEndian(UInt16(0x0123))
            out.appendBigEndian(UInt32(0x4567_89AB))
            out.appendBigEndian(UInt64(0x0102_0304_0506_0708))
        }
        #expect(written == [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 1, 2, 3, 4, 5, 6, 7, 8])
    }

    @Test("a load that is not wholly inside the span traps instead of reading on")
    func loadBeyondTheEnd() async {
        await #expect(processExitsWith: .failure) { _ = [UInt8](repeating: 0, count: 9).span.uint64(at: 2) }
        await #expect(processExitsWith: .failure) { _ = [UInt8](repeating: 0, count: 9).span.uint32(at: -1) }
    }
}
