import Glibc

/// Which addresses a webhook may be connected to, judged on the resolved address at the moment of connecting, so that
/// neither a name that resolves to this machine nor one that changes its mind gets past it (T86). Private networks
/// are allowed: that is where signaling servers live. Not allowed: this machine (unless the URL says so), link-local
/// (cloud metadata), multicast, unspecified and reserved ones, also in their IPv6 spellings.
enum WebhookAddressRule {
    /// A host that means this machine by its own text: `localhost`, 127.0.0.0/8 in four decimal parts, `::1`.
    static func isLoopbackName(_ host: String) -> Bool {
        let host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        if host == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }

    /// - Parameters:
    ///   - address: 4 or 16 bytes in network order.
    ///   - loopback: the URL names this machine: it and nothing else is allowed.
    static func allows(_ address: [UInt8], loopback: Bool) -> Bool {
        if let inner = embedded(in: address) { return allows(inner, loopback: loopback) }
        let isLoopback = address.count == 4 ? address[0] == 127 : address == [UInt8](repeating: 0, count: 15) + [1]
        if loopback || isLoopback { return loopback && isLoopback }
        switch address.count {
        case 4:
            let isLinkLocal = address[0] == 169 && address[1] == 254
            return address[0] != 0 && address[0] < 224 && !isLinkLocal
        case 16:
            let isUnspecified = address.allSatisfy { $0 == 0 }
            let isLinkLocal = address[0] == 0xFE && address[1] & 0xC0 == 0x80
            return !isUnspecified && !isLinkLocal && address[0] != 0xFF
        default: return false
        }
    }

    /// The IPv4 address within a mapped, compatible or NAT64 one (RFC 4291 §2.5.5, RFC 6052 §2.1).
    private static func embedded(in address: [UInt8]) -> [UInt8]? {
        guard address.count == 16 else { return nil }
        let last = Array(address[12...])
        let zeros = address[..<10].allSatisfy { $0 == 0 }
        if zeros, address[10] == 0xFF, address[11] == 0xFF { return last }
        let isNAT64 = address[..<12].elementsEqual([0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0])
        if isNAT64 { return last }
        // ::1 and :: are themselves.
        if zeros, address[10] == 0, address[11] == 0, last[..<3] != [0, 0, 0] { return last }
        return nil
    }

    /// The address of a socket address; empty for other families.
    static func bytes(of address: UnsafePointer<sockaddr>) -> [UInt8] {
        let raw = UnsafeRawPointer(address)
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            return withUnsafeBytes(of: raw.loadUnaligned(as: sockaddr_in.self).sin_addr) { Array($0) }
        case AF_INET6:
            return withUnsafeBytes(of: raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr) { Array($0) }
        default: return []
        }
    }
}
