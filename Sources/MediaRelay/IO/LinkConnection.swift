import Glibc
import RTPCore
import RelayCore

/// Why a link connection is of no use any more.
package enum LinkClosing: Error, Hashable, CustomStringConvertible {
    /// The other end closed it, or is gone.
    case closed
    case refused(LinkRefusal)
    /// The other end does not read: more than the bound waits for it.
    case overflow
    case failed(SystemError)

    package var description: String {
        switch self {
        case .closed: "closed by the other end"
        case .refused(.unknownVersion(let version)):
            "it speaks version \(version) of the link, this program "
                + "\(LinkFormat.versions.lowerBound) to \(LinkFormat.versions.upperBound)"
        case .refused(let refusal): "not understood: \(refusal)"
        case .overflow: "the other end does not read"
        case .failed(let error): error.description
        }
    }
}

/// One end of the link: whole messages in and out, without ever waiting. Owns the socket
/// and what is still to be sent (bounded). Either end, one thread. After any error it is closed by its owner
/// and forgotten.
package final class LinkConnection {
    /// What may wait to be sent: the longest hello, and a burst of other messages behind it.
    package static let outgoingLimit = LinkFormat.helloByteCount + (4 << 20)
    private static let readByteCount = 64 << 10
    /// Reads per call of `receive`, so that one busy connection does not hold up the loop.
    private static let readsPerCall = 4

    private let stream: any LinkStream
    private let socket: LinkSocket?
    private var framer = LinkFramer()
    private var outgoing: [UInt8] = []
    private var sentByteCount = 0
    private var closing: LinkClosing?
    private let readBuffer: UnsafeMutableRawPointer
    private var watchesWriting = false

    /// Takes over a connected, non-blocking descriptor.
    package init(taking descriptor: Int32) {
        let socket = LinkSocket(taking: descriptor)
        self.socket = socket
        stream = socket
        readBuffer = .allocate(byteCount: Self.readByteCount, alignment: 16)
    }

    /// Over a stream that is no socket.
    package init(over stream: any LinkStream) {
        self.stream = stream
        socket = nil
        readBuffer = .allocate(byteCount: Self.readByteCount, alignment: 16)
    }

    deinit { readBuffer.deallocate() }

    /// Of the socket; −1 where there is none.
    package var descriptor: Int32 { socket?.descriptor ?? -1 }

    /// The link's version that the other end speaks; nil before its first message.
    package var version: UInt8? { framer.version }

    /// Watches the socket from now on until the connection is released.
    package func attach(to poller: Poller, token: UInt64) throws(SystemError) {
        try socket?.attach(to: poller, token: token)
    }

    /// Queues a message and sends as much as the socket takes.
    package func send(_ message: LinkMessage) throws(LinkClosing) {
        // A worker of an earlier build is answered in its own words; there is nothing else that it would understand.
        let frame = message.encoded(version: framer.version ?? LinkFormat.version)
        guard outgoing.count - sentByteCount + frame.count <= Self.outgoingLimit else { throw .overflow }
        outgoing.append(contentsOf: frame)
        try flush()
    }

    /// Sends what waits, as far as the socket takes it; the poller tells when it takes more.
    package func flush() throws(LinkClosing) {
        while sentByteCount < outgoing.count {
            let result = outgoing.withUnsafeBytes { bytes -> Int64 in
                guard let base = bytes.baseAddress else { return 0 }
                return stream.send(base + sentByteCount, count: bytes.count - sentByteCount)
            }
            if result == Int64(-EAGAIN) { break }
            guard result > 0 else { throw Self.closing(for: result) }
            sentByteCount += Int(result)
        }
        if sentByteCount == outgoing.count {
            outgoing.removeAll(keepingCapacity: outgoing.capacity <= 1 << 20)
            sentByteCount = 0
        }
        let isWaiting = !outgoing.isEmpty
        if isWaiting != watchesWriting {
            stream.watchWriting(isWaiting)
            watchesWriting = isWaiting
        }
    }

    /// The messages that have come whole. Throws only when there are none before the end of the connection.
    package func receive() throws(LinkClosing) -> [LinkMessage] {
        if let closing { throw closing }
        var messages: [LinkMessage] = []
        do throws(LinkClosing) {
            for _ in 0..<Self.readsPerCall {
                let isMore = try read()
                try takeMessages(into: &messages)
                if !isMore { break }
            }
        } catch {
            guard !messages.isEmpty else { throw error }
            closing = error
        }
        return messages
    }

    /// False: nothing more to read now.
    private func read() throws(LinkClosing) -> Bool {
        let result = stream.receive(into: readBuffer, count: Self.readByteCount)
        if result == Int64(-EAGAIN) { return false }
        guard result > 0 else { throw Self.closing(for: result) }
        framer.append(UnsafeRawBufferPointer(start: readBuffer, count: Int(result)))
        return result == Int64(Self.readByteCount)
    }

    private func takeMessages(into messages: inout [LinkMessage]) throws(LinkClosing) {
        do throws(LinkRefusal) {
            while let message = try framer.next() { messages.append(message) }
        } catch {
            throw .refused(error)
        }
    }

    private static func closing(for result: Int64) -> LinkClosing {
        let code = Int32(-result)
        if code == 0 || code == EPIPE || code == ECONNRESET { return .closed }
        Syscall.trapOnBug(code, "link")
        return .failed(SystemError("link", code: code))
    }
}
