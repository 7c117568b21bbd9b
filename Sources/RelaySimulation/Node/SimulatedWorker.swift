import MediaRelay
import RTPCore
import RelayCore

/// A worker process: the product's engine, handshaker and link client in the media loop's order, without sockets and threads.
/// Times are the node's. Confined to one thread.
final class SimulatedWorker {
    let id: WorkerID
    let processID: Int32
    let address: PeerAddress
    let engine: MediaEngine
    let handshaker: Handshaker
    private(set) var link: LinkClient
    private(set) var connected: SimulatedLink?
    private(set) var hasEnded = false
    private(set) var datagramsOut = 0
    private(set) var datagramsIn = 0

    private let endpoint: WorkerEndpoint
    /// Bytes, from, to.
    private let send: ([UInt8], PeerAddress, PeerAddress) -> Void
    private var random: RandomSource
    private var countersDue: Instant
    /// What the handshaker's thread has not taken yet.
    private var requests: [HandshakeRequest] = []
    private var requestsDue = Instant.distantFuture
    private let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: 2_048)

    static let port: UInt16 = 3_478

    /// - Parameter connect: a link to control, if that listens.
    init(
        id: WorkerID, processID: Int32, seed: UInt64, now: Instant, connect: @escaping () -> SimulatedLink?,
        send: @escaping ([UInt8], PeerAddress, PeerAddress) -> Void
    ) throws {
        self.id = id
        self.processID = processID
        self.send = send
        address = PeerAddress(ipv4: 0x0A00_0000 + UInt32(processID), port: Self.port)
        random = .seeded(seed)
        var configuration = EngineConfiguration()
        configuration.maxTransports = 512
        configuration.historyByteCount = 4 << 20
        engine = MediaEngine(configuration: configuration, random: .seeded(seed &+ 1), now: now)
        let identity = try DTLSIdentity()
        handshaker = Handshaker(identity: identity)
        endpoint = WorkerEndpoint(
            candidates: [.init(address: address.addressText, port: address.port)], fingerprint: identity.fingerprint)
        countersDue = now + .seconds(2)
        engine.isAlone = true
        link = LinkClient(now: now) { nil }
        link = LinkClient(now: now) { [unowned self] in
            guard let made = connect() else { return nil }
            connected = made
            return LinkConnection(over: made.end(.worker))
        }
    }

    deinit { buffer.deallocate() }

    /// When `advance` is wanted, beside what comes over the link.
    var deadline: Instant {
        guard !hasEnded else { return .distantFuture }
        return min(
            min(min(engine.deadline, link.deadline), min(countersDue, requestsDue)), handshaker.deadline)
    }

    func receive(_ bytes: [UInt8], from peer: PeerAddress, now: Instant) {
        guard !hasEnded, bytes.count <= 2_048 else { return }
        datagramsIn += 1
        // What makes a client known was written to the link before its answer: looked at before a check is judged.
        if bytes.count > 1,
            DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: bytes.count) == .stun
        {
            receiveCommands(now: now)
        }
        for index in bytes.indices { buffer[index] = bytes[index] }
        engine.receive(buffer, count: bytes.count, from: peer, local: 0, now: now)
        passOn(now: now)
    }

    /// The link has something to read, or takes more.
    func serveLink(now: Instant) {
        guard !hasEnded else { return }
        link.flush(now: now)
        receiveCommands(now: now)
        engine.isAlone = link.isAlone
    }

    func advance(to now: Instant) {
        guard !hasEnded else { return }
        if handshaker.deadline <= now { handshaker.advance(to: now) }
        if requestsDue <= now {
            requestsDue = .distantFuture
            for request in requests { handshaker.receive(request, now: now) }
            requests = []
        }
        takeResults(now: now)
        while engine.deadline <= now {
            engine.advance(to: now)
            passOn(now: now)
        }
        link.advance(to: now) { news in
            WorkerHello(
                worker: id, processID: processID, endpoint: endpoint, transports: engine.snapshot(), news: news)
        }
        engine.isAlone = link.isAlone
        if link.hasBeenGivenUp(now: now) { finish(now: now) }
        guard countersDue <= now, !hasEnded else { return }
        countersDue = now + .seconds(2)
        link.tell([WorkerCounter("transports", UInt64(engine.transportCount))], now: now)
        // As if each datagram took some microseconds.
        link.tell(
            WorkerLoad(
                at: now, cpu: .microseconds(Int64(datagramsIn) * 5), packets: UInt64(datagramsIn), backlog: .zero,
                residentBytes: 64 << 20, handshakerSteps: UInt64(max(0, now.nanoseconds))), now: now)
    }

    private func receiveCommands(now: Instant) {
        while let connected, connected.isReadable(at: .worker) {
            for command in link.receive(now: now) {
                guard command != .shutDown else { return finish(now: now) }
                flush()
                engine.apply(command, now: now)
            }
        }
        passOn(now: now)
    }

    /// The process is killed: what it sent over the link arrives, nothing else does.
    func die() {
        hasEnded = true
        link = LinkClient(now: Instant(nanoseconds: 0)) { nil }
        connected = nil
    }

    private func passOn(now: Instant) {
        flush()
        let made = engine.takeHandshakeRequests()
        if !made.isEmpty {
            if requests.isEmpty { requestsDue = now + .microseconds(Int64(random.next() % 3_000)) }
            requests += made
        }
        let news = engine.takeNews()
        if !news.isEmpty { link.tell(news, now: now) }
    }

    private func takeResults(now: Instant) {
        let results = handshaker.takeResults()
        guard !results.isEmpty else { return }
        for result in results {
            flush()
            engine.receive(result, now: now)
        }
        passOn(now: now)
    }

    private func flush() {
        let batch = engine.transmit
        guard batch.count > 0 else { return }
        for index in 0..<batch.count {
            let entry = batch.entries[index]
            let start = batch.slots + index * TransmitBatch.slotByteCount
            send(Array(UnsafeBufferPointer(start: start, count: Int(entry.byteCount))), address, entry.peer)
            datagramsOut += 1
        }
        batch.removeAll()
    }

    /// Says goodbye to every client and ends.
    private func finish(now: Instant) {
        engine.apply(.shutDown, now: now)
        passOn(now: now)
        for request in requests { handshaker.receive(request, now: now) }
        requests = []
        takeResults(now: now)
        die()
    }
}
