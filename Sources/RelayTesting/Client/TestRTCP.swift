import RTPCore

// RTCP as test clients write and read it: on arrays, and apart from the product's reader and writer, so that each is held to
// the other. Owns the packets that calls need; refuses nothing, since it reads what our own relay wrote.

/// One RTCP packet of a compound (RFC 3550 §6, RFC 4585 §6, RFC 5104 §4.3.1).
public enum TestRTCP: Hashable, Sendable {
    case senderReport(ssrc: UInt32, ntp: UInt64, rtp: UInt32, packets: UInt32, octets: UInt32, blocks: [ReportBlock])
    case receiverReport(ssrc: UInt32, blocks: [ReportBlock])
    case sourceDescription(ssrc: UInt32, cname: String)
    case goodbye([UInt32])
    case nack(sender: UInt32, media: UInt32, numbers: [UInt16])
    case pictureLoss(sender: UInt32, media: UInt32)
    case fullIntra(sender: UInt32, requests: [FullIntraRequest])
    case maximumBitrate(sender: UInt32, bitsPerSecond: UInt64, ssrcs: [UInt32])
    case transportFeedback(TransportFeedback)
    /// An extended report with a receiver reference time, behind a block that nobody knows.
    case referenceTime(ssrc: UInt32, ntp: UInt64)
    case referenceDelays(sender: UInt32, [ReceiverReferenceDelay])
    case other(type: UInt8, count: UInt8)

    public struct FullIntraRequest: Hashable, Sendable {
        public var ssrc: UInt32
        public var number: UInt8
        public init(ssrc: UInt32, number: UInt8) {
            self.ssrc = ssrc
            self.number = number
        }
    }

    /// What one transport-cc message says (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1).
    public struct TransportFeedback: Hashable, Sendable {
        public var sender: UInt32
        public var media: UInt32
        public var feedbackNumber: UInt8
        /// Each number reported on, in order, with its arrival in units of 250 µs since the reference; nil: not received.
        public var arrivals: [Arrival]
        public struct Arrival: Hashable, Sendable {
            public var number: UInt16
            public var quarterMilliseconds: Int64?
        }
        public var received: [UInt16] { arrivals.filter { $0.quarterMilliseconds != nil }.map(\.number) }
    }

    /// The bytes of one packet. `maximumBitrate` and `transportFeedback` are only read, never written by clients here.
    public var bytes: [UInt8] {
        switch self {
        case .senderReport(let ssrc, let ntp, let rtp, let packets, let octets, let blocks):
            var body = be32(ssrc) + be32(UInt32(ntp >> 32)) + be32(UInt32(truncatingIfNeeded: ntp))
            body += be32(rtp) + be32(packets) + be32(octets)
            return Self.packet(200, count: blocks.count, body + blocks.flatMap(Self.bytes))
        case .receiverReport(let ssrc, let blocks):
            return Self.packet(201, count: blocks.count, be32(ssrc) + blocks.flatMap(Self.bytes))
        case .sourceDescription(let ssrc, let cname):
            var body = be32(ssrc) + [1, UInt8(cname.utf8.count)] + Array(cname.utf8) + [0]
            while !body.count.isMultiple(of: 4) { body.append(0) }
            return Self.packet(202, count: 1, body)
        case .goodbye(let ssrcs):
            return Self.packet(203, count: ssrcs.count, ssrcs.flatMap(be32))
        case .nack(let sender, let media, let numbers):
            return Self.packet(205, count: 1, be32(sender) + be32(media) + Self.nackItems(numbers))
        case .pictureLoss(let sender, let media):
            return Self.packet(206, count: 1, be32(sender) + be32(media))
        case .fullIntra(let sender, let requests):
            let items = requests.flatMap { request -> [UInt8] in be32(request.ssrc) + [request.number, 0, 0, 0] }
            return Self.packet(206, count: 4, be32(sender) + be32(0) + items)
        case .referenceTime(let ssrc, let ntp):
            return Self.packet(207, count: 0, be32(ssrc) + be32(0x6300_0001) + be32(7) + be32(0x0400_0002) + be64(ntp))
        case .maximumBitrate, .transportFeedback, .referenceDelays, .other:
            preconditionFailure("clients here only read these")
        }
    }

    /// The packets of a compound that the relay sent; nil when it is not well formed.
    public static func read(_ compound: [UInt8]) -> [TestRTCP]? {
        var packets: [TestRTCP] = []
        var offset = 0
        while offset < compound.count {
            guard compound.count - offset >= 4, compound[offset] >> 6 == 2 else { return nil }
            let end = offset + 4 * (1 + Int(compound[offset + 2]) << 8 + Int(compound[offset + 3]))
            guard end <= compound.count else { return nil }
            var body = ByteCursor(Array(compound[(offset + 4)..<end]))
            // Padding stands at the end of the body and counts itself.
            if compound[offset] & 0x20 != 0, let last = body.bytes.last, Int(last) <= body.bytes.count {
                body = ByteCursor(Array(body.bytes.dropLast(Int(last))))
            }
            guard let packet = read(type: compound[offset + 1], count: compound[offset] & 31, &body)
            else { return nil }
            packets.append(packet)
            offset = end
        }
        return packets
    }

    // MARK: - Parts

    private static func packet(_ type: UInt8, count: Int, _ body: [UInt8]) -> [UInt8] {
        precondition(body.count.isMultiple(of: 4))
        return [0x80 | UInt8(count), type] + be16(UInt16(body.count / 4)) + body
    }

    private static func bytes(_ block: ReportBlock) -> [UInt8] {
        let lost = UInt32(bitPattern: block.cumulativeLost) & 0xFF_FFFF
        return be32(block.ssrc) + be32(UInt32(block.fractionLost) << 24 | lost) + be32(block.extendedHighest)
            + be32(block.jitter) + be32(block.lastSenderReport) + be32(block.delaySinceLastSenderReport)
    }

    /// Numbers packed into pairs of a first number and a mask of the 16 after it.
    private static func nackItems(_ numbers: [UInt16]) -> [UInt8] {
        var items: [UInt8] = []
        var rest = numbers[...]
        while let first = rest.popFirst() {
            var mask: UInt16 = 0
            while let next = rest.first, next &- first >= 1, next &- first <= 16 {
                mask |= 1 << (next &- first &- 1)
                rest.removeFirst()
            }
            items += be16(first) + be16(mask)
        }
        return items
    }

    private static func read(type: UInt8, count: UInt8, _ body: inout ByteCursor) -> TestRTCP? {
        switch (type, count) {
        case (200, _):
            guard body.count >= 24 + 24 * Int(count) else { return nil }
            let ssrc = body.take32()
            let ntp = UInt64(body.take32()) << 32 | UInt64(body.take32())
            let (rtp, packets, octets) = (body.take32(), body.take32(), body.take32())
            return .senderReport(
                ssrc: ssrc, ntp: ntp, rtp: rtp, packets: packets, octets: octets,
                blocks: (0..<count).map { _ in block(&body) })
        case (201, _):
            guard body.count >= 4 + 24 * Int(count) else { return nil }
            return .receiverReport(ssrc: body.take32(), blocks: (0..<count).map { _ in block(&body) })
        case (202, 1):
            guard body.count >= 8 else { return nil }
            let ssrc = body.take32()
            guard body.take8() == 1 else { return .other(type: type, count: count) }
            let length = Int(body.take8())
            guard length < body.count else { return nil }
            return .sourceDescription(
                ssrc: ssrc, cname: String(decoding: (0..<length).map { _ in body.take8() }, as: UTF8.self))
        case (203, _):
            guard body.count >= 4 * Int(count) else { return nil }
            return .goodbye((0..<count).map { _ in body.take32() })
        case (205, 1):
            guard body.count >= 8 else { return nil }
            let (sender, media) = (body.take32(), body.take32())
            var numbers: [UInt16] = []
            while body.count >= 4 {
                let (first, mask) = (body.take16(), body.take16())
                numbers.append(first)
                for bit in UInt16(0)..<16 where mask & 1 << bit != 0 { numbers.append(first &+ bit &+ 1) }
            }
            return .nack(sender: sender, media: media, numbers: numbers)
        case (205, 15):
            return transportFeedback(&body).map(TestRTCP.transportFeedback)
        case (206, 1):
            guard body.count >= 8 else { return nil }
            return .pictureLoss(sender: body.take32(), media: body.take32())
        case (206, 4):
            guard body.count >= 8 else { return nil }
            let sender = body.take32()
            _ = body.take32()
            var requests: [FullIntraRequest] = []
            while body.count >= 8 {
                requests.append(FullIntraRequest(ssrc: body.take32(), number: body.take8()))
                body.skip(3)
            }
            return .fullIntra(sender: sender, requests: requests)
        case (206, 15):
            return maximumBitrate(&body)
        case (207, 0):
            return referenceDelays(&body)
        default:
            return .other(type: type, count: count)
        }
    }

    private static func block(_ body: inout ByteCursor) -> ReportBlock {
        let ssrc = body.take32()
        let loss = body.take32()
        return ReportBlock(
            ssrc: ssrc, fractionLost: UInt8(loss >> 24), cumulativeLost: Int32(bitPattern: loss << 8) >> 8,
            extendedHighest: body.take32(), jitter: body.take32(), lastSenderReport: body.take32(),
            delaySinceLastSenderReport: body.take32())
    }

    /// RFC 3611 §4.5: the one block that the relay sends.
    private static func referenceDelays(_ body: inout ByteCursor) -> TestRTCP? {
        guard body.count >= 8 else { return nil }
        let (sender, head) = (body.take32(), body.take32())
        guard head >> 24 == 5, body.count == Int(head & 0xFFFF) * 4 else { return nil }
        var delays: [ReceiverReferenceDelay] = []
        while body.count >= 12 {
            delays.append(
                ReceiverReferenceDelay(ssrc: body.take32(), lastReference: body.take32(), delay: body.take32()))
        }
        return .referenceDelays(sender: sender, delays)
    }

    private static func maximumBitrate(_ body: inout ByteCursor) -> TestRTCP? {
        guard body.count >= 16 else { return nil }
        let sender = body.take32()
        _ = body.take32()
        guard body.take32() == 0x5245_4D42 else { return .other(type: 206, count: 15) }
        let word = body.take32()
        let bitrate = UInt64(word & 0x3FFFF) << UInt64(word >> 18 & 63)
        guard body.count >= 4 * Int(word >> 24) else { return nil }
        return .maximumBitrate(
            sender: sender, bitsPerSecond: bitrate, ssrcs: (0..<(word >> 24)).map { _ in body.take32() })
    }

    private static func transportFeedback(_ body: inout ByteCursor) -> TransportFeedback? {
        guard body.count >= 16 else { return nil }
        let (sender, media) = (body.take32(), body.take32())
        let (base, statusCount) = (body.take16(), Int(body.take16()))
        let word = body.take32()
        var symbols: [UInt16] = []
        while symbols.count < statusCount {
            guard body.count >= 2 else { return nil }
            let chunk = body.take16()
            if chunk & 0x8000 == 0 {
                symbols += [UInt16](repeating: chunk >> 13 & 3, count: Int(chunk & 0x1FFF))
            } else if chunk & 0x4000 == 0 {
                symbols += (0..<14).map { chunk >> (13 - $0) & 1 }
            } else {
                symbols += (0..<7).map { chunk >> (12 - 2 * $0) & 3 }
            }
        }
        var time = Int64(Int32(bitPattern: word) >> 8) * 256
        var arrivals: [TransportFeedback.Arrival] = []
        for (index, symbol) in symbols.prefix(statusCount).enumerated() {
            let number = base &+ UInt16(truncatingIfNeeded: index)
            var arrival: Int64?
            if symbol == 1 {
                guard body.count >= 1 else { return nil }
                time += Int64(body.take8())
                arrival = time
            } else if symbol == 2 {
                guard body.count >= 2 else { return nil }
                time += Int64(Int16(bitPattern: body.take16()))
                arrival = time
            }
            arrivals.append(TransportFeedback.Arrival(number: number, quarterMilliseconds: arrival))
        }
        return TransportFeedback(
            sender: sender, media: media, feedbackNumber: UInt8(word & 0xFF), arrivals: arrivals)
    }
}

func be16(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xFF)] }
func be32(_ value: UInt32) -> [UInt8] { be16(UInt16(value >> 16)) + be16(UInt16(value & 0xFFFF)) }
func be64(_ value: UInt64) -> [UInt8] { be32(UInt32(value >> 32)) + be32(UInt32(truncatingIfNeeded: value)) }

/// Takes big-endian numbers off an array. Its users check `count` first.
struct ByteCursor {
    let bytes: [UInt8]
    private var offset = 0
    init(_ bytes: [UInt8]) { self.bytes = bytes }
    var count: Int { bytes.count - offset }
    mutating func skip(_ count: Int) { offset += count }
    mutating func take8() -> UInt8 {
        defer { offset += 1 }
        return bytes[offset]
    }
    mutating func take16() -> UInt16 { UInt16(take8()) << 8 | UInt16(take8()) }
    mutating func take32() -> UInt32 { UInt32(take16()) << 16 | UInt32(take16()) }
}
