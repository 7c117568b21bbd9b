import MediaRelay
import RTPCore
import RelayCore
import RelayTesting
import Testing

/// A simulated WebRTC client on a real socket of this machine, UDP or TCP, with its transport on a worker.
final class LoopbackClient {
    let client: SimulatedClient
    let endpoint: Endpoint
    let handle: ParticipantHandle
    let configuration: TransportConfiguration
    /// Where datagrams came from.
    private(set) var peers: Set<PeerAddress> = []
    private let answer: [UInt8]
    /// Its TCP connection, where it uses the answer's TCP candidate.
    private(set) var stream: StreamSocket?
    /// What becomes readable when something came.
    var descriptor: Int32 { stream?.descriptor ?? endpoint.sockets[0].descriptor }

    /// Negotiates by itself what a conductor would for a peer room.
    init(
        _ number: UInt64, room: RoomHandle, worker: WorkerHello, joinsWhenReady: Bool, overTCP: Bool = false,
        change: (inout SimulatedClient.Options) -> Void = { _ in }
    ) throws {
        endpoint = try Endpoint(["127.0.0.1"])
        var options = SimulatedClient.Options()
        options.name = "client \(number)"
        options.seed = number
        change(&options)
        if overTCP { stream = try StreamSocket(to: try #require(worker.streamAddress)) }
        client = SimulatedClient(options, address: stream?.address ?? endpoint.address("127.0.0.1"))
        var random = RandomSource.seeded(number &* 977)
        let session = try Negotiator.negotiate(
            offer: client.offer(),
            policy: NegotiationPolicy(kind: .peer, media: .video, videoCodec: .vp8, grants: .standard),
            endpoint: worker.endpoint, random: &random)
        handle = ParticipantHandle(number)
        configuration = TransportConfiguration(
            participant: handle, room: room, isPeerRoom: true, joinsWhenReady: joinsWhenReady,
            localICE: session.localICE, remoteICE: session.remoteICE, fingerprints: session.fingerprints,
            sections: session.sections)
        answer = session.answer
    }

    /// Begins with the checks, once the worker has the transport.
    func start() throws { try client.accept(answer: answer, relay: stream?.peer, now: MonotonicClock.now()) }

    /// Goes on over another connection, without a word on the one before.
    func reconnect() throws {
        guard let old = stream else { return }
        stream = try StreamSocket(to: old.peer)
        client.move(to: stream?.address ?? .none, now: MonotonicClock.now())
    }

    /// Sends what is due and takes what came.
    func pump() {
        if let stream {
            for frame in stream.receive() { client.receive(frame, from: stream.peer, now: MonotonicClock.now()) }
        }
        for received in endpoint.receive() {
            peers.insert(received.peer)
            client.receive(received.bytes, from: received.peer, now: MonotonicClock.now())
        }
        if client.deadline <= MonotonicClock.now() { client.advance(to: MonotonicClock.now()) }
        for datagram in client.takeDatagrams() {
            if let stream {
                stream.send(frame: datagram.bytes)
            } else {
                endpoint.send([datagram.bytes], to: datagram.to)
            }
        }
    }
}

extension ControlHarness {
    /// Runs control and clients until `condition` holds; false when it does not within 30 s.
    func run(_ clients: [LoopbackClient], until condition: (ControlHarness) -> Bool) -> Bool {
        let limit = MonotonicClock.now() + .seconds(30)
        while !condition(self) {
            guard MonotonicClock.now() < limit else { return false }
            for client in clients { client.pump() }
            if supervisor == nil {
                wait(for: clients)
            } else {
                turn(waitingFor: .milliseconds(2))
            }
        }
        return true
    }

    /// While control is away: sleeps until a client has something to read, 2 ms at most.
    private func wait(for clients: [LoopbackClient]) {
        guard let poller = try? Poller() else { return }
        for client in clients {
            try? poller.add(client.descriptor, token: 0, for: .reading)
        }
        let now = MonotonicClock.now()
        _ = poller.wait(until: now + .milliseconds(2), now: now)
        for client in clients { poller.remove(client.descriptor) }
    }
}
