import Glibc
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Media over TCP: real worker processes, clients that use the answer's TCP candidate, and hostile connections. One at a
/// time.
@Suite(.serialized) struct WorkerStreamTests {
    private let room = RoomHandle(700)

    /// A call in which the first client has no UDP.
    private func call(_ control: ControlHarness, _ hello: WorkerHello, bothOverTCP: Bool = false) throws -> (
        LoopbackClient, LoopbackClient
    ) {
        let a = try LoopbackClient(1, room: room, worker: hello, joinsWhenReady: true, overTCP: true)
        let b = try LoopbackClient(2, room: room, worker: hello, joinsWhenReady: true, overTCP: bothOverTCP)
        for client in [a, b] {
            #expect(control.send(.create(client.configuration), to: hello.worker))
            try client.start()
        }
        try #require(control.run([a, b]) { _ in hear(a, b) && hear(b, a) })
        return (a, b)
    }

    private func hear(_ a: LoopbackClient, _ b: LoopbackClient, more: Int = 5) -> Bool {
        a.client.heard(.audio, from: b.client).count > more
    }

    @Test("two clients see and hear each other where one, or both, have TCP alone", arguments: [false, true])
    func media(bothOverTCP: Bool) throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello, bothOverTCP: bothOverTCP)
        #expect(
            control.run([a, b]) { _ in
                [a, b].allSatisfy {
                    !($0.client.stream(.video)?.decodablePictures.isEmpty ?? true)
                        && $0.client.counters.transportFeedbacks > 0 && $0.client.counters.senderReports > 0
                }
            })
        for client in [a, b] {
            #expect(client.client.counters.unopenedRTP == 0 && client.client.counters.unopenedRTCP == 0)
        }
        #expect(a.client.mappedAddress == a.stream?.address)
        #expect(a.peers.isEmpty, "nothing came by UDP")
        #expect(
            control.run([a, b]) {
                $0.counter("stream_frames_sent_total") > 0 && $0.counter("streams_accepted_total") > 0
            })
        #expect(control.counters.filter { $0.name == "send_errors" }.allSatisfy { $0.value == 0 })
    }

    @Test("what comes in pieces of every size is heard as what comes whole")
    func pieces() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        let heard = b.client.heard(.audio, from: a.client).count
        a.stream?.pieceByteCount = 7
        #expect(control.run([a, b]) { _ in hear(b, a, more: heard + 20) })
        let numbers = b.client.heard(.audio, from: a.client)
        #expect(numbers == Array(numbers[0]..<numbers[0] + UInt64(numbers.count)), "no packet is missing")
    }

    @Test("a client whose connection is gone goes on over the next one, without an ICE restart")
    func reconnects() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        try a.reconnect()
        let heard = a.client.heard(.audio, from: b.client).count
        let said = b.client.heard(.audio, from: a.client).count
        #expect(control.run([a, b]) { _ in hear(a, b, more: heard + 20) && hear(b, a, more: said + 20) })
        #expect(!control.news.contains { if case .ended = $0 { true } else { false } })
        // Unread bytes make the close a reset.
        #expect(
            control.run([a, b]) {
                $0.counter("stream_ends_total", "by-peer") + $0.counter("stream_ends_total", "broken") == 1
            })
        #expect(control.counter("stream_connections") == 1)
    }

    @Test("close_notify reaches clients over TCP")
    func goodbye() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello, bothOverTCP: true)
        #expect(control.send(.remove(a.handle), to: hello.worker))
        #expect(control.run([a, b]) { _ in a.client.phase == .closed })
        kill(hello.processID, SIGTERM)
        #expect(control.run([a, b]) { _ in b.client.phase == .closed })
    }

    @Test("frames that are empty, too long or no ICE close their connection and are counted, and a call goes on")
    func hostileFrames() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let relay = try #require(hello.streamAddress)
        let (a, b) = try call(control, hello)
        let attacks: [(bytes: [UInt8], reason: String)] = [
            ([0, 0], "empty-frame"), ([0x05, 0xDD], "oversize-frame"), ([0xFF, 0xFF, 1, 2, 3], "oversize-frame"),
            ([0, 3, 0x80, 0x60, 0], "not-ice"), ([0, 2, 22, 254], "not-ice"), ([0, 1, 70], "not-ice"),
            (Array("GET / HTTP/1.1\r\n\r\n".utf8), "oversize-frame"),
        ]
        for (bytes, reason) in attacks {
            let socket = try StreamSocket(to: relay)
            let before = control.counter("stream_ends_total", reason)
            socket.send(bytes)
            #expect(control.run([a, b]) { $0.counter("stream_ends_total", reason) > before }, "\(bytes)")
            #expect(socket.receive().isEmpty && socket.isClosed)
        }
        let heard = b.client.heard(.audio, from: a.client).count
        #expect(control.run([a, b]) { _ in hear(b, a, more: heard + 5) })
    }

    @Test("checks that do not verify get no answer over TCP either")
    func unknown() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let client = try LoopbackClient(1, room: room, worker: hello, joinsWhenReady: false, overTCP: true)
        try client.start()
        #expect(control.run([client]) { $0.dropped("stun-unknown-ufrag") > 0 })
        #expect(client.client.counters.checksAnswered == 0 && client.stream?.isClosed == false)
    }

    @Test("of 10,000 connections from one address no more than 64 are held, and a call goes on")
    func flood() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let relay = try #require(hello.streamAddress)
        let (a, b) = try call(control, hello)
        var sockets: [StreamSocket] = []
        for index in 0..<10_000 {
            // Half a frame each, and the client's end kept open as long as descriptors last.
            let socket = try StreamSocket(to: relay, from: 0x7F00_0063)
            socket.send([0, 100, 0, 1])
            sockets.append(socket)
            if sockets.count > 300 { sockets.removeFirst(200) }
            if index % 50 == 0 { for client in [a, b] { client.pump() } }
        }
        let heard = b.client.heard(.audio, from: a.client).count
        #expect(control.run([a, b]) { _ in hear(b, a, more: heard + 5) })
        #expect(control.run([a, b]) { $0.counter("stream_ends_total", "too-many-from-source") > 1_000 })
        #expect(control.counter("stream_connections") <= 65)
        #expect(
            control.run([a, b]) {
                $0.counter("stream_ends_total", "too-many-from-source") + $0.counter("streams_accepted_total") == 10_001
            })
    }

    @Test("a worker without TCP says so, and takes no connection")
    func off() throws {
        let control = try ControlHarness { $0.mediaTCP = .off }
        let hello = try #require(control.firstHello())
        #expect(hello.streamAddress == nil)
        let port = try #require(hello.endpoint.candidates.first?.port)
        #expect(throws: SystemError.self) { try StreamSocket(to: PeerAddress(ipv4: 0x7F00_0001, port: port)) }
    }

    @Test("TCP calls go on while control is away, and the next control is told of them")
    func controlAway() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        control.close()
        let heard = b.client.heard(.audio, from: a.client).count
        #expect(control.run([a, b]) { _ in hear(b, a, more: heard + 10) })
        control.forgetEvents()
        try control.open(known: [hello.known])
        #expect(control.run([a, b]) { !$0.hellos.isEmpty })
        #expect(control.hellos.first?.endpoint == hello.endpoint)
        #expect(control.hellos.first?.transports.count == 2)
    }
}
