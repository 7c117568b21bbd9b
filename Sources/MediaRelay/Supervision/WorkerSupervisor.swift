import CLinuxIO
import Glibc
import RTPCore
import RelayCore

/// Control's end of the link and of the worker processes: starts one worker per seat, takes over those of an
/// earlier control, lets those of an earlier build retire, watches each, replaces the dead, carries commands down and news up. Knows nothing of
/// rooms.
///
/// Confined to the control loop's thread and driven by its poller: give it the poller's events whose token it
/// `owns`, call `advance` at its `deadline`, then take the events. Workers live on when the supervisor is
/// released.
package final class WorkerSupervisor {
    /// Tokens that it uses in the poller: `tokens.lowerBound` and up.
    package let tokens: Range<UInt64>
    let configuration: SupervisorConfiguration
    let folder: DataFolder
    let poller: Poller
    let listener: Int32
    var nextToken: UInt64

    /// A worker's process, by the token of its pidfd.
    struct Watched {
        let process: WatchedProcess
        var index: Int
        /// Known from the journal or from its hello.
        var worker: WorkerID?
        /// Token of its connection.
        var connection: UInt64?
        var startedAt: Instant
        /// When it counts as hanging; with a connection, when it is suspected of it.
        var silentUntil: Instant
        /// Connected, and silent for `hangLimit` already.
        var isSuspect = false
        var handshaker = HandshakerPulse()
        /// Told to shut down as it is one too many.
        var isLeaving = false
        /// Started by this process, from its own image.
        var isOurs = false
        /// As its hello said; nil before.
        var build: String?
        /// Told as retiring.
        var isRetiring = false
        /// Of the control process before this one, and not back yet.
        var isAwaited = false
    }

    struct Peer {
        let connection: LinkConnection
        /// Token of its process, once it has said hello.
        var process: UInt64?
    }

    var processes: [UInt64: Watched] = [:]
    var peers: [UInt64: Peer] = [:]
    /// By seat: when the next worker is started, where none of this build runs.
    var restarts: [Int: Instant] = [:]
    var backOffs: [Int: RestartBackOff] = [:]
    /// Processes that speak a version of the link that is not known here; told once.
    var foreign: Set<Int32> = []
    var events: [SupervisorEvent] = []
    var isDraining = false

    /// Listens on the folder's link socket and awaits workers; those that lack are started by the first `advance`, when
    /// nothing else can fail any more. `known`: the journal's workers of
    /// this boot; those whose process is gone are told as gone. `firstToken`: 2³² tokens from there on are
    /// the supervisor's.
    package init(
        configuration: SupervisorConfiguration, folder: DataFolder, poller: Poller, firstToken: UInt64,
        known: [KnownWorker], now: Instant
    ) throws(SystemError) {
        self.configuration = configuration
        self.folder = folder
        self.poller = poller
        tokens = firstToken..<firstToken + (1 << 32)
        nextToken = firstToken + 1
        // We hold the folder's lock: a socket that is there belongs to a control process that is no more.
        unlink(folder.linkPath)
        listener = try Syscall.checked("listen on \(folder.linkPath)") {
            lio_unix_listen(folder.linkPath, 128)
        }
        do throws(SystemError) {
            try poller.add(listener, token: firstToken, for: .reading)
        } catch {
            Syscall.close(listener)
            throw error
        }
        for worker in known { awaitReturn(of: worker, now: now) }
        for seat in 0..<configuration.workerCount where !isTaken(seat: seat) { restarts[seat] = now }
    }

    deinit {
        for watched in processes.values { poller.remove(watched.process.descriptor) }
        poller.remove(listener)
        Syscall.close(listener)
    }

    /// Whether an event of the poller is to be given to `receive`.
    package func owns(_ token: UInt64) -> Bool { tokens.contains(token) }

    package func receive(_ event: Poller.Event, now: Instant) {
        if event.token == tokens.lowerBound {
            acceptConnections(now: now)
        } else if processes[event.token] != nil {
            processEnded(event.token, now: now)
        } else if peers[event.token] != nil {
            if event.isWritable { flush(event.token, now: now) }
            if event.isReadable || event.isHungUp { read(event.token, now: now) }
        }
    }

    /// When `advance` is to be called at the latest.
    package var deadline: Instant {
        let restart = restarts.values.min() ?? .distantFuture
        let silence = processes.values.lazy.map(\.silentUntil).min()
        return min(restart, silence ?? .distantFuture)
    }

    package func advance(to now: Instant) {
        for (seat, time) in restarts.sorted(by: { $0.key < $1.key }) where time <= now {
            restarts[seat] = nil
            start(seat: seat, now: now)
        }
        for (token, watched) in processes where watched.silentUntil <= now {
            if watched.connection != nil, !watched.isSuspect {
                // It may be us who stood still: what it said meanwhile is read first.
                processes[token]?.isSuspect = true
                processes[token]?.silentUntil = now + configuration.hangGrace
                continue
            }
            kill(token, because: "hangs")
        }
    }

    func kill(_ token: UInt64, because cause: String) {
        guard let watched = processes[token] else { return }
        events.append(.note("worker \(watched.index) (pid \(watched.process.processID)) \(cause): killed"))
        watched.process.send(signal: SIGKILL)
        processes[token]?.silentUntil = .distantFuture
    }

    /// What happened since the last call, in order.
    package func takeEvents() -> [SupervisorEvent] {
        guard !events.isEmpty else { return [] }
        defer { events = [] }
        return events
    }

    /// Sends a command. False: the worker is not connected; its next hello will show what it lacks.
    @discardableResult
    package func send(_ command: WorkerCommand, to worker: WorkerID, now: Instant) -> Bool {
        guard let token = processes.values.first(where: { $0.worker == worker })?.connection,
            let peer = peers[token]
        else { return false }
        do throws(LinkClosing) {
            try peer.connection.send(.command(command))
            return true
        } catch {
            close(token, because: error, now: now)
            return false
        }
    }

    /// Tells every worker to say goodbye to its clients and exit, and starts none any more. `isEmpty` tells
    /// when all are gone.
    package func shutDown(now: Instant) {
        isDraining = true
        restarts = [:]
        for watched in processes.values {
            guard let worker = watched.worker, send(.shutDown, to: worker, now: now) else {
                // One that is not connected hears a signal.
                watched.process.send(signal: SIGTERM)
                continue
            }
        }
    }

    /// No worker process is left.
    package var isEmpty: Bool { processes.isEmpty }

    /// Worker processes that run, whether they have said hello or not.
    package var processIDs: [Int32] { processes.values.map(\.process.processID).sorted() }

    /// Workers that are connected now.
    package var connectedWorkers: [WorkerID] {
        processes.values.filter { $0.connection != nil }.compactMap(\.worker)
            .sorted { ($0.index, $0.epoch) < ($1.index, $1.epoch) }
    }

    func makeToken() -> UInt64 {
        precondition(nextToken < tokens.upperBound, "2³² workers and connections in one life of control")
        defer { nextToken += 1 }
        return nextToken
    }
}
