import RTPCore
import RelayTesting
import Testing

@Suite("RTX packet")
struct RTXPacketTests {
    static let file = VectorFile("rtx")
    static let madeHere = file.rows().filter { !$0["original"].isNull }

    /// Where the payload ends once the padding is taken off; nil for a malformed packet.
    static func payloadEnd(_ bytes: [UInt8], _ header: RTPHeader) -> Int? {
        guard header.hasPadding else { return bytes.count }
        return RTPHeaderTests.padding(bytes, header.headerByteCount).map { bytes.count - $0 }
    }
    static func sequenceNumber(_ bytes: [UInt8]) -> UInt16? {
        guard let header = RTPHeaderTests.header(bytes), let end = payloadEnd(bytes, header) else {
            return nil
        }
        return RTXPacket.originalSequenceNumber(
            bytes.span, payloadOffset: header.headerByteCount, payloadEnd: end)
    }
    static func restore(_ bytes: [UInt8], payloadType: UInt8, ssrc: UInt32, capacity: Int = 1_500) -> [UInt8]? {
        guard let header = RTPHeaderTests.header(bytes), let end = payloadEnd(bytes, header) else {
            return nil
        }
        var fits = false
        let original = [UInt8](capacity: capacity) { out in
            fits = RTXPacket.appendOriginal(
                of: bytes.span, header: header, payloadEnd: end, payloadType: payloadType, ssrc: ssrc,
                to: &out)
        }
        return fits ? original : nil
    }
    /// The original as a retransmission gives it back: no padding.
    static func withoutPadding(_ bytes: [UInt8]) throws -> [UInt8] {
        let header = try #require(RTPHeaderTests.header(bytes))
        let end = try #require(payloadEnd(bytes, header))
        var stripped = Array(bytes.prefix(end))
        stripped[0] &= 0xDF
        return stripped
    }

    @Test("the original sequence number of every retransmission", arguments: file.rows())
    func originalSequenceNumber(_ row: VectorRow) throws {
        let bytes = try #require(row["rtx"].bytes)
        #expect(Self.sequenceNumber(bytes).map(Int.init) == row["osn"].integer)
    }

    @Test("every original is restored but for its padding", arguments: madeHere)
    func restoresOriginal(_ row: VectorRow) throws {
        let original = try #require(row["original"].bytes)
        let retransmission = try #require(row["rtx"].bytes)
        let payloadType = UInt8(try #require(row["original_pt"].integer))
        let ssrc = UInt32(try #require(row["original_ssrc"].integer))
        let restored = Self.restore(retransmission, payloadType: payloadType, ssrc: ssrc)
        #expect(hexText(try #require(restored)) == hexText(try Self.withoutPadding(original)))
    }

    @Test("every retransmission is rebuilt byte by byte", arguments: madeHere)
    func buildsRetransmission(_ row: VectorRow) throws {
        let original = try #require(row["original"].bytes)
        let header = try #require(RTPHeaderTests.header(original))
        let end = try #require(Self.payloadEnd(original, header))
        let payloadType = UInt8(try #require(row["rtx_pt"].integer))
        let sequenceNumber = UInt16(try #require(row["rtx_seq"].integer))
        let ssrc = UInt32(try #require(row["rtx_ssrc"].integer))
        let built = [UInt8](capacity: 1_500) { out in
            let fits = RTXPacket.appendRetransmission(
                of: original.span, header: header, payloadEnd: end, payloadType: payloadType,
                sequenceNumber: sequenceNumber, ssrc: ssrc, to: &out)
            #expect(fits)
        }
        #expect(hexText(built) == row["rtx"].string)
    }

    @Test("the payload behind the original sequence number of Jitsi's packet is restored")
    func jitsiPayload() throws {
        let row = try #require(Self.file.rows().first { $0.name == "jitsi-osn-57005" })
        let retransmission = try #require(row["rtx"].bytes)
        let restored = try #require(Self.restore(retransmission, payloadType: 1, ssrc: 2))
        #expect(hexText(Array(restored.dropFirst(12))) == row["restored_payload"].string)
    }

    @Test("a retransmission without an original restores nothing", arguments: file.rows("unparsable"))
    func nothingToRestore(_ row: VectorRow) {
        #expect(Self.sequenceNumber(row.bytes) == nil)
        #expect(Self.restore(row.bytes, payloadType: 96, ssrc: 1) == nil)
    }

    @Test("what does not fit is not begun")
    func noRoom() throws {
        let bytes = try #require(Self.file.rows().first?["rtx"].bytes)
        #expect(Self.restore(bytes, payloadType: 96, ssrc: 1, capacity: bytes.count - 2) != nil)
        for capacity in 0..<(bytes.count - 2) {
            #expect(Self.restore(bytes, payloadType: 96, ssrc: 1, capacity: capacity) == nil)
        }
    }

    @Test("every prefix and every changed byte is restored or refused without a trap")
    func mutations() {
        for row in Self.file.rows() {
            let count = readEveryMutation(of: row["rtx"].bytes ?? []) { bytes in
                let restored = Self.restore(bytes, payloadType: 96, ssrc: 1)
                #expect((restored?.count ?? 0) <= bytes.count)
            }
            #expect(count > 50)
        }
    }
}
