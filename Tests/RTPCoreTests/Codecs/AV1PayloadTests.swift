import RTPCore
import RelayTesting
import Testing

@Suite("AV1 payload")
struct AV1PayloadTests {
    static let file = VectorFile("av1")
    static func read(_ bytes: [UInt8]) -> AV1Payload? { AV1Payload(bytes.span) }
    static func startsKeyFrame(_ bytes: [UInt8]) -> Bool { AV1Payload.startsKeyFrame(bytes.span) }
    static func elements(_ bytes: [UInt8], _ payload: AV1Payload) -> [(offset: Int, byteCount: Int)] {
        var cursor = AV1ElementCursor(announcedElementCount: payload.announcedElementCount)
        var found: [(offset: Int, byteCount: Int)] = []
        while let element = cursor.next(in: bytes.span) { found.append(element) }
        return found
    }

    @Test("the aggregation header of every payload equals the reference decoder's", arguments: file.rows())
    func header(_ row: VectorRow) throws {
        let payload = try #require(Self.read(row.bytes))
        #expect(payload.continuesElement == row["Z"].bool)
        #expect(payload.isContinued == row["Y"].bool)
        #expect(payload.announcedElementCount == row["W"].integer)
        #expect(payload.startsKeyFrame == row["N"].bool)
    }

    @Test("the OBU elements of every payload equal the reference decoder's", arguments: file.rows())
    func elements(_ row: VectorRow) throws {
        let bytes = row.bytes
        let payload = try #require(Self.read(bytes))
        let elements = Self.elements(bytes, payload)
        let expected = try #require(row["elements"].array)
        #expect(payload.elementCount == expected.count)
        #expect(elements.map { $0.byteCount } == expected.map { $0["len"].integer })
        for (element, expected) in zip(elements, expected) {
            guard let type = expected["obu_type"].integer else { continue }
            let found = AV1Payload.obuType(bytes.span, at: element.offset)
            #expect(Int(found) == type)
        }
    }

    @Test("a key frame is recognised exactly at its start", arguments: file.rows())
    func keyFrames(_ row: VectorRow) {
        #expect(Self.startsKeyFrame(row.bytes) == (row["keyframe_start"].bool ?? false))
    }

    @Test("a payload against the format is refused and no key frame", arguments: file.rows("unparsable"))
    func unparsable(_ row: VectorRow) {
        #expect(Self.read(row.bytes) == nil)
        #expect(!Self.startsKeyFrame(row.bytes))
    }

    @Test("every prefix and every changed byte is read without a trap and elements stay inside the payload")
    func mutations() {
        for row in Self.file.rows() + Self.file.rows("unparsable") {
            let count = readEveryMutation(of: row.bytes) { bytes in
                guard let payload = Self.read(bytes) else { return }
                #expect(Self.elements(bytes, payload).allSatisfy { $0.offset + $0.byteCount <= bytes.count })
            }
            #expect(count >= 1)
        }
    }
}
