import RTPCore
import RelayTesting
import Testing

@Suite("Header extension elements")
struct HeaderExtensionElementsTests {
    static func rows(_ kind: HeaderExtensionKind) -> [VectorRow] {
        VectorFile("rtp_header_ext").rows().filter { $0["uri"].string == kind.uri }
    }
    /// Puts the body between other bytes, so that an off-by-one offset shows.
    static func framed<T>(_ body: [UInt8], _ read: (Span<UInt8>, Int, Int) -> T) -> T {
        let bytes = [0xEE, 0xEE] + body + [0xEE]
        return read(bytes.span, 2, body.count)
    }
    static func identifier(_ body: [UInt8]) -> Range<Int>? {
        framed(body) { HeaderExtensionElement.identifier($0, offset: $1, byteCount: $2) }
    }

    @Test("rfc6464: audio levels of the vectors", arguments: rows(.audioLevel))
    func audioLevel(_ row: VectorRow) throws {
        let level = try #require(Self.framed(row.bytes) { AudioLevel($0, offset: $1, byteCount: $2) })
        #expect(level.isVoice == row["voice"].bool)
        #expect(-Int(level.attenuation) == row["level_dbov"].integer)
    }

    @Test("abs-send-time of the vectors", arguments: rows(.absSendTime))
    func absSendTime(_ row: VectorRow) throws {
        let value = Self.framed(row.bytes) {
            HeaderExtensionElement.absSendTime($0, offset: $1, byteCount: $2)
        }
        #expect(try #require(value) == UInt32(try #require(row["value"].integer)))
    }

    @Test("transport-wide sequence numbers of the vectors", arguments: rows(.transportCC))
    func transportSequenceNumber(_ row: VectorRow) throws {
        let value = Self.framed(row.bytes) {
            HeaderExtensionElement.transportSequenceNumber($0, offset: $1, byteCount: $2)
        }
        #expect(Int(try #require(value)) == row["seq"].integer)
    }

    @Test("playout delays of the vectors", arguments: rows(.playoutDelay))
    func playoutDelay(_ row: VectorRow) throws {
        let delay = try #require(Self.framed(row.bytes) { PlayoutDelay($0, offset: $1, byteCount: $2) })
        #expect(Int(delay.minimum.milliseconds) / 10 == row["min_10ms"].integer)
        #expect(Int(delay.maximum.milliseconds) / 10 == row["max_10ms"].integer)
    }

    @Test("video orientations of the vectors", arguments: rows(.videoOrientation))
    func videoOrientation(_ row: VectorRow) throws {
        let orientation = try #require(
            Self.framed(row.bytes) { VideoOrientation($0, offset: $1, byteCount: $2) })
        #expect(orientation.rotation == row["rotation"].integer)
        #expect(orientation.isFlipped == row["flip"].bool ?? false)
        #expect(orientation.isBackCamera == row["back_camera"].bool ?? false)
    }

    @Test("MID and RID texts of the vectors", arguments: rows(.mid) + rows(.rid) + rows(.repairedRID))
    func identifiers(_ row: VectorRow) throws {
        let range = try #require(Self.identifier(row.bytes))
        let bytes = [0xEE, 0xEE] + row.bytes + [0xEE]
        #expect(String(decoding: bytes[range], as: UTF8.self) == row["text"].string)
    }

    @Test("every vector row belongs to an extension that is tested here")
    func noRowIsLeftOut() {
        let kinds: [HeaderExtensionKind] = [
            .audioLevel, .absSendTime, .transportCC, .playoutDelay, .videoOrientation, .mid, .rid,
            .repairedRID,
        ]
        #expect(kinds.reduce(0) { $0 + Self.rows($1).count } == VectorFile("rtp_header_ext").rows().count)
    }

    @Test("a body of the wrong size is ignored", arguments: [0, 1, 2, 3, 4, 16])
    func wrongSizes(_ count: Int) {
        let body = [UInt8](repeating: 0x31, count: count)
        #expect((Self.framed(body) { AudioLevel($0, offset: $1, byteCount: $2) } != nil) == (count == 1))
        #expect(
            (Self.framed(body) { VideoOrientation($0, offset: $1, byteCount: $2) } != nil) == (count == 1))
        #expect((Self.framed(body) { PlayoutDelay($0, offset: $1, byteCount: $2) } != nil) == (count == 3))
        let number = Self.framed(body) {
            HeaderExtensionElement.transportSequenceNumber($0, offset: $1, byteCount: $2)
        }
        #expect((number != nil) == (count == 2))
        let time = Self.framed(body) { HeaderExtensionElement.absSendTime($0, offset: $1, byteCount: $2) }
        #expect((time != nil) == (count == 3))
    }

    @Test(
        "an identifier that is empty, too long or not a token is refused",
        arguments: ["", "a b", "a\u{0}", "\u{7F}", "a\"b", "12345678901234567", "é"])
    func badIdentifiers(_ text: String) {
        #expect(Self.identifier(Array(text.utf8)) == nil)
    }
}
