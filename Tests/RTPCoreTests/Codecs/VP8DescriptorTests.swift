import RTPCore
import RelayTesting
import Testing

@Suite("VP8 descriptor")
struct VP8DescriptorTests {
    static let file = VectorFile("vp8")
    static func read(_ bytes: [UInt8]) -> VP8Descriptor? { VP8Descriptor(bytes.span) }
    static func startsKeyFrame(_ bytes: [UInt8]) -> Bool { VP8Descriptor.startsKeyFrame(bytes.span) }

    @Test("the fields of every descriptor equal the reference decoder's", arguments: file.rows())
    func fields(_ row: VectorRow) throws {
        let descriptor = try #require(Self.read(row.bytes))
        #expect(descriptor.isNonReference == row["N"].bool)
        #expect(descriptor.startsPartition == row["S"].bool)
        #expect(Int(descriptor.partitionIndex) == row["PID"].integer)
        #expect(Int(descriptor.pictureID) == row["picture_id"].integer ?? 0)
        #expect(
            descriptor.pictureIDByteCount * 8 - (descriptor.pictureIDByteCount > 0 ? 1 : 0)
                == row["picture_id_bits"].integer)
        #expect(descriptor.byteCount == row["descriptor_len"].integer)
    }

    @Test("the layer fields of every descriptor equal the reference decoder's", arguments: file.rows())
    func layers(_ row: VectorRow) throws {
        let descriptor = try #require(Self.read(row.bytes))
        #expect((descriptor.baseLayerIndexOffset > 0) == !row["tl0picidx"].isNull)
        #expect(Int(descriptor.baseLayerIndex) == row["tl0picidx"].integer ?? 0)
        #expect(descriptor.hasTemporalLayer == !row["tid"].isNull)
        #expect(Int(descriptor.temporalLayer) == row["tid"].integer ?? 0)
        #expect(descriptor.isLayerSync == row["y"].bool ?? false)
        #expect(descriptor.hasKeyIndex == !row["keyidx"].isNull)
        #expect(Int(descriptor.keyIndex) == row["keyidx"].integer ?? 0)
    }

    @Test("a key frame is recognised exactly at its start", arguments: file.rows())
    func keyFrames(_ row: VectorRow) {
        #expect(Self.startsKeyFrame(row.bytes) == (row["keyframe"].bool ?? false))
    }

    @Test("offsets point at the fields' own bytes")
    func offsets() throws {
        let bytes: [UInt8] = [0x90, 0xF0, 0x81, 0x02, 0x77, 0xA5, 0x10]
        let descriptor = try #require(Self.read(bytes))
        #expect(descriptor.pictureIDOffset == 2)
        #expect(descriptor.baseLayerIndexOffset == 4)
        #expect(bytes[descriptor.baseLayerIndexOffset] == descriptor.baseLayerIndex)
        #expect(descriptor.layerOffset == 5)
        #expect(descriptor.byteCount == 6)
    }

    @Test("absent fields have no offset")
    func absentFields() throws {
        let descriptor = try #require(Self.read([0x80, 0x00, 0x10]))
        #expect(descriptor.pictureIDOffset == 0)
        #expect(descriptor.baseLayerIndexOffset == 0)
        #expect(descriptor.layerOffset == 0)
    }

    @Test("a descriptor that is cut short is refused and no key frame", arguments: file.rows("unparsable"))
    func unparsable(_ row: VectorRow) {
        #expect(Self.read(row.bytes) == nil)
        #expect(!Self.startsKeyFrame(row.bytes))
    }

    @Test("every prefix and every changed byte is read without a trap and stays inside the payload")
    func mutations() {
        for row in Self.file.rows() + Self.file.rows("unparsable") {
            let count = readEveryMutation(of: row.bytes) { bytes in
                guard let descriptor = Self.read(bytes) else { return }
                #expect(descriptor.byteCount <= bytes.count)
            }
            #expect(count >= 1)
        }
    }
}
