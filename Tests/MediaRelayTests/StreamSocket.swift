import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore

/// A TCP connection of a test to this machine's loopback, with the framing of RFC 4571 on top, or without it.
final class StreamSocket {
    let descriptor: Int32
    /// Where it comes from, and where it goes.
    let address: PeerAddress
    let peer: PeerAddress
    /// The other end has closed, or refused what was sent.
    private(set) var isClosed = false
    /// What leaves in one piece at most: each is a segment of its own.
    var pieceByteCount = Int.max
    private var unsent: [UInt8] = []
    private var framer = StreamFramer(limit: 65_535)
    private var frame: [UInt8] = []

    /// Connects; loopback accepts within the call.
    init(to peer: PeerAddress, from source: UInt32 = 0x7F00_0001) throws {
        self.peer = peer
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw SystemError("socket", code: errno) }
        self.descriptor = descriptor
        var one: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        let bound = lio_bind(descriptor, 1, 0, 0xFFFF_0000_0000 | UInt64(source), 0)
        guard bound == 0 else { throw SystemError("bind", code: -bound) }
        var name = lio_name()
        let byteCount = lio_write_name(&name, 1, peer.high, peer.low, peer.port)
        let result = withUnsafePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, byteCount) }
        }
        guard result == 0 else { throw SystemError("connect", code: errno) }
        address = PeerAddress(ipv4: source, port: UInt16(lio_bound_port(descriptor)))
    }

    deinit { close(descriptor) }

    func send(frame: [UInt8]) { send([UInt8(frame.count >> 8), UInt8(frame.count & 0xFF)] + frame) }

    /// Sends bytes as they are; what the kernel does not take leaves with the next call.
    func send(_ bytes: [UInt8]) {
        unsent += bytes
        while !unsent.isEmpty, !isClosed {
            let result = lio_stream_send(descriptor, unsent, min(unsent.count, pieceByteCount))
            if result == -Int64(EAGAIN) { return }
            guard result > 0 else {
                isClosed = true
                return
            }
            unsent.removeFirst(Int(result))
        }
    }

    /// Every frame that is complete now.
    func receive() -> [[UInt8]] {
        send([])
        var frames: [[UInt8]] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = lio_stream_receive(descriptor, &buffer, buffer.count)
            if count == -Int64(EAGAIN) { return frames }
            guard count > 0 else {
                isClosed = true
                return frames
            }
            let bytes = Array(buffer[..<Int(count)])
            var at = 0
            while let piece = try? framer.next(in: bytes.span, from: at) {
                frame += bytes[piece.range]
                at = piece.range.upperBound
                guard piece.isLast else { break }
                frames.append(frame)
                frame = []
            }
        }
    }
}

extension WorkerHello {
    /// Where its first address takes TCP connections.
    var streamAddress: PeerAddress? {
        endpoint.candidates.first(where: \.isStream).flatMap { PeerAddress(address: $0.address, port: $0.port) }
    }
}
