import CLinuxIO
import Glibc

/// The bytes of one link, both ways: a Unix socket, or in a simulation a made one. Results are those of the system calls: a
/// count, 0 at the end of what comes, −`errno`; −`EAGAIN` where there is nothing now.
package protocol LinkStream: AnyObject {
    func send(_ bytes: UnsafeRawPointer, count: Int) -> Int64
    func receive(into bytes: UnsafeMutableRawPointer, count: Int) -> Int64
    /// Whether somebody waits to hear when it takes more.
    func watchWriting(_ isWanted: Bool)
}

/// A connected, non-blocking Unix socket. Owns the descriptor.
final class LinkSocket: LinkStream {
    let descriptor: Int32
    private var poller: Poller?
    private var token: UInt64 = 0

    init(taking descriptor: Int32) { self.descriptor = descriptor }

    deinit {
        poller?.remove(descriptor)
        Syscall.close(descriptor)
    }

    /// Watches the descriptor from now on until the socket is released.
    func attach(to poller: Poller, token: UInt64) throws(SystemError) {
        precondition(self.poller == nil, "a connection is watched once")
        try poller.add(descriptor, token: token, for: .reading)
        self.poller = poller
        self.token = token
    }

    func send(_ bytes: UnsafeRawPointer, count: Int) -> Int64 {
        Syscall.retrying { lio_stream_send(descriptor, bytes, count) }
    }

    func receive(into bytes: UnsafeMutableRawPointer, count: Int) -> Int64 {
        Syscall.retrying { lio_stream_receive(descriptor, bytes, count) }
    }

    func watchWriting(_ isWanted: Bool) {
        poller?.modify(descriptor, token: token, for: isWanted ? .both : .reading)
    }
}
