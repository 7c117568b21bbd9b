import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// Two ends of a connected Unix socket pair.
private func pair() -> (LinkConnection, LinkConnection) {
    var descriptors: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    precondition(socketpair(AF_UNIX, type, 0, &descriptors) == 0)
    return (LinkConnection(taking: descriptors[0]), LinkConnection(taking: descriptors[1]))
}

private func news(_ number: UInt64) -> WorkerNews {
    .joined(ParticipantHandle(number), at: Instant(nanoseconds: Int64(number)))
}

@Suite struct LinkConnectionTests {
    @Test("messages arrive whole and in order")
    func order() throws {
        let (a, b) = pair()
        for number in 1...100 { try a.send(.news(news(UInt64(number)))) }
        #expect(try b.receive() == (1...100).map { .news(news(UInt64($0))) })
        #expect(try b.receive() == [])
    }

    @Test("a message larger than the socket's buffer arrives once the other end has read")
    func large() throws {
        let (a, b) = pair()
        let hello = WorkerHello(
            worker: WorkerID(index: 0, epoch: 1), processID: 1,
            endpoint: WorkerEndpoint(candidates: [], fingerprint: [UInt8](repeating: 0, count: 32)),
            transports: [],
            news: (1...200_000).map { news(UInt64($0)) })
        try a.send(.hello(hello))
        var received: [LinkMessage] = []
        for _ in 0..<10_000 where received.isEmpty {
            received = try b.receive()
            try a.flush()
        }
        #expect(received == [.hello(hello)])
    }

    @Test("what was sent before the end is read before the end shows")
    func end() throws {
        let b: LinkConnection
        do {
            let (a, other) = pair()
            try a.send(.command(.adopted))
            b = other
        }
        #expect(try b.receive() == [.command(.adopted)])
        #expect(throws: LinkClosing.closed) { try b.receive() }
    }

    @Test("sending to an end that is gone says closed, without a signal")
    func sendAfterEnd() throws {
        let a: LinkConnection
        do {
            let (first, second) = pair()
            a = first
            try second.send(.command(.adopted))
        }
        #expect(throws: LinkClosing.closed) {
            try a.send(.command(.shutDown))
            try a.send(.command(.shutDown))
        }
    }

    @Test("an end that never reads runs into the bound")
    func overflow() throws {
        let (a, b) = pair()
        let counters = (0..<300).map { WorkerCounter(String(repeating: "x", count: 200) + "\($0)", 1) }
        var sentCount = 0
        #expect(throws: LinkClosing.overflow) {
            while true {
                try a.send(.counters(counters))
                sentCount += 1
            }
        }
        #expect(sentCount * 60_000 > 16 << 20 && sentCount * 60_000 < 24 << 20)
        #expect(try !b.receive().isEmpty)
    }

    @Test("bytes that are no message are refused, after the messages before them")
    func noise() throws {
        var descriptors: [Int32] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        #expect(socketpair(AF_UNIX, type, 0, &descriptors) == 0)
        let connection = LinkConnection(taking: descriptors[0])
        defer { close(descriptors[1]) }
        let bytes = LinkMessage.command(.adopted).encoded() + [0, 0, 0, 9, LinkFormat.version, 99, 0, 0]
        #expect(write(descriptors[1], bytes, bytes.count) == bytes.count)
        #expect(try connection.receive() == [.command(.adopted)])
        #expect(throws: LinkClosing.refused(.unknownKind(99))) { try connection.receive() }
    }

    @Test("the poller tells when a full connection takes more")
    func writable() throws {
        let (a, b) = pair()
        let poller = try Poller()
        try a.attach(to: poller, token: 5)
        let counters = (0..<300).map { WorkerCounter(String(repeating: "x", count: 200) + "\($0)", 1) }
        for _ in 0..<20 { try a.send(.counters(counters)) }
        let now = MonotonicClock.now()
        #expect(poller.wait(until: now, now: now) == 0)
        #expect(try !b.receive().isEmpty)
        #expect(poller.wait(until: now + .seconds(5), now: now) == 1)
        #expect(poller.event(at: 0).isWritable)
    }
}
