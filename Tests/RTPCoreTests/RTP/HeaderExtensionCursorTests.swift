import RTPCore
import RelayTesting
import Testing

@Suite("Header extension cursor")
struct HeaderExtensionCursorTests {
    static func elements(
        _ bytes: [UInt8], _ header: RTPHeader
    ) -> (elements: [(UInt8, [UInt8])], isMalformed: Bool) {
        var cursor = HeaderExtensionCursor(header)
        var found: [(UInt8, [UInt8])] = []
        while let element = cursor.next(in: bytes.span) {
            found.append((element.id, Array(bytes[element.offset...].prefix(element.byteCount))))
        }
        return (found, cursor.isMalformed)
    }

    /// Walks a block behind a header without CSRCs.
    static func walk(profile: UInt16, block: [UInt8]) -> (elements: [(UInt8, [UInt8])], isMalformed: Bool) {
        let words = UInt16(block.count / 4)
        let bytes: [UInt8] =
            [0x90, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, UInt8(profile >> 8), UInt8(profile & 255)]
            + [UInt8(words >> 8), UInt8(words & 255)] + block + [0xEE]
        guard let header = RTPHeader(bytes.span) else { return ([], true) }
        return elements(bytes, header)
    }

    @Test("the elements of every packet equal the reference decoder's", arguments: RTPHeaderTests.file.rows())
    func vectors(_ row: VectorRow) throws {
        let bytes = row.bytes
        let header = try #require(RTPHeaderTests.header(bytes))
        let walk = Self.elements(bytes, header)
        let expected = row["elements"].array ?? []
        #expect(walk.elements.map { Int($0.0) } == expected.map { $0[0].integer })
        #expect(walk.elements.map { hexText($0.1) } == expected.map { $0[1].string })
        #expect(!walk.isMalformed)
    }

    @Test("rfc8285 4.2: ID 15 stops the walk and the elements before it stand")
    func idFifteen() {
        let walk = Self.walk(profile: 0xBEDE, block: [0x10, 0xAA, 0xF0, 0xBB, 0x20, 0xCC, 0, 0])
        #expect(walk.elements.map { $0.0 } == [1])
        #expect(!walk.isMalformed)
    }

    @Test("rfc8285 4.2: ID 0 with a length stops the walk and the elements before it stand")
    func idZeroWithLength() {
        let walk = Self.walk(profile: 0xBEDE, block: [0x10, 0xAA, 0x03, 0xBB, 0x20, 0xCC, 0, 0])
        #expect(walk.elements.map { $0.0 } == [1])
        #expect(!walk.isMalformed)
    }

    @Test("a one-byte element that overruns the block is malformed, the ones before are still given")
    func oneByteOverrun() {
        let walk = Self.walk(profile: 0xBEDE, block: [0x10, 0xAA, 0x21, 0xBB])
        #expect(walk.elements.map { $0.0 } == [1])
        #expect(walk.isMalformed)
    }

    @Test("a two-byte element that overruns the block is malformed")
    func twoByteOverrun() {
        let walk = Self.walk(profile: 0x1000, block: [1, 1, 0xAA, 2, 4, 0, 0, 0])
        #expect(walk.elements.map { $0.0 } == [1])
        #expect(walk.isMalformed)
    }

    @Test("a two-byte element without its length byte is malformed")
    func twoByteWithoutLength() {
        #expect(Self.walk(profile: 0x1000, block: [0, 0, 0, 7]).isMalformed)
    }

    @Test("two-byte elements may have IDs above 14 and no body")
    func twoByteHighIDs() {
        let walk = Self.walk(profile: 0x100A, block: [255, 0, 15, 2, 1, 2, 0, 0])
        #expect(walk.elements.map { $0.0 } == [255, 15])
        #expect(walk.elements.map { $0.1 } == [[], [1, 2]])
    }

    @Test("a block of an unknown profile has no elements and is not malformed")
    func unknownProfile() {
        let walk = Self.walk(profile: 0x1234, block: [0xFF, 0xFF, 0xFF, 0xFF])
        #expect(walk.elements.isEmpty)
        #expect(!walk.isMalformed)
    }

    @Test("after the end every further call gives nil")
    func afterTheEnd() throws {
        let bytes: [UInt8] = [0x90, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xBE, 0xDE, 0, 1, 0xF0, 7, 0x10, 7]
        let header = try #require(RTPHeaderTests.header(bytes))
        var cursor = HeaderExtensionCursor(header)
        for _ in 0..<3 {
            let isAtEnd = cursor.next(in: bytes.span) == nil
            #expect(isAtEnd)
        }
    }

    @Test("a packet shorter than its header's block is reported instead of read")
    func foreignPacket() throws {
        let bytes: [UInt8] = [0x90, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xBE, 0xDE, 0, 1, 0x10, 7, 0, 0]
        let header = try #require(RTPHeaderTests.header(bytes))
        #expect(Self.elements(Array(bytes.prefix(16)), header).isMalformed)
    }
}
