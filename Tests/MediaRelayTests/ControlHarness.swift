import Glibc
import MediaRelay
import RTPCore
import RelayCore

/// Control's side of real worker processes, without conductor: a data folder, a poller and a supervisor that
/// can be closed and made anew. Kills every process that it saw when it is released.
final class ControlHarness {
    let folder = TemporaryFolder()
    var configuration: SupervisorConfiguration
    private(set) var supervisor: WorkerSupervisor?
    private(set) var poller: Poller?
    private(set) var events: [SupervisorEvent] = []
    private var processIDs: Set<Int32> = []

    /// The `media-relay` beside the running test bundle.
    static var executablePath: String {
        var buffer = [CChar](repeating: 0, count: 4_096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        let own = buffer.prefix(max(count, 0)).map { UInt8(bitPattern: $0) }
        let candidates = [String(decoding: own, as: UTF8.self)] + CommandLine.arguments
        for path in candidates {
            let folder = path.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(
                separator: "/")
            let executable = folder + "/media-relay"
            if access(executable, X_OK) == 0 { return executable }
        }
        preconditionFailure("no media-relay beside the test bundle: build it first")
    }

    init(
        workerCount: Int = 1, executablePath: String = ControlHarness.executablePath,
        known: [KnownWorker] = [],
        change: (inout SupervisorConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = SupervisorConfiguration(
            executablePath: executablePath, workerCount: workerCount, mediaAddresses: ["127.0.0.1"],
            announcedAddresses: [], mediaPort: 0)
        // A file: an inherited pipe would keep whoever reads our output waiting for workers that outlive us.
        configuration.outputDescriptor = Glibc.open(
            folder.path + "/log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        change(&configuration)
        self.configuration = configuration
        try open(known: known)
    }

    deinit {
        close()
        Glibc.close(configuration.outputDescriptor)
        // Never this process, which one test passes off as a worker.
        for processID in processIDs where processID != getpid() {
            kill(processID, SIGKILL)
            waitpid(processID, nil, 0)
        }
    }

    /// Starts control (again).
    func open(known: [KnownWorker]) throws {
        let poller = try Poller()
        self.poller = poller
        supervisor = try WorkerSupervisor(
            configuration: configuration, folder: try DataFolder(path: folder.path), poller: poller,
            firstToken: 1 << 40,
            known: known, now: MonotonicClock.now())
        collect()
    }

    /// Control is gone; its workers are not.
    func close() {
        supervisor = nil
        poller = nil
    }

    /// Runs control until `condition` holds; false when it does not within 30 s.
    func run(until condition: (ControlHarness) -> Bool) -> Bool {
        let limit = MonotonicClock.now() + .seconds(30)
        while !condition(self) {
            guard MonotonicClock.now() < limit else { return false }
            turn(waitingFor: .milliseconds(50))
        }
        return true
    }

    /// One turn of control's loop, which waits for at most `time`. Nothing happens while control is closed.
    func turn(waitingFor time: Interval) {
        guard let poller, let supervisor else { return }
        let now = MonotonicClock.now()
        let count = poller.wait(until: min(supervisor.deadline, now + time), now: now)
        for index in 0..<count { supervisor.receive(poller.event(at: index), now: MonotonicClock.now()) }
        supervisor.advance(to: MonotonicClock.now())
        collect()
    }

    private func collect() {
        processIDs.formUnion(supervisor?.processIDs ?? [])
        events += supervisor?.takeEvents() ?? []
    }

    func send(_ command: WorkerCommand, to worker: WorkerID) -> Bool {
        supervisor?.send(command, to: worker, now: MonotonicClock.now()) ?? false
    }

    func forgetEvents() { events = [] }

    var hellos: [WorkerHello] {
        events.compactMap { if case .hello(let hello) = $0 { hello } else { nil } }
    }
    var retiring: [WorkerID] {
        events.compactMap { if case .retiring(let worker) = $0 { worker } else { nil } }
    }
    var gone: [WorkerID] {
        events.compactMap { if case .gone(let worker, _) = $0 { worker } else { nil } }
    }
    var causes: [String] {
        events.compactMap { if case .gone(_, let cause) = $0 { cause } else { nil } }
    }
    var notes: [String] {
        events.compactMap { if case .note(let text) = $0 { text } else { nil } }
    }
    var news: [WorkerNews] {
        events.compactMap { if case .news(_, let news) = $0 { news } else { nil } }
    }
    var loads: [WorkerLoad] {
        events.compactMap { if case .load(_, let load) = $0 { load } else { nil } }
    }
    var counters: [WorkerCounter] {
        events.compactMap { if case .counters(_, let counters) = $0 { counters } else { nil } }.last ?? []
    }

    /// Waits for the first hello and adopts its worker.
    func firstHello() -> WorkerHello? {
        guard run(until: { !$0.hellos.isEmpty }), let hello = hellos.first, send(.adopted, to: hello.worker)
        else {
            return nil
        }
        return hello
    }
}

extension WorkerHello {
    var known: KnownWorker { KnownWorker(worker: worker, processID: processID) }
}
