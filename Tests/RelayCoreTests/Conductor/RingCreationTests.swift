import RTPCore
import RelayCore
import Testing

@Suite("Ring: creation and letting in")
struct RingCreationTests {
    let harness = ConductorHarness()

    private func refusal(_ kind: RoomKind, _ callees: [String], _ change: (inout RoomSpecification) -> Void = { _ in })
        -> Problem?
    {
        var specification = RoomSpecification(id: nil, kind: kind, media: .video)
        specification.ring = RingSpecification(caller: "alice", callees: callees)
        change(&specification)
        return harness.problem(ConductorHarness.server, .createRoom(specification))
    }

    @Test("a ring without callees, a peer ring with two, and a callee named twice are refused")
    func form() {
        #expect(refusal(.peer, [])?.status == 422)
        #expect(refusal(.peer, ["ben", "cat"])?.status == 422)
        #expect(refusal(.group, ["ben", "ben"])?.status == 422)
        #expect(refusal(.group, (0..<40).map { "u\($0)" })?.status == 422)
        #expect(refusal(.group, ["ben"]) { $0.maxParticipants = 1 } == nil)
    }

    @Test("a window or a join limit out of bounds is refused", arguments: [Int64(0), -1, 2_592_000_001])
    func bounds(_ ms: Int64) {
        #expect(refusal(.peer, ["ben"]) { $0.ring?.window = .milliseconds(ms) }?.status == 422)
        #expect(refusal(.peer, ["ben"]) { $0.timeouts.joinAfterClaim = .milliseconds(ms) }?.status == 422)
    }

    @Test("the same id and body again is the same room, and rings once")
    func again() {
        #expect(harness.call("c1") == harness.call("c1"))
        #expect(harness.events.count { $0.type == .callInitiated } == 1)
    }

    @Test("a session in a room with a ring says its state, so that nothing answers by accident")
    func stateRequired() {
        let room = harness.call()
        let prepare = ControlRequest.prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd1"))
        #expect(harness.problem(ConductorHarness.token("ben", room), prepare)?.status == 400)
        #expect(harness.status(room) == .initiated)
    }

    @Test("join=on-answer is the caller's alone", arguments: [false, true])
    func onAnswer(hasRing: Bool) {
        let room = hasRing ? harness.call() : harness.createRoom()
        let offer = conductorOffer(ufrag: "abcd1")
        let prepare = ControlRequest.prepare(room, state: .prepared, offer: offer, joinOnAnswer: true)
        #expect(harness.problem(ConductorHarness.token("ben", room), prepare)?.status == 400)
    }

    @Test("nobody but caller and callee comes into a ringing peer room")
    func strangers() {
        let room = harness.call()
        let prepare = ControlRequest.prepare(room, state: .prepared, offer: conductorOffer(ufrag: "abcd1"))
        #expect(harness.problem(ConductorHarness.token("eve", room), prepare)?.status == 403)
        #expect(harness.answer("eve", in: room).problem?.status == 403)
        #expect(harness.answer("alice", in: room).problem?.status == 403)
        #expect(harness.ringing("alice", in: room).problem?.status == 403)
    }

    @Test("the verbs of a ring find none in a room without")
    func withoutRing() {
        let room = harness.createRoom()
        #expect(harness.answer("ben", in: room).problem?.code == "no-ring")
        #expect(harness.ringing("ben", in: room).problem?.code == "no-ring")
        let pushed = ControlRequest.pushed(room, uid: "ben", device: "phone")
        #expect(harness.problem(ConductorHarness.server, pushed)?.code == "no-ring")
    }

    @Test(
        "any request of a callee's device reaches it, a refused one as well, and a push alone does not",
        arguments: [
            (0, "unanswered"), (1, "unanswered"), (2, "unanswered"), (3, "unanswered"), (4, "unreachable"),
            (5, "unreachable"),
        ])
    func reached(_ way: Int, _ outcome: String) {
        let room = harness.call()
        let ben = ConductorHarness.token("ben", room)
        switch way {
        case 0: harness.ringing("ben", in: room)
        case 1: _ = harness.request(ben, .room(room))
        case 2: _ = harness.request(ben, .prepare(room, state: .prepared, offer: Array("v=0".utf8)))
        case 3: harness.end(.cancelled, "ben", in: room)
        case 4: _ = harness.request(ConductorHarness.server, .pushed(room, uid: "ben", device: "phone"))
        default: _ = harness.request(ConductorHarness.token("alice", room), .room(room))
        }
        harness.advance(.seconds(45))
        #expect(harness.outcome(of: room) == outcome)
    }

    @Test("pushes are noted once a device, up to a bound, by the server only")
    func pushes() {
        let room = harness.call()
        func push(_ device: String, _ principal: Principal = ConductorHarness.server) -> ControlReply {
            harness.request(principal, .pushed(room, uid: "ben", device: device))
        }
        for index in 0..<16 { #expect(push("d\(index)") == .done) }
        #expect(push("d1") == .done)
        #expect(push("more").problem?.status == 429)
        #expect(push("d1", ConductorHarness.token("ben", room)).problem?.status == 403)
        #expect(harness.record(room)?.ring?.callee("ben")?.pushes.count == 16)
        let stranger = ControlRequest.pushed(room, uid: "eve", device: "d")
        #expect(harness.problem(ConductorHarness.server, stranger)?.status == 422)
    }

    @Test(
        "a callee who is joined elsewhere rings, or is busy at once where the room refuses",
        arguments: BusyPolicy.allCases)
    func ifBusy(_ policy: BusyPolicy) {
        _ = harness.talking()
        let room = harness.call(from: "cat", to: "ben") { $0.ifBusy = policy }
        guard policy == .refuse else { return #expect(harness.status(room) == .initiated) }
        #expect(harness.lines == ["room.created", "call.initiated cat", "call.ended busy", "room.closed busy"])
    }

    @Test("a callee who is only rung elsewhere is not busy")
    func rungIsNotBusy() {
        harness.call(from: "alice", to: "ben")
        let room = harness.call(from: "cat", to: "ben") { $0.ifBusy = .refuse }
        #expect(harness.status(room) == .initiated)
    }

    @Test("a logout cancels, declines and leaves everything of the user")
    func logout() {
        let talking = harness.talking().room
        let rung = harness.call(from: "dan", to: "ben")
        let calling = harness.call(from: "ben", to: "eve") { $0.allowParallel = true }
        let plain = harness.createRoom()
        let session = harness.prepared("ben", in: plain)
        #expect(harness.request(ConductorHarness.server, .logout(uid: "ben")) == .done)
        #expect(harness.outcome(of: talking) == "ended")
        #expect(harness.outcome(of: rung) == "rejected")
        #expect(harness.outcome(of: calling) == "cancelled")
        #expect(harness.leaveReason(session) == "hangup")
        #expect(harness.problem(ConductorHarness.token("ben", plain), .logout(uid: "ben"))?.status == 403)
    }

    @Test("a room's view tells its ring from beginning to end")
    func view() {
        let room = harness.call()
        func ring() -> RingView? { harness.request(ConductorHarness.server, .room(room)).roomView?.ring }
        #expect(ring()?.callees.map(\.state) == [.initiated])
        harness.ringing("ben", in: room)
        #expect(ring()?.callees.first?.state == .ringing)
        #expect(ring()?.callees.first?.isReached == true)
        harness.answer("ben", in: room)
        #expect(ring()?.callees.first?.device == "phone")
        harness.end(.ended, "alice", in: room)
        #expect(ring()?.callees.first?.outcome == .ended)
        #expect(ring()?.windowEndsAtMs == nil)
    }

    @Test("a listing by user finds the calls that the user is rung in")
    func listing() {
        let room = harness.call()
        let list = ControlRequest.listRooms(status: nil, uid: "ben", cursor: nil, limit: 10)
        guard case .rooms(let rooms, _, _) = harness.request(ConductorHarness.server, list) else {
            Issue.record("no listing")
            return
        }
        #expect(rooms.map(\.id) == [room])
    }
}
