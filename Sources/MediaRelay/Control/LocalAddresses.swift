import Glibc

/// The addresses of this host that clients might reach.
enum LocalAddresses {
    /// Every address of an interface that is up, without link-local ones, loopback last.
    static func up() -> [String] {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return ["127.0.0.1"] }
        defer { freeifaddrs(first) }
        var outside: [String] = []
        var loopback: [String] = []
        var next = first
        while let interface = next?.pointee {
            next = interface.ifa_next
            guard interface.ifa_flags & UInt32(IFF_UP) != 0, let address = interface.ifa_addr else { continue }
            let family = Int32(address.pointee.sa_family)
            guard family == AF_INET || family == AF_INET6 else { continue }
            let length = family == AF_INET ? MemoryLayout<sockaddr_in>.size : MemoryLayout<sockaddr_in6>.size
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            guard getnameinfo(address, socklen_t(length), &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
            else { continue }
            let name = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            guard !name.contains("%"), !name.hasPrefix("fe80") else { continue }
            if interface.ifa_flags & UInt32(IFF_LOOPBACK) != 0 {
                loopback.append(name)
            } else {
                outside.append(name)
            }
        }
        // Some rigs give the loopback interface several addresses: one of them is enough.
        return outside + loopback.filter { $0 == "127.0.0.1" || $0 == "::1" }
    }
}
