import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import RelayLoadKit
import RelayTesting

/// WebRTC clients on real sockets of loopback, a socket each, all on the loop's thread. What they received is counted, not kept.
final class ClientFleet: LoopTicker, @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    let loop: EventLoop
    private(set) var clientCount = 0
    private(set) var refusedSends = 0
    private var due = Heap<Due>()
    private var made: UInt64 = 0
    private let seed: UInt64
    private let identity: DTLSClientIdentity
    /// What clients that are made from now on have between them and the relay; nil: nothing.
    var quality: EmulatedLink.Quality?
    let link: EmulatedLink
    fileprivate let buffers = PacketBuffers()

    private struct Due: Comparable {
        var at: Instant
        var client: FleetClient
        static func < (a: Due, b: Due) -> Bool { a.at < b.at }
        static func == (a: Due, b: Due) -> Bool { a.at == b.at }
    }

    init(_ loop: EventLoop, seed: UInt64) {
        self.loop = loop
        self.seed = seed
        identity = DTLSClientIdentity()
        link = EmulatedLink(seed: seed)
        loop.ticker = self
    }

    /// A client that calls with audio: a packet each 20 ms from the moment that its keys are in.
    func make(_ change: (inout SimulatedClient.Options) -> Void = { _ in }) throws -> FleetClient {
        made += 1
        var options = SimulatedClient.Options()
        options.seed = seed &* 1_000_003 &+ made
        options.dialect = .libwebrtc
        options.hasVideo = false
        options.keepsPackets = false
        options.identity = identity
        change(&options)
        let client = try FleetClient(self, options)
        clientCount += 1
        return client
    }

    var deadline: Instant { min(due.first?.at ?? .distantFuture, link.deadline) }

    func advance(to now: Instant) {
        let began = MonotonicClock.now()
        link.deliver(now: now) { client, way, datagram in client.takeFromLink(datagram, way, now: now) }
        while let first = due.first, first.at <= now, MonotonicClock.now() - began < .milliseconds(1) {
            _ = due.removeFirst()
            let client = first.client
            // An entry that a sooner one has taken the place of is not the client's any more.
            guard client.isOpen, client.scheduledAt == first.at else { continue }
            client.scheduledAt = .distantFuture
            if client.client.deadline <= now { client.client.advance(to: now) }
            client.settle(now: now)
        }
    }

    fileprivate func schedule(_ client: FleetClient, at: Instant) {
        // An entry that comes too early does nothing but look again; a later one than needed would be a delay.
        guard at < client.scheduledAt, at < .distantFuture else { return }
        client.scheduledAt = at
        due.insert(Due(at: at, client: client))
    }

    fileprivate func closed() { clientCount -= 1 }
    fileprivate func countRefusedSend() { refusedSends += 1 }
}

/// One client of the fleet with its socket. Close it, or its descriptor stays open.
final class FleetClient: LoopHandler, @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    var isTimed: Bool { false }
    let client: SimulatedClient
    private let fleet: ClientFleet
    private let descriptor: Int32
    private var token: UInt64 = 0
    private(set) var isOpen = true
    fileprivate var scheduledAt = Instant.distantFuture
    private let quality: EmulatedLink.Quality?
    /// When the latest datagram of each way comes out of the link.
    var lastArrivals = [Instant(nanoseconds: 0), Instant(nanoseconds: 0)]
    private var waiting: [(condition: (SimulatedClient) -> Bool, continuation: UnsafeContinuation<Void, Never>)] = []
    /// Longest time between two packets of media that arrived.
    private(set) var longestGap = Interval.zero
    private(set) var packetCount = 0
    private(set) var firstPacketAt: Instant?
    private(set) var lastPacketAt: Instant?

    fileprivate init(_ fleet: ClientFleet, _ options: SimulatedClient.Options) throws {
        self.fleet = fleet
        quality = fleet.quality
        descriptor = lio_udp_socket(1, 0)
        let loopback = PeerAddress(ipv4: 0x7F00_0001, port: 0)
        guard descriptor >= 0, lio_bind(descriptor, 1, loopback.high, loopback.low, 0) == 0 else {
            throw LoadFailure("no UDP socket: raise the limit of open files")
        }
        let port = UInt16(lio_bound_port(descriptor))
        client = SimulatedClient(options, address: PeerAddress(ipv4: 0x7F00_0001, port: port))
        token = try fleet.loop.add(self, descriptor, for: .reading)
    }

    func accept(_ answer: [UInt8]) throws {
        try client.accept(answer: answer, now: MonotonicClock.now())
        settle(now: MonotonicClock.now())
    }

    /// Lets the client do something and sends what comes of it.
    func act(_ body: (SimulatedClient, Instant) -> Void) {
        let now = MonotonicClock.now()
        body(client, now)
        settle(now: now)
    }

    /// Waits until `condition` holds; false when it did not within `limit`.
    func wait(within limit: Interval = .seconds(15), until condition: @escaping (SimulatedClient) -> Bool) async -> Bool
    {
        if condition(client) { return true }
        let timeout = fleet.loop.spawn { [self] in
            await fleet.loop.sleep(for: limit)
            if !Task.isCancelled { wakeAll() }
        }
        await withUnsafeContinuation { waiting.append((condition, $0)) }
        timeout.cancel()
        return condition(client)
    }

    /// How far it came, for the report of a failure.
    var state: String {
        let counters = client.counters
        return "\(client.phase), \(counters.checksSent) checks, \(counters.checksAnswered) answered, "
            + "\(client.dtls.repeatCount) flights repeated"
    }

    private func wakeAll() {
        let all = waiting
        waiting = []
        for waiter in all { waiter.continuation.resume() }
    }

    /// Goes away without a word; `client.close` before says goodbye.
    func close() {
        guard isOpen else { return }
        isOpen = false
        client.vanish()
        fleet.loop.remove(token, descriptor)
        Glibc.close(descriptor)
        fleet.closed()
        wakeAll()
    }

    func ready(_ event: Poller.Event, now: Instant) {
        let buffers = fleet.buffers
        while isOpen {
            let count = buffers.receive(descriptor)
            guard count > 0 else { break }
            for index in 0..<count {
                let (bytes, peer) = buffers.packet(index)
                if let quality {
                    let datagram = SimulatedClient.Datagram(from: peer, to: client.address, bytes: bytes)
                    fleet.link.carry(datagram, .down, of: self, quality, now: now)
                } else {
                    client.receive(bytes, from: peer, now: now)
                }
            }
            if count < PacketBuffers.count { break }
        }
        settle(now: now)
    }

    fileprivate func settle(now: Instant) {
        guard isOpen else { return }
        let datagrams = client.takeDatagrams()
        if !datagrams.isEmpty { send(datagrams) }
        notePackets(now: now)
        if !waiting.isEmpty {
            waiting.removeAll { waiter in
                guard waiter.condition(client) else { return false }
                waiter.continuation.resume()
                return true
            }
        }
        fleet.schedule(self, at: client.deadline)
    }

    private func notePackets(now: Instant) {
        var count = 0
        for stream in client.received.values { count += stream.packetCount }
        guard count > packetCount else { return }
        if let lastPacketAt { longestGap = max(longestGap, now - lastPacketAt) } else { firstPacketAt = now }
        lastPacketAt = now
        packetCount = count
    }

    fileprivate func takeFromLink(_ datagram: SimulatedClient.Datagram, _ way: EmulatedLink.Way, now: Instant) {
        guard isOpen else { return }
        switch way {
        case .up: leave([datagram])
        case .down:
            client.receive(datagram.bytes, from: datagram.from, now: now)
            settle(now: now)
        }
    }

    private func send(_ datagrams: [SimulatedClient.Datagram]) {
        guard let quality else { return leave(datagrams) }
        let now = MonotonicClock.now()
        for datagram in datagrams { fleet.link.carry(datagram, .up, of: self, quality, now: now) }
    }

    private func leave(_ datagrams: [SimulatedClient.Datagram]) {
        let sent = fleet.buffers.send(descriptor, datagrams)
        for _ in sent..<datagrams.count { fleet.countRefusedSend() }
    }
}

/// Room for one batch each way, used by all clients in turn.
private final class PacketBuffers {
    static let count = 32
    private static let slotByteCount = 2_048
    private let slots = UnsafeMutablePointer<UInt8>.allocate(capacity: count * slotByteCount)
    private let messages = UnsafeMutablePointer<lio_message>.allocate(capacity: count)
    private let buffers = UnsafeMutablePointer<lio_buffer>.allocate(capacity: count)
    private let names = UnsafeMutablePointer<lio_name>.allocate(capacity: count)

    init() {
        messages.initialize(repeating: lio_message(), count: Self.count)
        names.initialize(repeating: lio_name(), count: Self.count)
        for index in 0..<Self.count {
            (buffers + index).initialize(to: lio_buffer(base: nil, byte_count: 0))
        }
    }

    deinit {
        slots.deallocate()
        messages.deallocate()
        buffers.deallocate()
        names.deallocate()
    }

    func receive(_ descriptor: Int32) -> Int {
        for index in 0..<Self.count {
            buffers[index] = lio_buffer(base: slots + index * Self.slotByteCount, byte_count: Self.slotByteCount)
            messages[index] = lio_message()
            messages[index].name = UnsafeMutableRawPointer(names + index)
            messages[index].name_byte_count = UInt32(MemoryLayout<lio_name>.size)
            messages[index].buffers = buffers + index
            messages[index].buffer_count = 1
        }
        return max(0, Int(lio_receive(descriptor, messages, UInt32(Self.count))))
    }

    func packet(_ index: Int) -> ([UInt8], PeerAddress) {
        var peer = PeerAddress.none
        _ = lio_read_name(messages + index, &peer.high, &peer.low, &peer.port)
        let start = slots + index * Self.slotByteCount
        return (Array(UnsafeBufferPointer(start: start, count: Int(messages[index].byte_count))), peer)
    }

    /// Returns how many left.
    func send(_ descriptor: Int32, _ datagrams: [SimulatedClient.Datagram]) -> Int {
        var sent = 0
        while sent < datagrams.count {
            let batch = datagrams[sent..<min(datagrams.count, sent + Self.count)]
            for (index, datagram) in batch.enumerated() {
                let start = slots + index * Self.slotByteCount
                let count = min(datagram.bytes.count, Self.slotByteCount)
                datagram.bytes.withUnsafeBufferPointer { bytes in
                    if let base = bytes.baseAddress { start.update(from: base, count: count) }
                }
                buffers[index] = lio_buffer(base: start, byte_count: count)
                messages[index] = lio_message()
                messages[index].name = UnsafeMutableRawPointer(names + index)
                messages[index].name_byte_count = lio_write_name(
                    names + index, 1, datagram.to.high, datagram.to.low, datagram.to.port)
                messages[index].buffers = buffers + index
                messages[index].buffer_count = 1
            }
            let result = lio_send(descriptor, messages, UInt32(batch.count))
            guard result > 0 else { return sent }
            sent += Int(result)
        }
        return sent
    }
}
