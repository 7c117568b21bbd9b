import RTPCore
import RelayCore

// An upgrade: control of a new build finds workers of an earlier one. They go on with their rooms; each seat gets a worker of
// this build beside them, on the seat's other index and so on other ports, and once that one is connected the earlier one is told
// as retiring. So there is never a moment without a worker that takes rooms, and no port is shared.

extension WorkerSupervisor {
    /// It runs our program file, or has not said that it runs another.
    func isCurrent(_ watched: Watched) -> Bool {
        guard let build = configuration.build, let its = watched.build else { return true }
        return watched.isOurs || build == its
    }

    /// Whether a worker of this build serves the seat or is on its way to it.
    func isTaken(seat: Int) -> Bool {
        processes.values.contains { configuration.seat(of: $0.index) == seat && !$0.isLeaving && isCurrent($0) }
    }

    /// Nil: two earlier builds are on it already.
    func freeIndex(ofSeat seat: Int) -> Int? {
        configuration.indices(ofSeat: seat).first { index in !processes.values.contains { $0.index == index } }
    }

    /// After a hello at this seat: a successor is started where there is none, and those that have one retire.
    func replaceOutdated(seat: Int, now: Instant) {
        guard !isDraining else { return }
        let outdated = processes.filter {
            configuration.seat(of: $0.value.index) == seat && !isCurrent($0.value) && $0.value.worker != nil
        }
        guard !outdated.isEmpty else { return }
        guard isTaken(seat: seat) else {
            if restarts[seat] == nil { restarts[seat] = now }
            return
        }
        let hasSuccessor = processes.values.contains {
            configuration.seat(of: $0.index) == seat && isCurrent($0) && $0.build != nil && $0.connection != nil
        }
        guard hasSuccessor else { return }
        for (token, watched) in outdated.sorted(by: { $0.key < $1.key }) where !watched.isRetiring {
            guard let worker = watched.worker else { continue }
            processes[token]?.isRetiring = true
            events.append(.retiring(worker))
        }
    }

    /// Workers of the control process before this one that have neither come back nor ended.
    package var awaitedCount: Int { processes.values.count { $0.isAwaited } }

    /// Versions of the link that connected workers speak: a program that is to take over must understand them.
    package var linkVersions: Set<UInt8> {
        Set(processes.values.compactMap { $0.connection }.compactMap { peers[$0]?.connection.version })
    }
}
