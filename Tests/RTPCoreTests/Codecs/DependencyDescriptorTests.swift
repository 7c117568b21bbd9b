import RTPCore
import RelayTesting
import Testing

@Suite("Dependency descriptor")
final class DependencyDescriptorTests {
    static let file = VectorFile("dependency_descriptor")
    static let structured = file.rows().filter { $0["needs"].isNull }
    static let ordered = file.rows() + file.rows("unparsable")

    var structure = DependencyStructure.create()
    deinit { structure.destroy() }

    func read(_ bytes: [UInt8]) -> DependencyDescriptor? {
        DependencyDescriptor(bytes.span, offset: 0, byteCount: bytes.count, structure: &structure)
    }

    /// Reads the case that carries the structure of `row`, if there is one.
    func readStructure(of row: VectorRow) throws {
        guard let name = row["needs"].string else { return }
        let carrier = try #require(Self.file.rows().first { $0["name"].string == name })
        #expect(read(carrier.bytes) != nil)
    }

    @Test("the frame's fields equal the reference decoder's", arguments: file.rows())
    func frame(_ row: VectorRow) throws {
        try readStructure(of: row)
        let descriptor = try #require(read(row.bytes))
        #expect(descriptor.startsFrame == (row["start_of_frame"].integer == 1))
        #expect(descriptor.endsFrame == (row["end_of_frame"].integer == 1))
        #expect(Int(descriptor.templateID) == row["template_id"].integer)
        #expect(Int(descriptor.frameNumber) == row["frame_number"].integer)
        #expect(Int(descriptor.spatialLayer) == row["spatial_id"].integer)
        #expect(Int(descriptor.temporalLayer) == row["temporal_id"].integer)
        #expect(descriptor.activeTargets.map { Int($0) } == row["active_targets"].integer)
        #expect(descriptor.hasStructure == row["needs"].isNull)
        let letters = (0..<structure.targetCount).map { target in
            switch descriptor.indication(for: target) {
            case .notPresent: "-"
            case .discardable: "D"
            case .switching: "S"
            case .required: "R"
            }
        }
        #expect(letters.joined() == row["dti"].string)
    }

    @Test("the structure equals the reference decoder's", arguments: structured)
    func structure(_ row: VectorRow) throws {
        #expect(!structure.isKnown)
        #expect(read(row.bytes) != nil)
        let expected = row["structure"]
        #expect(structure.templateCount == expected["templates"].array?.count)
        #expect(structure.targetCount == expected["targets"].integer)
        #expect(structure.chainCount == expected["chains"].integer)
        for (layer, size) in (expected["resolutions"].array ?? []).enumerated() {
            let found = try #require(structure.size(ofSpatialLayer: layer))
            #expect([found.width, found.height] == [size[0].integer, size[1].integer])
        }
    }

    @Test("each decode target has the highest layers of the templates that are present in it")
    func targets() throws {
        let row = try #require(Self.structured.first { $0["name"].string == "jitsi-L3T3" })
        #expect(read(row.bytes) != nil)
        for target in 0..<9 {
            let layers = try #require(structure.layers(ofTarget: target))
            #expect((Int(layers.spatial), Int(layers.temporal)) == (target / 3, target % 3))
        }
        #expect(structure.layers(ofTarget: 9) == nil)
        for limit: UInt8 in 0...2 { #expect(structure.target(upToTemporal: limit) == 6 + Int(limit)) }
        #expect(structure.target(upToTemporal: 7) == 8)
    }

    @Test("an element that is cut short or against the format is refused", arguments: file.rows("unparsable"))
    func unparsable(_ row: VectorRow) throws {
        try readStructure(of: row)
        #expect(read(row.bytes) == nil)
    }

    @Test("every prefix of an element with a structure is refused, but for three bytes, and changes nothing")
    func prefixes() throws {
        let good = try #require(Self.structured.first { $0["name"].string == "jitsi-L1T3" })
        for row in Self.structured {
            #expect(read(good.bytes) != nil)
            for count in 0..<row.bytes.count where count != 3 { #expect(read(Array(row.bytes[..<count])) == nil) }
            #expect((structure.targetCount, structure.templateCount) == (3, 5))
        }
    }

    @Test("every changed byte is read without a trap")
    func mutations() {
        for row in Self.ordered {
            let count = readEveryMutation(of: row.bytes) { bytes in
                guard let descriptor = self.read(bytes) else { return }
                #expect(descriptor.temporalLayer < DependencyStructure.temporalLayerLimit)
                #expect(descriptor.spatialLayer < DependencyStructure.spatialLayerLimit)
                #expect(descriptor.indication(for: 32) == .notPresent)
            }
            #expect(count >= 1)
        }
    }

    @Test("random elements are read without a trap")
    func random() {
        var random = RandomSource.seeded(7)
        for _ in 0..<20_000 {
            let count = Int.random(in: 0...60, using: &random)
            var bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            if bytes.count > 3 { bytes[3] |= 0x80 }
            _ = read(bytes)
        }
    }

    @Test("a place outside the packet is refused")
    func outside() {
        let bytes: [UInt8] = [0x40, 0, 1, 0]
        for (offset, count) in [(2, 3), (-1, 3), (5, 3), (0, 300)] {
            let found = DependencyDescriptor(bytes.span, offset: offset, byteCount: count, structure: &structure)
            #expect(found == nil)
        }
    }

    @Test("a higher temporal layer is taken where the frame is a switch to its target")
    func switching() throws {
        let row = try #require(Self.file.rows().first { $0["name"].string == "livekit-seq-06" })
        try readStructure(of: row)
        // Decode targets of the highest spatial layer: R for T2, R for T1, - for T0.
        let middle = try #require(read(row.bytes))
        #expect(middle.temporalLimit(after: 0, wanted: 2, structure: structure) == 0)
        #expect(middle.temporalLimit(after: 2, wanted: 1, structure: structure) == 1)
        let upper = try #require(Self.file.rows().first { $0["name"].string == "livekit-seq-09" })
        let base = try #require(read(upper.bytes))
        #expect(base.temporalLimit(after: 0, wanted: 2, structure: structure) == 2)
        #expect(base.temporalLimit(after: 0, wanted: 7, structure: structure) == 7)
    }
}
