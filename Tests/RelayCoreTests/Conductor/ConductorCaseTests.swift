import RTPCore
import RelayCore
import Testing

/// The cases from the field that concern this layer, by their names in `Tests/Fixtures/cases`.
@Suite("Conductor: cases")
struct ConductorCaseTests {
    @Test(
        "X08 control restarts during a call: node.started with a new epoch comes first, the call goes on, no event is invented"
    )
    func x08ControlRestarts() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let bob = harness.joined("bob", in: room)
        let epoch = harness.events.first?.value("epoch")
        harness.restart()
        harness.connect(
            ConductorHarness.worker(0),
            transports: [harness.snapshot(alice, in: room, .joined), harness.snapshot(bob, in: room, .joined)])
        #expect(harness.lines == ["node.started"])
        #expect(harness.lastTurn.events.first?.value("epoch") != epoch)
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.status == .ongoing)
        #expect(harness.leave(alice, in: room) == .done)
    }

    @Test("X08 control and worker restart: old sessions are 410 naming node-lost, and a new call works at once")
    func x08EverythingRestarts() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.joined("bob", in: room)
        harness.restart()
        harness.connect(ConductorHarness.worker(0, epoch: 2))
        let problem = harness.join(alice, in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.members == [JSONValue.Field("outcome", .string("node-lost"))])
        let next = harness.createRoom()
        harness.prepare("alice", in: next)
        #expect(harness.record(next)?.worker == ConductorHarness.worker(0, epoch: 2))
    }

    @Test("X08 one transport that is unknown to the worker ends only its own room")
    func x08OneUnknownTransport() {
        let harness = ConductorHarness()
        let first = harness.createRoom()
        let second = harness.createRoom()
        harness.joined("alice", in: first)
        let carol = harness.joined("carol", in: second)
        harness.connect(ConductorHarness.worker(0), transports: [harness.snapshot(carol, in: second, .joined)])
        #expect(harness.record(first)?.outcome == .lost)
        #expect(harness.record(second)?.status == .ongoing)
    }

    enum Exit: String, Sendable, CaseIterable {
        case delete, closeNotify, lost, kick
    }

    @Test(
        "X10 whichever way one side of a peer call goes, the other is ended in the same decision and its transport removed",
        arguments: Exit.allCases)
    func x10PeerCallEndsForBoth(_ exit: Exit) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let bob = harness.joined("bob", in: room)
        switch exit {
        case .delete: harness.leave(bob, in: room)
        case .closeNotify: harness.ended(bob, .closed)
        case .lost: harness.ended(bob, .lost)
        case .kick: _ = harness.request(ConductorHarness.server, .kick(room, bob.id))
        }
        #expect(harness.leaveReason(alice) == "peer-left")
        #expect(harness.lastTurn.commands.map(\.command).contains(.remove(alice.handle)))
        #expect(harness.lastTurn.events.last?.type == .roomClosed)
        #expect(harness.held[ConductorHarness.worker(0)] == [])
    }

    @Test("X10 (f) both vanish: two leaves, one end, nothing left")
    func x10BothVanish() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let bob = harness.joined("bob", in: room)
        harness.ended(alice, .lost)
        harness.ended(bob, .lost)
        #expect(harness.events.filter { $0.type == .participantLeft }.count == 2)
        #expect(harness.events.filter { $0.type == .roomClosed }.count == 1)
        let counts = harness.conductor.counts
        #expect(counts.joined + counts.prepared + counts.connecting + counts.ongoingRooms == 0)
    }

    @Test("X10 (g) one of three vanishes from a group: the other two go on")
    func x10Group() {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group)
        let alice = harness.joined("alice", in: room)
        let bob = harness.joined("bob", in: room)
        let carol = harness.joined("carol", in: room)
        harness.ended(bob, .lost)
        #expect(harness.lines == ["participant.left bob lost"])
        #expect(harness.state(alice, in: room) == .joined)
        #expect(harness.state(carol, in: room) == .joined)
    }

    @Test("X12 a join without a prepare is 404 and tells nothing")
    func x12JoinWithoutPrepare() throws {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let made = try #require(ParticipantID("p_made-up"))
        let problem = harness.problem(
            ConductorHarness.token("bob", room), .join(room, made, endOthers: false, takeover: false))
        #expect(problem?.status == 404)
        #expect(harness.lastTurn.events.isEmpty)
    }

    @Test("X12 prepare twice and join twice: one transport, one joined event, equal answers")
    func x12RepeatedRequests() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let first = harness.prepare("bob", in: room, ufrag: "same")
        let second = harness.prepare("bob", in: room, ufrag: "same")
        #expect(first == second)
        harness.news(.prepared(first.handle, at: harness.now))
        let one = harness.join(first, in: room)
        let two = harness.join(first, in: room)
        #expect(one == two)
        #expect(harness.held[ConductorHarness.worker(0)] == [first.handle])
        #expect(harness.events.filter { $0.type == .participantJoined }.count == 1)
    }

    @Test("X12 another offer of the same device replaces, and joining the replaced session is 410")
    func x12DifferentOffer() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let first = harness.prepare("bob", in: room, ufrag: "one1")
        let second = harness.prepare("bob", in: room, ufrag: "two2")
        #expect(harness.join(first, in: room).problem?.status == 410)
        #expect(harness.join(second, in: room).joinedView != nil)
        #expect(harness.held[ConductorHarness.worker(0)] == [second.handle])
    }

    @Test("X12 leave, then join of the same session is 410")
    func x12JoinAfterLeave() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        let bob = harness.prepared("bob", in: room)
        harness.leave(bob, in: room)
        #expect(harness.join(bob, in: room).problem?.status == 410)
    }

    enum Path: String, Sendable, CaseIterable {
        case delete, closeNotify, lost, kick, roomDeleted, preparedExpiry, connectingExpiry, failedDTLS, failedSDP
        case replaced, takeover, emptyRoom, maxDuration, endOthers
    }

    @Test(
        "O02 each way to end, 120 times: rooms, sessions, timers and transports are back at the baseline",
        arguments: Path.allCases)
    func o02NothingIsLeft(_ path: Path) {
        var configuration = ConductorConfiguration()
        configuration.endedRoomsKept = 10
        let harness = ConductorHarness(configuration)
        var baseline: ConductorCounts?
        for cycle in 0..<120 {
            run(path, harness)
            // Whoever is left in a room by this path leaves now.
            harness.advance(.seconds(400))
            if cycle == 40 { baseline = harness.conductor.counts }
        }
        #expect(harness.conductor.counts == baseline)
        #expect(harness.held[ConductorHarness.worker(0)] == [])
        #expect(harness.conductor.counts.timers <= 1)
    }

    private func run(_ path: Path, _ harness: ConductorHarness) {
        let room = harness.createRoom { if path == .maxDuration { $0.timeouts.maxDuration = .seconds(90) } }
        switch path {
        case .failedSDP:
            _ = harness.problem(
                ConductorHarness.token("alice", room), .prepare(room, state: nil, offer: Array("v=0".utf8)))
        case .emptyRoom:
            break
        case .preparedExpiry:
            harness.prepared("alice", in: room)
        case .connectingExpiry:
            harness.prepare("alice", in: room)
        case .failedDTLS:
            harness.ended(harness.prepare("alice", in: room), .handshakeFailed)
        default:
            let alice = harness.joined("alice", in: room)
            harness.joined("bob", in: room)
            end(path, harness, room, alice)
        }
    }

    private func end(_ path: Path, _ harness: ConductorHarness, _ room: RoomID, _ alice: HarnessParticipant) {
        switch path {
        case .closeNotify: harness.ended(alice, .closed)
        case .lost: harness.ended(alice, .lost)
        case .kick: _ = harness.request(ConductorHarness.server, .kick(room, alice.id))
        case .roomDeleted: _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        case .replaced: harness.prepare("alice", in: room)
        case .takeover:
            let laptop = harness.prepared("alice", in: room, device: "laptop")
            harness.join(laptop, in: room, takeover: true)
            harness.leave(laptop, in: room)
        case .endOthers:
            let other = harness.createRoom()
            harness.join(harness.prepared("alice", in: other), in: other, endOthers: true)
            _ = harness.request(ConductorHarness.server, .deleteRoom(other, reason: nil))
        case .maxDuration: break
        default: harness.leave(alice, in: room)
        }
    }
}
