import CLinuxIO
import Glibc

/// A numeric IPv4 or IPv6 address and a port as the kernel wants them.
struct SocketAddress {
    private var storage = sockaddr_storage()
    private(set) var byteCount: socklen_t = 0

    var family: Int32 { Int32(storage.ss_family) }

    init() {}

    /// Nil when `text` is not numeric.
    init?(_ text: String, port: UInt16) {
        var v4 = sockaddr_in()
        var v6 = sockaddr_in6()
        if inet_pton(AF_INET, text, &v4.sin_addr) == 1 {
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = port.bigEndian
            withUnsafeMutableBytes(of: &storage) { target in
                withUnsafeBytes(of: &v4) { target.copyMemory(from: $0) }
            }
            byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
        } else if inet_pton(AF_INET6, text, &v6.sin6_addr) == 1 {
            v6.sin6_family = sa_family_t(AF_INET6)
            v6.sin6_port = port.bigEndian
            withUnsafeMutableBytes(of: &storage) { target in
                withUnsafeBytes(of: &v6) { target.copyMemory(from: $0) }
            }
            byteCount = socklen_t(MemoryLayout<sockaddr_in6>.size)
        } else {
            return nil
        }
    }

    /// The address without port as text; an IPv4 address inside IPv6 as IPv4.
    var text: String {
        var copy = storage
        let text = withUnsafeMutableBytes(of: &copy) { bytes -> String in
            // sin_addr stands at byte 4, sin6_addr at byte 8.
            let offset = family == AF_INET ? 4 : 8
            var buffer = [CChar](repeating: 0, count: 64)
            guard let address = bytes.baseAddress,
                inet_ntop(family, address + offset, &buffer, socklen_t(buffer.count)) != nil
            else { return "" }
            return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
        return text.hasPrefix("::ffff:") && text.contains(".") ? String(text.dropFirst(7)) : text
    }

    var port: UInt16 {
        var copy = storage
        return withUnsafeBytes(of: &copy) { UInt16($0[2]) << 8 | UInt16($0[3]) }
    }

    /// Passes the address to a call that reads it.
    func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        withUnsafePointer(to: storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, byteCount) }
        }
    }

    /// Passes the storage to a call that fills it.
    mutating func fill(
        _ body: (UnsafeMutablePointer<sockaddr_storage>, UnsafeMutablePointer<socklen_t>) -> Int32
    )
        -> Int32
    {
        byteCount = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return body(&storage, &byteCount)
    }
}

/// A listening TCP socket, closed when the last reference goes, if not before.
final class ListeningSocket {
    let descriptor: Int32
    let isSecure: Bool

    init(descriptor: Int32, isSecure: Bool) {
        self.descriptor = descriptor
        self.isSecure = isSecure
    }

    deinit { Glibc.close(descriptor) }

    /// Binds and listens. Returns the descriptor and the port it got; nothing stays open when it throws.
    static func open(
        _ listener: HTTPConfiguration.Listener, sendBufferByteCount: Int
    ) throws(HTTPServerError) -> (descriptor: Int32, port: UInt16) {
        guard let address = SocketAddress(listener.address, port: listener.port) else {
            throw .address(listener.address)
        }
        let descriptor = lio_tcp_socket(address.family)
        guard descriptor >= 0 else {
            throw .system(call: "socket", address: listener.address, errno: -descriptor)
        }
        func fail(_ call: String) -> HTTPServerError {
            let number = errno
            Glibc.close(descriptor)
            return .system(call: call, address: "\(listener.address):\(listener.port)", errno: number)
        }
        func set(_ level: Int32, _ option: Int32, _ value: Int) -> Bool {
            var value = Int32(clamping: value)
            return setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0
        }
        // Accepted sockets inherit the buffer size and TCP_NODELAY.
        guard set(SOL_SOCKET, SO_REUSEADDR, 1), set(SOL_SOCKET, SO_SNDBUF, sendBufferByteCount),
            set(Int32(IPPROTO_TCP), TCP_NODELAY, 1),
            address.family == AF_INET || set(Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1)
        else { throw fail("setsockopt") }
        guard address.withPointer({ bind(descriptor, $0, $1) }) == 0 else { throw fail("bind") }
        guard listen(descriptor, 1024) == 0 else { throw fail("listen") }
        guard let port = port(of: descriptor) else { throw fail("getsockname") }
        return (descriptor, port)
    }

    /// The port that a socket is bound to; nil, with errno, where the system does not say.
    static func port(of descriptor: Int32) -> UInt16? {
        var bound = SocketAddress()
        let result = bound.fill { storage, byteCount in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(descriptor, $0, byteCount)
            }
        }
        return result == 0 ? bound.port : nil
    }
}
