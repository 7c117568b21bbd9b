import CLinuxIO
import RTPCore

/// One bound, unconnected, non-blocking UDP socket of one family. Owns the descriptor. Refuses to read or
/// write by itself: `DatagramReader` and `DatagramWriter` do.
package final class UDPSocket {
    /// What the kernel may queue each way: at 100,000 packets per second about 30 ms of packets.
    package static let bufferByteCount: Int32 = 4 << 20

    package let descriptor: Int32
    /// Where it is bound, with the port that was given or chosen.
    package let address: PeerAddress
    package var isIPv4: Bool { address.isIPv4 }
    /// Bound to every address of its family: then each datagram tells which it came to, and a reply leaves
    /// from there.
    package var isWildcard: Bool { address.isWildcard }

    /// Binds to `address`; port 0 lets the kernel choose. Throws EADDRINUSE, EADDRNOTAVAIL, EACCES and the
    /// like.
    package init(binding address: PeerAddress) throws(SystemError) {
        let isIPv4: Int32 = address.isIPv4 ? 1 : 0
        let descriptor = try Syscall.checked("UDP socket") {
            lio_udp_socket(isIPv4, address.isWildcard ? 1 : 0)
        }
        do throws(SystemError) {
            try Syscall.checked("UDP socket buffers") {
                lio_set_buffers(descriptor, Self.bufferByteCount, Self.bufferByteCount)
            }
            try Syscall.checked("bind UDP \(address.addressText) port \(address.port)") {
                lio_bind(descriptor, isIPv4, address.high, address.low, address.port)
            }
            let port = try Syscall.checked("getsockname") { lio_bound_port(descriptor) }
            self.address = PeerAddress(high: address.high, low: address.low, port: UInt16(port))
        } catch {
            Syscall.close(descriptor)
            throw error
        }
        self.descriptor = descriptor
    }

    /// What waits to be read, and what fits, in the kernel's own reckoning.
    package var receiveQueue: (bytes: UInt64, limit: UInt64) {
        var (queued, limit): (UInt32, UInt32) = (0, 0)
        guard lio_receive_queue(descriptor, &queued, &limit) == 0 else { return (0, 0) }
        return (UInt64(queued), UInt64(limit))
    }

    deinit { Syscall.close(descriptor) }
}
