import Glibc
import RTPCore
import RelayCore

// The supervisor's processes: started, awaited, seen to end, replaced.

extension WorkerSupervisor {
    /// A worker of an earlier control: watched until it comes back by itself, or told as gone.
    func awaitReturn(of known: KnownWorker, now: Instant) {
        do throws(SystemError) {
            let process = try WatchedProcess(watching: known.processID)
            guard process.isWorker(onLink: folder.linkPath) else {
                events.append(.gone(known.worker, cause: "ended while control was away"))
                return
            }
            try watch(
                Watched(
                    process: process, index: known.worker.index, worker: known.worker, connection: nil,
                    startedAt: now, silentUntil: now + configuration.silenceLimit, isAwaited: true))
        } catch {
            events.append(.gone(known.worker, cause: "ended while control was away"))
        }
    }

    @discardableResult
    func watch(_ watched: Watched) throws(SystemError) -> UInt64 {
        let token = makeToken()
        try poller.add(watched.process.descriptor, token: token, for: .reading)
        processes[token] = watched
        return token
    }

    func start(seat: Int, now: Instant) {
        guard let index = freeIndex(ofSeat: seat) else {
            // Its end starts what waits.
            events.append(.note("seat \(seat): the next worker waits until one of an earlier build has left"))
            return
        }
        let options = configuration.options(index: index, linkPath: folder.linkPath)
        do throws(SystemError) {
            let process = try WatchedProcess(
                starting: configuration.executablePath, named: configuration.programName,
                arguments: ["worker"] + options.arguments, outputDescriptor: configuration.outputDescriptor)
            try watch(
                Watched(
                    process: process, index: index, worker: nil, connection: nil, startedAt: now,
                    silentUntil: now + configuration.silenceLimit, isOurs: true))
            events.append(.note("worker \(index) started (pid \(process.processID))"))
        } catch {
            events.append(.note("worker \(index) did not start: \(error)"))
            restart(seat: seat, afterLifeOf: .zero, now: now)
        }
    }

    /// The pidfd is readable: the process has ended.
    func processEnded(_ token: UInt64, now: Instant) {
        guard let watched = processes[token] else { return }
        // What it said before it died comes first. Reading to the end closes the connection.
        while let connection = processes[token]?.connection { read(connection, now: now) }
        let cause = watched.process.reap()
        poller.remove(watched.process.descriptor)
        let worker = processes.removeValue(forKey: token)?.worker
        if let worker {
            events.append(.gone(worker, cause: cause))
        } else {
            events.append(
                .note("worker \(watched.index) (pid \(watched.process.processID)) \(cause) before its hello"))
        }
        let seat = configuration.seat(of: watched.index)
        guard !isDraining, !isTaken(seat: seat), restarts[seat] == nil else { return }
        // Only the end of one of this build says something about the next one.
        restart(seat: seat, afterLifeOf: isCurrent(watched) ? now - watched.startedAt : .seconds(3_600), now: now)
    }

    private func restart(seat: Int, afterLifeOf life: Interval, now: Instant) {
        let wait = backOffs[seat, default: RestartBackOff()].wait(afterLifeOf: life)
        restarts[seat] = now + wait
        advance(to: now)
    }
}
