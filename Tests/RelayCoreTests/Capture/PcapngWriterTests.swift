import RTPCore
import RelayCore
import Testing

/// A strict reader: every block's two lengths agree, padding is zero, options end.
private struct PcapngFile {
    struct Packet {
        var time: UInt64
        var bytes: [UInt8]
        var originalByteCount: Int
        var direction: UInt32
    }
    var linkType: UInt16 = 0
    var program = ""
    var packets: [Packet] = []

    private struct Fault: Error { var words: String }

    init(_ bytes: [UInt8]) throws {
        func number<N: FixedWidthInteger>(_ at: Int, _: N.Type = N.self) throws -> N {
            let size = N.bitWidth / 8
            guard at + size <= bytes.count else { throw Fault(words: "cut at \(at)") }
            return (0..<size).reduce(N.zero) { $0 | N(truncatingIfNeeded: bytes[at + $1]) << N(8 * $1) }
        }
        var at = 0
        var isFirst = true
        while at < bytes.count {
            let type: UInt32 = try number(at)
            let length = Int(try number(at + 4) as UInt32)
            guard length % 4 == 0, length >= 12, try Int(number(at + length - 4) as UInt32) == length else {
                throw Fault(words: "block at \(at)")
            }
            guard isFirst == (type == 0x0A0D_0D0A) else { throw Fault(words: "section at \(at)") }
            isFirst = false
            var options: [UInt16: [UInt8]] = [:]
            func readOptions(_ start: Int) throws {
                var next = start
                while true {
                    let code: UInt16 = try number(next)
                    let count = Int(try number(next + 2) as UInt16)
                    next += 4
                    if code == 0 { break }
                    options[code] = Array(bytes[next..<next + count])
                    next += (count + 3) & ~3
                }
                guard next == at + length - 4 else { throw Fault(words: "options at \(start)") }
            }
            switch type {
            case 0x0A0D_0D0A:
                guard try number(at + 8) as UInt32 == 0x1A2B_3C4D else { throw Fault(words: "byte order") }
                try readOptions(at + 24)
                program = String(decoding: options[4] ?? [], as: UTF8.self)
            case 1:
                linkType = try number(at + 8)
                try readOptions(at + 16)
                guard options[9] == [9] else { throw Fault(words: "resolution") }
            case 6:
                let time = UInt64(try number(at + 12) as UInt32) << 32 | UInt64(try number(at + 16) as UInt32)
                let kept = Int(try number(at + 20) as UInt32)
                let padded = (kept + 3) & ~3
                guard bytes[at + 28 + kept..<at + 28 + padded].allSatisfy({ $0 == 0 }) else {
                    throw Fault(words: "padding")
                }
                try readOptions(at + 28 + padded)
                packets.append(
                    Packet(
                        time: time, bytes: Array(bytes[at + 28..<at + 28 + kept]),
                        originalByteCount: Int(try number(at + 24) as UInt32),
                        direction: (options[2] ?? []).reversed().reduce(0) { $0 << 8 | UInt32($1) }))
            default: throw Fault(words: "type \(type)")
            }
            at += length
        }
    }
}

@Suite("Captures") struct PcapngWriterTests {
    private func address(_ text: String, _ port: UInt16) throws -> PeerAddress {
        try #require(PeerAddress(address: text, port: port))
    }

    @Test(
        "datagrams read back with their addresses, times, directions and true lengths",
        arguments: [("192.0.2.7", "198.51.100.1"), ("2001:db8::7", "2001:db8::1")])
    func roundTrip(client: String, relay: String) throws {
        var writer = PcapngWriter()
        writer.begin(program: "media-relay 1", interface: "worker 0")
        let payload: [UInt8] = Array(0..<21)
        let (from, to) = (try address(client, 5_000), try address(relay, 40_000))
        let time: UInt64 = 1_796_000_000_123_456_789
        payload.withUnsafeBufferPointer { bytes in
            guard let start = bytes.baseAddress else { return }
            writer.datagram(start, kept: 13, byteCount: 900, from: from, to: to, isInbound: true, unixNanoseconds: time)
            writer.datagram(
                start, kept: 21, byteCount: 21, from: to, to: from, isInbound: false, unixNanoseconds: time + 1)
        }
        let file = try PcapngFile(writer.take())
        #expect(file.linkType == 101 && file.program == "media-relay 1" && file.packets.count == 2)
        let isIPv4 = from.isIPv4
        let head = isIPv4 ? 20 : 40
        let first = file.packets[0]
        #expect(first.time == time && first.direction == 1 && file.packets[1].direction == 2)
        #expect(first.bytes.count == head + 8 + 13 && first.originalByteCount == head + 8 + 900)
        #expect(first.bytes[0] >> 4 == (isIPv4 ? 4 : 6) && first.bytes[isIPv4 ? 9 : 6] == 17)
        let ports: [UInt8] = [0x13, 0x88, 0x9C, 0x40, 0x03, 0x8C]
        #expect(Array(first.bytes[head..<head + 6]) == ports, "5000, 40000, 908 bytes")
        #expect(Array(first.bytes[(head + 8)...]) == Array(payload.prefix(13)))
        if isIPv4 {
            var sum = 0
            for at in stride(from: 0, to: 20, by: 2) { sum += Int(first.bytes[at]) << 8 | Int(first.bytes[at + 1]) }
            #expect(sum % 0xFFFF == 0, "the header's checksum")
        }
        #expect(writer.take().isEmpty)
    }

    @Test("of a datagram only headers are kept")
    func headers() {
        func kept(_ bytes: [UInt8]) -> Int {
            bytes.withUnsafeBufferPointer {
                $0.baseAddress.map { CapturedHeaders.byteCount($0, count: bytes.count) } ?? 0
            }
        }
        let media = [UInt8](repeating: 0xEE, count: 100)
        let rtp: [UInt8] = [0x80, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]
        #expect(kept(rtp + media) == 12)
        // One contributing source and an extension of two words.
        #expect(
            kept([0x91] + rtp.dropFirst() + [0, 0, 0, 4, 0xBE, 0xDE, 0, 2] + [UInt8](repeating: 1, count: 8) + media)
                == 28)
        // One that says that it is longer than the datagram, and one that is cut.
        #expect(kept([0x90] + rtp.dropFirst() + [0xBE, 0xDE, 0xFF, 0xFF] + media) == 116)
        #expect(kept([0x90] + rtp.dropFirst() + [0xBE]) == 12)
        #expect(kept([0x80, 200, 0, 6, 0, 0, 0, 9] + media) == 8)
        #expect(kept([22, 0xFE, 0xFD] + media) == 13)
        #expect(kept([0x40, 1] + media) == 0 && kept([]) == 0 && kept([0x80]) == 0)
        let stun: [UInt8] = [0, 1, 0, 60, 0x21, 0x12, 0xA4, 0x42] + [UInt8](repeating: 7, count: 12)
        let username: [UInt8] = [0, 6, 0, 5, 97, 58, 98, 99, 100, 0, 0, 0]
        let integrity: [UInt8] = [0, 8, 0, 20] + [UInt8](repeating: 0xAB, count: 20)
        #expect(kept(stun + username + integrity + [0x80, 0x28, 0, 4, 1, 2, 3, 4]) == 32)
        #expect(kept(stun + username) == 32)
        #expect(kept(stun + username.dropLast(3)) == 20)
    }
}
