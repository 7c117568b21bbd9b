import MediaRelay
import RTPCore
import RelayCore

// Control's end of the links and of the worker processes, by the rules of `WorkerSupervisor`, whose own are bound to sockets
// and process descriptors.

struct WatchedWorker {
    var index: Int
    var worker: WorkerID?
    var peer: Int?
    var startedAt: Instant
    var isLeaving = false
}

struct LinkPeer {
    let link: SimulatedLink
    let connection: LinkConnection
    var process: Int32?
}

extension SimulatedControl {
    func startSupervisor(known: [JournalWorker], now: Instant) {
        for known in known {
            if world.isAlive(known.processID) {
                processes[known.processID] = WatchedWorker(index: known.id.index, worker: known.id, startedAt: now)
            } else {
                supervisorEvents.append(.gone(known.id, cause: "ended while control was away"))
            }
        }
        for index in 0..<Self.workerCount where !hasProcess(index) { restarts[index] = now }
    }

    private func hasProcess(_ index: Int) -> Bool { processes.values.contains { $0.index == index } }

    var supervisorDeadline: Instant {
        supervisorEvents.isEmpty ? restarts.values.min() ?? .distantFuture : Instant(nanoseconds: 0)
    }

    func advanceSupervisor(to now: Instant) {
        for (index, time) in restarts.sorted(by: { $0.key < $1.key }) where time <= now {
            restarts[index] = nil
            processes[world.startWorker(index)] = WatchedWorker(index: index, startedAt: now)
        }
    }

    func accept(_ link: SimulatedLink) {
        peers[nextPeer] = LinkPeer(link: link, connection: LinkConnection(over: link.end(.control)))
        nextPeer += 1
    }

    var connectedWorkers: [WorkerID] {
        processes.values.filter { $0.peer != nil && !$0.isLeaving }.compactMap(\.worker)
    }
    /// Something comes over a link, or can be sent.
    var linkDeadline: Instant { peers.values.reduce(.distantFuture) { min($0, $1.link.readable(at: .control)) } }

    func serveLinks(now: Instant) {
        for token in peers.keys.sorted() {
            guard let peer = peers[token] else { continue }
            if peer.link.isWritable(at: .control) {
                do throws(LinkClosing) { try peer.connection.flush() } catch { close(token, because: error) }
            }
            while peers[token] != nil, peer.link.isReadable(at: .control) { read(token, now: now) }
        }
        takeSupervisorEvents(now: now)
    }

    private func read(_ token: Int, now: Instant) {
        guard let peer = peers[token] else { return }
        do throws(LinkClosing) {
            let messages = try peer.connection.receive()
            for message in messages where peers[token] != nil { receive(message, on: token, now: now) }
        } catch {
            close(token, because: error)
        }
    }

    private func close(_ token: Int, because closing: LinkClosing) {
        guard let peer = peers.removeValue(forKey: token) else { return }
        if closing != .closed { supervisorEvents.append(.note("link connection ended: \(closing)")) }
        guard let process = peer.process, processes[process]?.peer == token else { return }
        processes[process]?.peer = nil
        if let worker = processes[process]?.worker { supervisorEvents.append(.detached(worker)) }
    }

    /// The link of a worker breaks, both processes living.
    func cutLink(of processID: Int32, now: Instant) {
        guard let token = processes[processID]?.peer else { return }
        close(token, because: .closed)
        takeSupervisorEvents(now: now)
    }

    func send(_ command: WorkerCommand, to worker: WorkerID, now: Instant) {
        guard let token = processes.values.first(where: { $0.worker == worker })?.peer, let peer = peers[token] else {
            return
        }
        do throws(LinkClosing) {
            try peer.connection.send(.command(command))
        } catch {
            close(token, because: error)
        }
    }

    private func receive(_ message: LinkMessage, on token: Int, now: Instant) {
        let worker = peers[token]?.process.flatMap { processes[$0]?.worker }
        switch (message, worker) {
        case (.hello(let hello), _): receive(hello, on: token, now: now)
        case (.news(let news), let worker?): supervisorEvents.append(.news(worker, news))
        case (.counters(let counters), let worker?): supervisorEvents.append(.counters(worker, counters))
        case (.load(let load), let worker?): supervisorEvents.append(.load(worker, load))
        case (.captured(let part), let worker?): supervisorEvents.append(.captured(worker, part))
        case (.command, _), (.news, nil), (.counters, nil), (.captured, nil), (.load, nil):
            close(token, because: .refused(.badValue("message out of place")))
        }
    }

    private func receive(_ hello: WorkerHello, on token: Int, now: Instant) {
        let process = hello.processID
        if processes[process] == nil {
            guard world.isAlive(process) else {
                supervisorEvents.append(.note("worker \(hello.worker.index) said hello and is gone"))
                return close(token, because: .closed)
            }
            restarts[hello.worker.index] = nil
            processes[process] = WatchedWorker(index: hello.worker.index, startedAt: now)
        }
        if let old = processes[process]?.peer, old != token { close(old, because: .closed) }
        peers[token]?.process = process
        processes[process]?.peer = token
        processes[process]?.worker = hello.worker
        let isExtra = processes.contains { key, other in
            key != process && other.index == processes[process]?.index && other.worker != nil && !other.isLeaving
        }
        if hello.transports.isEmpty, hello.news.isEmpty, isExtra {
            processes[process]?.isLeaving = true
            return send(.shutDown, to: hello.worker, now: now)
        }
        supervisorEvents.append(.hello(hello))
    }

    /// A worker's process has ended. What it said before comes first.
    func processEnded(_ processID: Int32, cause: String, now: Instant) {
        guard let watched = processes[processID] else { return }
        if let token = watched.peer, let link = peers[token]?.link {
            link.arrive(from: .worker)
            while peers[token] != nil, link.isReadable(at: .control) { read(token, now: now) }
            close(token, because: .closed)
        }
        let worker = processes.removeValue(forKey: processID)?.worker
        if let worker {
            supervisorEvents.append(.gone(worker, cause: cause))
        } else {
            supervisorEvents.append(.note("worker \(watched.index) \(cause) before its hello"))
        }
        if !hasProcess(watched.index) {
            restarts[watched.index] =
                now
                + backOffs[watched.index, default: RestartBackOff()].wait(
                    afterLifeOf: now - watched.startedAt)
        }
        takeSupervisorEvents(now: now)
    }
}
