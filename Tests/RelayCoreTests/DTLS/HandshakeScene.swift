import RTPCore
import RelayCore
import RelayTesting

/// One test client and a handshaker, joined by two wires with a delay, in virtual time. `loses` decides over each datagram
/// by its direction and its number on that wire.
final class HandshakeScene {
    enum Direction: Hashable { case toRelay, toClient }

    let identity: DTLSIdentity
    let handshaker: Handshaker
    let client: DTLSClient
    let handle = ParticipantHandle(7)
    var now = Instant(nanoseconds: 1_000_000_000)
    let delay = Interval.milliseconds(10)
    var loses: (Direction, Int, [UInt8]) -> Bool = { _, _, _ in false }
    /// Seen on each wire, lost ones included.
    private(set) var sent: [Direction: [[UInt8]]] = [.toRelay: [], .toClient: []]
    private(set) var relayKeys: SRTPKeys?
    private(set) var end: TransportEnd?
    private(set) var endedAt: Instant?
    private(set) var establishedAt: Instant?
    private var wire: [(at: Instant, direction: Direction, bytes: [UInt8])] = []

    init(
        client: DTLSClient = DTLSClient(), fingerprints: [CertificateFingerprint]? = nil,
        limits: HandshakeLimits = HandshakeLimits()
    ) throws {
        identity = try DTLSIdentity()
        handshaker = Handshaker(identity: identity, limits: limits)
        self.client = client
        handshaker.receive(
            .begin(handle, fingerprints: fingerprints ?? [client.identity.fingerprint()]), now: now)
    }

    var isUp: Bool { relayKeys != nil && client.state == .established }
    var keysAgree: Bool {
        guard let relay = relayKeys, let keys = client.keys else { return false }
        return relay.profile == keys.profile && relay.receiveKey == keys.sendKey
            && relay.receiveSalt == keys.sendSalt && relay.sendKey == keys.receiveKey
            && relay.sendSalt == keys.receiveSalt && relay.sendKey != relay.receiveKey
    }

    /// As if it came from the client's address, past the wire.
    func inject(_ bytes: [UInt8]) {
        handshaker.receive(.records(handle, bytes), now: now)
        collect()
    }

    func start() {
        client.start(now: now)
        collect()
    }

    /// Runs until `isDone`, nothing is left to do, or the time is over.
    func run(for time: Interval = .seconds(12), until isDone: () -> Bool = { false }) {
        let stop = now + time
        while !isDone() {
            let next = min(wire.first?.at ?? .distantFuture, min(client.deadline, handshaker.deadline))
            guard next <= stop else {
                now = max(now, stop)
                return
            }
            now = max(now, next)
            client.advance(to: now)
            handshaker.advance(to: now)
            while let first = wire.first, first.at <= now {
                wire.removeFirst()
                switch first.direction {
                case .toRelay: handshaker.receive(.records(handle, first.bytes), now: now)
                case .toClient: client.receive(first.bytes, now: now)
                }
                collect()
            }
            collect()
        }
    }

    func connect() {
        start()
        run(until: { self.isUp })
    }

    func collect() {
        for datagram in client.takeDatagrams() { put(datagram, .toRelay) }
        for result in handshaker.takeResults() {
            switch result {
            case .datagram(handle, let bytes): put(bytes, .toClient)
            case .established(handle, let keys):
                relayKeys = keys
                establishedAt = now
            case .ended(handle, let reason):
                end = reason
                endedAt = now
            default: break
            }
        }
    }

    private func put(_ bytes: [UInt8], _ direction: Direction) {
        let number = sent[direction]?.count ?? 0
        sent[direction]?.append(bytes)
        guard !loses(direction, number, bytes) else { return }
        wire.append((now + delay, direction, bytes))
    }
}
