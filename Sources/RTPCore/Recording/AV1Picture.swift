/// A temporal unit of AV1 out of its packets' payloads (AOM's RTP Payload Format For AV1 §4): OBUs with their sizes, as Matroska keeps
/// them, and what it keeps beside the pictures (av1C).
struct AV1Picture {
    private(set) var bytes: [UInt8] = []
    /// The OBU, with its size; empty: there was none.
    private(set) var sequenceHeader: [UInt8] = []
    private var sequencePayload: [UInt8] = []

    /// Nil where a payload cannot be read or a fragment is missing.
    init?(_ payloads: [[UInt8]]) {
        var open: [UInt8]?
        for payload in payloads {
            guard let head = AV1Payload(payload.span), head.continuesElement == (open != nil) else { return nil }
            var cursor = AV1ElementCursor(announcedElementCount: head.announcedElementCount)
            var isFirst = true
            while let place = cursor.next(in: payload.span) {
                let element = payload[place.offset..<place.offset + place.byteCount]
                if isFirst, let begun = open {
                    open = begun + element
                } else {
                    if let whole = open, !take(whole) { return nil }
                    open = Array(element)
                }
                isFirst = false
            }
            if !head.isContinued {
                if let whole = open, !take(whole) { return nil }
                open = nil
            }
        }
        guard open == nil, !bytes.isEmpty else { return nil }
    }

    private mutating func take(_ unit: [UInt8]) -> Bool {
        guard let first = unit.first else { return true }
        let type = first >> 3 & 0x0F
        // Temporal delimiters and padding are left out.
        guard type != 2, type != 15 else { return true }
        let headByteCount = first & 0x04 != 0 ? 2 : 1
        guard unit.count >= headByteCount else { return false }
        var content = unit[headByteCount...]
        if first & 0x02 != 0 {
            guard let (size, count) = Self.size(content), size <= content.count - count else { return false }
            content = content.dropFirst(count).prefix(size)
        }
        var sized = [first | 0x02] + unit[1..<headByteCount]
        var left = content.count
        repeat {
            sized.append(UInt8(left & 0x7F) | (left > 0x7F ? 0x80 : 0))
            left >>= 7
        } while left > 0
        sized += content
        if type == 1 {
            sequenceHeader = sized
            sequencePayload = Array(content)
        }
        bytes += sized
        return true
    }

    /// LEB128, five bytes at most.
    private static func size(_ bytes: ArraySlice<UInt8>) -> (value: Int, byteCount: Int)? {
        var value = 0
        for (k, byte) in bytes.prefix(5).enumerated() {
            value |= Int(byte & 0x7F) << (7 * k)
            if byte & 0x80 == 0 { return (value, k + 1) }
        }
        return nil
    }

    /// Of the sequence header (AV1 §5.5): the size, and av1C. Nil without one that can be read.
    var facts: (size: PictureSize, configuration: [UInt8])? {
        guard !sequencePayload.isEmpty else { return nil }
        var bits = BitReader(sequencePayload)
        let profile = bits.bits(3)
        _ = bits.flag()
        let isReduced = bits.flag()
        var (level, tier): (UInt32, UInt32) = (0, 0)
        if isReduced {
            level = bits.bits(5)
        } else if let point = Self.operatingPoints(&bits) {
            (level, tier) = point
        } else {
            return nil
        }
        let (widthBits, heightBits) = (Int(bits.bits(4)) + 1, Int(bits.bits(4)) + 1)
        let size = PictureSize(width: Int(bits.bits(widthBits)) + 1, height: Int(bits.bits(heightBits)) + 1)
        Self.skipTools(&bits, isReduced: isReduced)
        let colour = Self.colour(&bits, profile: profile)
        guard !bits.isOver else { return nil }
        let head: [UInt8] = [
            0x81, UInt8(profile << 5 | level), UInt8(tier << 7) | colour, 0,
        ]
        return (size, head + sequenceHeader)
    }

    /// Level and tier of the first operating point.
    private static func operatingPoints(_ bits: inout BitReader) -> (level: UInt32, tier: UInt32)? {
        var delayBits = 0
        var hasModel = false
        if bits.flag() {
            _ = bits.bits(32)
            _ = bits.bits(32)
            if bits.flag() { _ = bits.variable() }
            hasModel = bits.flag()
            if hasModel {
                delayBits = Int(bits.bits(5)) + 1
                _ = bits.bits(32)
                _ = bits.bits(10)
            }
        }
        let hasDelays = bits.flag()
        var first: (UInt32, UInt32)?
        for _ in 0...bits.bits(5) {
            _ = bits.bits(12)
            let level = bits.bits(5)
            let tier = level > 7 ? bits.bits(1) : 0
            if hasModel, bits.flag() {
                _ = bits.bits(delayBits)
                _ = bits.bits(delayBits)
                _ = bits.flag()
            }
            if hasDelays, bits.flag() { _ = bits.bits(4) }
            if first == nil { first = (level, tier) }
        }
        return bits.isOver ? nil : first
    }

    /// What stands between size and colour.
    private static func skipTools(_ bits: inout BitReader, isReduced: Bool) {
        if !isReduced, bits.flag() { _ = bits.bits(7) }
        _ = bits.bits(3)
        if !isReduced {
            _ = bits.bits(4)
            let hasOrderHint = bits.flag()
            if hasOrderHint { _ = bits.bits(2) }
            let choosesContentTools = bits.flag()
            let forcesContentTools = choosesContentTools ? 2 : bits.bits(1)
            if forcesContentTools > 0, !bits.flag() { _ = bits.bits(1) }
            if hasOrderHint { _ = bits.bits(3) }
        }
        _ = bits.bits(3)
    }

    /// The low seven bits of av1C's third byte: depth, monochrome, subsampling, position.
    private static func colour(_ bits: inout BitReader, profile: UInt32) -> UInt8 {
        let isHigh = bits.flag()
        let isTwelve = profile == 2 && isHigh && bits.flag()
        let isMonochrome = profile != 1 && bits.flag()
        var isRGB = false
        if bits.flag() { isRGB = bits.bits(8) == 1 && bits.bits(8) == 13 && bits.bits(8) == 0 }
        var (x, y, position): (UInt8, UInt8, UInt8) = (1, 1, 0)
        if isMonochrome {
            _ = bits.flag()
        } else if isRGB {
            (x, y) = (0, 0)
        } else {
            _ = bits.flag()
            switch profile {
            case 0: break
            case 1: (x, y) = (0, 0)
            default:
                if isTwelve {
                    x = UInt8(bits.bits(1))
                    y = x == 1 ? UInt8(bits.bits(1)) : 0
                } else {
                    (x, y) = (1, 0)
                }
            }
            if x == 1, y == 1 { position = UInt8(bits.bits(2)) }
        }
        return (isHigh ? 0x40 : 0) | (isTwelve ? 0x20 : 0) | (isMonochrome ? 0x10 : 0) | x << 3 | y << 2 | position
    }
}
