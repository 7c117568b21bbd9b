import Glibc
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Real worker processes with real sockets, and clients that speak ICE, DTLS and SRTP to them. One at a time.
@Suite(.serialized) struct WorkerMediaTests {
    private let room = RoomHandle(500)

    /// Two clients on one worker, joined and hearing each other.
    private func call(_ control: ControlHarness, _ hello: WorkerHello) throws -> (
        LoopbackClient, LoopbackClient
    ) {
        let a = try LoopbackClient(1, room: room, worker: hello, joinsWhenReady: true)
        let b = try LoopbackClient(2, room: room, worker: hello, joinsWhenReady: true)
        for client in [a, b] {
            #expect(control.send(.create(client.configuration), to: hello.worker))
            try client.start()
        }
        try #require(
            control.run([a, b]) { _ in
                a.client.heard(.audio, from: b.client).count > 5
                    && b.client.heard(.audio, from: a.client).count > 5
            })
        return (a, b)
    }

    private func ends(_ news: [WorkerNews]) -> [ParticipantHandle: TransportEnd] {
        var ends: [ParticipantHandle: TransportEnd] = [:]
        for case .ended(let participant, let end, _, _) in news { ends[participant] = end }
        return ends
    }

    @Test("a transport created over the link answers an authenticated check")
    func check() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let client = try LoopbackClient(1, room: room, worker: hello, joinsWhenReady: false)
        #expect(control.send(.create(client.configuration), to: hello.worker))
        try client.start()
        #expect(control.run([client]) { _ in client.client.mappedAddress != nil })
        #expect(client.client.mappedAddress == client.endpoint.address("127.0.0.1"))
    }

    @Test("nothing answers a check before its transport exists, or after it was removed")
    func checkWithoutTransport() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let client = try LoopbackClient(1, room: room, worker: hello, joinsWhenReady: false)
        try client.start()
        #expect(control.run([client]) { $0.dropped("stun-unknown-ufrag") > 0 })
        #expect(client.client.counters.checksAnswered == 0 && client.client.mappedAddress == nil)
    }

    @Test("the handshake over the handshaker thread ends in the news prepared")
    func prepared() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let client = try LoopbackClient(1, room: room, worker: hello, joinsWhenReady: false)
        #expect(control.send(.create(client.configuration), to: hello.worker))
        try client.start()
        #expect(control.run([client]) { !$0.news.isEmpty && client.client.isConnected })
        guard case .prepared(client.handle, _)? = control.news.first else {
            Issue.record("the first news is \(String(describing: control.news.first))")
            return
        }
    }

    @Test(
        "two joined clients hear and see each other through the worker, whether it gathers or not",
        arguments: [WorkerOptions.Gather.off, .on])
    func media(gather: WorkerOptions.Gather) throws {
        let control = try ControlHarness { $0.gather = gather }
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        #expect(
            control.run([a, b]) { _ in
                !(a.client.stream(.video)?.decodablePictures.isEmpty ?? true)
                    && !(b.client.stream(.video)?.decodablePictures.isEmpty ?? true)
            })
        #expect(a.client.counters.unopenedRTP == 0 && b.client.counters.unopenedRTP == 0)
    }

    @Test("a worker on a wildcard address answers from the announced address that its client sends to")
    func wildcard() throws {
        let control = try ControlHarness {
            $0.mediaAddresses = ["0.0.0.0"]
            $0.announcedAddresses = ["127.0.0.2"]
        }
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        let port = try #require(hello.endpoint.candidates.first?.port)
        #expect(a.peers == [PeerAddress(ipv4: 0x7F00_0002, port: port)])
        #expect(b.peers == [PeerAddress(ipv4: 0x7F00_0002, port: port)])
    }

    @Test("oversize and empty datagrams and noise are counted, and the call goes on")
    func noise() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        let port = try #require(hello.endpoint.candidates.first?.port)
        let relay = PeerAddress(ipv4: 0x7F00_0001, port: port)
        let stranger = try Endpoint(["127.0.0.1"])
        #expect(stranger.sendRaw(byteCount: 9_000, to: relay) == 9_000)
        #expect(stranger.sendRaw(byteCount: 0, to: relay) == 0)
        stranger.send([[UInt8](repeating: 0x80, count: 100)], to: relay)
        let heard = b.client.heard(.audio, from: a.client).count
        #expect(
            control.run([a, b]) {
                $0.dropped("oversize") > 0 && $0.dropped("empty") > 0 && $0.dropped("rtp-unknown-address") > 0
            })
        #expect(control.run([a, b]) { _ in b.client.heard(.audio, from: a.client).count > heard })
        #expect(stranger.receive().isEmpty)
    }

    @Test(
        "media goes on while control is away, and the next control is told the same epoch and both transports"
    )
    func controlAway() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        control.close()
        let heard = b.client.heard(.audio, from: a.client).count
        #expect(control.run([a, b]) { _ in b.client.heard(.audio, from: a.client).count > heard + 10 })
        control.forgetEvents()
        try control.open(known: [hello.known])
        #expect(control.run([a, b]) { !$0.hellos.isEmpty })
        let again = try #require(control.hellos.first)
        #expect(again.worker == hello.worker)
        #expect(Set(again.transports.map(\.participant)) == [a.handle, b.handle])
        #expect(again.transports.allSatisfy { $0.phase == .joined && $0.room == room })
    }

    @Test("what a client became while control was away comes with the next hello")
    func keptNews() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let client = try LoopbackClient(1, room: room, worker: hello, joinsWhenReady: false)
        #expect(control.send(.create(client.configuration), to: hello.worker))
        try client.start()
        try #require(
            control.run([client]) { _ in client.client.mappedAddress != nil || client.client.isConnected })
        control.forgetEvents()
        control.close()
        let other = client.client.isConnected
        #expect(control.run([client]) { _ in client.client.isConnected })
        try control.open(known: [hello.known])
        #expect(control.run([client]) { !$0.hellos.isEmpty })
        let again = try #require(control.hellos.first)
        #expect(again.transports.map(\.phase) == [.prepared])
        guard !other else { return }
        guard case .prepared(client.handle, _)? = again.news.first else {
            Issue.record("the hello tells \(again.news)")
            return
        }
    }

    @Test(
        "a hang-up while control is away ends the peer room for both, and the next control is told so"
    )
    func hangUpWhileAway() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        control.close()
        a.client.close(now: MonotonicClock.now())
        #expect(control.run([a, b]) { _ in b.client.phase == .closed })
        control.forgetEvents()
        try control.open(known: [hello.known])
        #expect(control.run([a, b]) { !$0.hellos.isEmpty })
        let again = try #require(control.hellos.first)
        #expect(again.transports.isEmpty)
        #expect(ends(again.news) == [a.handle: .closed, b.handle: .peerLeft])
    }

    @Test(
        "a client's goodbye is told as its end, and the other transport stays while control decides"
    )
    func hangUp() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        a.client.close(now: MonotonicClock.now())
        #expect(control.run([a, b]) { !ends($0.news).isEmpty })
        #expect(ends(control.news) == [a.handle: .closed])
        #expect(control.send(.remove(b.handle), to: hello.worker))
        #expect(control.run([a, b]) { _ in b.client.phase == .closed })
    }

    @Test("shutDown and SIGTERM say goodbye to every client", arguments: [true, false])
    func goodbye(byCommand: Bool) throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        if byCommand {
            control.supervisor?.shutDown(now: MonotonicClock.now())
        } else {
            kill(hello.processID, SIGTERM)
        }
        #expect(control.run([a, b]) { _ in a.client.phase == .closed && b.client.phase == .closed })
        #expect(control.run([a, b]) { !$0.gone.isEmpty })
        #expect(control.causes == ["exited with status 0"])
    }

    @Test("the counters of a call show what passed, and no send errors")
    func counters() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let (a, b) = try call(control, hello)
        #expect(control.run([a, b]) { $0.counter("packets_forwarded_total") > 0 })
        #expect(control.counter("transports") == 2)
        #expect(control.counter("datagrams_received_total") >= control.counter("receive_batches_total"))
        #expect(control.counter("datagrams_sent_total") >= control.counter("packets_forwarded_total"))
        #expect(control.counters.filter { $0.name == "send_errors" }.allSatisfy { $0.value == 0 })
        #expect(control.counter("handshakes_total", "established") == 2)
    }
}

extension ControlHarness {
    /// The latest value of a worker's counter; 0 before there is one.
    func counter(_ name: String, _ label: String = "") -> UInt64 {
        counters.first { $0.name == name && $0.label == label }?.value ?? 0
    }

    func dropped(_ reason: String) -> UInt64 { counter("drops_total", reason) }
}
