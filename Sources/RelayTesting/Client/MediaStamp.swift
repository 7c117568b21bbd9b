import RTPCore

/// What the last 16 bytes of a test payload say: who made it, as which one, and a checksum over the bytes before, so that a
/// receiver sees at once whether a packet is what was sent.
public struct MediaStamp: Hashable, Sendable {
    public static let byteCount = 16
    /// The sending client's tag.
    public var sender: UInt32
    /// Counts the packets of one kind of one sender from 0, to 2^56.
    public var number: UInt64

    public init(sender: UInt32, number: UInt64) {
        self.sender = sender
        self.number = number
    }

    /// `content` with the stamp behind it.
    /// - Parameter uncovered: the checksum leaves out so many of the first bytes, at most all of `content`: where a relay
    ///   counts pictures afresh.
    public func stamped(_ content: [UInt8], uncovered: Int = 0) -> [UInt8] {
        let body = content + be32(sender) + be64(UInt64(min(uncovered, content.count)) << 56 | number)
        return body + be32(Self.checksum(body, uncovered: min(uncovered, content.count)))
    }

    /// The stamp of a payload; nil when the checksum is wrong, so also for payloads without one.
    public init?(readFrom payload: [UInt8]) {
        guard payload.count >= Self.byteCount else { return nil }
        let body = Array(payload.dropLast(4))
        var cursor = ByteCursor(Array(payload.suffix(Self.byteCount)))
        sender = cursor.take32()
        let word = UInt64(cursor.take32()) << 32 | UInt64(cursor.take32())
        number = word & (1 << 56 - 1)
        let uncovered = Int(word >> 56)
        guard uncovered <= payload.count - Self.byteCount, cursor.take32() == Self.checksum(body, uncovered: uncovered)
        else { return nil }
    }

    private static func checksum(_ body: [UInt8], uncovered: Int) -> UInt32 {
        let covered = Array(body.dropFirst(uncovered))
        return CRC32.checksum(covered.span)
    }
}

/// Makes payloads that look like the codec's to whoever looks for key frames, and carry a stamp.
public struct MediaMaker: Sendable {
    public let codec: MediaCodecName
    var pictureNumber: UInt16

    public enum MediaCodecName: Sendable { case opus, vp8, h264 }

    /// Bytes at the front in which a relay may count pictures afresh: the longest VP8 descriptor.
    var uncovered: Int { codec == .vp8 ? 6 : 0 }

    public init(_ codec: MediaCodecName, pictureNumber: UInt16 = 0) {
        self.codec = codec
        self.pictureNumber = pictureNumber
    }

    /// The payload contents of one frame, one a packet, without stamps. `byteCount`: of each packet's filler.
    public mutating func frame(isKey: Bool, packetCount: Int, byteCount: Int) -> [[UInt8]] {
        defer { pictureNumber = (pictureNumber &+ 1) & 0x7FFF }
        let filler = (0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &+ Int(pictureNumber)) }
        return (0..<packetCount).map { index in
            switch codec {
            case .opus:
                // TOC: CELT, full band, 20 ms, one frame (RFC 6716 §3.1).
                [0xF8] + filler
            case .vp8:
                vp8Descriptor(isStart: index == 0) + (index == 0 ? vp8FrameHeader(isKey: isKey) : []) + filler
            case .h264:
                h264Head(isKey: isKey, index: index, packetCount: packetCount) + filler
            }
        }
    }

    /// RFC 7741 §4.2: extended, with a 15-bit picture id.
    private func vp8Descriptor(isStart: Bool) -> [UInt8] {
        [isStart ? 0x90 : 0x80, 0x80, 0x80 | UInt8(pictureNumber >> 8), UInt8(pictureNumber & 0xFF)]
    }

    /// RFC 6386 §9.1: the first bit is 0 in a key frame, which then has the start code and 320 × 240.
    private func vp8FrameHeader(isKey: Bool) -> [UInt8] {
        isKey ? [0x10, 0x02, 0x00, 0x9D, 0x01, 0x2A, 0x40, 0x01, 0xF0, 0x00] : [0x11, 0x02, 0x00]
    }

    /// RFC 6184: parameter sets and the slice's first part in a STAP-A, then FU-A parts.
    private func h264Head(isKey: Bool, index: Int, packetCount: Int) -> [UInt8] {
        if isKey, index == 0 {
            let sps: [UInt8] = [0x67, 0x42, 0xE0, 0x1F, 0x8C]
            let pps: [UInt8] = [0x68, 0xCE, 0x3C, 0x80]
            return [0x78] + be16(UInt16(sps.count)) + sps + be16(UInt16(pps.count)) + pps
        }
        let first = isKey ? 1 : 0
        let start: UInt8 = index == first ? 0x80 : 0
        let end: UInt8 = index == packetCount - 1 && index != first ? 0x40 : 0
        return [0x7C, start | end | (isKey ? 5 : 1)]
    }
}
