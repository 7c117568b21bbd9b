import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// A whole relay in one thread and in virtual time, all by one seed: control with its journal on a simulated disk, two workers
/// with engine and DTLS, the links between them, clients that ring and call over a bad network, consumers of events, and a
/// world that kills, cuts and fills up. What must hold is checked on the way and at the end; what did not is told in words.
///
/// One seed gives one run, except for what OpenSSL draws: that changes no time and no count.
public final class RelaySimulation {
    public struct Options: Sendable {
        public var seed: UInt64 = 1
        /// How long things happen; the calm and the end come on top.
        public var duration = Interval.seconds(40)
        /// Mean time between two calls that are made.
        public var callInterval = Interval.seconds(4)
        /// Mean time between two misfortunes; nil: none.
        public var misfortuneInterval: Interval? = .seconds(8)
        public var userCount = 8
        public var audioInterval = Interval.milliseconds(250)
        public var reportInterval = Interval.seconds(5)
        public var talk = Interval.seconds(12)
        public var quality = VirtualNetwork.Quality(
            loss: 0.02, delay: .milliseconds(20), jitter: .milliseconds(10), duplication: 0.005, reordering: 0.01)
        /// For the tests of the simulation itself: a disk that does not sync, a feed that leaves events out.
        public var diskLies = false
        public var losesEvents = false
        /// One line for each thing that happens.
        public var tells: (@Sendable (String) -> Void)?
        public init() {}
    }

    public struct Tally: Sendable {
        public var calls = 0
        public var clients = 0
        public var handshakes = 0
        public var requests = 0
        public var acknowledged = 0
        public var repeated = 0
        public var events = 0
        public var datagrams = 0
        public var controlCrashes = 0
        public var powerLosses = 0
        public var workerCrashes = 0
        public var diskFaults = 0
        public var linkCuts = 0
        public var mediaChecks = 0
        public var syncs = 0
        public var virtualTime = Interval.zero
        public var outcomes: [String: Int] = [:]
        public mutating func add(_ other: Tally) {
            calls += other.calls
            clients += other.clients
            handshakes += other.handshakes
            requests += other.requests
            acknowledged += other.acknowledged
            repeated += other.repeated
            events += other.events
            datagrams += other.datagrams
            controlCrashes += other.controlCrashes
            powerLosses += other.powerLosses
            workerCrashes += other.workerCrashes
            diskFaults += other.diskFaults
            linkCuts += other.linkCuts
            mediaChecks += other.mediaChecks
            syncs += other.syncs
            virtualTime = virtualTime + other.virtualTime
            outcomes.merge(other.outcomes, uniquingKeysWith: +)
        }
        public init() {}
    }

    public let options: Options
    /// What did not hold, in the order found; at most 20.
    public private(set) var violations: [String] = []
    public internal(set) var tally = Tally()

    var random: RandomSource
    let network: VirtualNetwork
    let disk: SimulatedDisk
    let identities: ClientIdentities
    let log: Log
    private(set) var now = Instant(nanoseconds: 1_000_000_000)
    private let start = Instant(nanoseconds: 1_000_000_000)

    // The machine.
    var control: SimulatedControl?
    var workers: [Int32: SimulatedWorker] = [:]
    /// The node's clock starts anew with each boot.
    var bootedAt = Instant(nanoseconds: 0)
    var bootCount = 1
    var nextProcessID: Int32 = 100
    /// Of all that ever were.
    var workerAddresses: [PeerAddress] = []
    var controlLives: UInt64 = 0

    // What goes on.
    private var actions = ActionQueue()
    var calls: [SimulatedCall] = []
    var clients: [PeerAddress: ClientSeat] = [:]
    private var wakeUps = WakeUpQueue()
    var requests: [UInt64: PendingRequest] = [:]
    var nextRequest: UInt64 = 1
    var keyCount = 0
    var addressCount: UInt32 = 0
    let consumers = EventConsumers()
    var journalAudit = JournalAudit()
    var eventAudit = EventAudit()
    var misfortune = Misfortune()
    var configuration = ConductorConfiguration()
    /// When the last time began that control and both workers could talk to each other without a break.
    var healthySince = Instant(nanoseconds: 0)
    /// Who talked when control went away.
    var outage: Outage?
    /// Nothing bad happens any more.
    var isCalm = false

    public init(_ options: Options, identities: ClientIdentities = ClientIdentities()) {
        self.options = options
        self.identities = identities
        log = Log(level: .error, format: .text, descriptor: options.tells == nil ? -1 : 2)
        random = .seeded(options.seed &* 0x9E37_79B9_7F4A_7C15 &+ 5)
        network = VirtualNetwork(seed: options.seed &+ 2, quality: options.quality)
        disk = SimulatedDisk(seed: options.seed &+ 3)
        disk.liesAboutSyncs = options.diskLies
        configuration.retention = .seconds(300)
        configuration.idempotencyLife = .seconds(3_600)
    }

    // MARK: The run

    /// Runs the whole thing: the time of the options, then calm, then everything ends.
    public func run() {
        startControl()
        consumers.start(in: self)
        planCalls()
        planMisfortunes()
        watchQuietPoints()
        run(until: now + options.duration)
        if violations.isEmpty { finish() }
        tally.virtualTime = now - start
        tally.syncs = disk.syncCount
        tally.outcomes = eventAudit.kinds.filter { $0.key.hasPrefix("outcome") }
    }

    func draw(_ count: Int) -> Int { Int(truncatingIfNeeded: random.next() % UInt64(max(1, count))) }
    func pick<Element>(_ elements: [Element]) -> Element? { elements.isEmpty ? nil : elements[draw(elements.count)] }
    func milliseconds(_ range: ClosedRange<Int>) -> Interval {
        .milliseconds(Int64(range.lowerBound + draw(range.upperBound - range.lowerBound + 1)))
    }
    /// Exponential, so that anything may follow anything closely.
    func around(_ mean: Interval) -> Interval {
        var time = 0.0
        var unit = Double(random.next() >> 11) / Double(1 << 53)
        while unit < 0.37, time < 4 {
            time += 1
            unit /= 0.37
        }
        return .nanoseconds(Int64(Double(mean.nanoseconds) * (time + 1 - unit)))
    }

    func fail(_ what: String) {
        guard violations.count < 20 else { return }
        violations.append("at \(timeText): \(what)")
        tell("BROKEN: \(what)")
    }

    var timeText: String {
        let ms = (now - start).milliseconds
        let fraction = String(ms % 1_000)
        return "\(ms / 1_000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction) s"
    }

    func tell(_ what: @autoclosure () -> String) { options.tells?("\(timeText)  \(what())") }

    func schedule(after interval: Interval, _ act: @escaping () -> Void) { actions.add(at: now + interval, act) }

    // MARK: Time

    var nodeNow: Instant { nodeTime(now) }
    func nodeTime(_ time: Instant) -> Instant { Instant(nanoseconds: time.nanoseconds - bootedAt.nanoseconds) }
    private func worldTime(_ time: Instant) -> Instant {
        time >= .distantFuture ? .distantFuture : Instant(nanoseconds: time.nanoseconds + bootedAt.nanoseconds)
    }
    func wallClockMs(_ node: Instant) -> Int64 {
        1_767_225_600_000 + (node.nanoseconds + bootedAt.nanoseconds) / 1_000_000
    }

    private var deadline: Instant {
        var deadline = min(min(network.deadline, actions.deadline), wakeUps.deadline)
        if let control {
            deadline = min(deadline, worldTime(control.deadline(after: nodeNow)))
            deadline = min(deadline, control.linkDeadline)
        }
        for worker in workers.values {
            deadline = min(deadline, worldTime(worker.deadline))
            if let link = worker.connected { deadline = min(deadline, link.readable(at: .worker)) }
        }
        return deadline
    }

    /// Whose time has come, for a run that does not get on.
    private var whoWaits: String {
        let control = self.control.map { worldTime($0.deadline(after: nodeNow)) } ?? .distantFuture
        let due: [(String, Instant)] = [
            ("network", network.deadline), ("actions", actions.deadline), ("clients", wakeUps.deadline),
            ("control", control), ("links", self.control?.linkDeadline ?? .distantFuture),
        ]
        return (due + workers.values.map { ("worker \($0.id.index)", worldTime($0.deadline)) })
            .filter { $0.1 <= now }.map(\.0).joined(separator: ", ")
    }

    func run(until end: Instant) {
        var stepsAtThisInstant = 0
        while violations.isEmpty {
            let next = deadline
            guard next <= end else { break }
            if next > now {
                now = next
                stepsAtThisInstant = 0
            }
            stepsAtThisInstant += 1
            guard stepsAtThisInstant < 20_000 else { return fail("time stands still: \(whoWaits)") }
            step()
        }
        now = max(now, end)
    }

    private func step() {
        while let datagram = network.next(until: now) { deliver(datagram) }
        while let act = actions.next(until: now) { act() }
        while let seat = wakeUps.next(until: now) {
            guard seat.client.deadline <= now else {
                wake(seat)
                continue
            }
            seat.client.advance(to: now)
            drain(seat)
        }
        for processID in workers.keys.sorted() {
            guard let worker = workers[processID] else { continue }
            if let link = worker.connected, link.isReadable(at: .worker) || link.isWritable(at: .worker) {
                worker.serveLink(now: nodeNow)
            }
            if worldTime(worker.deadline) <= now { worker.advance(to: nodeNow) }
            if worker.hasEnded { workerEnded(worker, cause: "ended") }
        }
        advanceControl()
    }

    private func advanceControl() {
        guard !crashes(), let control else { return }
        control.serveLinks(now: nodeNow)
        guard !crashes(), worldTime(control.deadline(after: nodeNow)) <= now else { return }
        control.advance(to: nodeNow)
        guard !crashes(), worldTime(control.journalDue) <= now else { return }
        control.journalTurn(now: nodeNow)
        _ = crashes()
    }

    private func crashes() -> Bool {
        guard control != nil, disk.isDead || misfortune.isDue else { return false }
        carryOutCrash()
        return true
    }

    // MARK: Clients

    func wake(_ seat: ClientSeat) {
        let deadline = seat.client.deadline
        guard deadline < .distantFuture, deadline < seat.wakesAt else { return }
        seat.wakesAt = deadline
        wakeUps.add(at: deadline, seat)
    }

    func drain(_ seat: ClientSeat) {
        for datagram in seat.client.takeDatagrams() {
            network.send(datagram.bytes, from: datagram.from, to: datagram.to, now: now)
        }
        wake(seat)
    }

    private func deliver(_ datagram: VirtualNetwork.Datagram) {
        tally.datagrams += 1
        if let seat = clients[datagram.to] {
            seat.client.receive(datagram.bytes, from: datagram.from, now: now)
            drain(seat)
            return
        }
        if datagram.to.port == SimulatedWorker.port,
            let worker = workers.values.first(where: { $0.address == datagram.to })
        {
            worker.receive(datagram.bytes, from: datagram.from, now: nodeNow)
        }
    }
}
