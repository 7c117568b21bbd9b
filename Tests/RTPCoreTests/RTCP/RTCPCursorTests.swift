import RTPCore
import RelayTesting
import Testing

@Suite("RTCP cursor")
struct RTCPCursorTests {
    static let packets = VectorFile("rtcp_packets")
    static let cases = VectorFile(fixture: "cases/cases.json")

    /// The hex strings of case T01 by name.
    static func t01(_ name: String) throws -> [UInt8] {
        let entry = try #require(cases.root.array?.first { $0["id"].string == "T01" })
        return try #require(entry["input"]["value"][name].bytes)
    }

    /// An expected member without what is not read here: padding of SDES items, APP's contents, REMB's
    /// halves.
    static func comparable(_ member: VectorValue) -> VectorValue {
        guard case .object(var fields) = member else { return member }
        for name in ["extension_len", "exp", "mantissa", "pairs"] { fields[name] = nil }
        switch fields["name"]?.string {
        case "APP": fields = ["name": .string("APP")]
        case "SDES":
            let chunks = fields["chunks"]?.array ?? []
            fields["chunks"] = .array(
                chunks.map { chunk in
                    let cname = chunk["items"].array?.first { $0[0].integer == 1 }
                    return .object(["ssrc": chunk["ssrc"], "cname": .string(cname?[1].string ?? "")])
                })
        case "REMB":
            // A number beyond 64 bits is held to the greatest.
            if case .number = fields["bitrate"] { fields["bitrate"] = .unsigned(UInt64.max) }
        case "UNKNOWN" where fields["pt"]?.integer == 207:
            return .null
        default: break
        }
        return .object(fields)
    }

    @Test("every member of every packet equals the reference decoder's", arguments: packets.rows())
    func vectors(_ row: VectorRow) throws {
        let reading = RTCPReading(row.bytes)
        #expect(!reading.isMalformed)
        let expected = try #require(row["packets"].array).map(Self.comparable)
        #expect(reading.members.count == expected.count)
        for (member, expected) in zip(reading.members, expected) where expected != .null {
            #expect(member == expected)
        }
    }

    @Test("every malformed packet is refused at the member that lies", arguments: packets.rows("drop"))
    func drops(_ row: VectorRow) {
        let reading = RTCPReading(row.bytes)
        #expect(reading.isMalformed)
        // Only two of the rows have a good member in front.
        let good = ["valid-then-zeros": 1, "trailing-2": 1][row.name] ?? 0
        #expect(reading.members.count == good)
    }

    @Test("T01: an unknown member in between is skipped by its length")
    func unknownInBetween() throws {
        let reading = RTCPReading(try Self.t01("rtcp_sr_unknown210_pli"))
        #expect(reading.kinds == [.senderReport, .unknown, .pictureLoss])
        #expect(!reading.isMalformed)
    }

    @Test("T01: reduced-size feedback without a report is accepted")
    func reducedSize() throws {
        let reading = RTCPReading(try Self.t01("rtcp_pli_only"))
        #expect(reading.kinds == [.pictureLoss])
        #expect(reading.members.first?["media"].integer == 0x3333_3333)
    }

    @Test("T01: a profile extension behind a sender report is skipped")
    func profileExtension() throws {
        let reading = RTCPReading(try Self.t01("rtcp_sr_profile_ext"))
        #expect(reading.kinds == [.senderReport])
        #expect(reading.members.first?["octets"].integer == 0xEA60)
    }

    @Test("T01: a BYE behind an SDES with several items is found")
    func sdesThenBye() throws {
        let reading = RTCPReading(try Self.t01("rtcp_sdes_tool_bye"))
        #expect(reading.kinds == [.receiverReport, .sourceDescription, .goodbye])
        #expect(reading.members.last?["ssrcs"][0].integer == 0x1111_1111)
    }

    @Test("T01: an unknown XR block is skipped and the DLRR behind it read")
    func unknownBlock() throws {
        let reading = RTCPReading(try Self.t01("rtcp_xr_unknown_then_dlrr"))
        #expect(reading.kinds == [.receiverReport, .extendedReport])
        let blocks = try #require(reading.members.last?["blocks"].array)
        #expect(blocks.map { $0[0].integer } == [0x63, 5])
        #expect(blocks.last?[1].integer == 0x3333_3333)
        #expect(blocks.last?[2].integer == 0x1111_2222)
        #expect(blocks.last?[3].integer == 0x10000)
    }

    @Test(
        "T01: a member that lies about its size is refused",
        arguments: ["rtcp_len_overrun", "rtcp_sr_count31_short", "rtcp_4_bytes"])
    func lyingMember(_ name: String) throws {
        let reading = RTCPReading(try Self.t01(name))
        #expect(reading.isMalformed)
        #expect(reading.members.isEmpty)
    }

    @Test("T01: the members before one that lies stand")
    func membersBefore() throws {
        let good = try Self.t01("rtcp_pli_only")
        let reading = RTCPReading(good + (try Self.t01("rtcp_sr_count31_short")) + good)
        #expect(reading.kinds == [.pictureLoss])
        #expect(reading.isMalformed)
    }

    @Test("after a malformed member every further call gives nil")
    func afterMalformed() {
        let bytes: [UInt8] = [0x80, 203, 0, 0, 0x00]
        let span = bytes.span
        var cursor = RTCPCursor(span)
        let first = cursor.next(in: span)?.kind
        let second = cursor.next(in: span)?.kind
        let third = cursor.next(in: span)?.kind
        #expect(first == .goodbye && second == nil && third == nil)
        #expect(cursor.isMalformed)
    }

    @Test("an XR whose last block is cut is refused")
    func cutBlock() {
        let reading = RTCPReading([0x80, 207, 0, 2, 0, 0, 0, 1, 4, 0, 0, 2])
        #expect(reading.isMalformed)
    }

    @Test("application feedback of another name than REMB is skipped")
    func otherApplicationFeedback() {
        let reading = RTCPReading([0x8F, 206, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0x47, 0x4F, 0x4F, 0x47])
        #expect(reading.kinds == [.unknown])
        #expect(!reading.isMalformed)
    }

    @Test("every fuzz seed for RTCP is refused as the reference parser does")
    func fuzzSeeds() {
        let seeds = VectorFile("fuzz_seeds").rows().filter { $0["kind"].string == "rtcp" }
        #expect(seeds.count == 6)
        for seed in seeds {
            #expect(RTCPReading(seed.bytes).isMalformed, "\(seed["hex"].string ?? "")")
        }
    }

    @Test("every prefix and every changed byte of every packet is read without a trap")
    func mutations() {
        let rows = Self.packets.rows() + Self.packets.rows("drop")
        var count = 0
        for row in rows where row.bytes.count <= 200 {
            count += readEveryMutation(of: row.bytes) { _ = RTCPReading($0) }
        }
        #expect(count > 5_000)
    }

    @Test("random datagrams with good headers are read without a trap")
    func randomBodies() {
        var random = RandomSource.seeded(11)
        var wellFormedCount = 0
        for _ in 0..<20_000 {
            let words = Int.random(in: 0...12, using: &random)
            let first = UInt8(0x80) | UInt8.random(in: 0...0x3F, using: &random)
            var bytes = [first, UInt8.random(in: 200...207, using: &random), 0, UInt8(words)]
            for _ in 0..<words * 4 { bytes.append(UInt8(truncatingIfNeeded: random.next() & random.next())) }
            if !RTCPReading(bytes).isMalformed { wellFormedCount += 1 }
        }
        #expect(wellFormedCount > 1_000)
    }
}
