import CLimit
import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayLoadKit

/// A relay with a fleet of joined clients, and the limit beside it for the same clients.
final class MediaRig: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    let bench: LoadBench
    let fleet: MediaFleet
    let mill: MediaMill
    private var limitProcess: LimitProcess?
    private var limitClients = 0
    private var relayForwarder: Forwarder?

    init(
        _ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport, serving: [String] = [], spins: Bool = true
    ) async throws {
        // What is started has the affinity of who starts it.
        _ = limit_pin_thread(0, -1)
        bench = try await LoadBench(
            loop, options, report, serving: ["--transports-per-worker", "8192", "--gather", options.gather] + serving)
        do {
            fleet = try MediaFleet(bench)
            mill = try MediaMill(fleet.set, spins: spins)
        } catch {
            await bench.stop()
            throw error
        }
        mill.afterRun = Interrupts.exitIfSet
    }

    /// At least so many clients in calls of two. Forwarders have the first processor, the clients the second, where there are two.
    func prepare(clients: Int, _ profile: MediaProfile) async throws {
        let room = MediaFleet.Room(media: profile == .audio ? .audio : .video)
        if fleet.clients.count < clients {
            unpin()
            try await fleet.grow(to: clients, in: room)
        }
        pin()
    }

    func pin() {
        guard MediaRig.hasTwoProcessors else { return }
        _ = lio_set_thread_cpu(1)
        // Others on the machine are nobody's load here. Not permitted to everybody.
        lio_set_thread_nice(-15)
        if let worker = bench.relay.workerIDs().first {
            Forwarder(name: "", processID: worker, legs: []).pin(to: 0)
        }
    }

    func unpin() {
        _ = limit_pin_thread(0, -1)
        lio_set_thread_nice(0)
    }

    func relay() throws -> Forwarder {
        if let relayForwarder, relayForwarder.legs.count == fleet.clients.count { return relayForwarder }
        let forwarder = try Forwarder.relay(fleet, known: relayForwarder?.legs ?? [])
        relayForwarder = forwarder
        return forwarder
    }

    /// For the clients that there are now.
    func limit() async throws -> Forwarder {
        if let limitProcess, limitClients == fleet.clients.count { return limitProcess.forwarder }
        limitProcess?.stop()
        // What is started has the niceness of who starts it, too.
        unpin()
        defer { pin() }
        let binary = bench.options.limitBinary
        let process = try await LimitProcess(fleet, binary: binary, gather: bench.options.gather)
        limitProcess = process
        limitClients = fleet.clients.count
        if MediaRig.hasTwoProcessors { process.forwarder.pin(to: 0) }
        return process.forwarder
    }

    func duel(_ profile: MediaProfile, _ clients: Range<Int>) -> Duel {
        Duel(fleet: fleet, mill: mill, profile: profile, clients: clients)
    }

    func stop() async {
        unpin()
        limitProcess?.stop()
        fleet.stop()
        await bench.stop()
    }

    static let hasTwoProcessors = sysconf(Int32(_SC_NPROCESSORS_ONLN)) > 1
}
