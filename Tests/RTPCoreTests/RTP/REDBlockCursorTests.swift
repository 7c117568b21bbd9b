import RTPCore
import RelayTesting
import Testing

@Suite("RED blocks")
struct REDBlockCursorTests {
    static let file = VectorFile("red")

    static func blocks(_ payload: [UInt8]) -> [REDBlock]? {
        guard var cursor = REDBlockCursor(payload.span) else { return nil }
        var found: [REDBlock] = []
        while let block = cursor.next(in: payload.span) { found.append(block) }
        return found
    }

    @Test("the blocks of every payload equal the reference decoder's", arguments: file.rows())
    func vectors(_ row: VectorRow) throws {
        let payload = row.bytes
        let blocks = try #require(Self.blocks(payload))
        let expected = try #require(row["blocks"].array)
        #expect(blocks.map { Int($0.payloadType) } == expected.map { $0["pt"].integer })
        #expect(blocks.map { Int($0.timestampOffset) } == expected.map { $0["ts_offset"].integer })
        #expect(blocks.map { $0.byteCount } == expected.map { $0["len"].integer })
        let bodies = blocks.map { hexText(Array(payload[$0.offset...].prefix($0.byteCount))) }
        // Long bodies are left out of the file.
        for (body, block) in zip(bodies, expected) where !block["hex"].isNull {
            #expect(body == block["hex"].string)
        }
    }

    @Test("the primary block is the last one and only it is marked", arguments: file.rows())
    func primary(_ row: VectorRow) throws {
        let blocks = try #require(Self.blocks(row.bytes))
        #expect(blocks.last?.isPrimary == true)
        #expect(blocks.filter { $0.isPrimary }.count == 1)
    }

    @Test(
        "a captured packet's payload is the RED payload of the vector",
        arguments: file.rows().filter { !$0["rtp_hex"].isNull })
    func capturedPackets(_ row: VectorRow) throws {
        let packet = try #require(row["rtp_hex"].bytes)
        let header = try #require(RTPHeaderTests.header(packet))
        #expect(Int(header.payloadType) == row["red_pt"].integer)
        #expect(Int(header.sequenceNumber) == row["seq"].integer)
        #expect(hexText(Array(packet[header.headerByteCount...])) == row["hex"].string)
    }

    @Test("a malformed payload gives no block at all", arguments: file.rows("unparsable"))
    func unparsable(_ row: VectorRow) {
        #expect(Self.blocks(row.bytes) == nil)
    }

    @Test("every prefix and every changed byte is walked without a trap and stays inside the payload")
    func mutations() {
        for row in Self.file.rows() + Self.file.rows("unparsable") where row.bytes.count < 500 {
            let count = readEveryMutation(of: row.bytes) { bytes in
                let blocks = Self.blocks(bytes) ?? []
                #expect(blocks.allSatisfy { $0.offset + $0.byteCount <= bytes.count })
            }
            #expect(count >= 1)
        }
    }
}
