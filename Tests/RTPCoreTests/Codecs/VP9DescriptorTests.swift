import RTPCore
import RelayTesting
import Testing

@Suite("VP9 descriptor")
struct VP9DescriptorTests {
    static let file = VectorFile("vp9")
    static let structured = file.rows().filter { !$0["ss"].isNull }
    static func read(_ bytes: [UInt8]) -> VP9Descriptor? { VP9Descriptor(bytes.span) }
    static func startsKeyFrame(_ bytes: [UInt8]) -> Bool { VP9Descriptor.startsKeyFrame(bytes.span) }

    @Test("flags and picture id of every descriptor equal the reference decoder's", arguments: file.rows())
    func flags(_ row: VectorRow) throws {
        let descriptor = try #require(Self.read(row.bytes))
        #expect(descriptor.isInterPicturePredicted == row["P"].bool)
        #expect(descriptor.hasLayers == row["L"].bool)
        #expect(descriptor.isFlexibleMode == row["F"].bool)
        #expect(descriptor.startsFrame == row["B"].bool)
        #expect(descriptor.endsFrame == row["E"].bool)
        #expect(descriptor.isNotReferenceForUpperLayers == row["Z"].bool)
        #expect((descriptor.scalabilityOffset > 0) == row["V"].bool)
        #expect((descriptor.pictureIDOffset > 0) == row["I"].bool)
        #expect(Int(descriptor.pictureID) == row["picture_id"].integer ?? 0)
        #expect(descriptor.pictureIDByteCount == [0: 0, 7: 1, 15: 2][row["picture_id_bits"].integer ?? -1])
        #expect(descriptor.byteCount == row["descriptor_len"].integer)
    }

    @Test("layers and references of every descriptor equal the reference decoder's", arguments: file.rows())
    func layers(_ row: VectorRow) throws {
        let descriptor = try #require(Self.read(row.bytes))
        #expect(Int(descriptor.temporalLayer) == row["tid"].integer ?? 0)
        #expect(descriptor.isSwitchingPoint == row["u"].bool ?? false)
        #expect(Int(descriptor.spatialLayer) == row["sid"].integer ?? 0)
        #expect(descriptor.isInterLayerPredicted == row["d"].bool ?? false)
        #expect((descriptor.baseLayerIndexOffset > 0) == !row["tl0picidx"].isNull)
        #expect(Int(descriptor.baseLayerIndex) == row["tl0picidx"].integer ?? 0)
        let references = (0..<descriptor.referenceCount).map { Int(descriptor.references[$0]) }
        #expect(references == row["pdiff"].array?.map { $0.integer })
    }

    @Test(
        "the scalability structure of every descriptor equals the reference decoder's", arguments: structured)
    func scalability(_ row: VectorRow) throws {
        let bytes = row.bytes
        let descriptor = try #require(Self.read(bytes))
        let expected = row["ss"]
        #expect(descriptor.spatialLayerCount - 1 == expected["ns"].integer)
        #expect((descriptor.sizesOffset > 0) == expected["y"].bool)
        #expect(descriptor.pictureGroupCount == expected["pg"].array?.count)
        let sizes = (0..<descriptor.spatialLayerCount).compactMap {
            descriptor.size(ofSpatialLayer: $0, in: bytes.span)
        }
        #expect(
            sizes.map { [$0.width, $0.height] }
                == expected["sizes"].array?.map { [$0[0].integer, $0[1].integer] })
    }

    @Test("a layer that the structure does not have has no size")
    func unknownLayer() throws {
        let bytes = try #require(hexBytes("0a3002800168050002d0"))
        let descriptor = try #require(Self.read(bytes))
        for layer in [-1, 2, 8] {
            let hasSize = descriptor.size(ofSpatialLayer: layer, in: bytes.span) != nil
            #expect(!hasSize)
        }
    }

    @Test("a key frame is recognised exactly at its start", arguments: file.rows())
    func keyFrames(_ row: VectorRow) {
        #expect(Self.startsKeyFrame(row.bytes) == (row["keyframe_start"].bool ?? false))
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
                _ = descriptor.size(ofSpatialLayer: 7, in: bytes.span)
            }
            #expect(count >= 1)
        }
    }
}
