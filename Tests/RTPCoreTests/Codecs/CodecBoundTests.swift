import RTPCore
import RelayTesting
import Testing

/// Writes the fields of a dependency descriptor.
private struct BitWriter {
    private var bits: [Bool] = []

    mutating func put(_ value: Int, _ count: Int) {
        for place in (0..<count).reversed() { bits.append(value >> place & 1 == 1) }
    }

    /// Filled up with zeros.
    var bytes: [UInt8] {
        stride(from: 0, to: bits.count, by: 8).map { start in
            (0..<8).reduce(UInt8(0)) { byte, bit in byte << 1 | (start + bit < bits.count && bits[start + bit] ? 1 : 0)
            }
        }
    }

    /// A frame that brings a structure of the templates behind whose layers `steps` stand (1: the next temporal, 2: the next spatial
    /// layer), each present in all of `targets`.
    static func structure(_ steps: [Int], targets: Int = 1) -> [UInt8] {
        var writer = BitWriter()
        writer.put(0b11, 2)
        writer.put(0, 6 + 16)
        // The structure's flag of five, its templates' offset, its targets.
        writer.put(0b10000, 5)
        writer.put(0, 6)
        writer.put(targets - 1, 5)
        for step in steps { writer.put(step, 2) }
        writer.put(3, 2)
        for _ in 0..<(steps.count + 1) * targets { writer.put(2, 2) }
        writer.put(0, steps.count + 1)
        // No chains (at most three targets: up to two bits), no sizes.
        writer.put(0, targets == 1 ? 1 : 2)
        writer.put(0, 1)
        return writer.bytes
    }
}

/// The last value that each bound takes, and the first that it does not (`make mutate` finds what is missing here).
@Suite("Codecs at their bounds") final class CodecBoundTests {
    private var structure = DependencyStructure.create()
    deinit { structure.destroy() }

    private func describe(_ bytes: [UInt8]) -> DependencyDescriptor? {
        DependencyDescriptor(bytes.span, offset: 0, byteCount: bytes.count, structure: &structure)
    }

    private func av1(_ bytes: [UInt8]) -> AV1Payload? { AV1Payload(bytes.span) }

    @Test("AV1: fewer elements than announced are refused, the shortest ones at the very end are read")
    func av1Elements() {
        #expect(av1([0x20, 0x01, 0x30]) == nil)
        #expect(av1([0x20, 0x01, 0x30, 0x08])?.elementCount == 2)
        #expect(av1([0x10, 0x30])?.elementCount == 1)
        #expect(av1([0x00, 0x00])?.elementCount == 1)
    }

    @Test("a descriptor may be as long as an element can be, and no longer")
    func descriptorLength() {
        #expect(describe(BitWriter.structure([])) != nil)
        let short: [UInt8] = [0xC0, 0, 0]
        #expect(describe(short) != nil)
        #expect(describe(short + [UInt8](repeating: 0, count: DependencyDescriptor.byteLimit - 3)) != nil)
        #expect(describe(short + [UInt8](repeating: 0, count: DependencyDescriptor.byteLimit - 2)) == nil)
        #expect(describe([0xC0, 0]) == nil)
    }

    @Test("a structure of one template has one template")
    func oneTemplate() {
        #expect(describe([0xC0, 0, 0]) == nil)
        #expect(describe(BitWriter.structure([])) != nil)
        #expect(structure.templateCount == 1 && structure.targetCount == 1)
        #expect(describe([0xC0, 0, 0]) != nil)
        #expect(describe([0xC1, 0, 0]) == nil)
        #expect(describe([0xFF, 0, 0]) == nil)
    }

    @Test("a frame difference that has no room left is refused")
    func shortDifference() {
        #expect(describe(BitWriter.structure([])) != nil)
        #expect(describe([0xC0, 0, 0, 0b0001_0000]) != nil)
        #expect(describe([0xC0, 0, 0, 0b0001_0010]) == nil)
    }

    @Test("eight temporal and four spatial layers are taken, one more is not")
    func layers() {
        #expect(describe(BitWriter.structure([Int](repeating: 1, count: 7))) != nil)
        #expect(describe(BitWriter.structure([Int](repeating: 1, count: 8))) == nil)
        #expect(describe(BitWriter.structure([Int](repeating: 2, count: 3))) != nil)
        #expect(structure.spatialLayerCount == 4)
        #expect(describe(BitWriter.structure([Int](repeating: 2, count: 4))) == nil)
    }

    @Test("64 templates are taken, one more is not")
    func templates() {
        #expect(describe(BitWriter.structure([Int](repeating: 0, count: 63))) != nil)
        #expect(structure.templateCount == 64)
        #expect(describe(BitWriter.structure([Int](repeating: 0, count: 64))) == nil)
    }

    @Test("there is no target before the first and none behind the last; of equal ones the first is taken")
    func targets() {
        #expect(structure.layers(ofTarget: 0) == nil)
        #expect(describe(BitWriter.structure([1], targets: 2)) != nil)
        #expect(structure.layers(ofTarget: -1) == nil && structure.layers(ofTarget: 2) == nil)
        #expect(structure.layers(ofTarget: 1) != nil)
        #expect(structure.target(upToTemporal: 1) == 0)
        #expect(structure.target(upToTemporal: 0) == nil)
        #expect(structure.size(ofSpatialLayer: -1) == nil && structure.size(ofSpatialLayer: 0) == nil)
    }
}
