/// Pictures of VP8 and VP9 out of their packets' payloads (RFC 7741, RFC 9628).
enum VPPicture {
    /// The payloads without their descriptors; nil where one cannot be read.
    static func vp8(_ payloads: [[UInt8]]) -> [UInt8]? {
        var frame: [UInt8] = []
        for payload in payloads {
            guard let descriptor = VP8Descriptor(payload.span) else { return nil }
            frame += payload[descriptor.byteCount...]
        }
        return frame.isEmpty ? nil : frame
    }

    /// The layer frames of one picture, lowest first; several get an index behind them (VP9 bitstream, annex B).
    static func vp9(_ payloads: [[UInt8]]) -> [UInt8]? {
        var layers: [[UInt8]] = []
        for payload in payloads {
            guard let descriptor = VP9Descriptor(payload.span) else { return nil }
            if descriptor.startsFrame { layers.append([]) }
            guard !layers.isEmpty else { return nil }
            layers[layers.count - 1] += payload[descriptor.byteCount...]
        }
        layers.removeAll(where: \.isEmpty)
        guard layers.count > 1 else { return layers.first }
        guard layers.count <= 8 else { return nil }
        let marker = 0xC0 | 3 << 3 | UInt8(layers.count - 1)
        var index = [marker]
        for layer in layers { index.append(littleEndian: UInt32(layer.count)) }
        return layers.flatMap { $0 } + index + [marker]
    }

    /// Of a key frame's uncompressed header (VP9 bitstream §6.2).
    static func vp9Size(_ frame: [UInt8]) -> PictureSize? {
        var bits = BitReader(Array(frame.prefix(32)))
        guard bits.bits(2) == 2 else { return nil }
        let profile = bits.bits(1) | bits.bits(1) << 1
        if profile == 3 { _ = bits.bits(1) }
        // No existing frame shown, a key frame, the sync code behind two flags.
        guard !bits.flag(), !bits.flag() else { return nil }
        _ = bits.bits(2)
        guard bits.bits(24) == 0x49_8342 else { return nil }
        if profile >= 2 { _ = bits.bits(1) }
        let isRGB = bits.bits(3) == 7
        if !isRGB {
            _ = bits.bits(1)
            if profile == 1 || profile == 3 { _ = bits.bits(3) }
        } else if profile == 1 || profile == 3 {
            _ = bits.bits(1)
        }
        let size = PictureSize(width: Int(bits.bits(16)) + 1, height: Int(bits.bits(16)) + 1)
        return bits.isOver ? nil : size
    }
}
