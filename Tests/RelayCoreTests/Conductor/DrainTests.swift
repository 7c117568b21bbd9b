import RTPCore
import RelayCore
import Testing

/// An operator's drain: nothing new, what runs finishes, the deadline ends the rest.
@Suite struct DrainTests {
    private let harness = ConductorHarness()

    @discardableResult
    private func drain(_ seconds: Int64 = 600) -> DrainView? {
        guard case .drain(let view) = harness.request(ConductorHarness.server, .drain(within: .seconds(seconds))) else {
            Issue.record("no drain: \(harness.lastTurn.replies)")
            return nil
        }
        return view
    }

    private func undrain() { _ = harness.request(ConductorHarness.server, .undrain) }

    private func createProblem(_ id: String) -> Problem? {
        harness.problem(
            ConductorHarness.server, .createRoom(RoomSpecification(id: RoomID(id), kind: .peer, media: .audio)))
    }

    private func ring(_ id: String) -> RoomID {
        harness.createRoom(id) { $0.ring = RingSpecification(caller: "alice", callees: ["ben"]) }
    }

    @Test("a draining node refuses new rooms with 503 and a time to come back")
    func refusesRooms() {
        #expect(drain()?.record != nil)
        #expect(harness.lines == ["node.draining", "node.drained"])
        let problem = createProblem("late")
        #expect(problem?.status == 503 && problem?.code == "draining" && problem?.retryAfterSeconds == 5)
    }

    @Test("a room that exists is given again, by its id, while the node drains")
    func sameRoom() {
        harness.createRoom("known") { $0.media = .audio }
        drain()
        #expect(harness.createRoom("known") { $0.media = .audio } == RoomID("known"))
    }

    @Test("a call that rings is answered, joined and talked while the node drains")
    func ringing() {
        let room = ring("r")
        let alice = harness.prepared("alice", in: room)
        drain()
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.join(alice, in: room)
        #expect(harness.state(alice, in: room) == .joined && harness.state(ben, in: room) == .joined)
        harness.leave(ben, in: room)
        #expect(harness.closing(room)?.value("outcome") == .string("ended"))
        #expect(harness.lines.last == "node.drained")
    }

    @Test("a call that runs takes a device that comes back, and a group one more who joins")
    func running() {
        let call = harness.createRoom("call")
        harness.joined("alice", in: call)
        let group = harness.createRoom("group", kind: .group)
        harness.joined("carol", in: group)
        drain()
        harness.joined("ben", in: call)
        harness.prepare("alice", in: call)
        harness.joined("dora", in: group)
        #expect(harness.record(group)?.participants.count == 2)
    }

    @Test("a room without ring in which nobody is takes nobody any more")
    func unused() {
        let room = harness.createRoom("unused")
        drain()
        let problem = harness.problem(
            ConductorHarness.token("alice", room),
            .prepare(room, state: .prepared, offer: conductorOffer(ufrag: harness.nextUfrag())))
        #expect(problem?.status == 503 && problem?.code == "draining")
        undrain()
        harness.prepare("alice", in: room)
    }

    @Test("the deadline ends what is left as drained, told in order, and then the node is drained")
    func deadline() {
        let call = harness.createRoom("call")
        harness.joined("alice", in: call)
        let ringing = ring("ringing")
        drain(30)
        #expect(harness.lastTurn.events.first?.value("rooms") == .integer(2))
        #expect(harness.lastTurn.events.first?.value("deadlineAtMs") == .integer(harness.wallClockMs + 30_000))
        harness.advance(.seconds(29))
        #expect(harness.closing(call) == nil && harness.closing(ringing) == nil)
        harness.advance(.seconds(1))
        #expect(
            harness.lastTurn.events.map(\.type) == [
                .participantLeft, .roomClosed, .callEnded, .roomClosed, .nodeDrained,
            ])
        #expect(harness.closing(call)?.reason == "drained" && harness.closing(ringing)?.reason == "drained")
        #expect(harness.lastTurn.events.last?.value("ended") == .integer(2))
        #expect(harness.outcome(of: ringing) == "drained")
        #expect(harness.calls.allSatisfy { $0.outcome == .drained })
    }

    @Test("a deadline of now ends everything in the deciding turn; the node stays, and its workers")
    func atOnce() {
        let call = harness.createRoom("call")
        harness.joined("alice", in: call)
        let view = drain(0)
        #expect(view?.rooms == 0 && view?.record?.drainedAtMs != nil && view?.record?.endedRooms == 1)
        #expect(!harness.lastTurn.commands.contains { $0.command == .shutDown })
        undrain()
        harness.createRoom("next")
    }

    @Test("a second drain moves the deadline, both ways")
    func moved() {
        let call = harness.createRoom("call")
        harness.joined("alice", in: call)
        drain(30)
        drain(120)
        harness.advance(.seconds(60))
        #expect(harness.closing(call) == nil)
        drain(1)
        harness.advance(.seconds(1))
        #expect(harness.closing(call)?.reason == "drained")
    }

    @Test("undrain takes rooms again and forgets the deadline; a second one says nothing")
    func undrained() {
        let call = harness.createRoom("call")
        harness.joined("alice", in: call)
        drain(30)
        undrain()
        #expect(harness.lines == ["node.undrained"])
        undrain()
        #expect(harness.lines.isEmpty)
        harness.advance(.seconds(60))
        #expect(harness.closing(call) == nil)
        harness.createRoom("next")
    }

    @Test("a drain goes on over a restart of control, to the same deadline", arguments: [true, false])
    func restart(isSameBoot: Bool) {
        let ringing = ring("ringing")
        _ = harness.request(ConductorHarness.token("ben", ringing), .ringing(ringing))
        drain(40)
        harness.advance(.seconds(20))
        harness.restart(isSameBoot: isSameBoot)
        harness.decide(.timer)
        #expect(createProblem("late")?.code == "draining")
        harness.advance(.seconds(19))
        #expect(harness.closing(ringing) == nil)
        harness.advance(.seconds(1))
        #expect(harness.outcome(of: ringing) == "drained")
    }

    @Test("a drained node is drained after a restart, and does not say it again")
    func restartDrained() {
        drain()
        harness.restart()
        harness.decide(.timer)
        #expect(harness.lines == ["node.started"])
        #expect(createProblem("late")?.code == "draining")
    }

    @Test("a node that was stopped in order takes rooms after its next start")
    func stopped() {
        drain()
        harness.decide(.drain)
        #expect(harness.drain == nil && harness.lines.isEmpty)
        harness.restart()
        harness.decide(.timer)
        harness.createRoom("next")
    }

    @Test("participants may neither drain nor undrain")
    func forbidden() {
        let alice = ConductorHarness.token("alice", ring("r"))
        #expect(harness.problem(alice, .drain(within: .zero))?.status == 403)
        #expect(harness.problem(alice, .undrain)?.status == 403)
    }
}
