import RTPCore
import Testing

@testable import RelayCore

/// T100: new sessions are refused before those that run suffer, by what the workers measure.
@Suite("Admission") struct AdmissionTests {
    /// Reports of one worker, a second apart.
    struct Reports {
        var load = WorkerLoad(
            at: Instant(nanoseconds: 5_000_000_000), cpu: .zero, packets: 0, backlog: .zero, residentBytes: 50 << 20,
            handshakerSteps: 0)

        mutating func next(
            cpuPercent: Int64 = 10, packets: UInt64 = 1_000, backlogMs: Int64 = 0, mebibytes: UInt64 = 50
        )
            -> WorkerLoad
        {
            load.at += .seconds(1)
            load.cpu = load.cpu + .milliseconds(10 * cpuPercent)
            load.packets += packets
            load.backlog = .milliseconds(backlogMs)
            load.residentBytes = mebibytes << 20
            load.handshakerSteps += 1
            return load
        }
    }

    private func offer(_ harness: ConductorHarness, _ uid: String, _ room: RoomID) -> Problem? {
        harness.problem(
            ConductorHarness.token(uid, room),
            .prepare(room, state: .prepared, offer: conductorOffer(ufrag: harness.nextUfrag())))
    }

    private func tell(_ harness: ConductorHarness, _ load: WorkerLoad, worker: Int = 0) {
        harness.decide(.load(ConductorHarness.worker(worker), load))
    }

    @Test("a worker closes at 85 % of a core, stays closed at 75 and opens under 70")
    func hysteresis() {
        var reports = Reports()
        var admission = WorkerAdmission()
        let bounds = AdmissionBounds()
        for (percent, isOpen) in [(84, true), (85, false), (75, false), (70, false), (69, true), (84, true)] {
            if admission.cpuPercent == 0 { admission.take(reports.next(), transports: 2, bounds: bounds) }
            admission.take(reports.next(cpuPercent: Int64(percent)), transports: 2, bounds: bounds)
            #expect((admission.refusal(transports: 2, bounds: bounds) == nil) == isOpen, "at \(percent) %")
        }
    }

    @Test("each measure closes a worker by itself, and is named", arguments: Refusal.allCases)
    func measures(refusal: Refusal) {
        var bounds = AdmissionBounds()
        bounds.packetsPerSecond = 50_000
        var reports = Reports()
        var admission = WorkerAdmission()
        admission.take(reports.next(), transports: 1, bounds: bounds)
        let load: WorkerLoad
        switch refusal {
        case .cpu: load = reports.next(cpuPercent: 90)
        case .backlog: load = reports.next(backlogMs: 100)
        case .packets: load = reports.next(packets: 50_000)
        case .memory: load = reports.next(mebibytes: 4_096)
        case .transports, .noWorker: return
        }
        admission.take(load, transports: 1, bounds: bounds)
        #expect(admission.refusal(transports: 1, bounds: bounds) == refusal)
        admission.take(reports.next(), transports: 1, bounds: bounds)
        #expect(admission.refusal(transports: 1, bounds: bounds) == nil)
    }

    @Test("those who came since the last report count as much as the others")
    func expectation() {
        let bounds = AdmissionBounds()
        var reports = Reports()
        var admission = WorkerAdmission()
        admission.take(reports.next(), transports: 100, bounds: bounds)
        admission.take(reports.next(cpuPercent: 60), transports: 100, bounds: bounds)
        #expect(admission.refusal(transports: 141, bounds: bounds) == nil)
        #expect(admission.refusal(transports: 142, bounds: bounds) == .cpu)
        // Two that cost much say nothing of a third.
        var few = WorkerAdmission()
        few.take(reports.next(), transports: 2, bounds: bounds)
        few.take(reports.next(cpuPercent: 60), transports: 2, bounds: bounds)
        #expect(few.refusal(transports: 6, bounds: bounds) == nil)
    }

    @Test("reports that go back, repeat or leap are no rates and no traps")
    func oddReports() {
        let bounds = AdmissionBounds()
        var admission = WorkerAdmission()
        let far = Interval(nanoseconds: Int64.max / 8)
        let loads = [
            (Instant.distantFuture, far, UInt64.max, far, UInt64.max), (Instant(nanoseconds: 0), .zero, 0, .zero, 0),
            (Instant(nanoseconds: 0), far, UInt64.max, far, UInt64.max), (.distantFuture, far, 0, .zero, 0),
            (Instant(nanoseconds: 200_000_000), .zero, 0, .zero, 0),
            (Instant(nanoseconds: 400_000_000), far, UInt64.max, far, UInt64.max),
        ]
        for (at, cpu, packets, backlog, bytes) in loads {
            admission.take(
                WorkerLoad(
                    at: at, cpu: cpu, packets: packets, backlog: backlog, residentBytes: bytes, handshakerSteps: 0),
                transports: 3, bounds: bounds)
            _ = admission.refusal(transports: Int.max, bounds: bounds)
            for refusal in Refusal.allCases { #expect(!admission.detail(refusal, bounds: bounds).isEmpty) }
        }
    }

    @Test("a new room is 503 with Retry-After while the worker is over its bound, and taken when it is not any more")
    func refused() throws {
        let harness = ConductorHarness()
        var reports = Reports()
        let room = harness.createRoom()
        tell(harness, reports.next())
        tell(harness, reports.next(cpuPercent: 91))
        let problem = try #require(offer(harness, "alice", room))
        #expect(problem.status == 503 && problem.code == "overloaded" && problem.retryAfterSeconds == 5)
        #expect(problem.detail == "the media worker uses 91 % of a core; its limit is 85")
        #expect(harness.conductor.refusals == [.cpu: 1])
        tell(harness, reports.next(cpuPercent: 20))
        #expect(offer(harness, "alice", room) == nil)
    }

    @Test("who is in a call stays, comes back and is joined by the other side; a group takes nobody more")
    func begun() {
        let harness = ConductorHarness()
        var reports = Reports()
        let call = harness.createRoom { $0.ring = RingSpecification(caller: "alice", callees: ["bob"]) }
        let group = harness.createRoom(nil, kind: .group)
        harness.prepared("alice", in: call)
        harness.joined("carol", in: group)
        tell(harness, reports.next())
        tell(harness, reports.next(cpuPercent: 99))
        let bob = harness.prepared("bob", in: call)
        harness.join(bob, in: call)
        #expect(harness.state(bob, in: call) == .joined)
        #expect(offer(harness, "carol", group) == nil, "she comes back with a new offer")
        #expect(offer(harness, "dave", group)?.status == 503)
        #expect(harness.closing(call) == nil && harness.closing(group) == nil)
    }

    @Test("new rooms go to the open worker that carries least; when all are over their bounds they are refused")
    func placement() {
        let harness = ConductorHarness(workers: 3)
        var reports = [Reports(), Reports(), Reports()]
        for worker in 0..<3 { tell(harness, reports[worker].next(), worker: worker) }
        for (worker, percent) in [(0, 90), (1, 60), (2, 30)] {
            tell(harness, reports[worker].next(cpuPercent: Int64(percent)), worker: worker)
        }
        let rooms = (0..<2).map { _ in harness.createRoom() }
        for room in rooms { harness.prepare("alice", in: room) }
        #expect(rooms.map { harness.record($0)?.worker?.index } == [2, 2])
        for worker in 1..<3 { tell(harness, reports[worker].next(cpuPercent: 100), worker: worker) }
        #expect(offer(harness, "bob", harness.createRoom())?.status == 503)
        tell(harness, reports[0].next(cpuPercent: 1), worker: 0)
        let last = harness.createRoom()
        harness.prepare("carol", in: last)
        #expect(harness.record(last)?.worker?.index == 0)
    }

    @Test("switched off, only the number of transports counts; bounds can change while the node runs")
    func switchedOff() {
        var configuration = ConductorConfiguration()
        configuration.admission.isOn = false
        configuration.transportsPerWorker = 1
        let harness = ConductorHarness(configuration)
        var reports = Reports()
        tell(harness, reports.next())
        tell(harness, reports.next(cpuPercent: 100, backlogMs: 5_000))
        let room = harness.createRoom()
        #expect(offer(harness, "alice", room) == nil)
        #expect(offer(harness, "bob", harness.createRoom())?.detail.contains("its limit is 1") == true)
        harness.conductor.use(AdmissionBounds())
        #expect(harness.conductor.workerAdmissions.map(\.admission.closedBy) == [.cpu])
    }
}
