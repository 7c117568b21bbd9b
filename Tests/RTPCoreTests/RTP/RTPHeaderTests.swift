import RTPCore
import RelayTesting
import Testing

@Suite("RTP header")
struct RTPHeaderTests {
    static let file = VectorFile("rtp_packets")

    static func header(_ bytes: [UInt8]) -> RTPHeader? { RTPHeader(bytes.span) }
    static func padding(_ bytes: [UInt8], _ offset: Int) -> Int? {
        RTPHeader.paddingByteCount(bytes.span, payloadOffset: offset)
    }

    @Test("the fixed fields of every packet equal the reference decoder's", arguments: file.rows())
    func fixedFields(_ row: VectorRow) throws {
        let header = try #require(Self.header(row.bytes))
        #expect(header.marker == row["marker"].bool)
        #expect(Int(header.payloadType) == row["pt"].integer)
        #expect(Int(header.sequenceNumber) == row["seq"].integer)
        #expect(Int(header.timestamp) == row["timestamp"].integer)
        #expect(Int(header.ssrc) == row["ssrc"].integer)
        #expect(header.hasPadding == row["padding"].bool)
        #expect(header.hasExtension == row["extension"].bool)
        #expect(header.headerByteCount == row["header_len"].integer)
    }

    @Test("the contributing sources of every packet are read in order", arguments: file.rows())
    func contributingSources(_ row: VectorRow) throws {
        let bytes = row.bytes
        let header = try #require(Self.header(bytes))
        #expect(header.csrcCount == row["cc"].integer)
        let sources = (0..<header.csrcCount).map { Int(header.csrc(at: $0, in: bytes.span)) }
        #expect(sources == row["csrc"].array?.map { $0.integer })
    }

    @Test("the extension block of every packet has its profile and bytes", arguments: file.rows())
    func extensionBlock(_ row: VectorRow) throws {
        let bytes = row.bytes
        let header = try #require(Self.header(bytes))
        #expect(Int(header.extensionProfile) == row["profile"].integer ?? 0)
        let block = bytes[header.extensionOffset...].prefix(header.extensionByteCount)
        #expect(hexText(Array(block)) == row["extension_hex"].string ?? "")
    }

    @Test("padding and payload of every packet equal the reference decoder's", arguments: file.rows())
    func paddingAndPayload(_ row: VectorRow) throws {
        let bytes = row.bytes
        let header = try #require(Self.header(bytes))
        let padding = header.hasPadding ? try #require(Self.padding(bytes, header.headerByteCount)) : 0
        #expect(padding == row["padding_len"].integer)
        let payload = bytes[header.headerByteCount..<(bytes.count - padding)]
        #expect(hexText(Array(payload)) == row["payload"].string)
    }

    @Test(
        "every malformed packet is refused by header, extension walk or padding count",
        arguments: file.rows("drop"))
    func malformedPackets(_ row: VectorRow) {
        let bytes = row.bytes
        var refused: String?
        if let header = Self.header(bytes) {
            if HeaderExtensionCursorTests.elements(bytes, header).isMalformed {
                refused = "element overruns"
            } else if header.hasPadding, Self.padding(bytes, header.headerByteCount) == nil {
                refused = "padding"
            }
        } else {
            refused = "header"
        }
        let reason = row["reason"].string ?? ""
        let expected =
            reason == "element overruns" ? reason : reason.contains("padding") ? "padding" : "header"
        #expect(refused == expected)
    }

    @Test("a header that ends exactly at the packet's end is accepted with an empty payload")
    func emptyPayload() {
        let bytes: [UInt8] = [0x90, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xBE, 0xDE, 0, 1, 0x10, 7, 0, 0]
        #expect(Self.header(bytes)?.headerByteCount == bytes.count)
        #expect(Self.header(Array(bytes.dropLast())) == nil)
    }

    @Test("without an extension its fields are zero")
    func noExtension() throws {
        let header = try #require(Self.header([0x81, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4]))
        #expect(!header.hasExtension)
        #expect(header.extensionProfile == 0)
        #expect(header.extensionOffset == 0)
        #expect(header.extensionByteCount == 0)
    }

    @Test("padding may fill the whole payload but not one byte more")
    func paddingBounds() {
        let header = [UInt8](repeating: 0, count: 12)
        #expect(Self.padding(header + [0, 0, 3], 12) == 3)
        #expect(Self.padding(header + [0, 0, 4], 12) == nil)
        #expect(Self.padding(header + [0, 0, 0], 12) == nil)
        #expect(Self.padding(header, 12) == nil)
        #expect(Self.padding(header, 13) == nil)
    }

    @Test("every prefix and every flipped byte of every packet is read without a trap")
    func mutations() {
        var count = 0
        for row in Self.file.rows() + Self.file.rows("drop") {
            count += readEveryMutation(of: row.bytes) { bytes in
                guard let header = Self.header(bytes) else { return }
                _ = HeaderExtensionCursorTests.elements(bytes, header)
                _ = Self.padding(bytes, header.headerByteCount)
                #expect(header.headerByteCount <= bytes.count)
            }
        }
        #expect(count > 5_000)
    }

    @Test("every fuzz seed of any protocol is read without a trap")
    func fuzzSeeds() {
        let seeds = VectorFile("fuzz_seeds").rows()
        #expect(seeds.count > 200)
        for seed in seeds {
            for start: [UInt8] in [[], [0x90, 0x60], [0x9F, 0x60], [0xB0, 0x60]] {
                let bytes = start + seed.bytes.dropFirst(start.count)
                guard let header = Self.header(bytes) else { continue }
                let walk = HeaderExtensionCursorTests.elements(bytes, header)
                #expect(walk.elements.allSatisfy { $0.1.count <= header.extensionByteCount })
                _ = Self.padding(bytes, header.headerByteCount)
            }
        }
    }
}
