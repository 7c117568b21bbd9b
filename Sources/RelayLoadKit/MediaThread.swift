import CLinuxIO
import MediaRelay
import RTPCore

/// The thread on which a load's clients live: media, ICE, DTLS, reports. Others ask it for something by `perform`. Owns the
/// `LoadPort`, the `ClientSet` and the `MediaMill`, which exist on it only.
package final class MediaThread: Sendable {
    package struct World {
        package let set: ClientSet
        package let mill: MediaMill
    }

    private let shared: Shared

    private final class Shared: @unchecked Sendable {
        // @unchecked: `jobs`, `isStopping` and `thread` are touched under the lock only.
        let lock = Lock()
        let wakeUp: WakeUp
        var jobs: [@Sendable (World) -> Void] = []
        var isStopping = false
        var thread: Thread?
        init() throws { wakeUp = try WakeUp() }
    }

    /// Everything that moves to the thread.
    private struct Start: @unchecked Sendable {
        // @unchecked: handed over as a whole; the starting thread keeps nothing of it.
        let world: World
        let poller: Poller
    }

    /// - Parameters:
    ///   - isShared: all clients on one socket, for a server on this machine's loopback.
    ///   - capacity: clients at once.
    package init(isShared: Bool, capacity: Int, profile: MediaProfile, seed: UInt64) throws {
        let set = ClientSet(try LoadPort(isShared: isShared))
        let mill = try MediaMill(set, spins: false)
        mill.schedule(0..<capacity, profile, seed: seed)
        set.onConnected = { [unowned mill] client in
            client.leg = MediaLeg(serverLegOf: client)
            mill.set(client.leg, of: client.number)
        }
        let shared = try Shared()
        let poller = try Poller()
        try poller.add(set.port.descriptor, token: 0, for: .reading)
        try poller.add(shared.wakeUp.descriptor, token: 1, for: .reading)
        self.shared = shared
        let start = Start(world: World(set: set, mill: mill), poller: poller)
        let body: @Sendable () -> Void = { Self.run(start, shared) }
        shared.thread = try Thread(named: "load", body)
    }

    /// Runs `body` on the thread.
    package func perform<Value: Sendable>(_ body: @escaping @Sendable (World) throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            let job: @Sendable (World) -> Void = { world in continuation.resume(with: Result { try body(world) }) }
            let isStopped = shared.lock.withLock {
                if !shared.isStopping { shared.jobs.append(job) }
                return shared.isStopping
            }
            if isStopped { return continuation.resume(throwing: LoadFault("the load has ended")) }
            shared.wakeUp.signal()
        }
    }

    /// Ends the thread, once; what was asked before is still done.
    package func stop() {
        let thread = shared.lock.withLock {
            shared.isStopping = true
            defer { shared.thread = nil }
            return shared.thread
        }
        shared.wakeUp.signal()
        thread?.join()
    }

    private static func run(_ start: Start, _ shared: Shared) {
        let (set, mill, poller) = (start.world.set, start.world.mill, start.poller)
        while true {
            let (jobs, isStopping) = shared.lock.withLock {
                defer { shared.jobs = [] }
                return (shared.jobs, shared.isStopping)
            }
            for job in jobs { job(start.world) }
            if isStopping { break }
            guard !mill.turn(now: MonotonicClock.now()) else { continue }
            let count = poller.wait(until: mill.deadline, now: MonotonicClock.now())
            for place in 0..<count where poller.event(at: place).token == 1 { shared.wakeUp.clear() }
        }
        set.port.flush()
    }
}
