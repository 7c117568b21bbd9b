import RTPCore

/// Writes a pcapng file (draft-ietf-opsawg-pcapng) of UDP datagrams: one section, one interface of raw IP, times in nanoseconds.
/// IP and UDP headers are made here; media over TCP is written as if it were UDP. Owns the bytes until they are taken.
public struct PcapngWriter {
    public private(set) var bytes: [UInt8] = []

    public init() {}

    /// Section header and interface: what a file begins with.
    /// - Parameters:
    ///   - program: what wrote it.
    ///   - interface: its name.
    public mutating func begin(program: String, interface: String) {
        block(0x0A0D_0D0A) { writer in
            writer.append(UInt32(0x1A2B_3C4D))
            writer.append(UInt16(1))
            writer.append(UInt16(0))
            writer.append(UInt64.max)
            writer.option(4, Array(program.utf8))
            writer.endOptions()
        }
        block(1) { writer in
            // LINKTYPE_RAW: an IPv4 or IPv6 header comes first.
            writer.append(UInt16(101))
            writer.append(UInt16(0))
            writer.append(UInt32(0))
            writer.option(2, Array(interface.utf8))
            // if_tsresol: 10^-9 s.
            writer.option(9, [9])
            writer.endOptions()
        }
    }

    /// One datagram. `kept` of its `byteCount` bytes are written.
    public mutating func datagram(
        _ payload: UnsafePointer<UInt8>, kept: Int, byteCount: Int, from: PeerAddress, to: PeerAddress,
        isInbound: Bool, unixNanoseconds time: UInt64
    ) {
        let header = from.isIPv4 ? 28 : 48
        block(6) { writer in
            writer.append(UInt32(0))
            writer.append(UInt32(truncatingIfNeeded: time >> 32))
            writer.append(UInt32(truncatingIfNeeded: time))
            writer.append(UInt32(header + kept))
            writer.append(UInt32(header + byteCount))
            writer.internet(from, to, byteCount)
            for index in 0..<kept { writer.bytes.append(payload[index]) }
            writer.pad(header + kept)
            // epb_flags: the direction.
            writer.append(UInt16(2))
            writer.append(UInt16(4))
            writer.append(UInt32(isInbound ? 1 : 2))
            writer.endOptions()
        }
    }

    /// Everything written so far, once.
    public mutating func take() -> [UInt8] {
        defer { bytes.removeAll(keepingCapacity: true) }
        return bytes
    }

    /// Takes back what was written last.
    public mutating func removeLast(_ count: Int) { bytes.removeLast(count) }

    // MARK: Blocks, little-endian

    private mutating func block(_ type: UInt32, _ body: (inout PcapngWriter) -> Void) {
        let start = bytes.count
        append(type)
        append(UInt32(0))
        body(&self)
        let length = UInt32(bytes.count - start + 4)
        append(length)
        withUnsafeBytes(of: length.littleEndian) { bytes.replaceSubrange(start + 4..<start + 8, with: $0) }
    }

    private mutating func append(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    private mutating func option(_ code: UInt16, _ value: [UInt8]) {
        append(code)
        append(UInt16(value.count))
        bytes += value
        pad(value.count)
    }

    private mutating func endOptions() { append(UInt32(0)) }

    private mutating func pad(_ count: Int) {
        for _ in 0..<(4 - count & 3) & 3 { bytes.append(0) }
    }

    // MARK: IP and UDP, big-endian

    private mutating func big(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    private mutating func internet(_ from: PeerAddress, _ to: PeerAddress, _ byteCount: Int) {
        if from.isIPv4 {
            let start = bytes.count
            big(UInt16(0x4500))
            big(UInt16(28 + byteCount))
            // Don't fragment; 64 hops; UDP.
            big(UInt32(0x4000))
            big(UInt16(0x4011))
            big(UInt16(0))
            big(UInt32(truncatingIfNeeded: from.low))
            big(UInt32(truncatingIfNeeded: to.low))
            var sum: UInt32 = 0
            for at in stride(from: start, to: start + 20, by: 2) {
                sum += UInt32(bytes[at]) << 8 | UInt32(bytes[at + 1])
            }
            while sum > 0xFFFF { sum = sum >> 16 + sum & 0xFFFF }
            let check = ~UInt16(sum)
            bytes[start + 10] = UInt8(check >> 8)
            bytes[start + 11] = UInt8(check & 0xFF)
        } else {
            big(UInt32(0x6000_0000))
            big(UInt16(8 + byteCount))
            big(UInt16(0x1140))
            big(from.high)
            big(from.low)
            big(to.high)
            big(to.low)
        }
        big(from.port)
        big(to.port)
        big(UInt16(8 + byteCount))
        // No checksum: the bytes that it would be of are not here.
        big(UInt16(0))
    }
}
