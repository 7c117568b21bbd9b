import RTPCore
import RelayTesting
import Testing

@Suite("Congestion feedback")
struct FeedbackReadingTests {
    static let transport = VectorFile("rtcp_twcc")
    static let congestion = VectorFile("rtcp_ccfb")

    static func onlyMember(_ bytes: [UInt8]) throws -> VectorValue {
        let reading = RTCPReading(bytes)
        try #require(!reading.isMalformed)
        try #require(reading.members.count == 1)
        return reading.members[0]
    }

    @Test(
        "transport-cc: every packet's status and arrival equal the reference decoder's",
        arguments: transport.rows())
    func transportVectors(_ row: VectorRow) throws {
        let member = try Self.onlyMember(row.bytes)
        let decoded = row["decoded"]
        for field in ["sender", "media", "base", "count", "reference_time", "fb_count", "packets"]
        where !decoded[field].isNull {
            #expect(member[field] == decoded[field], "\(field)")
        }
    }

    @Test("transport-cc: the longest run covers 8,191 packets")
    func longestRun() throws {
        let row = try #require(Self.transport.rows().first { $0.name == "made-run-8191" })
        let packets = try #require(Self.onlyMember(row.bytes)["packets"].array)
        #expect(packets.count == 8_191)
        #expect(packets.allSatisfy { $0[1].integer == 0 })
        #expect(packets.last?[0].integer == 8_190)
    }

    @Test("transport-cc: chunks or deltas that overrun are refused", arguments: transport.rows("drop"))
    func transportDrops(_ row: VectorRow) {
        // Padding covers deltas in the hand-edited rows: both readings are right, ours respects the padding.
        #expect(["drop", "either"].contains(row["expect"].string))
        #expect(RTCPReading(row.bytes).isMalformed)
    }

    @Test(
        "transport-cc: the chunks of the draft stand for their symbols", arguments: transport.rows("chunks"))
    func chunks(_ row: VectorRow) throws {
        let chunk = try #require(row["hex"].bytes)
        let symbols =
            row["symbols"].array?.map { $0.integer ?? 0 }
            ?? Array(repeating: row["symbol"].integer ?? 0, count: row["length"].integer ?? 0)
        // Large deltas for all, so that each received packet's place can be told by its arrival.
        let deltaByteCount = symbols.reduce(0) { $0 + ($1 == 3 ? 0 : $1) }
        let filler = (4 - (2 + deltaByteCount) % 4) % 4
        let words = (20 + 2 + deltaByteCount + filler) / 4 - 1
        var bytes: [UInt8] = [0x8F, 205, 0, UInt8(words), 0, 0, 0, 1, 0, 0, 0, 2, 0, 0]
        bytes += [0, UInt8(symbols.count), 0, 0, 0, 0] + chunk
        bytes += Array(repeating: 1, count: deltaByteCount + filler)
        let member = try Self.onlyMember(bytes)
        let received = try #require(member["packets"].array).map { !$0[1].isNull }
        #expect(received == symbols.map { $0 == 1 || $0 == 2 })
    }

    @Test(
        "transport-cc: deltas are in 250 µs, one byte unsigned, two bytes signed",
        arguments: transport.rows("deltas"))
    func deltas(_ row: VectorRow) throws {
        let delta = try #require(row["hex"].bytes)
        let symbol = UInt8(delta.count)
        let bytes: [UInt8] =
            [0x8F, 205, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, symbol << 5, 1]
            + delta + Array(repeating: 0, count: 2 - delta.count)
        let member = try Self.onlyMember(bytes)
        #expect(member["packets"][0][1].integer == row["us"].integer)
    }

    @Test("transport-cc: every prefix and every changed byte is read without a trap")
    func transportMutations() {
        var count = 0
        for row in Self.transport.rows() + Self.transport.rows("drop") where row.bytes.count <= 100 {
            count += readEveryMutation(of: row.bytes) { _ = RTCPReading($0) }
        }
        #expect(count > 2_000)
    }

    @Test("rfc8888: every metric equals the reference decoder's", arguments: congestion.rows())
    func congestionVectors(_ row: VectorRow) throws {
        let member = try Self.onlyMember(row.bytes)
        for field in ["name", "sender", "blocks", "rts"] {
            #expect(member[field] == row["decoded"][field], "\(field)")
        }
    }

    @Test(
        "rfc8888: blocks that overrun and a missing timestamp are refused", arguments: congestion.rows("drop")
    )
    func congestionDrops(_ row: VectorRow) {
        #expect(RTCPReading(row.bytes).isMalformed)
    }

    @Test("rfc8888: every prefix and every changed byte is read without a trap")
    func congestionMutations() {
        var count = 0
        for row in Self.congestion.rows() + Self.congestion.rows("drop") {
            count += readEveryMutation(of: row.bytes) { _ = RTCPReading($0) }
        }
        #expect(count > 400)
    }
}
