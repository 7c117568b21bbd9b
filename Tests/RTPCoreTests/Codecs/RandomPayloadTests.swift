import RTPCore
import RelayTesting
import Testing

@Suite("Payload readers under random bytes")
struct RandomPayloadTests {
    /// Reads one payload with every reader; the offsets that come out must lie inside.
    static func readWithEveryReader(_ bytes: [UInt8]) {
        if let descriptor = VP8Descriptor(bytes.span) { #expect(descriptor.byteCount <= bytes.count) }
        if let descriptor = VP9Descriptor(bytes.span) { #expect(descriptor.byteCount <= bytes.count) }
        if let payload = H264Payload(bytes.span) { #expect(payload.nalTypes != 0) }
        if let payload = AV1Payload(bytes.span) { #expect(payload.elementCount < max(bytes.count, 1)) }
        if let toc = OpusTOC(bytes.span) { #expect(toc.frameCount <= 48) }
        let blocks = REDBlockCursorTests.blocks(bytes) ?? []
        #expect(blocks.allSatisfy { $0.offset + $0.byteCount <= bytes.count })
    }

    @Test("payloads of random bytes are read without a trap")
    func randomBytes() {
        var random = RandomSource.seeded(7)
        for _ in 0..<20_000 {
            let count = Int(random.next() % 24)
            Self.readWithEveryReader((0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) })
        }
    }

    @Test("fuzz seeds are read as payloads without a trap")
    func fuzzSeeds() {
        let seeds = VectorFile("fuzz_seeds").rows()
        #expect(seeds.count > 200)
        for seed in seeds { Self.readWithEveryReader(seed.bytes) }
    }

    @Test("random headers in front of random bytes are walked without a trap")
    func randomHeaders() {
        var random = RandomSource.seeded(8)
        var headerCount = 0
        for _ in 0..<20_000 {
            let count = Int(random.next() % 64)
            var bytes = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            if count > 15 {
                bytes[0] = 0x90 | bytes[0] & 0x2F
                // A short block of either form behind the CSRCs, so that the walk is reached often.
                let profile: [UInt8] = random.next() & 1 == 0 ? [0xBE, 0xDE, 0, 2] : [0x10, 0, 0, 2]
                let start = 12 + 4 * Int(bytes[0] & 0x0F)
                if start + 4 <= count { bytes.replaceSubrange(start..<(start + 4), with: profile) }
            }
            guard let header = RTPHeaderTests.header(bytes) else { continue }
            headerCount += 1
            let walk = HeaderExtensionCursorTests.elements(bytes, header)
            #expect(walk.elements.reduce(0) { $0 + $1.1.count } <= header.extensionByteCount)
        }
        #expect(headerCount > 2_000)
    }
}
