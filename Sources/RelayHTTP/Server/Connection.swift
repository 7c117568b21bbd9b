import CLinuxIO
import Glibc

/// One client's connection: its socket, its parser, what waits to be sent, and which of four modes it is in.
///
/// Lives on the server's thread only. Decides nothing: `ServerLoop` does.
final class Connection {
    /// What the connection is for at this moment.
    enum Mode {
        /// A request is read, or waited for.
        case reading
        /// The application has the request.
        case waiting
        /// An event stream.
        case events
        /// Nothing is read any more: what waits is sent, then the client's close is awaited.
        case draining
        /// The descriptor is closed.
        case closed
    }

    /// What the deadline is about.
    enum Phase {
        case none
        case idle
        case head
        case body
        case writeStall
        case linger
    }

    enum Received {
        case bytes(Int)
        case nothing
        case ended
        case failed
    }

    let descriptor: Int32
    let key: ConnectionKey
    let peer: String
    let listener: Int
    var tls: TLSSession?
    var mode = Mode.reading
    var parser: RequestParser
    /// Bytes behind a whole request: they are parsed when its answer has left. At most one read.
    var input: [UInt8] = []
    var output = OutputQueue()

    /// The request or stream the connection works for.
    var requestID = HTTPRequestID(rawValue: 0)
    var isHead = false
    var isLegacy = false
    var keepsAlive = true
    /// Whether the request counts among those in flight before it is handed over.
    var isAdmitted = false
    /// Between two requests while nobody reads: it is to be handed over, or was and waits.
    var isHeld = false
    /// The client sends no more; it may still read.
    var peerFinished = false
    /// The application wants to know when the stream's queue is empty.
    var wantsDrained = false

    var phase = Phase.none
    /// When the phase ends, nanoseconds; `.max` for never.
    var deadline = UInt64.max
    /// The earliest entry in the deadline queue.
    var scheduled = UInt64.max
    /// Bytes sent since the write-stall deadline was set.
    var progressByteCount = 0

    /// What epoll was told.
    var interest: UInt32 = 0
    /// TLS waits for the other direction.
    var readWantsWrite = false
    var writeWantsRead = false

    init(
        descriptor: Int32, key: ConnectionKey, peer: String, listener: Int, tls: TLSSession?,
        limits: RequestParser.Limits
    ) {
        self.descriptor = descriptor
        self.key = key
        self.peer = peer
        self.listener = listener
        self.tls = tls
        parser = RequestParser(limits: limits)
    }

    var isHandshaking: Bool { tls.map { !$0.isEstablished } ?? false }

    /// Whether bytes of the client are wanted now. While an answer waits, the next request is not even read.
    var wantsInput: Bool {
        mode == .reading && !isHeld && input.isEmpty && (output.isEmpty || parser.isMidRequest)
    }

    /// What epoll shall tell.
    var wantedEvents: UInt32 {
        if isHandshaking { return readWantsWrite ? EPOLLOUT.rawValue : EPOLLIN.rawValue }
        var events: UInt32 = 0
        switch mode {
        case .reading: if wantsInput { events = EPOLLIN.rawValue }
        case .waiting: if !peerFinished { events = EPOLLRDHUP.rawValue }
        case .events: events = EPOLLRDHUP.rawValue
        case .draining: if output.isEmpty { events = EPOLLIN.rawValue }
        case .closed: break
        }
        if !output.isEmpty { events |= writeWantsRead ? EPOLLIN.rawValue : EPOLLOUT.rawValue }
        if readWantsWrite { events |= EPOLLOUT.rawValue }
        return events
    }

    /// Reads once.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Received {
        readWantsWrite = false
        guard let tls else { return receiveRaw(into: buffer) }
        switch tls.read(into: buffer) {
        case .done(let count): return .bytes(count)
        case .wantsRead: return .nothing
        case .wantsWrite:
            readWantsWrite = true
            return .nothing
        case .ended: return .ended
        case .failed: return .failed
        }
    }

    /// Reads once from the socket itself, for bytes that nobody will look at.
    func receiveRaw(into buffer: UnsafeMutableRawBufferPointer) -> Received {
        let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
        if count > 0 { return .bytes(count) }
        if count == 0 { return .ended }
        return errno == EAGAIN || errno == EINTR ? .nothing : .failed
    }

    /// Sends once from the queue's front: how many bytes left, 0 when the kernel takes none, nil when the way
    /// is broken.
    func send() -> Int? {
        writeWantsRead = false
        guard let tls else {
            let count = output.withFirst { lio_stream_send(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 { return Int(count) }
            return count == -Int64(EAGAIN) || count == -Int64(EINTR) ? 0 : nil
        }
        switch output.withFirst({ tls.write($0) }) {
        case .done(let count): return count
        case .wantsWrite: return 0
        case .wantsRead:
            writeWantsRead = true
            return 0
        case .ended, .failed: return nil
        }
    }
}
