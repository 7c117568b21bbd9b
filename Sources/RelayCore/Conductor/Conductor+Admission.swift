import RTPCore

// Who is taken, and where to: new rooms go to the least loaded worker that is open, and nowhere when none is. Whoever is in stays, and
// what has begun is finished: who comes back, and the other side of a call that somebody waits in or that rings, is let in as long as
// the worker has places.

extension Conductor {
    /// The bounds from now on.
    public func use(_ bounds: AdmissionBounds) {
        admission = bounds
        for worker in workers.values { worker.admission.judge(bounds) }
    }

    /// Connected workers as the metrics show them, by index.
    public var workerAdmissions: [(index: Int, refusal: Refusal?, admission: WorkerAdmission)] {
        workers.values.filter(\.isConnected).sorted { $0.id.index < $1.id.index }
            .map { ($0.id.index, refusal(by: $0), $0.admission) }
    }

    func take(_ load: WorkerLoad, from id: WorkerID) {
        guard let worker = workers[id], worker.isConnected else { return }
        worker.admission.take(load, transports: worker.transportCount, bounds: admission)
    }

    /// Where the room's media lives: the worker that it has, as somebody is in, else the least loaded open one.
    func worker(for room: ConductedRoom, isReplacement: Bool) throws(Problem) -> (
        id: WorkerID, endpoint: WorkerEndpoint
    ) {
        guard let id = room.record.worker else { return try leastLoadedWorker() }
        guard let worker = workers[id], worker.isConnected, let endpoint = worker.endpoint else {
            throw refused(.noWorker)
        }
        let hasBegun = room.record.specification.kind == .peer || room.record.ring != nil
        guard !isReplacement, let refusal = refusal(by: worker), !hasBegun || refusal == .transports else {
            return (worker.id, endpoint)
        }
        throw refused(refusal, by: worker)
    }

    private func leastLoadedWorker() throws(Problem) -> (id: WorkerID, endpoint: WorkerEndpoint) {
        let all = workers.values.filter { $0.isConnected && !$0.isDismissed }.sorted { $0.id.index < $1.id.index }
        // One that retires only where there is no other: its successor is down.
        let staying = all.filter { !$0.isRetiring }
        let connected = staying.isEmpty ? all : staying
        let chosen = connected.filter { refusal(by: $0) == nil }.min { load(of: $0) < load(of: $1) }
        if let chosen, let endpoint = chosen.endpoint { return (chosen.id, endpoint) }
        guard let first = connected.first, let refusal = refusal(by: first) else { throw refused(.noWorker) }
        throw refused(refusal, by: first)
    }

    private func refusal(by worker: ConductedWorker) -> Refusal? {
        guard worker.transportCount < configuration.transportsPerWorker else { return .transports }
        return worker.admission.refusal(transports: worker.transportCount, bounds: admission)
    }

    /// Steps of a twentieth of a core, then transports: smaller differences are noise. Of equals the lowest index is taken.
    private func load(of worker: ConductedWorker) -> (Int, Int, Int) {
        let percent = admission.isOn ? worker.admission.expectedPercent(transports: worker.transportCount) : 0
        return (Int(min(percent, 1_000) / 5), worker.transportCount, worker.id.index)
    }

    private func refused(_ refusal: Refusal, by worker: ConductedWorker? = nil) -> Problem {
        refusals[refusal, default: 0] += 1
        guard let worker else { return overloaded("no media worker is connected") }
        guard refusal == .transports else {
            return overloaded(worker.admission.detail(refusal, bounds: admission))
        }
        return overloaded(
            "the media worker carries \(worker.transportCount) transports; its limit is "
                + "\(configuration.transportsPerWorker)")
    }
}
