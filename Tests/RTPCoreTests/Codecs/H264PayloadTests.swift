import RTPCore
import RelayTesting
import Testing

@Suite("H.264 payload")
struct H264PayloadTests {
    static let file = VectorFile("h264")
    static func read(_ bytes: [UInt8]) -> H264Payload? { H264Payload(bytes.span) }
    static func startsKeyFrame(_ bytes: [UInt8]) -> Bool { H264Payload.startsKeyFrame(bytes.span) }

    @Test("packet type and NAL types of every payload equal the reference decoder's", arguments: file.rows())
    func types(_ row: VectorRow) throws {
        let payload = try #require(Self.read(row.bytes))
        #expect(Int(payload.packetType) == row["packet_type"].integer)
        let types = Set((row["nal_types"].array ?? []).compactMap { $0.integer })
        #expect(Set((0..<32).filter { payload.nalTypes >> UInt32($0) & 1 == 1 }) == types)
    }

    @Test("start and end of every payload equal the reference decoder's", arguments: file.rows())
    func startAndEnd(_ row: VectorRow) throws {
        let payload = try #require(Self.read(row.bytes))
        #expect(payload.isStart == row["start"].bool)
        #expect(payload.isEnd == row["end"].bool)
        #expect(payload.startsSPS == row["has_sps"].bool)
        #expect(payload.startsIDR == row["has_idr"].bool)
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

    @Test("packets of the interleaved mode are refused", arguments: [25, 26, 27, 30] as [UInt8])
    func interleavedMode(_ type: UInt8) {
        #expect(Self.read([0x60 | type, 0, 1, 0x65, 0x88, 0x84]) == nil)
    }

    @Test("every prefix and every changed byte is read without a trap")
    func mutations() {
        var keyFrameCount = 0
        for row in Self.file.rows() + Self.file.rows("unparsable") {
            _ = readEveryMutation(of: row.bytes) { bytes in
                if Self.read(bytes)?.startsKeyFrame == true { keyFrameCount += 1 }
            }
        }
        #expect(keyFrameCount > 100)
    }
}
