import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import Synchronization

/// Two threads, each with a connection of its own, that fire one request each at the same instant. Both meet at a barrier first;
/// a skew of some microseconds between them lets either be first.
final class CrossingPair: @unchecked Sendable {
    // @unchecked: shots go through mailboxes; the barrier is atomic; the rest is set once.
    private struct Shot: Sendable {
        var request: [UInt8]
        var skew: Interval
        var answer: @Sendable (Result<HTTPReply, LoadFailure>) -> Void
        var isLast = false
    }

    private let shots: [Mailbox<Shot>]
    private var threads: [MediaRelay.Thread] = []
    private let barrier = Barrier()

    init(port: UInt16) throws {
        shots = [try Mailbox(capacity: 4), try Mailbox(capacity: 4)]
        for side in 0...1 {
            let (mailbox, barrier) = (shots[side], barrier)
            threads.append(
                try MediaRelay.Thread(named: "crossing-\(side)") { Self.run(mailbox, barrier, port: port) })
        }
    }

    /// Both answers, the first request's first. `skew`: how much later the second one is fired; negative: earlier.
    func fire(_ first: [UInt8], _ second: [UInt8], skew: Interval) async throws -> (HTTPReply, HTTPReply) {
        barrier.reset()
        async let a = shoot(0, first, skew < .zero ? .zero - skew : .zero)
        async let b = shoot(1, second, skew > .zero ? skew : .zero)
        return try await (a, b)
    }

    private func shoot(_ side: Int, _ request: [UInt8], _ skew: Interval) async throws -> HTTPReply {
        try await withCheckedThrowingContinuation { continuation in
            let isPosted = shots[side].post(Shot(request: request, skew: skew) { continuation.resume(with: $0) })
            precondition(isPosted, "one shot at a time")
        }
    }

    /// Ends both threads.
    func stop() {
        for mailbox in shots { mailbox.post(Shot(request: [], skew: .zero, answer: { _ in }, isLast: true)) }
        for thread in threads { thread.join() }
        threads = []
    }

    private final class Barrier: Sendable {
        private let arrived = Atomic<Int>(0)
        func reset() { arrived.store(0, ordering: .releasing) }
        /// Spins until both are here: a sleeping thread would be late by more than the races that are looked for.
        func meet() {
            arrived.add(1, ordering: .acquiringAndReleasing)
            while arrived.load(ordering: .acquiring) < 2 { sched_yield() }
        }
    }

    private static func run(_ mailbox: Mailbox<Shot>, _ barrier: Barrier, port: UInt16) {
        guard let poller = try? Poller(), (try? poller.add(mailbox.wakeUp.descriptor, token: 0, for: .reading)) != nil
        else { preconditionFailure("a thread has no poller") }
        var batch: [Shot] = []
        var connection: BlockingConnection?
        while true {
            let now = MonotonicClock.now()
            _ = poller.wait(until: now + .seconds(1), now: now)
            _ = mailbox.wakeUp.clear()
            mailbox.take(into: &batch)
            for shot in batch {
                if shot.isLast { return }
                do throws(LoadFailure) {
                    let used: BlockingConnection
                    if let connection { used = connection } else { used = try BlockingConnection(port: port) }
                    connection = used
                    barrier.meet()
                    let until = MonotonicClock.now() + shot.skew
                    while MonotonicClock.now() < until {}
                    shot.answer(.success(try used.exchange(shot.request)))
                } catch {
                    connection = nil
                    shot.answer(.failure(error))
                }
            }
        }
    }
}

/// A keep-alive connection that waits for each answer. One thread.
private final class BlockingConnection {
    private let descriptor: Int32
    private var input: [UInt8] = []

    init(port: UInt16) throws(LoadFailure) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
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
        guard result == 0 else { throw LoadFailure("connect: error \(errno)") }
    }

    deinit { close(descriptor) }

    func exchange(_ request: [UInt8]) throws(LoadFailure) -> HTTPReply {
        let sentAt = MonotonicClock.now()
        var sent = 0
        while sent < request.count {
            let count = request.withUnsafeBytes {
                send(descriptor, $0.baseAddress.map { $0 + sent }, $0.count - sent, 0)
            }
            guard count > 0 else { throw LoadFailure("send: error \(errno)") }
            sent += count
        }
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            if let head = HTTPHead(input), input.count >= head.byteCount + head.contentLength {
                let end = head.byteCount + head.contentLength
                let reply = HTTPReply(
                    status: head.status, location: head.location, body: Array(input[head.byteCount..<end]),
                    sentAt: sentAt, receivedAt: MonotonicClock.now())
                input.removeFirst(end)
                return reply
            }
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw LoadFailure("the relay closed a connection that waits for its answer") }
            input += buffer[..<count]
        }
    }
}
