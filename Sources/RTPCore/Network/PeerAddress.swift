/// A transport address of a peer as integers: IPv6 bytes in two big-endian halves (IPv4 is held v4-mapped,
/// `::ffff:a.b.c.d`), the port, and, where the peer is reached over TCP, which connection leads there. Plain data: hashable,
/// comparable in a few instructions, never resolved.
@frozen public struct PeerAddress: Hashable, Sendable {
    /// The first eight bytes of the IPv6 address, read big-endian.
    public var high: UInt64
    /// The last eight bytes of the IPv6 address, read big-endian.
    public var low: UInt64
    public var port: UInt16
    /// 0: UDP. Else the number of the TCP connection from this address: the same address over UDP, or over another
    /// connection, is another peer.
    public var connection: UInt16

    @inlinable public init(high: UInt64, low: UInt64, port: UInt16, connection: UInt16 = 0) {
        self.high = high
        self.low = low
        self.port = port
        self.connection = connection
    }
    /// An IPv4 address given as one integer, most significant byte first (127.0.0.1 is `0x7F00_0001`).
    @inlinable public init(ipv4: UInt32, port: UInt16) {
        self.init(high: 0, low: 0xFFFF_0000_0000 | UInt64(ipv4), port: port)
    }
    /// No address: all zero.
    @inlinable public static var none: PeerAddress { PeerAddress(high: 0, low: 0, port: 0) }

    @inlinable public var isIPv4: Bool { high == 0 && low >> 32 == 0xFFFF }
    /// The IPv4 address, most significant byte first; meaningful only when `isIPv4`.
    @inlinable public var ipv4: UInt32 { UInt32(truncatingIfNeeded: low) }
    /// Reached over TCP.
    @inlinable public var isStream: Bool { connection != 0 }
}
