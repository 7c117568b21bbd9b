import CLinuxIO
import Glibc

/// The server's thread: waits for sockets, deadlines and commands, and decides what each connection does
/// next.
///
/// Made inside its thread and confined to it. A turn does a bounded piece of work for each connection that is
/// ready (one read), so that a flood on one never stalls the others.
final class ServerLoop {
    /// What the thread is given at its start.
    struct Launch: Sendable {
        let configuration: HTTPConfiguration
        let listeners: [Int32]
        let context: TLSContext?
        let sink: @Sendable (ServerEvent) -> Void
        let shared: ServerShared
        let signal: Int32
        let epoll: Int32
    }

    /// Whom an answer goes to; nil when the client left before it.
    struct InFlight {
        var connection: ConnectionKey?
    }

    static let maximumListenerCount = 64
    private static let eventCount = 64
    /// Slots from here on are not connections.
    private static let firstListenerSlot = UInt32.max - 127
    private static let signalSlot = UInt32.max

    let configuration: HTTPConfiguration
    let shared: ServerShared
    let sink: @Sendable (ServerEvent) -> Void
    private let epoll: Int32
    private let signal: Int32
    private let events: UnsafeMutablePointer<epoll_event>
    let readBuffer: UnsafeMutableRawBufferPointer

    var context: TLSContext?
    var listeners: [ListeningSocket]
    var connections = ConnectionTable<Connection>()
    var inFlight: [HTTPRequestID: InFlight] = [:]
    var streams: [HTTPRequestID: ConnectionKey] = [:]
    var deadlines = DeadlineQueue()
    /// Connections with bytes inside OpenSSL, of which epoll does not tell: read in the next turn.
    var resumed: [ConnectionKey] = []
    var counters = HTTPCounters()
    private var publishedCounters = HTTPCounters()
    /// Requests whose body is being read: in flight already.
    var bodyReaderCount = 0
    var nextRequestID: UInt64 = 1

    /// Nanoseconds of the monotonic clock at the begin of the turn.
    private(set) var now: UInt64 = 0
    private var dateSecond = -1
    private var dateText = ""
    /// When accepting goes on after descriptors ran out; `.max` when it is not paused.
    var acceptResumeTime = UInt64.max
    /// Held so that one connection more can be accepted and closed when no descriptor is left.
    var spareDescriptor: Int32

    /// Nothing is accepted: not yet, or not any more.
    var isPaused = false
    /// When handing over ends at the latest; `.max` while nobody wants it.
    var handoverDeadline = UInt64.max
    var lingerDeadline = UInt64.max

    var isStopping = false
    var stopDeadline = UInt64.max

    init(_ launch: Launch) {
        configuration = launch.configuration
        shared = launch.shared
        sink = launch.sink
        epoll = launch.epoll
        signal = launch.signal
        context = launch.context
        listeners = zip(launch.listeners, launch.configuration.listeners).map {
            ListeningSocket(descriptor: $0, isSecure: $1.isSecure)
        }
        events = .allocate(capacity: Self.eventCount)
        events.initialize(repeating: epoll_event(), count: Self.eventCount)
        readBuffer = .allocate(byteCount: configuration.limits.readByteCount, alignment: 16)
        spareDescriptor = lio_spare_descriptor()
        now = Self.monotonicTime()
    }

    deinit {
        events.deallocate()
        readBuffer.deallocate()
        Glibc.close(epoll)
        if spareDescriptor >= 0 { Glibc.close(spareDescriptor) }
    }

    /// Runs until stopped.
    func run() {
        shared.state.withLock { $0.thread = pthread_self() }
        control(EPOLL_CTL_ADD, signal, EPOLLIN.rawValue, ConnectionKey(slot: Self.signalSlot, generation: 0))
        if let inherited = configuration.inherited { takeOver(inherited) }
        for index in listeners.indices { watchListener(index, EPOLL_CTL_ADD, isPaused ? 0 : EPOLLIN.rawValue) }
        applyCommands(staysAwake: false)
        while (!isStopping || connections.count > 0) && !isHandedOver { turn() }
        if isHandedOver { finishHandover() }
        precondition(listeners.isEmpty, "listeners outlive no stop")
        publishCounters()
        shared.listenersClosed.open()
        sink(.stopped)
        shared.finished.open()
    }

    private func turn() {
        let count = epoll_wait(epoll, events, Int32(Self.eventCount), waitMs())
        now = Self.monotonicTime()
        // Before the events: what was asked before a client came holds for that client.
        applyCommands(staysAwake: true)
        for index in 0..<max(0, Int(count)) {
            let event = events[index]
            receive(event.events, for: ConnectionKey(rawValue: event.data.u64))
        }
        let keys = resumed
        resumed.removeAll(keepingCapacity: true)
        for key in keys { if let connection = connections[key] { read(connection) } }
        passDeadlines()
        applyCommands(staysAwake: false)
        publishCounters()
    }

    private func receive(_ events: UInt32, for key: ConnectionKey) {
        if key.slot == Self.signalSlot {
            shared.mailbox.clearSignal()
        } else if key.slot >= Self.firstListenerSlot {
            accept(Int(key.slot - Self.firstListenerSlot))
        } else if let connection = connections[key] {
            receive(events, for: connection)
        }
    }

    private func applyCommands(staysAwake: Bool) {
        let batch = shared.mailbox.take(staysAwake: staysAwake)
        for command in batch.commands { apply(command) }
        if batch.isFull { closeAllStreams() }
    }

    private func publishCounters() {
        counters.openConnections = connections.count
        counters.openStreams = streams.count
        counters.requestsInFlight = inFlight.count + bodyReaderCount
        guard counters != publishedCounters else { return }
        publishedCounters = counters
        let counters = counters
        shared.counters.withLock { $0 = counters }
    }

    // MARK: epoll

    func watchListener(_ index: Int, _ operation: Int32, _ events: UInt32) {
        let key = ConnectionKey(slot: Self.firstListenerSlot + UInt32(index), generation: 0)
        control(operation, listeners[index].descriptor, events, key)
    }

    /// Tells epoll what a connection waits for, when that has changed.
    func updateInterest(_ connection: Connection) {
        guard connection.mode != .closed else { return }
        let events = connection.wantedEvents
        guard events != connection.interest else { return }
        connection.interest = events
        control(EPOLL_CTL_MOD, connection.descriptor, events, connection.key)
    }

    func watch(_ connection: Connection) {
        connection.interest = connection.wantedEvents
        control(EPOLL_CTL_ADD, connection.descriptor, connection.interest, connection.key)
    }

    private func control(_ operation: Int32, _ descriptor: Int32, _ events: UInt32, _ key: ConnectionKey) {
        var event = epoll_event()
        event.events = events
        event.data.u64 = key.rawValue
        let result = epoll_ctl(epoll, operation, descriptor, &event)
        precondition(result == 0, "epoll_ctl \(operation) of our own descriptor failed with errno \(errno)")
    }

    // MARK: clocks

    private func waitMs() -> Int32 {
        guard resumed.isEmpty else { return 0 }
        let next = min(min(deadlines.first ?? .max, acceptResumeTime, stopDeadline), handoverWake)
        guard next != .max else { return -1 }
        guard next > now else { return 0 }
        // Rounded up: a turn that comes early would only wait again.
        return Int32(clamping: (next - now + 999_999) / 1_000_000)
    }

    func time(afterMs ms: Int) -> UInt64 { now + UInt64(ms) * 1_000_000 }

    private static func monotonicTime() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// The Date field, made once a second.
    func date() -> String {
        let second = Glibc.time(nil)
        if second != dateSecond {
            dateSecond = second
            dateText = HTTPDate.text(secondsSince1970: max(0, second))
        }
        return dateText
    }
}
