import RTPCore
import RelayCore

/// One worker's engine and handshaker, simulated clients and the network between them, all in one virtual time.
///
/// A test says what people do (prepare, join, leave, move) and how good the network is, lets time pass, and looks at what
/// everybody received. Owns the clock and the order: due datagrams first, in the order of their arrival, then timers. After
/// every step it checks what must always hold and calls `invariant`. Confined to one thread.
public final class CallScene {
    /// A client with its place in the engine.
    public final class Participant {
        public let client: SimulatedClient
        public let handle: ParticipantHandle
        public let room: RoomHandle
        public let session: NegotiatedSession
        public internal(set) var hasLeft = false
        public internal(set) var hasJoined = false
        /// A prompt was ordered for it.
        public internal(set) var wasPlayedTo = false

        init(_ client: SimulatedClient, _ handle: ParticipantHandle, _ room: RoomHandle, _ session: NegotiatedSession) {
            self.client = client
            self.handle = handle
            self.room = room
            self.session = session
        }
    }

    public static let relayAddress = PeerAddress(ipv4: 0x0A00_0001, port: 3478)

    public let engine: MediaEngine
    public let handshaker: Handshaker
    public let network: VirtualNetwork
    public private(set) var now = Instant(nanoseconds: 1_000_000_000)
    public private(set) var participants: [Participant] = []
    /// Everything the engine told, in order.
    public private(set) var news: [WorkerNews] = []
    /// What reached an address where no client is (any more).
    public private(set) var strays: [PeerAddress: [[UInt8]]] = [:]
    /// How many datagrams the engine took in and gave out.
    public private(set) var datagramsIn = 0
    public private(set) var datagramsOut = 0
    public private(set) var bytesOut = 0
    /// Called after every step, beside the checks that the scene makes itself.
    public var invariant: ((CallScene) -> Void)?
    /// Sees every datagram that leaves the engine.
    public var onTransmit: ((_ bytes: [UInt8], _ to: PeerAddress) -> Void)?

    let seed: UInt64
    private let endpoint: WorkerEndpoint
    private var random: RandomSource
    private var actions: [(at: Instant, act: () -> Void)] = []
    private let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: 65_536)
    private var stepsAtThisInstant = 0

    /// `seed`: of the network, the engine and everything drawn here. `handshakeLimits`: for tests of budgets.
    public init(
        seed: UInt64 = 1, quality: VirtualNetwork.Quality = .perfect,
        configuration: EngineConfiguration = EngineConfiguration(),
        handshakeLimits: HandshakeLimits = HandshakeLimits()
    ) throws {
        self.seed = seed
        let identity = try DTLSIdentity()
        engine = MediaEngine(configuration: configuration, random: .seeded(seed &+ 1), now: now)
        handshaker = Handshaker(identity: identity, limits: handshakeLimits)
        network = VirtualNetwork(seed: seed &+ 2, quality: quality)
        random = .seeded(seed &+ 3)
        endpoint = WorkerEndpoint(
            candidates: [
                .init(address: Self.relayAddress.addressText, port: Self.relayAddress.port)
            ], fingerprint: identity.fingerprint)
    }

    deinit { buffer.deallocate() }

    // MARK: - What people do

    public func makeRoom() -> RoomHandle { RoomHandle(random.next() | 1) }

    /// A client with the next free address.
    public func makeClient(_ change: (inout SimulatedClient.Options) -> Void = { _ in }) -> SimulatedClient {
        var options = SimulatedClient.Options()
        options.seed = random.next()
        change(&options)
        let number = UInt32(participants.count + made)
        made += 1
        return SimulatedClient(options, address: PeerAddress(ipv4: 0x0A01_0000 + number, port: 5_000))
    }
    private var made = 1

    /// Negotiates the client's offer, makes its transport and lets it begin with its checks.
    @discardableResult
    public func prepare(
        _ client: SimulatedClient, in room: RoomHandle, kind: RoomKind = .peer, joins: Bool = false,
        media: RoomMedia = .video, grants: Grants = .standard, gates: MediaGates = [], keepsKeyFrame: Bool = false
    ) throws -> Participant {
        var policy = NegotiationPolicy(
            kind: kind, media: media, videoCodec: client.options.videoCodec, grants: grants)
        // Who offers RED means it.
        policy.red = client.options.offersRED
        let session = try Negotiator.negotiate(
            offer: client.offer(), policy: policy, endpoint: endpoint, random: &random)
        let handle = ParticipantHandle(random.next() | 1)
        var configuration = TransportConfiguration(
            participant: handle, room: room, isPeerRoom: kind == .peer, joinsWhenReady: joins,
            localICE: session.localICE, remoteICE: session.remoteICE, fingerprints: session.fingerprints,
            sections: session.sections)
        configuration.gates = media == .audio ? gates.union(.videoClosed) : gates
        configuration.keepsKeyFrame = keepsKeyFrame
        let participant = Participant(client, handle, room, session)
        participant.hasJoined = joins
        participants.append(participant)
        command(.create(configuration))
        try client.accept(answer: session.answer, now: now)
        drain(client)
        return participant
    }

    /// Puts another client in the place of `participant`'s, as somebody would be who took over its session.
    public func adopt(_ client: SimulatedClient, as participant: Participant) throws -> Participant {
        let stranger = Participant(client, participant.handle, participant.room, participant.session)
        stranger.hasJoined = participant.hasJoined
        participants.removeAll { $0 === participant }
        participants.append(stranger)
        drain(client)
        return stranger
    }

    public func join(_ participant: Participant) {
        participant.hasJoined = true
        command(.join(participant.handle))
    }

    /// Shuts and opens what the conductor would say.
    public func setGates(_ gates: MediaGates, of participant: Participant) {
        command(.gates(participant.handle, gates))
    }

    /// Lets a participant hear a sound, which the engine gets first.
    @discardableResult
    public func play(
        _ sound: Sound, to participant: Participant, times: UInt32 = 1, pause: Interval = .zero
    ) -> PromptHandle {
        participant.wasPlayedTo = true
        command(.sound(sound.id, packets: sound.packets, isLast: true))
        let prompt = PromptHandle(random.next() | 1)
        command(
            .play(participant.handle, PromptOrder(prompt: prompt, sound: sound.id, times: times, pause: pause)))
        return prompt
    }

    /// The relay ends one side.
    public func remove(_ participant: Participant) {
        participant.hasLeft = true
        command(.remove(participant.handle))
    }

    /// The client leaves by itself, with close_notify.
    public func leave(_ participant: Participant) {
        participant.hasLeft = true
        participant.client.close(now: now)
        drain(participant.client)
    }

    public func move(_ participant: Participant, to address: PeerAddress) {
        participant.client.move(to: address, now: now)
        drain(participant.client)
    }

    /// A new ICE generation of a participant, told to both sides at once.
    public func restartICE(_ participant: Participant, to address: PeerAddress? = nil) {
        let local = ICECredentials.drawn(&random)
        let remote = ICECredentials.drawn(&random)
        command(.restartICE(participant.handle, local: local, remote: remote))
        if let address { participant.client.address = address }
        participant.client.restartICE(local: remote, remote: local, now: now)
        drain(participant.client)
    }

    public func command(_ command: WorkerCommand) {
        engine.apply(command, now: now)
        settle()
    }

    /// Lets `client` do something and sends what comes of it.
    public func act(_ client: SimulatedClient, _ action: (SimulatedClient) -> Void) {
        action(client)
        drain(client)
    }

    /// Bytes from any address to the relay, through the network.
    public func inject(_ bytes: [UInt8], from address: PeerAddress) {
        network.send(bytes, from: address, to: Self.relayAddress, now: now)
    }

    /// Does something later.
    public func schedule(after interval: Interval, _ act: @escaping () -> Void) {
        actions.append((now + interval, act))
        actions.sort { $0.at < $1.at }
    }

    // MARK: - Time

    /// Lets time pass.
    public func run(for interval: Interval) { run(until: { false }, atMost: interval) }

    /// Lets time pass until `isDone`; false when that did not come within `interval`.
    @discardableResult
    public func run(until isDone: () -> Bool, atMost interval: Interval = .seconds(20)) -> Bool {
        let stop = now + interval
        while !isDone() {
            let next = deadline
            guard next <= stop else {
                now = max(now, stop)
                return isDone()
            }
            step(to: next)
        }
        return true
    }

    /// When anything happens next.
    public var deadline: Instant {
        var earliest = min(network.deadline, min(engine.deadline, handshaker.deadline))
        if let action = actions.first { earliest = min(earliest, action.at) }
        for participant in participants { earliest = min(earliest, participant.client.deadline) }
        return earliest
    }

    private func step(to next: Instant) {
        if next > now {
            now = next
            stepsAtThisInstant = 0
        }
        stepsAtThisInstant += 1
        precondition(stepsAtThisInstant < 10_000, "somebody's deadline does not move")
        while let datagram = network.next(until: now) { deliver(datagram) }
        while let action = actions.first, action.at <= now {
            actions.removeFirst()
            action.act()
        }
        for participant in participants where participant.client.deadline <= now {
            participant.client.advance(to: now)
            drain(participant.client)
        }
        if handshaker.deadline <= now { handshaker.advance(to: now) }
        if engine.deadline <= now { engine.advance(to: now) }
        settle()
        checkAlways()
        invariant?(self)
    }

    private func deliver(_ datagram: VirtualNetwork.Datagram) {
        if datagram.to == Self.relayAddress {
            datagramsIn += 1
            receive(datagram.bytes, from: datagram.from)
            return
        }
        guard let participant = participants.first(where: { $0.client.address == datagram.to }) else {
            strays[datagram.to, default: []].append(datagram.bytes)
            return
        }
        participant.client.receive(datagram.bytes, from: datagram.from, now: now)
        drain(participant.client)
    }

    private func receive(_ bytes: [UInt8], from peer: PeerAddress) {
        let count = min(bytes.count, 65_536)
        for index in 0..<count { buffer[index] = bytes[index] }
        engine.receive(buffer, count: count, from: peer, local: 0, now: now)
        engine.finishBatch(now: now)
        settle()
    }

    private func drain(_ client: SimulatedClient) {
        for datagram in client.takeDatagrams() {
            network.send(datagram.bytes, from: datagram.from, to: datagram.to, now: now)
        }
    }

    /// Takes everything out of engine and handshaker until both are quiet.
    private func settle() {
        while true {
            flush()
            news += engine.takeNews()
            for request in engine.takeHandshakeRequests() { handshaker.receive(request, now: now) }
            let results = handshaker.takeResults()
            if results.isEmpty { break }
            for result in results {
                engine.receive(result, now: now)
                flush()
            }
        }
    }

    private func flush() {
        let batch = engine.transmit
        guard batch.count > 0 else { return }
        for index in 0..<batch.count {
            let entry = batch.entries[index]
            let start = batch.slots + index * TransmitBatch.slotByteCount
            let bytes = Array(UnsafeBufferPointer(start: start, count: Int(entry.byteCount)))
            datagramsOut += 1
            bytesOut += bytes.count
            onTransmit?(bytes, entry.peer)
            network.send(bytes, from: Self.relayAddress, to: entry.peer, now: now)
        }
        batch.removeAll()
    }
}
