import Foundation
import RTPCore
import RelayCore
import Testing

/// CALLS.md, "When processes die".
@Suite("Conductor: when processes die")
struct ConductorAdoptionTests {
    private let worker = ConductorHarness.worker(0)

    /// Alice and Bob joined in one room on worker 0.
    private func call() -> (ConductorHarness, RoomID, HarnessParticipant, HarnessParticipant) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        return (harness, room, harness.joined("alice", in: room), harness.joined("bob", in: room))
    }

    @Test("a worker's death ends its ongoing rooms as node-lost, without commands to the dead")
    func workerDies() {
        let (harness, room, alice, bob) = call()
        harness.lose(worker)
        #expect(
            harness.lines == [
                "participant.left alice node-lost", "participant.left bob node-lost", "room.closed node-lost",
            ])
        #expect(harness.record(room)?.outcome == .nodeLost)
        #expect(harness.lastTurn.commands.isEmpty)
        #expect(harness.leave(alice, in: room) == .done)
        #expect(harness.join(bob, in: room).problem?.status == 410)
    }

    @Test("a room that nobody had joined survives its worker: its participants leave, and they prepare again elsewhere")
    func preparedRoomSurvives() {
        let harness = ConductorHarness(workers: 2)
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        harness.lose(worker)
        #expect(harness.lines == ["participant.left alice node-lost"])
        #expect(harness.record(room)?.status == .initiated)
        harness.prepare("alice", in: room)
        #expect(harness.record(room)?.worker == ConductorHarness.worker(1))
        #expect(harness.join(alice, in: room).problem?.status == 410)
    }

    @Test("a survivor that nobody comes back to is closed by the empty timer")
    func survivorIsClosed() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.prepared("alice", in: room)
        harness.lose(worker)
        harness.advance(.seconds(60))
        #expect(harness.record(room)?.outcome == .expired)
    }

    @Test("another worker's death touches nothing")
    func otherWorkerDies() {
        let harness = ConductorHarness(workers: 2)
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        harness.lose(ConductorHarness.worker(1))
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.record(room)?.status == .ongoing)
    }

    @Test("a worker told gone twice, or never known, is no matter")
    func goneTwice() {
        let (harness, _, _, _) = call()
        harness.lose(worker)
        harness.lose(worker)
        #expect(harness.lastTurn.events.isEmpty)
        harness.lose(ConductorHarness.worker(7))
        #expect(harness.lastTurn.events.isEmpty)
    }

    @Test("a hello of another life of the same worker means that the old one is gone")
    func anotherEpoch() {
        let (harness, room, _, _) = call()
        harness.connect(ConductorHarness.worker(0, epoch: 2))
        #expect(harness.record(room)?.outcome == .nodeLost)
        #expect(harness.conductor.counts.connectedWorkers == 1)
    }

    @Test("a restart goes on with joined rooms as they were when their worker says hello")
    func restartAndAdopt() {
        let (harness, room, alice, bob) = call()
        let before = harness.record(room)
        harness.restart()
        harness.connect(
            worker, transports: [harness.snapshot(alice, in: room, .joined), harness.snapshot(bob, in: room, .joined)])
        #expect(harness.lines == ["node.started"])
        #expect(harness.lastTurn.commands.map(\.command) == [.adopted])
        #expect(harness.record(room) == before)
        harness.leave(bob, in: room)
        #expect(harness.record(room)?.outcome == .ended)
    }

    @Test("event numbers go on after a restart, over the node and in the room")
    func numbersGoOn() {
        let (harness, room, alice, bob) = call()
        harness.restart()
        harness.connect(
            worker, transports: [harness.snapshot(alice, in: room, .joined), harness.snapshot(bob, in: room, .joined)])
        harness.leave(alice, in: room)
        // The harness checks that neither has a gap.
        #expect(harness.closing(room)?.roomSeq == 10)
    }

    @Test("a fact that became known to nobody is told at the adoption with its original time")
    func keptNews() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        let at = harness.now + .milliseconds(100)
        harness.move(to: at + .seconds(1))
        harness.restart()
        harness.connect(
            worker, transports: [harness.snapshot(alice, in: room, .prepared)],
            news: [.prepared(alice.handle, at: at)])
        #expect(harness.lines == ["node.started", "participant.prepared alice"])
        #expect(harness.lastTurn.events.last?.timeMs == harness.wallClockMs - 1_000)
    }

    @Test("a fact that only the snapshot tells becomes the event now")
    func snapshotAhead() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        harness.restart()
        harness.connect(worker, transports: [harness.snapshot(alice, in: room, .joined)])
        #expect(harness.lines == ["node.started", "participant.prepared alice", "participant.joined alice"])
        #expect(harness.state(alice, in: room) == .joined)
    }

    @Test("a hang-up while control was away ends the room at the adoption, when it happened")
    func hangUpWhileAway() {
        let (harness, room, alice, bob) = call()
        harness.restart()
        let at = harness.now + .seconds(3)
        harness.move(to: at + .seconds(2))
        harness.connect(
            worker, transports: [],
            news: [
                .ended(bob.handle, .closed, at: at, TransportStatistics()),
                .ended(alice.handle, .peerLeft, at: at, TransportStatistics()),
            ])
        #expect(
            harness.lines == [
                "node.started", "participant.left bob hangup", "participant.left alice peer-left",
                "room.closed hangup",
            ])
        #expect(harness.record(room)?.outcome == .ended)
        #expect(harness.closing(room)?.value("durationMs") == .integer(3_000))
    }

    @Test("a participant whose transport is missing leaves: joined as lost, connecting as failed")
    func missingTransports() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let bob = harness.prepare("bob", in: room)
        let carol = harness.prepared("carol", in: harness.createRoom())
        harness.connect(worker)
        #expect(harness.leaveReason(alice) == "lost")
        #expect(harness.leaveReason(carol) == "lost")
        #expect(harness.record(room)?.outcome == .lost)
        #expect(harness.leaveReason(bob) == "peer-left")
        let other = harness.createRoom()
        let dave = harness.prepare("dave", in: other)
        harness.connect(worker)
        #expect(harness.leaveReason(dave) == "failed")
    }

    @Test("a transport without a participant here is removed")
    func strayTransport() {
        let (harness, room, alice, bob) = call()
        let stray = HarnessParticipant(
            id: alice.id, handle: ParticipantHandle(4_711), uid: "ghost", device: "phone")
        harness.connect(
            worker,
            transports: [alice, bob, stray].map { harness.snapshot($0, in: room, .joined) })
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.lastTurn.commands.map(\.command) == [.remove(stray.handle), .adopted])
    }

    @Test("an end that was stored but not carried out is carried out at the adoption")
    func endIsCarriedOut() {
        let (harness, room, alice, bob) = call()
        harness.decide(.workerDetached(worker))
        harness.leave(alice, in: room)
        #expect(harness.lastTurn.commands.isEmpty)
        harness.connect(
            worker, transports: [harness.snapshot(alice, in: room, .joined), harness.snapshot(bob, in: room, .joined)])
        #expect(
            harness.lastTurn.commands.map(\.command) == [.remove(alice.handle), .remove(bob.handle), .adopted])
    }

    @Test("a join that was decided while the worker was away is sent at the adoption")
    func joinIsCarriedOut() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        harness.decide(.workerDetached(worker))
        harness.join(alice, in: room)
        harness.connect(worker, transports: [harness.snapshot(alice, in: room, .prepared)])
        #expect(harness.lastTurn.commands.map(\.command) == [.join(alice.handle), .adopted])
    }

    @Test("a takeover whose keys came in while control was away is carried out at the adoption")
    func takeoverAtAdoption() {
        let (harness, room, alice, bob) = call()
        let laptop = harness.prepare("alice", in: room, device: "laptop")
        harness.join(laptop, in: room, takeover: true)
        harness.restart()
        harness.connect(
            worker,
            transports: [
                harness.snapshot(alice, in: room, .joined), harness.snapshot(bob, in: room, .joined),
                harness.snapshot(laptop, in: room, .prepared),
            ])
        #expect(harness.leaveReason(alice) == "answered-elsewhere")
        #expect(harness.state(laptop, in: room) == .joined)
        #expect(
            harness.lastTurn.commands.map(\.command) == [
                .remove(alice.handle), .join(laptop.handle), .adopted,
            ])
    }

    @Test("interruption is taken from the snapshot")
    func interruptionFromSnapshot() {
        let (harness, room, alice, bob) = call()
        harness.connect(
            worker,
            transports: [
                harness.snapshot(alice, in: room, .joined, isInterrupted: true),
                harness.snapshot(bob, in: room, .joined),
            ])
        #expect(harness.lines == ["participant.interrupted alice"])
    }

    @Test("restored rooms wait two seconds for their worker, then ongoing ones are node-lost and others are emptied")
    func workerDoesNotComeBack() {
        let harness = ConductorHarness()
        let ongoing = harness.createRoom()
        harness.joined("alice", in: ongoing)
        let initiated = harness.createRoom()
        let bob = harness.prepared("bob", in: initiated)
        harness.restart()
        harness.decide(.timer)
        harness.advance(.milliseconds(1_999))
        #expect(harness.record(ongoing)?.status == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.record(ongoing)?.outcome == .nodeLost)
        #expect(harness.record(initiated)?.status == .initiated)
        #expect(harness.leaveReason(bob) == "node-lost")
        harness.advance(.seconds(60))
        #expect(harness.record(initiated)?.outcome == .expired)
    }

    @Test("a participant's time that ran out while control was away waits for the worker's word")
    func overdueTimerWaitsForTheWorker() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        harness.move(to: harness.now + .seconds(40))
        harness.restart()
        harness.decide(.timer)
        #expect(harness.state(alice, in: room) == .connecting)
        harness.connect(worker, transports: [harness.snapshot(alice, in: room, .prepared)])
        harness.advance(.seconds(10))
        #expect(harness.state(alice, in: room) == .prepared)
    }

    @Test("a participant's time that ran out while the worker was detached waits as well")
    func overdueTimerOfDetached() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        harness.decide(.workerDetached(worker))
        harness.advance(.seconds(40))
        #expect(harness.state(alice, in: room) == .connecting)
        harness.connect(worker, transports: [harness.snapshot(alice, in: room, .connecting)])
        harness.advance(.zero)
        #expect(harness.leaveReason(alice) == "failed")
    }

    @Test("deadlines survive a restart: a prepared participant expires five minutes after it was prepared")
    func deadlinesSurvive() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        harness.advance(.seconds(200))
        harness.restart()
        harness.connect(worker, transports: [harness.snapshot(alice, in: room, .prepared)])
        harness.advance(.milliseconds(99_999))
        #expect(harness.state(alice, in: room) == .prepared)
        harness.advance(.milliseconds(1))
        #expect(harness.leaveReason(alice) == "expired")
    }

    @Test("a room without anybody keeps its empty deadline over a restart, whatever the workers do")
    func emptyDeadlineSurvives() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.advance(.seconds(30))
        harness.restart()
        harness.advance(.seconds(29))
        #expect(harness.record(room)?.status == .initiated)
        harness.advance(.seconds(1))
        #expect(harness.record(room)?.outcome == .expired)
    }

    @Test("while its worker is awaited, a room refuses newcomers with 503 and takes leaves")
    func requestsWhileWaiting() {
        let (harness, room, alice, _) = call()
        harness.restart()
        harness.decide(.timer)
        let offer = conductorOffer(ufrag: "late")
        #expect(
            harness.problem(
                ConductorHarness.token("alice", room, device: "laptop"), .prepare(room, state: .prepared, offer: offer))?
                .status == 503)
        #expect(harness.leave(alice, in: room) == .done)
        #expect(harness.record(room)?.outcome == .ended)
    }

    @Test("after a reboot of the machine ongoing rooms are node-lost at once, others are emptied and stay")
    func anotherBoot() {
        let harness = ConductorHarness()
        let ongoing = harness.createRoom()
        harness.joined("alice", in: ongoing)
        let initiated = harness.createRoom()
        harness.prepared("bob", in: initiated)
        let empty = harness.createRoom()
        harness.restart(isSameBoot: false)
        harness.decide(.timer)
        #expect(
            harness.lines == [
                "node.started", "participant.left alice node-lost", "room.closed node-lost",
                "participant.left bob node-lost",
            ])
        #expect(harness.record(initiated)?.status == .initiated)
        harness.advance(.seconds(60))
        #expect(harness.record(empty)?.outcome == .expired)
    }

    @Test("a record survives JSON, so that the journal may keep it as that")
    func recordAsJSON() throws {
        let (harness, room, alice, _) = call()
        harness.advance(.seconds(1))
        harness.prepare("alice", in: room, device: "laptop")
        harness.leave(harness.prepare("bob", in: room, device: "watch"), in: room)
        _ = alice
        let record = try #require(harness.record(room))
        #expect(try throughJSON(record) == record)
    }
}

/// A record as the journal gives it back: sessions are kept apart.
func throughJSON(_ record: RoomRecord) throws -> RoomRecord {
    let decoder = JSONDecoder()
    var sessions: [ParticipantID: SessionRecord] = [:]
    for participant in record.participants {
        sessions[participant.id] = try decoder.decode(
            SessionRecord.self, from: JSONEncoder().encode(participant.session))
    }
    decoder.userInfo[ParticipantRecord.sessionsKey] = sessions
    return try decoder.decode(RoomRecord.self, from: JSONEncoder().encode(record))
}
