import CLinuxIO
import Glibc
import RTPCore

/// One listening, non-blocking TCP socket of one family, for media of clients that have no UDP. Owns the descriptor.
package final class StreamListener {
    /// What a connection may hold that has not left yet: half a second at 1 Mbit/s. More would only come too late; what
    /// does not fit is dropped, as a router would.
    static let unsentByteCount: Int32 = 64 << 10
    /// A connection whose peer acknowledges nothing for so long is gone, as its session is.
    static let silenceMs: Int32 = 30_000
    static let backlog: Int32 = 512

    package let descriptor: Int32
    /// Where it is bound, with the port that was given or chosen.
    package let address: PeerAddress

    /// Binds to `address` and listens; port 0 lets the kernel choose. Throws EADDRINUSE, EADDRNOTAVAIL, EACCES and
    /// the like.
    package init(binding address: PeerAddress) throws(SystemError) {
        let descriptor = try Syscall.checked("listen on TCP \(address.addressText) port \(address.port)") {
            lio_tcp_listen(
                address.isIPv4 ? 1 : 0, address.high, address.low, address.port, Self.unsentByteCount, Self.silenceMs,
                Self.backlog)
        }
        let port = Syscall.required("getsockname") { lio_bound_port(descriptor) }
        self.address = PeerAddress(high: address.high, low: address.low, port: UInt16(port))
        self.descriptor = descriptor
    }

    deinit { Syscall.close(descriptor) }

    /// The next connection and where it comes from; nil when none waits. Throws EMFILE, ENOMEM and the like.
    package func accept() throws(SystemError) -> (descriptor: Int32, peer: PeerAddress)? {
        // accept(2): an error that a waiting connection had is told here, and the next one may be well.
        for _ in 0..<Self.backlog {
            var (high, low, port) = (UInt64(0), UInt64(0), UInt16(0))
            let result = Syscall.retrying { lio_tcp_take(descriptor, &high, &low, &port) }
            if result >= 0 { return (result, PeerAddress(high: high, low: low, port: port)) }
            switch -result {
            case EAGAIN: return nil
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: throw SystemError("accept TCP", code: -result)
            default: Syscall.trapOnBug(-result, "accept TCP")
            }
        }
        return nil
    }
}
