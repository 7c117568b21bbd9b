import RTPCore
import RelayCore
import Testing

/// An upgrade as the conductor sees it: a worker retires, another one takes the new rooms.
@Suite struct RetirementTests {
    private let old = ConductorHarness.worker(0)
    private let new = ConductorHarness.worker(1, epoch: 2)
    private let harness = ConductorHarness(
        {
            var configuration = ConductorConfiguration()
            configuration.retirement = .seconds(3_600)
            return configuration
        }())

    /// A successor is there, and the first worker retires.
    private func upgrade() {
        harness.connect(new)
        harness.decide(.workerRetiring(old))
    }

    private var dismissed: [WorkerID] {
        harness.lastTurn.commands.filter { $0.command == .shutDown }.map(\.worker)
    }

    @Test("a worker without rooms leaves at once")
    func idle() {
        upgrade()
        #expect(dismissed == [old] && harness.lines.isEmpty)
        harness.lose(old)
        #expect(harness.lines.isEmpty)
    }

    @Test("rooms go on where they are, new ones go to the successor; the worker leaves with its last room")
    func carriesOn() {
        let call = harness.createRoom("call")
        let alice = harness.joined("alice", in: call)
        upgrade()
        #expect(dismissed.isEmpty)
        let ben = harness.prepared("ben", in: call)
        harness.join(ben, in: call)
        #expect(harness.record(call)?.worker == old && harness.state(ben, in: call) == .joined)
        let next = harness.createRoom("next")
        harness.prepared("carol", in: next)
        #expect(harness.record(next)?.worker == new)
        harness.leave(alice, in: call)
        #expect(harness.closing(call)?.value("outcome") == .string("ended"))
        #expect(dismissed == [old])
        // Once.
        _ = harness.request(ConductorHarness.server, .deleteRoom(next, reason: nil))
        #expect(dismissed.isEmpty)
    }

    @Test("a worker that does not name its build is not told to capture or record, which it would not understand")
    func captures() {
        harness.connect(old, build: "")
        let call = harness.createRoom("call")
        harness.joined("alice", in: call)
        let refusal = harness.problem(ConductorHarness.server, .capture(call, CaptureSpecification()))
        #expect(refusal?.code == "worker-outdated" && harness.lastTurn.commands.isEmpty)
        harness.connect(new)
        harness.decide(.workerRetiring(old))
        let next = harness.createRoom("next")
        harness.prepared("ben", in: next)
        _ = harness.request(ConductorHarness.server, .capture(next, CaptureSpecification()))
        #expect(harness.lastTurn.commands.map(\.worker) == [new])
    }

    @Test("where the successor is gone the retiring worker takes new rooms, until there is another one")
    func successorDies() {
        let call = harness.createRoom("call")
        harness.joined("alice", in: call)
        upgrade()
        harness.lose(new)
        let second = harness.createRoom("second")
        harness.prepared("ben", in: second)
        #expect(harness.record(second)?.worker == old)
        harness.connect(ConductorHarness.worker(1, epoch: 3))
        let third = harness.createRoom("third")
        harness.prepared("carol", in: third)
        #expect(harness.record(third)?.worker?.epoch == 3)
    }

    @Test("what is left at the deadline ends as drained, and the worker leaves")
    func deadline() {
        let call = harness.createRoom("call") { $0.timeouts.idle = nil }
        harness.joined("alice", in: call)
        harness.joined("ben", in: call)
        upgrade()
        harness.advance(.seconds(3_599))
        #expect(harness.closing(call) == nil)
        harness.advance(.seconds(1))
        #expect(harness.closing(call)?.reason == "drained" && dismissed == [old])
        #expect(harness.calls.last?.outcome == .drained)
        #expect(
            harness.problem(
                ConductorHarness.server, .createRoom(RoomSpecification(id: nil, kind: .peer, media: .audio))) == nil)
    }

    @Test("control restarts meanwhile: both workers come back, and the retiring one is told again")
    func restart() {
        let call = harness.createRoom("call")
        let alice = harness.joined("alice", in: call)
        upgrade()
        harness.restart()
        harness.connect(new)
        harness.connect(old, transports: [harness.snapshot(alice, in: call, .joined)])
        harness.decide(.workerRetiring(old))
        #expect(harness.closing(call) == nil && dismissed.isEmpty)
        harness.leave(alice, in: call)
        #expect(dismissed == [old])
    }

    @Test("one that was away when its last room ended leaves when it is back")
    func away() {
        let call = harness.createRoom("call")
        harness.joined("alice", in: call)
        upgrade()
        harness.decide(.workerDetached(old))
        _ = harness.request(ConductorHarness.server, .deleteRoom(call, reason: nil))
        #expect(dismissed.isEmpty)
        harness.connect(old)
        #expect(dismissed == [old])
    }
}
