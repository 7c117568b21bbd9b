import Glibc
import RTPCore

// Text of IP addresses, for configuration and announcements only: addresses of packets stay three integers.

extension PeerAddress {
    /// Reads an IPv4 or IPv6 address without port or brackets ("192.0.2.1", "2001:db8::1"). Nil for names and zones.
    package init?(ip text: String, port: UInt16) {
        var v4 = in_addr()
        if inet_pton(AF_INET, text, &v4) == 1 {
            self.init(ipv4: UInt32(bigEndian: v4.s_addr), port: port)
            return
        }
        var v6 = in6_addr()
        guard inet_pton(AF_INET6, text, &v6) == 1 else { return nil }
        let (high, low) = withUnsafeBytes(of: &v6) { bytes in
            (bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        }
        self.init(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low), port: port)
    }

    /// The address without its port, IPv6 in RFC 5952 form.
    package var ipText: String {
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        var result: UnsafePointer<CChar>?
        if isIPv4 {
            var v4 = in_addr(s_addr: ipv4.bigEndian)
            result = inet_ntop(AF_INET, &v4, &buffer, socklen_t(buffer.count))
        } else {
            var v6 = in6_addr()
            withUnsafeMutableBytes(of: &v6) { bytes in
                bytes.storeBytes(of: high.bigEndian, as: UInt64.self)
                bytes.storeBytes(of: low.bigEndian, toByteOffset: 8, as: UInt64.self)
            }
            result = inet_ntop(AF_INET6, &v6, &buffer, socklen_t(buffer.count))
        }
        guard let result else { preconditionFailure("an address that has no text") }
        return String(cString: result)
    }

    /// `0.0.0.0` or `::`: every local address of the family.
    package var isWildcard: Bool { isIPv4 ? ipv4 == 0 : high == 0 && low == 0 }
    /// fe80::/10, meaningful only together with an interface.
    package var isLinkLocal: Bool { high >> 54 == 0x3FA }

    /// Whether the address is the same, whatever the port.
    package func hasSameIP(as other: PeerAddress) -> Bool { high == other.high && low == other.low }
}
