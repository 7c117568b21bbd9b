// Reader of transport-wide congestion control feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01
// §3.1).
//
//  header, two SSRCs │ base seq, status count │ reference time (24), feedback count (8) │ chunks │ deltas
//
//  chunk 0 SS LLLLLLLLLLLLL   run of L packets with symbol S   symbols: 0 lost, 1 small delta (1 byte),
//        1 0 SSSSSSSSSSSSSS   14 symbols of one bit            2 large or negative delta (2 bytes),
//        1 1 SS SS SS SS …    7 symbols of two bits            3 reserved; deltas in 250 µs

/// A transport-cc member, checked: its chunks cover the status count and its deltas lie inside.
@frozen public struct TransportFeedback: Sendable {
    public let senderSSRC: UInt32
    public let mediaSSRC: UInt32
    /// The transport-wide number of the first packet reported on.
    public let baseSequence: UInt16
    /// How many packets are reported on.
    public let statusCount: Int
    /// 24 bits signed, in 64 ms.
    public let referenceTime: Int32
    /// Counts the feedback packets of the sender modulo 256.
    public let feedbackCount: UInt8
    let chunksOffset: Int
    let deltasOffset: Int

    /// Nil when the item is no transport-cc feedback.
    public init?(_ item: RTCPItem, in bytes: Span<UInt8>) {
        guard item.kind == .transportFeedback else { return nil }
        self.init(offset: item.offset, end: item.end, in: bytes)
    }

    init?(offset: Int, end: Int, in bytes: Span<UInt8>) {
        guard end - offset >= 20 else { return nil }
        senderSSRC = bytes.uint32(at: offset + 4)
        mediaSSRC = bytes.uint32(at: offset + 8)
        baseSequence = bytes.uint16(at: offset + 12)
        statusCount = Int(bytes.uint16(at: offset + 14))
        referenceTime = Int32(bitPattern: bytes.uint24(at: offset + 16) << 8) >> 8
        feedbackCount = bytes[offset + 19]
        chunksOffset = offset + 20
        var position = offset + 20
        var remaining = statusCount
        var deltaByteCount = 0
        while remaining > 0 {
            guard position + 2 <= end else { return nil }
            let chunk = StatusChunk(rawValue: bytes.uint16(at: position))
            // A run of nothing would let a packet promise without end.
            guard chunk.count > 0 else { return nil }
            let covered = min(remaining, chunk.count)
            deltaByteCount += chunk.deltaByteCount(of: covered)
            remaining -= covered
            position += 2
        }
        guard deltaByteCount <= end - position else { return nil }
        deltasOffset = position
    }
}

/// One 16-bit packet status chunk.
struct StatusChunk {
    let rawValue: UInt16

    /// How many packets it covers.
    var count: Int {
        if rawValue & 0x8000 == 0 { return Int(rawValue & 0x1FFF) }
        return rawValue & 0x4000 == 0 ? 14 : 7
    }

    /// The symbol at `index`, less than `count`.
    func symbol(at index: Int) -> UInt8 {
        if rawValue & 0x8000 == 0 { return UInt8(rawValue >> 13 & 3) }
        if rawValue & 0x4000 == 0 { return UInt8(rawValue >> UInt16(13 - index) & 1) }
        return UInt8(rawValue >> UInt16(12 - 2 * index) & 3)
    }

    /// How many bytes of deltas its first `covered` symbols have.
    func deltaByteCount(of covered: Int) -> Int {
        if rawValue & 0x8000 == 0 { return covered * Self.deltaByteCount(of: symbol(at: 0)) }
        var sum = 0
        for index in 0..<covered { sum += Self.deltaByteCount(of: symbol(at: index)) }
        return sum
    }

    static func deltaByteCount(of symbol: UInt8) -> Int { symbol == 1 ? 1 : symbol == 2 ? 2 : 0 }
}

/// What feedback says about one packet.
@frozen public struct PacketStatus: Hashable, Sendable {
    public let sequence: UInt16
    /// When it arrived, since the receiver's epoch; nil when it was not received, or when its symbol is the
    /// reserved one.
    public let arrival: Interval?
}

/// Walks the packets of a transport-cc member in the order of their numbers.
@frozen public struct TransportFeedbackCursor: Sendable {
    private var sequence: UInt16
    private var remaining: Int
    private var chunksOffset: Int
    private var deltasOffset: Int
    private var chunk: UInt16 = 0
    private var index = 0
    private var count = 0
    /// In 250 µs since the receiver's epoch.
    private var ticks: Int64

    public init(_ feedback: TransportFeedback) {
        sequence = feedback.baseSequence
        remaining = feedback.statusCount
        chunksOffset = feedback.chunksOffset
        deltasOffset = feedback.deltasOffset
        ticks = Int64(feedback.referenceTime) * 256
    }

    /// The next packet; nil behind the last one. `bytes`: the datagram that the feedback was read from.
    public mutating func next(in bytes: Span<UInt8>) -> PacketStatus? {
        guard remaining > 0 else { return nil }
        if index == count {
            chunk = bytes.uint16(at: chunksOffset)
            chunksOffset += 2
            index = 0
            count = StatusChunk(rawValue: chunk).count
        }
        let symbol = StatusChunk(rawValue: chunk).symbol(at: index)
        defer {
            index += 1
            remaining -= 1
            sequence &+= 1
        }
        switch symbol {
        case 1:
            ticks += Int64(bytes[deltasOffset])
            deltasOffset += 1
        case 2:
            ticks += Int64(Int16(bitPattern: bytes.uint16(at: deltasOffset)))
            deltasOffset += 2
        default:
            return PacketStatus(sequence: sequence, arrival: nil)
        }
        return PacketStatus(sequence: sequence, arrival: .microseconds(ticks * 250))
    }
}
