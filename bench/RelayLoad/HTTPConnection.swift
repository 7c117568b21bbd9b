import CLinuxIO
import Glibc
import MediaRelay
import RTPCore

/// What went wrong with the load itself, in words.
struct LoadFailure: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}

/// The connection broke or was refused: control is away.
struct ConnectionLost: Error {}

struct HTTPReply: Sendable {
    var status = 0
    var location: String?
    /// Seconds of `Retry-After`.
    var retryAfter: Int?
    var body: [UInt8] = []
    /// When the request left, and when the answer had come whole.
    var sentAt = Instant(nanoseconds: 0)
    var receivedAt = Instant(nanoseconds: 0)

    var text: String { String(decoding: body, as: UTF8.self) }
    /// A string member of the JSON body, wherever it stands.
    func field(_ name: String) -> String? { JSONScan.string(name, in: body[...]) }
}

/// One connection of HTTP/1.1, non-blocking: a request at a time, or one event stream. Confined to the loop's thread.
final class HTTPConnection: LoopHandler, @unchecked Sendable {
    var isTimed: Bool { true }
    // @unchecked: confined to the loop's thread.
    private let loop: EventLoop
    private let descriptor: Int32
    private var token: UInt64 = 0
    private var outgoing: [UInt8] = []
    private var sentCount = 0
    private var input: [UInt8] = []
    private var waiting: CheckedContinuation<HTTPReply, any Error>?
    private var sentAt = Instant(nanoseconds: 0)
    private var watchesWriting = false
    private(set) var isOpen = true
    /// Takes the body of an event stream as it comes; nil bytes: the end.
    private var onBytes: (([UInt8]?, Instant) -> Void)?
    private var chunkLeft = -1

    init(_ loop: EventLoop, port: UInt16) throws {
        self.loop = loop
        descriptor = lio_tcp_socket(AF_INET)
        guard descriptor >= 0 else { throw LoadFailure("no socket: error \(-descriptor)") }
        var one: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 || errno == EINPROGRESS else {
            Glibc.close(descriptor)
            isOpen = false
            throw ConnectionLost()
        }
        StampedReader.prepare(descriptor)
        token = try loop.add(self, descriptor, for: .reading)
    }

    deinit { if isOpen { Glibc.close(descriptor) } }

    func close() {
        guard isOpen else { return }
        isOpen = false
        loop.remove(token, descriptor)
        Glibc.close(descriptor)
        waiting?.resume(throwing: ConnectionLost())
        waiting = nil
        let end = onBytes
        onBytes = nil
        end?(nil, MonotonicClock.now())
    }

    /// Sends one request and waits for its answer.
    func exchange(_ request: [UInt8]) async throws -> HTTPReply {
        try await withCheckedThrowingContinuation { continuation in
            precondition(waiting == nil, "one request at a time")
            guard isOpen else { return continuation.resume(throwing: ConnectionLost()) }
            waiting = continuation
            sentAt = MonotonicClock.now()
            outgoing = request
            sentCount = 0
            flush()
        }
    }

    /// Turns the connection into an event stream: `onBytes` takes what follows the head of the answer.
    func stream(_ request: [UInt8], onBytes: @escaping ([UInt8]?, Instant) -> Void) async throws -> HTTPReply {
        self.onBytes = onBytes
        return try await exchange(request)
    }

    func ready(_ event: Poller.Event, now: Instant) {
        if event.isWritable { flush() }
        if event.isReadable || event.isHungUp { read(now: now) }
    }

    private func flush() {
        while sentCount < outgoing.count {
            let result = outgoing.withUnsafeBytes { bytes -> Int64 in
                guard let base = bytes.baseAddress else { return 0 }
                return lio_stream_send(descriptor, base + sentCount, bytes.count - sentCount)
            }
            if result == Int64(-EAGAIN) || result == Int64(-ENOTCONN) { break }
            guard result > 0 else { return close() }
            sentCount += Int(result)
        }
        let isWaiting = sentCount < outgoing.count
        guard isWaiting != watchesWriting, isOpen else { return }
        watchesWriting = isWaiting
        loop.poller.modify(descriptor, token: token, for: isWaiting ? .both : .reading)
    }

    private func read(now: Instant) {
        let scratch = Scratch.bytes
        var arrivedAt = now
        while isOpen {
            let result = StampedReader.receive(
                descriptor, into: scratch, count: Scratch.byteCount, arrivedAt: &arrivedAt)
            if result < 0, errno == EAGAIN || errno == EINTR { break }
            guard result > 0 else { return close() }
            input.append(contentsOf: UnsafeRawBufferPointer(start: scratch, count: result))
            if result < Scratch.byteCount { break }
        }
        take(now: arrivedAt)
    }

    private func take(now: Instant) {
        if waiting != nil { takeReply(now: now) }
        if waiting == nil, chunkLeft >= -1, onBytes != nil, isStreaming { takeChunks(now: now) }
    }

    private var isStreaming = false

    private func takeReply(now: Instant) {
        guard let head = HTTPHead(input) else { return }
        if head.isChunked, onBytes != nil {
            input.removeFirst(head.byteCount)
            isStreaming = true
            return finish(HTTPReply(status: head.status, sentAt: sentAt, receivedAt: now))
        }
        let total = head.byteCount + head.contentLength
        guard input.count >= total else { return }
        let reply = HTTPReply(
            status: head.status, location: head.location, retryAfter: head.retryAfter,
            body: Array(input[head.byteCount..<total]), sentAt: sentAt,
            receivedAt: now)
        input.removeFirst(total)
        finish(reply)
        if head.closes { close() }
    }

    private func finish(_ reply: HTTPReply) {
        let continuation = waiting
        waiting = nil
        continuation?.resume(returning: reply)
    }

    /// RFC 9112 §7.1; the relay sends no chunk extensions and no trailers.
    private func takeChunks(now: Instant) {
        while true {
            guard let end = input.firstIndex(of: 0x0A), end > 0 else { return }
            let digits = String(decoding: input[..<(end - 1)], as: UTF8.self)
            guard let count = Int(digits, radix: 16) else { return close() }
            guard input.count >= end + 1 + count + 2 else { return }
            if count == 0 { return close() }
            let bytes = Array(input[(end + 1)..<(end + 1 + count)])
            input.removeFirst(end + 1 + count + 2)
            onBytes?(bytes, now)
        }
    }

    /// One buffer for all reads of the thread.
    private enum Scratch {
        static let byteCount = 64 << 10
        nonisolated(unsafe) static let bytes = UnsafeMutableRawPointer.allocate(byteCount: byteCount, alignment: 16)
    }
}

/// The head of an answer, as far as a load program needs it.
struct HTTPHead {
    var status = 0
    var byteCount = 0
    var contentLength = 0
    var isChunked = false
    var closes = false
    var location: String?
    var retryAfter: Int?

    /// Nil: not whole yet.
    init?(_ bytes: [UInt8]) {
        var end = 0
        while end + 3 < bytes.count {
            if bytes[end] == 13, bytes[end + 1] == 10, bytes[end + 2] == 13, bytes[end + 3] == 10 { break }
            end += 1
        }
        guard end + 3 < bytes.count else { return nil }
        byteCount = end + 4
        for (index, line) in bytes[..<end].split(separator: 10).enumerated() {
            let text = String(decoding: line.last == 13 ? line.dropLast() : line, as: UTF8.self)
            if index == 0 {
                status = Int(text.dropFirst(9).prefix(3)) ?? 0
                continue
            }
            guard let colon = text.firstIndex(of: ":") else { continue }
            let value = text[text.index(after: colon)...].drop { $0 == " " }
            switch text[..<colon].lowercased() {
            case "content-length": contentLength = Int(value) ?? 0
            case "transfer-encoding": isChunked = value == "chunked"
            case "connection": closes = value == "close"
            case "retry-after": retryAfter = Int(value)
            case "location": location = String(value)
            default: break
            }
        }
    }
}

/// Finds members of the relay's JSON without building a tree: names and values that are looked for need no escapes.
enum JSONScan {
    static func string(_ name: String, in bytes: ArraySlice<UInt8>) -> String? {
        guard let start = value(name, in: bytes), start < bytes.endIndex, bytes[start] == UInt8(ascii: "\"") else {
            return nil
        }
        guard let end = bytes[(start + 1)...].firstIndex(of: UInt8(ascii: "\"")) else { return nil }
        return String(decoding: bytes[(start + 1)..<end], as: UTF8.self)
    }

    static func integer(_ name: String, in bytes: ArraySlice<UInt8>) -> Int64? {
        guard let start = value(name, in: bytes) else { return nil }
        let digits = bytes[start...].prefix { (0x30...0x39).contains($0) || $0 == UInt8(ascii: "-") }
        return Int64(String(decoding: digits, as: UTF8.self))
    }

    /// Where the value of the first member `name` begins.
    private static func value(_ name: String, in bytes: ArraySlice<UInt8>) -> Int? {
        let pattern = Array("\"\(name)\":".utf8)
        return bytes.withUnsafeBufferPointer { text in
            pattern.withUnsafeBufferPointer { pattern in
                guard text.count >= pattern.count else { return nil }
                for start in 0...(text.count - pattern.count) where text[start] == pattern[0] {
                    var index = 1
                    while index < pattern.count, text[start + index] == pattern[index] { index += 1 }
                    if index == pattern.count { return bytes.startIndex + start + pattern.count }
                }
                return nil
            }
        }
    }
}
