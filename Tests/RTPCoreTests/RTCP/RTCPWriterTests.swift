import RTPCore
import RelayTesting
import Testing

@Suite("RTCP writer")
struct RTCPWriterTests {
    static let packets = VectorFile("rtcp_packets")

    /// What `body` writes into `capacity` bytes; nil when it says that it does not fit.
    static func written(
        capacity: Int = 2_000, _ body: (inout OutputSpan<UInt8>) -> Bool
    ) -> [UInt8]? {
        var fits = false
        let bytes = [UInt8](capacity: capacity) { output in fits = body(&output) }
        return fits ? bytes : nil
    }

    static func randomBlock(_ random: inout RandomSource) -> ReportBlock {
        ReportBlock(
            ssrc: UInt32(truncatingIfNeeded: random.next()),
            fractionLost: UInt8(truncatingIfNeeded: random.next()),
            cumulativeLost: Int32.random(in: -0x80_0000...0x7F_FFFF, using: &random),
            extendedHighest: UInt32(truncatingIfNeeded: random.next()),
            jitter: UInt32(truncatingIfNeeded: random.next()),
            lastSenderReport: UInt32(truncatingIfNeeded: random.next()),
            delaySinceLastSenderReport: UInt32(truncatingIfNeeded: random.next()))
    }

    /// The blocks of the only member of a datagram.
    static func blocks(_ bytes: [UInt8]) -> [ReportBlock] {
        let span = bytes.span
        var cursor = RTCPCursor(span)
        guard let item = cursor.next(in: span) else { return [] }
        return (0..<item.reportBlockCount).compactMap { ReportBlock(at: $0, of: item, in: bytes.span) }
    }

    static func senderReport(_ bytes: [UInt8]) -> SenderReport? {
        let span = bytes.span
        var cursor = RTCPCursor(span)
        return cursor.next(in: span).flatMap { SenderReport($0, in: bytes.span) }
    }

    @Test("reports with every number of blocks come back as they were written", arguments: 0...31)
    func reports(count: Int) throws {
        var random = RandomSource.seeded(UInt64(count))
        let blocks = (0..<count).map { _ in Self.randomBlock(&random) }
        let report = SenderReport(
            ssrc: UInt32(truncatingIfNeeded: random.next()), ntp: NTPTime(rawValue: random.next()),
            rtpTimestamp: UInt32(truncatingIfNeeded: random.next()),
            packetCount: UInt32(truncatingIfNeeded: random.next()),
            octetCount: UInt32(truncatingIfNeeded: random.next()))
        let sender = try #require(
            Self.written { RTCPWriter.appendSenderReport(to: &$0, report, blocks: blocks.span) })
        let receiver = try #require(
            Self.written { RTCPWriter.appendReceiverReport(to: &$0, ssrc: report.ssrc, blocks: blocks.span) })
        #expect(Self.senderReport(sender) == report)
        #expect(Self.blocks(sender) == blocks)
        #expect(Self.blocks(receiver) == blocks)
        #expect(RTCPReading(receiver).members.first?["ssrc"].integer == Int(report.ssrc))
    }

    @Test("a cumulative loss beyond 24 bits is held to them")
    func lossClamp() throws {
        var random = RandomSource.seeded(1)
        var block = Self.randomBlock(&random)
        block.cumulativeLost = 0x7FFF_FFFF
        let bytes = try #require(
            Self.written { RTCPWriter.appendReceiverReport(to: &$0, ssrc: 1, blocks: [block].span) })
        #expect(Self.blocks(bytes).first?.cumulativeLost == 0x7F_FFFF)
    }

    @Test(
        "a CNAME of every length comes back, ended by a zero byte",
        arguments: [0, 1, 2, 3, 4, 5, 16, 253, 254, 255])
    func cname(length: Int) throws {
        let cname = Array(repeating: UInt8(ascii: "x"), count: length)
        let bytes = try #require(
            Self.written { RTCPWriter.appendSourceDescription(to: &$0, ssrc: 7, cname: cname.span) })
        let reading = RTCPReading(bytes)
        #expect(!reading.isMalformed)
        #expect(reading.members.first?["chunks"][0]["ssrc"].integer == 7)
        #expect(reading.members.first?["chunks"][0]["cname"].string == String(repeating: "x", count: length))
        #expect(bytes.last == 0)
    }

    @Test(
        "a BYE comes back with its sources and reason",
        arguments: ["", "F", "FOO", "room ended", "twelve bytes"])
    func goodbye(reason: String) throws {
        let ssrcs: [UInt32] = [1, 0xFFFF_FFFF, 7]
        let text = Array(reason.utf8)
        let bytes = try #require(
            Self.written { RTCPWriter.appendGoodbye(to: &$0, ssrcs: ssrcs.span, reason: text.span) })
        let member = RTCPReading(bytes).members.first
        #expect(member?["ssrcs"].array?.map { $0.integer } == [1, 0xFFFF_FFFF, 7])
        #expect(member?["reason"].string == reason)
    }

    @Test(
        "rfc4585 6.2.1: lost numbers are packed as the vectors do", arguments: packets.rows("nack_generation")
    )
    func nackPairs(_ row: VectorRow) throws {
        let lost = try #require(row["lost"].array).map { UInt16($0.integer ?? 0) }
        let bytes = try #require(
            Self.written { RTCPWriter.appendNACK(to: &$0, senderSSRC: 1, mediaSSRC: 2, lost: lost.span) })
        let pairs = try #require(row["pairs"].array).flatMap { [$0[0].integer, $0[1].integer] }
        let halves = stride(from: 12, to: bytes.count, by: 2).map { Int(bytes[$0]) << 8 | Int(bytes[$0 + 1]) }
        #expect(halves == pairs)
    }

    @Test("random losses come back from a NACK in order and complete", arguments: 1...20)
    func nackRoundTrip(seed: Int) throws {
        var random = RandomSource.seeded(UInt64(seed))
        var sequence = UInt16(truncatingIfNeeded: random.next())
        var lost: [UInt16] = []
        for _ in 0..<Int.random(in: 1...256, using: &random) {
            lost.append(sequence)
            sequence &+= UInt16.random(in: 1...UInt16(seed * 3), using: &random)
        }
        let bytes = try #require(
            Self.written { RTCPWriter.appendNACK(to: &$0, senderSSRC: 1, mediaSSRC: 2, lost: lost.span) })
        let member = try #require(RTCPReading(bytes).members.first)
        #expect(member["lost"].array?.map { $0.integer } == lost.map { Int($0) })
    }

    @Test("a number named twice is asked for once")
    func nackDuplicates() throws {
        let lost: [UInt16] = [9, 9, 10, 10]
        let bytes = try #require(
            Self.written { RTCPWriter.appendNACK(to: &$0, senderSSRC: 1, mediaSSRC: 2, lost: lost.span) })
        #expect(RTCPReading(bytes).members.first?["lost"].array?.map { $0.integer } == [9, 10])
    }

    @Test("a PLI is the bytes of the vector")
    func pli() throws {
        let row = try #require(Self.packets.rows().first { $0.name == "pli" })
        let bytes = Self.written { RTCPWriter.appendPLI(to: &$0, senderSSRC: 0, mediaSSRC: 0x4BC4_FCB4) }
        #expect(bytes == row.bytes)
    }

    @Test("rfc5104 4.3.1.2: a FIR names its source in the entry, with its command number")
    func fir() throws {
        let bytes = try #require(
            Self.written {
                RTCPWriter.appendFIR(to: &$0, senderSSRC: 5, mediaSSRC: 0x1234_5678, commandNumber: 0x42)
            })
        let member = try #require(RTCPReading(bytes).members.first)
        #expect(member["media"].integer == 0)
        #expect(member["entries"].array == [.array([.integer(0x1234_5678), .integer(0x42)])])
    }

    @Test("REMB rates are written as the vectors do", arguments: packets.rows("remb_encoding"))
    func remb(_ row: VectorRow) throws {
        let rate = try #require(row["bitrate"].unsigned)
        let ssrcs: [UInt32] = [3]
        let bytes = try #require(
            Self.written { RTCPWriter.appendREMB(to: &$0, senderSSRC: 1, bitRate: rate, ssrcs: ssrcs.span) })
        #expect(Int(bytes[17] >> 2) == row["exp"].integer)
        #expect(Int(bytes[17] & 3) << 16 | Int(bytes[18]) << 8 | Int(bytes[19]) == row["mantissa"].integer)
        let member = try #require(RTCPReading(bytes).members.first)
        #expect(member["bitrate"].unsigned == row["decoded"].unsigned)
    }

    @Test("a REMB is the bytes of Chrome's")
    func rembBytes() throws {
        let row = try #require(Self.packets.rows().first { $0.name == "remb-chrome-8927168" })
        let ssrcs: [UInt32] = [1_215_622_422]
        let bytes = Self.written {
            RTCPWriter.appendREMB(to: &$0, senderSSRC: 1, bitRate: 8_927_168, ssrcs: ssrcs.span)
        }
        #expect(bytes == row.bytes)
    }

    @Test("every bit rate is rounded down by less than a part in 131,072")
    func rembPrecision() throws {
        var random = RandomSource.seeded(4)
        for _ in 0..<500 {
            let rate = random.next() >> UInt64.random(in: 0...63, using: &random)
            let bytes = try #require(
                Self.written { RTCPWriter.appendREMB(to: &$0, senderSSRC: 1, bitRate: rate, ssrcs: Span()) })
            let read = try #require(RTCPReading(bytes).members.first?["bitrate"].unsigned)
            #expect(read <= rate && rate - read <= rate >> 17)
        }
    }

    @Test("a receiver reference time and the answer to it come back")
    func extendedReports() throws {
        let time = NTPTime(rawValue: 0xE8F4_C1EE_9F3F_1A2B)
        let delays = [
            ReceiverReferenceDelay(ssrc: 9, lastReference: time.compact, delay: 65_536),
            ReceiverReferenceDelay(ssrc: 10, lastReference: 1, delay: 2),
        ]
        let request = Self.written {
            RTCPWriter.appendReceiverReferenceTime(to: &$0, senderSSRC: 0x902F_9E2E, time: time)
        }
        let row = try #require(Self.packets.rows().first { $0.name == "xr-rrtr" })
        #expect(request == row.bytes)
        #expect(RTCPReading(row.bytes).members.first?["blocks"][0][1].unsigned == time.rawValue)
        let answer = try #require(
            Self.written { RTCPWriter.appendDLRR(to: &$0, senderSSRC: 8, delays: delays.span) })
        let block = try #require(RTCPReading(answer).members.first?["blocks"][0].array)
        #expect(block.map { $0.integer } == [5, 9, Int(time.compact), 65_536, 10, 1, 2])
    }

    @Test("a compound of all members is walked member by member")
    func compound() throws {
        let cname = Array("relay".utf8)
        let ssrcs: [UInt32] = [1]
        let lost: [UInt16] = [1, 2, 3]
        let report = SenderReport(
            ssrc: 1, ntp: NTPTime(rawValue: 2), rtpTimestamp: 3, packetCount: 4, octetCount: 5)
        let bytes = try #require(
            Self.written { output in
                RTCPWriter.appendSenderReport(to: &output, report, blocks: Span())
                    && RTCPWriter.appendSourceDescription(to: &output, ssrc: 1, cname: cname.span)
                    && RTCPWriter.appendNACK(to: &output, senderSSRC: 1, mediaSSRC: 2, lost: lost.span)
                    && RTCPWriter.appendPLI(to: &output, senderSSRC: 1, mediaSSRC: 2)
                    && RTCPWriter.appendGoodbye(to: &output, ssrcs: ssrcs.span)
            })
        let reading = RTCPReading(bytes)
        #expect(reading.kinds == [.senderReport, .sourceDescription, .nack, .pictureLoss, .goodbye])
        #expect(!reading.isMalformed)
    }

    @Test("a member that does not fit leaves the buffer as it was")
    func noRoom() {
        let lost: [UInt16] = [1, 100, 200]
        let cname = Array("relay".utf8)
        let bytes = [UInt8](capacity: 14) { output in
            let first = RTCPWriter.appendPLI(to: &output, senderSSRC: 1, mediaSSRC: 2)
            let nack = RTCPWriter.appendNACK(to: &output, senderSSRC: 1, mediaSSRC: 2, lost: lost.span)
            let sdes = RTCPWriter.appendSourceDescription(to: &output, ssrc: 1, cname: cname.span)
            let report = RTCPWriter.appendReceiverReport(to: &output, ssrc: 1, blocks: Span())
            #expect(first && !nack && !sdes && !report)
        }
        #expect(bytes.count == 12)
    }
}
