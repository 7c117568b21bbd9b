import RTPCore
import RelayTesting
import Testing

/// The last value that each bound takes, and the first that it does not (`make mutate` finds what is missing here).
@Suite("RTP at its bounds") struct RTPBoundTests {
    private func header(_ bytes: [UInt8]) -> RTPHeader? { RTPHeader(bytes.span) }

    /// X is set, one word of elements follows.
    private let extended: [UInt8] = [0x90, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xBE, 0xDE, 0, 1, 0x10, 0xAA, 0, 0]

    @Test("an empty extension block at the very end is a header; half a block is none")
    func emptyExtension() {
        let empty = Array(extended.prefix(14)) + [0, 0]
        #expect(header(empty)?.headerByteCount == 16)
        #expect(header(Array(empty.dropLast())) == nil)
        #expect(header(extended)?.headerByteCount == 20)
        #expect(header(Array(extended.dropLast())) == nil)
    }

    @Test("elements are not looked for in a packet that has lost its header's end")
    func cutBlock() throws {
        var cursor = HeaderExtensionCursor(try #require(header(extended)))
        let cut = Array(extended.dropLast())
        #expect(cursor.next(in: cut.span) == nil && cursor.isMalformed)
        var whole = HeaderExtensionCursor(try #require(header(extended)))
        #expect(whole.next(in: extended.span)?.byteCount == 1 && !whole.isMalformed)
    }

    @Test("padding is counted from any place of a packet, the first as well")
    func padding() {
        let bytes: [UInt8] = [9, 9, 3]
        #expect(RTPHeader.paddingByteCount(bytes.span, payloadOffset: 0) == 3)
        #expect(RTPHeader.paddingByteCount(bytes.span, payloadOffset: 1) == nil)
        #expect(RTPHeader.paddingByteCount(bytes.span, payloadOffset: -1) == nil)
        #expect(RTPHeader.paddingByteCount(bytes.span, payloadOffset: 3) == nil)
        let one: [UInt8] = [9, 9, 1]
        #expect(RTPHeader.paddingByteCount(one.span, payloadOffset: 2) == 1)
        #expect(RTPHeader.paddingByteCount([9, 9, 0].span, payloadOffset: 2) == nil)
    }

    @Test("a retransmission may carry nothing but its number, ends within its packet and needs exactly its room")
    func retransmissions() throws {
        let bytes: [UInt8] = [0x80, 97, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0x12, 0x34]
        let header = try #require(self.header(bytes))
        func number(_ end: Int) -> UInt16? {
            RTXPacket.originalSequenceNumber(bytes.span, payloadOffset: 12, payloadEnd: end)
        }
        #expect(number(14) == 0x1234 && number(13) == nil && number(15) == nil)
        func original(_ room: Int) -> Int {
            [UInt8](capacity: room) { out in
                #expect(
                    RTXPacket.appendOriginal(
                        of: bytes.span, header: header, payloadEnd: 14, payloadType: 96, ssrc: 4, to: &out)
                        == (room == 12))
            }.count
        }
        #expect(original(11) == 0 && original(12) == 12)
        func repeated(_ room: Int, end: Int) -> Int {
            [UInt8](capacity: room) { out in
                _ = RTXPacket.appendRetransmission(
                    of: bytes.span, header: header, payloadEnd: end, payloadType: 97, sequenceNumber: 5, ssrc: 4,
                    to: &out)
            }.count
        }
        #expect(repeated(16, end: 14) == 16 && repeated(15, end: 14) == 0)
        // Without a payload; beyond either end.
        #expect(repeated(14, end: 12) == 14 && repeated(64, end: 11) == 0 && repeated(64, end: 15) == 0)
    }

    @Test("an identifier has 1 to 16 characters")
    func identifiers() {
        func length(_ count: Int) -> Int? {
            let bytes = [UInt8](repeating: 0x61, count: count)
            return HeaderExtensionElement.identifier(bytes.span, offset: 0, byteCount: count)?.count
        }
        #expect(length(0) == nil && length(1) == 1 && length(16) == 16 && length(17) == nil)
    }

    @Test("headers of RED are written into exactly as much room as they need")
    func redRoom() {
        for (room, fits) in [(3, false), (4, true)] {
            let bytes = [UInt8](capacity: room) { out in
                #expect(
                    REDWriter.appendBlock(to: &out, payloadType: 111, timestampOffset: 960, byteCount: 1) == fits)
            }
            #expect(bytes.count == (fits ? 4 : 0))
        }
        for room in 0...1 {
            let bytes = [UInt8](capacity: room) { out in
                #expect(REDWriter.appendPrimary(to: &out, payloadType: 111) == (room == 1))
            }
            #expect(bytes.count == room)
        }
    }
}
