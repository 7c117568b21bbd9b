/// A picture of H.264 out of its packets' payloads (RFC 6184): NAL units behind their lengths, as Matroska keeps them, and what it
/// keeps beside the pictures (ISO/IEC 14496-15 §5.3.3).
struct H264Picture {
    private(set) var bytes: [UInt8] = []
    private(set) var hasIDR = false
    private(set) var sequenceParameters: [UInt8] = []
    private(set) var pictureParameters: [UInt8] = []

    /// Nil where a payload cannot be read or a fragment is missing.
    init?(_ payloads: [[UInt8]]) {
        var fragment: [UInt8]?
        for payload in payloads {
            guard let first = payload.first else { return nil }
            let type = first & 0x1F
            guard fragment == nil || type == 28 else { return nil }
            switch type {
            case 1...23: take(payload)
            case 24:
                guard H264Payload(payload.span) != nil else { return nil }
                var at = 1
                while at + 2 <= payload.count {
                    let end = at + 2 + (Int(payload[at]) << 8 | Int(payload[at + 1]))
                    guard end <= payload.count else { return nil }
                    take(Array(payload[(at + 2)..<end]))
                    at = end
                }
            case 28:
                guard payload.count >= 2 else { return nil }
                if payload[1] & 0x80 != 0 {
                    guard fragment == nil else { return nil }
                    fragment = [first & 0xE0 | payload[1] & 0x1F]
                }
                guard var unit = fragment else { return nil }
                unit += payload[2...]
                fragment = unit
                if payload[1] & 0x40 != 0 {
                    take(unit)
                    fragment = nil
                }
            default: return nil
            }
        }
        guard fragment == nil, !bytes.isEmpty else { return nil }
    }

    private mutating func take(_ unit: [UInt8]) {
        guard let first = unit.first else { return }
        switch first & 0x1F {
        case 5: hasIDR = true
        case 7: sequenceParameters = unit
        case 8: pictureParameters = unit
        // Access unit delimiters have no place in Matroska.
        case 9: return
        default: break
        }
        bytes.append(bigEndian: UInt32(unit.count))
        bytes += unit
    }

    /// avcC; empty where the parameters did not come.
    static func configuration(_ sequence: [UInt8], _ picture: [UInt8]) -> [UInt8] {
        guard sequence.count >= 4, !picture.isEmpty else { return [] }
        var bytes: [UInt8] = [1, sequence[1], sequence[2], sequence[3], 0xFC | 3, 0xE0 | 1]
        bytes.append(bigEndian: UInt16(truncatingIfNeeded: sequence.count))
        bytes += sequence + [1]
        bytes.append(bigEndian: UInt16(truncatingIfNeeded: picture.count))
        return bytes + picture
    }

    /// Of a sequence parameter set (H.264 §7.3.2.1.1), cropped.
    static func size(_ sequence: [UInt8]) -> PictureSize? {
        guard sequence.count >= 4 else { return nil }
        let profile = sequence[1]
        var bits = BitReader(withoutEmulation(sequence[4...]))
        _ = bits.golomb()
        var chroma: UInt32 = 1
        if [100, 110, 122, 244, 44, 83, 86, 118, 128].contains(profile) {
            chroma = bits.golomb()
            if chroma == 3 { _ = bits.flag() }
            _ = bits.golomb()
            _ = bits.golomb()
            _ = bits.flag()
            // Scaling matrices are not what WebRTC sends.
            guard !bits.flag() else { return nil }
        }
        _ = bits.golomb()
        switch bits.golomb() {
        case 0: _ = bits.golomb()
        case 1:
            _ = bits.flag()
            _ = bits.golomb()
            _ = bits.golomb()
            let count = bits.golomb()
            guard count < 256 else { return nil }
            for _ in 0..<count { _ = bits.golomb() }
        default: break
        }
        _ = bits.golomb()
        _ = bits.flag()
        let (columns, rows) = (Int(bits.golomb()) + 1, Int(bits.golomb()) + 1)
        let isFrames = bits.flag()
        if !isFrames { _ = bits.flag() }
        _ = bits.flag()
        var size = PictureSize(width: columns * 16, height: rows * 16 * (isFrames ? 1 : 2))
        if bits.flag() {
            let (left, right) = (Int(bits.golomb()), Int(bits.golomb()))
            let (top, bottom) = (Int(bits.golomb()), Int(bits.golomb()))
            size.width -= (left + right) * (chroma == 1 || chroma == 2 ? 2 : 1)
            size.height -= (top + bottom) * (chroma == 1 ? 2 : 1) * (isFrames ? 1 : 2)
        }
        guard !bits.isOver, (1...16_384).contains(size.width), (1...16_384).contains(size.height) else { return nil }
        return size
    }

    /// Without the bytes that keep start codes out (§7.4.1).
    private static func withoutEmulation(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var found: [UInt8] = []
        var zeros = 0
        for byte in bytes {
            if zeros >= 2, byte == 3 {
                zeros = 0
                continue
            }
            zeros = byte == 0 ? zeros + 1 : 0
            found.append(byte)
        }
        return found
    }
}
