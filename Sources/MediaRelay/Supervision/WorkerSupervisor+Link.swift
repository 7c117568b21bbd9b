import CLinuxIO
import Glibc
import RTPCore
import RelayCore

// The supervisor's connections: accepted from our own user only, named by their hello.

extension WorkerSupervisor {
    /// Connections at a time: each worker's, one that it is replacing, and some that have not said who they
    /// are.
    private var peerLimit: Int { 4 * configuration.workerCount + 32 }

    func acceptConnections(now: Instant) {
        // At most a few per turn: the poller tells again of those that wait.
        for _ in 0..<16 {
            let descriptor = Syscall.retrying { lio_unix_accept(listener) }
            guard descriptor >= 0 else {
                Syscall.trapOnBug(-descriptor, "accept")
                return
            }
            let connection = LinkConnection(taking: descriptor)
            guard peers.count < peerLimit else {
                events.append(.note("a link connection was refused: \(peers.count) are open"))
                continue
            }
            let token = makeToken()
            do throws(SystemError) {
                try connection.attach(to: poller, token: token)
                peers[token] = Peer(connection: connection, process: nil)
            } catch {
                events.append(.note("a link connection was refused: \(error)"))
            }
        }
    }

    func flush(_ token: UInt64, now: Instant) {
        do throws(LinkClosing) {
            try peers[token]?.connection.flush()
        } catch {
            close(token, because: error, now: now)
        }
    }

    func read(_ token: UInt64, now: Instant) {
        guard let connection = peers[token]?.connection else { return }
        do throws(LinkClosing) {
            let messages = try connection.receive()
            for message in messages where peers[token] != nil { receive(message, on: token, now: now) }
            if !messages.isEmpty, let process = peers[token]?.process { heard(process, now: now) }
            // A process that has ended sends no more: nothing queued means that everything was read.
            if messages.isEmpty, isEnded(token) { throw .closed }
        } catch {
            close(token, because: error, now: now)
        }
    }

    /// Workers tell their load every second: one that is connected and says nothing hangs.
    private func heard(_ process: UInt64, now: Instant) {
        processes[process]?.silentUntil = now + configuration.hangLimit
        processes[process]?.isSuspect = false
    }

    /// The media loop lives, as it tells so; the thread beside it may not.
    private func feelPulse(of process: UInt64, _ steps: UInt64) {
        processes[process]?.handshaker.take(steps)
        guard let watched = processes[process],
            watched.handshaker.silentReports == configuration.silentHandshakerReports
        else { return }
        kill(process, because: "hangs in its handshaker")
    }

    private func isEnded(_ token: UInt64) -> Bool {
        guard let process = peers[token]?.process, let watched = processes[process] else { return true }
        var descriptor = pollfd(fd: watched.process.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&descriptor, 1, 0) > 0
    }

    func close(_ token: UInt64, because closing: LinkClosing, now: Instant) {
        guard let peer = peers.removeValue(forKey: token) else { return }
        if closing != .closed { note(closing, of: peer.connection) }
        guard let process = peer.process, processes[process]?.connection == token else { return }
        processes[process]?.connection = nil
        processes[process]?.isSuspect = false
        processes[process]?.silentUntil = now + configuration.silenceLimit
        if let worker = processes[process]?.worker { events.append(.detached(worker)) }
    }

    /// A worker that is not understood knocks ten times a second: once is enough.
    private func note(_ closing: LinkClosing, of connection: LinkConnection) {
        var (processID, userID): (Int32, UInt32) = (0, 0)
        _ = lio_unix_peer(connection.descriptor, &processID, &userID)
        if case .refused(.unknownVersion) = closing {
            guard foreign.insert(processID).inserted else { return }
        }
        events.append(.note("link connection of process \(processID) ended: \(closing)"))
    }

    private func receive(_ message: LinkMessage, on token: UInt64, now: Instant) {
        let worker = peers[token]?.process.flatMap { processes[$0]?.worker }
        switch (message, worker) {
        case (.hello(let hello), _): receive(hello, on: token, now: now)
        case (.news(let news), let worker?): events.append(.news(worker, news))
        case (.counters(let counters), let worker?): events.append(.counters(worker, counters))
        case (.load(let load), let worker?):
            events.append(.load(worker, load))
            if let process = peers[token]?.process { feelPulse(of: process, load.handshakerSteps) }
        case (.captured(let part), let worker?): events.append(.captured(worker, part))
        case (.command, _), (.news, nil), (.counters, nil), (.captured, nil), (.load, nil):
            close(token, because: .refused(.badValue("message out of place")), now: now)
        }
    }

    private func receive(_ hello: WorkerHello, on token: UInt64, now: Instant) {
        guard let peer = peers[token] else { return }
        var (processID, userID): (Int32, UInt32) = (0, 0)
        guard lio_unix_peer(peer.connection.descriptor, &processID, &userID) == 0, userID == geteuid(),
            processID == hello.processID
        else {
            close(token, because: .refused(.badValue("process id")), now: now)
            return
        }
        guard let process = process(of: hello, now: now) else {
            close(token, because: .closed, now: now)
            return
        }
        if let old = processes[process]?.connection, old != token {
            close(old, because: .closed, now: now)
        }
        peers[token]?.process = process
        processes[process]?.connection = token
        processes[process]?.worker = hello.worker
        processes[process]?.build = hello.build
        processes[process]?.isAwaited = false
        if hello.transports.isEmpty, hello.news.isEmpty, isExtra(process) {
            processes[process]?.isLeaving = true
            // Left over from a control that died before it noted this worker; nobody is on it.
            send(.shutDown, to: hello.worker, now: now)
            return
        }
        events.append(.hello(hello))
        replaceOutdated(seat: configuration.seat(of: hello.worker.index), now: now)
    }

    /// The watched process that said hello; an unknown one, left over from an earlier control, is watched
    /// from now on.
    private func process(of hello: WorkerHello, now: Instant) -> UInt64? {
        if let known = processes.first(where: { $0.value.process.processID == hello.processID }) {
            return known.key
        }
        do throws(SystemError) {
            let token = try watch(
                Watched(
                    process: try WatchedProcess(watching: hello.processID), index: hello.worker.index,
                    worker: nil,
                    connection: nil, startedAt: now, silentUntil: now + configuration.silenceLimit, build: hello.build))
            let seat = configuration.seat(of: hello.worker.index)
            if isTaken(seat: seat) { restarts[seat] = nil }
            return token
        } catch {
            events.append(
                .note(
                    "worker \(hello.worker.index) (pid \(hello.processID)) said hello and is gone: \(error)"))
            return nil
        }
    }

    /// Whether another process of this build serves the same seat already.
    private func isExtra(_ token: UInt64) -> Bool {
        guard let index = processes[token]?.index else { return false }
        return processes.contains { key, other in
            key != token && configuration.seat(of: other.index) == configuration.seat(of: index) && other.worker != nil
                && !other.isLeaving && isCurrent(other)
                // One that is awaited may be of an earlier build; on the same index it is the one that is meant.
                && (other.build != nil || other.index == index)
        }
    }
}
