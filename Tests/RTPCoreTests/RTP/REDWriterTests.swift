import RTPCore
import RelayTesting
import Testing

@Suite("Writing RED")
struct REDWriterTests {
    /// A payload of earlier blocks (offset and bytes, oldest first) and a primary; nil where a header is refused.
    private func payload(_ earlier: [(offset: UInt32, bytes: [UInt8])], _ primary: [UInt8]) -> [UInt8]? {
        var isWritten = true
        let head = [UInt8](capacity: 64) { out in
            for block in earlier {
                isWritten =
                    REDWriter.appendBlock(
                        to: &out, payloadType: 111, timestampOffset: block.offset, byteCount: block.bytes.count)
                    && isWritten
            }
            isWritten = REDWriter.appendPrimary(to: &out, payloadType: 111) && isWritten
        }
        return isWritten ? head + earlier.flatMap(\.bytes) + primary : nil
    }

    @Test(
        "what is written is read again, byte for byte as captured packets have it",
        arguments: REDBlockCursorTests.file.rows())
    func vectors(_ row: VectorRow) throws {
        let blocks = try #require(REDBlockCursorTests.blocks(row.bytes))
        // A sender may write blocks that are no use to anybody; those are not written here.
        let isPlain = blocks.allSatisfy {
            $0.isPrimary || REDWriter.canWrite(timestampOffset: $0.timestampOffset, byteCount: $0.byteCount)
        }
        guard isPlain, blocks.allSatisfy({ $0.payloadType == 111 }) else { return }
        let bodies = blocks.map {
            (offset: $0.timestampOffset, bytes: Array(row.bytes[$0.offset...].prefix($0.byteCount)))
        }
        let primary = try #require(bodies.last)
        #expect(payload(Array(bodies.dropLast()), primary.bytes) == row.bytes)
    }

    @Test("case R09's packet: an earlier block 960 ticks old and a primary")
    func caseR09() {
        #expect(
            payload([(960, [0xAA, 0xAA, 0xAA])], [0xBB, 0xBB, 0xBB]) == [
                0xEF, 0x0F, 0x00, 0x03, 0x6F, 0xAA, 0xAA, 0xAA, 0xBB, 0xBB, 0xBB,
            ])
    }

    @Test(
        "a block is as old as 14 bits say and as long as 10 bits say, and neither new nor empty",
        arguments: [
            (16_383, 1, true), (16_384, 1, false), (1, 1_023, true), (1, 1_024, false), (0, 1, false), (960, 0, false),
        ])
    func limits(offset: UInt32, byteCount: Int, isWritten: Bool) {
        #expect((payload([(offset, [UInt8](repeating: 7, count: byteCount))], [1]) != nil) == isWritten)
    }

    @Test("without room nothing is written")
    func noRoom() {
        let bytes = [UInt8](capacity: 3) { out in
            #expect(!REDWriter.appendBlock(to: &out, payloadType: 111, timestampOffset: 960, byteCount: 3))
        }
        #expect(bytes.isEmpty)
        let none = [UInt8](capacity: 0) { out in #expect(!REDWriter.appendPrimary(to: &out, payloadType: 111)) }
        #expect(none.isEmpty)
    }
}
