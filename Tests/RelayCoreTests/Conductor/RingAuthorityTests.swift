import RTPCore
import RelayCore
import Testing

/// CALLS.md, "Who may end with which status": every cell, through the conductor.
@Suite("Ring: who may end with which status")
struct RingAuthorityTests {
    static let statuses = EndStatus.allCases

    @Test(
        "before the claim the caller cancels, rings out, and may not decline",
        arguments: zip(statuses, ["cancelled", "403", "403", "unanswered", "cancelled"]))
    func callerBefore(_ status: EndStatus, _ expected: String) {
        let harness = ConductorHarness()
        let room = harness.call()
        harness.ringing("ben", in: room)
        let reply = harness.end(status, "alice", in: room)
        #expect(Self.result(reply, harness, room) == expected)
    }

    @Test("the caller's ring-out of one who was never reached is unreachable")
    func callerRingsOutUnreached() {
        let harness = ConductorHarness()
        let room = harness.call()
        harness.end(.unanswered, "alice", in: room)
        #expect(harness.outcome(of: room) == "unreachable")
    }

    @Test(
        "before the claim the callee declines, is busy or rings out, and may not cancel",
        arguments: zip(statuses, ["403", "rejected", "busy", "unanswered", "rejected"]))
    func calleeBefore(_ status: EndStatus, _ expected: String) {
        let harness = ConductorHarness()
        let room = harness.call()
        let reply = harness.end(status, "ben", in: room)
        #expect(Self.result(reply, harness, room) == expected)
    }

    @Test(
        "after the claim the caller hangs up, and everything else changes nothing",
        arguments: zip(statuses, ["ended", "on", "on", "on", "ended"]))
    func callerAfter(_ status: EndStatus, _ expected: String) {
        let harness = ConductorHarness()
        let room = harness.talking().room
        #expect(Self.result(harness.end(status, "alice", in: room), harness, room) == expected)
    }

    @Test(
        "after the claim the claimer's decline, busy and end hang up",
        arguments: zip(statuses, ["403", "ended", "ended", "on", "ended"]))
    func claimerAfter(_ status: EndStatus, _ expected: String) {
        let harness = ConductorHarness()
        let room = harness.talking().room
        #expect(Self.result(harness.end(status, "ben", in: room), harness, room) == expected)
    }

    @Test(
        "after the claim another device of the claimer changes nothing",
        arguments: zip(statuses, ["403", "on", "on", "on", "on"]))
    func otherDeviceAfter(_ status: EndStatus, _ expected: String) {
        let harness = ConductorHarness()
        let room = harness.talking().room
        #expect(Self.result(harness.end(status, "ben", in: room, device: "laptop"), harness, room) == expected)
    }

    @Test("in an ended room everybody is answered 200 with the outcome", arguments: statuses, ["alice", "ben"])
    func ended(_ status: EndStatus, _ uid: String) {
        let harness = ConductorHarness()
        let room = harness.call()
        harness.end(.busy, "ben", in: room)
        let count = harness.events.count
        #expect(harness.end(status, uid, in: room).roomView?.outcome == .busy)
        #expect(harness.events.count == count)
    }

    @Test(
        "the server says any of them for the user that it names",
        arguments: [
            ("alice", EndStatus.cancelled, "cancelled"), ("alice", .unanswered, "unreachable"),
            ("alice", .ended, "cancelled"), ("ben", .rejected, "rejected"), ("ben", .busy, "busy"),
            ("ben", .unanswered, "unreachable"), ("ben", .ended, "rejected"), ("ben", .cancelled, "403"),
            ("alice", .busy, "403"),
        ])
    func server(_ uid: String, _ status: EndStatus, _ expected: String) {
        let harness = ConductorHarness()
        let room = harness.call()
        #expect(Self.result(harness.serverEnd(status, uid, in: room), harness, room) == expected)
    }

    @Test("the server that names nobody, or a stranger, is refused")
    func serverWithoutUser() {
        let harness = ConductorHarness()
        let room = harness.call()
        #expect(harness.serverEnd(.ended, nil, in: room).problem?.status == 400)
        #expect(harness.serverEnd(.ended, "eve", in: room).problem?.status == 422)
    }

    @Test("a decline with scope device silences this device only")
    func deviceScope() {
        let harness = ConductorHarness()
        let room = harness.call()
        let phone = harness.prepared("ben", in: room)
        harness.prepared("ben", in: room, device: "laptop")
        harness.end(.rejected, "ben", in: room, scope: .device)
        #expect(harness.leaveReason(phone) == "declined")
        #expect(harness.status(room) == .initiated)
        #expect(harness.answer("ben", in: room).problem?.code == "rejected")
        #expect(harness.answer("ben", in: room, device: "laptop").roomView?.status == .ongoing)
    }

    @Test("declines of too many devices are refused")
    func deviceBound() {
        let harness = ConductorHarness()
        let room = harness.call()
        for index in 0..<16 { harness.end(.rejected, "ben", in: room, device: "d\(index)", scope: .device) }
        #expect(harness.end(.rejected, "ben", in: room, device: "one-more", scope: .device).problem?.status == 429)
        #expect(harness.end(.rejected, "ben", in: room, device: "d3", scope: .device).problem == nil)
    }

    @Test("the server has no device to decline on")
    func serverDeviceScope() {
        let harness = ConductorHarness()
        let room = harness.call()
        let request = ControlRequest.end(room, .rejected, uid: "ben", scope: .device)
        #expect(harness.problem(ConductorHarness.server, request)?.status == 400)
    }

    @Test("in a room without ring a user's end is its leave, and other statuses are refused")
    func withoutRing() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let ben = harness.joined("ben", in: room)
        #expect(harness.end(.busy, "ben", in: room).problem?.code == "no-ring")
        harness.end(.ended, "ben", in: room)
        #expect(harness.leaveReason(ben) == "hangup")
        #expect(harness.leaveReason(alice) == "peer-left")
        #expect(harness.ends(of: room).isEmpty)
    }

    static func result(_ reply: ControlReply, _ harness: ConductorHarness, _ room: RoomID) -> String {
        if let problem = reply.problem { return String(problem.status) }
        #expect(reply.roomView?.outcome?.rawValue == harness.outcome(of: room))
        return harness.outcome(of: room) ?? "on"
    }
}
