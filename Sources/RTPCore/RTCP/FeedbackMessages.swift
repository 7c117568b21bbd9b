// Readers of NACK, SLI, FIR and REMB. They walk what the cursor has checked and tell numbers; what to do
// about them is the caller's matter.

/// The sequence numbers that a generic NACK asks for (RFC 4585 §6.2.1), pair by pair: PID, then PID + 1…16 by
/// the bits of BLP. At most 17 for each 4 bytes; duplicates are possible, as sent.
@frozen public struct NACKCursor: Sendable {
    private var offset: Int
    private let end: Int
    private var number: UInt16 = 0
    /// Bits of the pair that are still to be told; bit 0 stands for `number`.
    private var bits: UInt32 = 0

    /// Walks nothing when the item is no NACK.
    public init(_ item: RTCPItem) {
        offset = item.offset + 12
        end = item.kind == .nack ? item.end : 0
    }

    /// The next lost number; nil behind the last one.
    public mutating func next(in bytes: Span<UInt8>) -> UInt16? {
        if bits == 0 {
            guard end - offset >= 4 else { return nil }
            number = bytes.uint16(at: offset)
            bits = UInt32(bytes.uint16(at: offset + 2)) << 1 | 1
            offset += 4
        }
        let distance = UInt16(truncatingIfNeeded: bits.trailingZeroBitCount)
        bits &= bits &- 1
        return number &+ distance
    }
}

/// One entry of a full intra request (RFC 5104 §4.3.1).
@frozen public struct FIREntry: Hashable, Sendable {
    /// The source that shall send a key frame.
    public let ssrc: UInt32
    /// The command number: a repetition of a request has the same one.
    public let commandNumber: UInt8
}

/// Walks the entries of a full intra request.
@frozen public struct FIRCursor: Sendable {
    private var offset: Int
    private let end: Int

    /// Walks nothing when the item is no FIR.
    public init(_ item: RTCPItem) {
        offset = item.offset + 12
        end = item.kind == .fullIntraRequest ? item.end : 0
    }

    public mutating func next(in bytes: Span<UInt8>) -> FIREntry? {
        guard end - offset >= 8 else { return nil }
        defer { offset += 8 }
        return FIREntry(ssrc: bytes.uint32(at: offset), commandNumber: bytes[offset + 4])
    }
}

/// One entry of a slice loss indication (RFC 4585 §6.3.2): macroblocks of a picture that are lost.
@frozen public struct SliceLoss: Hashable, Sendable {
    /// The address of the first lost macroblock, 13 bits.
    public let first: UInt16
    /// How many are lost, 13 bits.
    public let count: UInt16
    /// The six lowest bits of the picture's id.
    public let pictureID: UInt8

    /// The entry at `index`; nil when there is none or the item is no SLI.
    public init?(at index: Int, of item: RTCPItem, in bytes: Span<UInt8>) {
        guard item.kind == .sliceLoss, index >= 0, index < (item.byteCount - 12) / 4 else { return nil }
        let word = bytes.uint32(at: item.offset + 12 + index * 4)
        first = UInt16(word >> 19)
        count = UInt16(word >> 6 & 0x1FFF)
        pictureID = UInt8(word & 0x3F)
    }
}

/// A receiver's estimate of the bit rate that it can take (draft-alvestrand-rmcat-remb-03).
@frozen public struct ReceiverEstimate: Sendable {
    /// "REMB".
    static let name: UInt32 = 0x5245_4D42

    public let senderSSRC: UInt32
    /// Bits a second; held to `UInt64.max` when the exponent leads beyond.
    public let bitRate: UInt64
    /// How many sources the estimate covers together.
    public let ssrcCount: Int
    private let offset: Int

    /// Nil when the item is no REMB.
    public init?(_ item: RTCPItem, in bytes: Span<UInt8>) {
        guard item.kind == .receiverEstimate else { return nil }
        senderSSRC = bytes.uint32(at: item.bodyOffset)
        ssrcCount = Int(bytes[item.offset + 16])
        let packed = bytes.uint24(at: item.offset + 17)
        let exponent = Int(packed >> 18)
        let mantissa = UInt64(packed & 0x3FFFF)
        // Bits shifted out at the top would make a huge rate a small one.
        bitRate = exponent > mantissa.leadingZeroBitCount ? UInt64.max : mantissa << exponent
        offset = item.offset + 20
    }

    /// The source at `index`, less than `ssrcCount`.
    public func ssrc(at index: Int, in bytes: Span<UInt8>) -> UInt32 {
        precondition(index >= 0 && index < ssrcCount, "a REMB names ssrcCount sources")
        return bytes.uint32(at: offset + index * 4)
    }
}
