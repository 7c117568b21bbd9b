import RTPCore
import RelayCore
import Testing

/// Rooms that end because nobody sends, in virtual time: exact to the millisecond as to what workers report.
@Suite("Conductor: idle")
struct IdleTests {
    let harness = ConductorHarness()

    @Test("a silent call is warned at 120 s, ends at 180 s, and neither 1 ms before")
    func silence() {
        let (room, alice, ben) = harness.talking()
        harness.advance(.milliseconds(119_999))
        #expect(!harness.events.contains { $0.type == .roomWarning })
        harness.advance(.milliseconds(1))
        #expect(harness.lines == ["room.warning idle"])
        #expect(harness.lastTurn.events.first?.value("remainingMs") == .integer(60_000))
        harness.advance(.milliseconds(59_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(
            harness.lines == [
                "call.ended idle", "participant.left alice idle", "participant.left ben idle", "room.closed idle",
            ])
        #expect(harness.outcome(of: room) == "ended")
        #expect(harness.leaveReason(alice) == "idle")
        #expect(harness.leaveReason(ben) == "idle")
    }

    @Test("media 1 ms before the end keeps the room, at the end it comes too late", arguments: [-1, 0, 1])
    func mediaAtTheEnd(_ offsetMs: Int64) {
        let (room, alice, _) = harness.talking()
        harness.move(to: harness.now + .milliseconds(180_000 + offsetMs))
        report(alice, packets: 1)
        #expect(harness.status(room) == (offsetMs < 0 ? .ongoing : .ended))
        guard offsetMs < 0 else { return }
        harness.advance(.milliseconds(179_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.closing(room)?.reason == "idle")
    }

    @Test("each silence is warned of anew")
    func warnedAnew() {
        let (room, alice, _) = harness.talking()
        harness.advance(.seconds(130))
        report(alice, packets: 1)
        harness.advance(.milliseconds(119_999))
        #expect(warnings(room) == 1)
        harness.advance(.milliseconds(1))
        #expect(warnings(room) == 2)
        harness.advance(.milliseconds(59_999))
        #expect(harness.status(room) == .ongoing)
    }

    @Test("a room's own time counts; one of a minute or less has no warning", arguments: [60_001, 60_000, 100])
    func ownTime(_ ms: Int64) {
        let room = harness.createRoom { $0.timeouts.idle = .milliseconds(ms) }
        harness.joined("alice", in: room)
        harness.advance(.milliseconds(ms - 1))
        #expect(harness.status(room) == .ongoing)
        #expect(warnings(room) == (ms > 60_000 ? 1 : 0))
        harness.advance(.milliseconds(1))
        #expect(harness.closing(room)?.reason == "idle")
    }

    @Test("turned off it never ends a room")
    func off() {
        let room = harness.createRoom { $0.timeouts.idle = nil }
        harness.joined("alice", in: room)
        harness.advance(.seconds(100_000))
        #expect(harness.status(room) == .ongoing)
        #expect(harness.conductor.counts.timers == 0)
    }

    @Test("anybody's media counts, and reports that count nothing new do not")
    func reports() {
        let (room, alice, ben) = harness.talking()
        for second in 1...200 {
            harness.advance(.seconds(2))
            report(alice, packets: 7)
            report(ben, packets: UInt64(second))
        }
        #expect(harness.status(room) == .ongoing)
        #expect(warnings(room) == 0)
        for _ in 1...89 {
            harness.advance(.seconds(2))
            report(alice, packets: 7)
            report(ben, packets: 200)
        }
        #expect(harness.status(room) == .ongoing)
        harness.advance(.seconds(2))
        #expect(harness.closing(room)?.reason == "idle")
    }

    @Test("the first packet of a kind is media")
    func firstPacket() {
        let (room, alice, _) = harness.talking()
        harness.advance(.seconds(100))
        harness.news(.media(alice.handle, .video, at: harness.now))
        harness.advance(.seconds(179))
        #expect(harness.status(room) == .ongoing)
    }

    @Test("what somebody sends who is only prepared is not media")
    func preparedMedia() {
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.advance(.seconds(100))
        report(ben, packets: 100)
        harness.advance(.seconds(80))
        #expect(harness.closing(room)?.reason == "idle")
    }

    @Test("a room in which people are only prepared is not idle")
    func preparedOnly() {
        let room = harness.createRoom()
        harness.prepared("alice", in: room)
        harness.advance(.milliseconds(299_999))
        #expect(harness.record(room)?.outcome == nil)
        harness.advance(.milliseconds(1))
        #expect(harness.closing(room)?.reason == "expired")
    }

    @Test("a call that rings is not idle, however long it rings")
    func ringing() {
        let room = harness.call { $0.ring?.window = .seconds(400) }
        let alice = harness.prepared("alice", in: room)
        harness.join(alice, in: room)
        harness.advance(.milliseconds(399_999))
        #expect(harness.status(room) == .initiated)
        harness.answer("ben", in: room)
        harness.advance(.seconds(20))
        #expect(harness.outcome(of: room) == "failed")
    }

    @Test("reports that media goes on are not worth a write, silence that lasts is one")
    func writes() {
        let (room, alice, _) = harness.talking()
        var written: [Int] = []
        for second in 1...20 {
            harness.advance(.seconds(2))
            report(alice, packets: second < 10 ? UInt64(second) : 9)
            if harness.lastTurn.changedRooms.contains(room) { written.append(second) }
        }
        #expect(written == [14])
    }

    @Test("while somebody holds no silence counts; it begins anew when nobody holds any more")
    func held() {
        let (room, alice, _) = harness.talking()
        func hold(_ isHeld: Bool) {
            let change = ControlRequest.changeMedia(room, alice.id, MediaChange(isHeld: isHeld))
            #expect(harness.problem(ConductorHarness.token("alice", room), change) == nil)
        }
        harness.advance(.seconds(179))
        hold(true)
        harness.advance(.seconds(10_000))
        #expect(harness.status(room) == .ongoing)
        #expect(warnings(room) == 1)
        hold(false)
        harness.advance(.milliseconds(179_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.closing(room)?.reason == "idle")
    }

    // MARK: Workers and restarts

    @Test("while the worker is away nothing ends; back, its reports are waited for", arguments: [false, true])
    func workerAway(_ hasMedia: Bool) {
        let (room, alice, ben) = harness.talking()
        harness.decide(.workerDetached(ConductorHarness.worker(0)))
        harness.advance(.seconds(400))
        #expect(harness.status(room) == .ongoing)
        back(alice, ben, in: room)
        harness.advance(.milliseconds(3_999))
        #expect(harness.status(room) == .ongoing)
        if hasMedia { report(alice, packets: 1) }
        harness.advance(.milliseconds(1))
        #expect(harness.status(room) == (hasMedia ? .ongoing : .ended))
    }

    @Test("silence that had lasted goes on counting over a restart")
    func restart() {
        let (room, alice, ben) = harness.talking()
        harness.advance(.seconds(10))
        report(alice, packets: 0)
        harness.advance(.seconds(90))
        harness.restart()
        back(alice, ben, in: room)
        harness.advance(.milliseconds(79_999))
        #expect(harness.status(room) == .ongoing)
        #expect(warnings(room) == 1)
        harness.advance(.milliseconds(1))
        #expect(harness.closing(room)?.reason == "idle")
    }

    @Test("a warning is told once over a restart")
    func warnedOverRestart() {
        let (room, alice, ben) = harness.talking()
        harness.advance(.seconds(150))
        harness.restart()
        back(alice, ben, in: room)
        harness.advance(.milliseconds(29_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.closing(room)?.reason == "idle")
        #expect(warnings(room) == 1)
    }

    @Test("a room that was not known to be silent counts from the restart")
    func restartWhileTalking() {
        let (room, alice, ben) = harness.talking()
        harness.advance(.seconds(170))
        report(alice, packets: 50)
        harness.advance(.seconds(5))
        harness.restart()
        back(alice, ben, in: room)
        harness.advance(.milliseconds(179_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.closing(room)?.reason == "idle")
    }

    @Test("another boot ends the room as node-lost and leaves no timer")
    func reboot() {
        let (room, _, _) = harness.talking()
        harness.advance(.seconds(150))
        harness.restart(isSameBoot: false)
        harness.decide(.timer)
        #expect(harness.outcome(of: room) == "node-lost")
        harness.advance(.seconds(7_200))
        #expect(harness.conductor.counts.timers == 0)
    }

    private func report(_ participant: HarnessParticipant, packets: UInt64) {
        var statistics = TransportStatistics()
        statistics.packetsReceived = packets
        harness.news(.statistics(participant.handle, statistics, at: harness.now))
    }

    private func back(_ alice: HarnessParticipant, _ ben: HarnessParticipant, in room: RoomID) {
        harness.connect(
            ConductorHarness.worker(0),
            transports: [harness.snapshot(alice, in: room, .joined), harness.snapshot(ben, in: room, .joined)])
    }

    private func warnings(_ room: RoomID) -> Int {
        harness.events.count { $0.type == .roomWarning && $0.roomID == room }
    }
}

/// Groups of which one is left.
@Suite("Conductor: alone")
struct AloneTests {
    let harness = ConductorHarness()

    private func group(aloneMs: Int64? = 90_000) -> RoomID {
        harness.createRoom(kind: .group) {
            $0.timeouts.alone = aloneMs.map { .milliseconds($0) }
            $0.timeouts.idle = nil
        }
    }

    @Test("one who is left of a group is warned 60 s before the end, and neither comes 1 ms early")
    func alone() {
        let room = group()
        let alice = harness.joined("alice", in: room)
        let ben = harness.joined("ben", in: room)
        harness.advance(.seconds(300))
        harness.leave(ben, in: room)
        harness.advance(.milliseconds(29_999))
        #expect(!harness.events.contains { $0.type == .roomWarning })
        harness.advance(.milliseconds(1))
        #expect(harness.lines == ["room.warning alone"])
        #expect(harness.lastTurn.events.first?.value("remainingMs") == .integer(60_000))
        harness.advance(.milliseconds(59_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.lines == ["participant.left alice room-ended", "room.closed alone"])
        #expect(harness.record(room)?.outcome == .ended)
        #expect(harness.leaveReason(alice) == "room-ended")
    }

    @Test("whoever joins 1 ms before the end keeps the room, at the end it is 410", arguments: [-1, 0, 1])
    func joinAtTheEnd(_ offsetMs: Int64) {
        let room = group()
        harness.joined("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.move(to: harness.now + .milliseconds(90_000 + offsetMs))
        let problem = harness.join(ben, in: room).problem
        #expect(problem?.status == (offsetMs < 0 ? nil : 410))
        harness.advance(.seconds(200))
        #expect(harness.status(room) == (offsetMs < 0 ? .ongoing : .ended))
    }

    @Test("a prepared one does not keep company, a replaced one does")
    func company() {
        let room = group()
        harness.joined("alice", in: room)
        let ben = harness.joined("ben", in: room)
        harness.prepare("ben", in: room)
        harness.advance(.seconds(20))
        #expect(harness.state(ben, in: room) == nil)
        #expect(harness.record(room)?.participants.count == 2)
        #expect(harness.conductor.counts.timers == 1)
        let cat = harness.prepared("cat", in: room)
        harness.advance(.seconds(10))
        // Ben did not come up: alice is alone from here, whoever is prepared.
        #expect(harness.record(room)?.participants.map(\.uid) == ["alice", "cat"])
        harness.advance(.milliseconds(89_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.closing(room)?.reason == "alone")
        #expect(harness.leaveReason(cat) == "room-ended")
    }

    @Test("it is off by default, and in a peer room always")
    func off() {
        let plain = harness.createRoom(kind: .group) { $0.timeouts.idle = nil }
        let peer = harness.createRoom {
            $0.timeouts.idle = nil
            $0.timeouts.alone = .seconds(1)
        }
        harness.joined("alice", in: plain)
        harness.joined("ben", in: peer)
        harness.advance(.seconds(100_000))
        #expect(harness.status(plain) == .ongoing)
        #expect(harness.status(peer) == .ongoing)
        #expect(harness.conductor.counts.timers == 0)
    }

    @Test("it counts on over a restart to the millisecond, and waits for a worker that is away")
    func restart() {
        let room = group()
        let alice = harness.joined("alice", in: room)
        harness.advance(.seconds(40))
        harness.restart()
        harness.connect(
            ConductorHarness.worker(0), transports: [harness.snapshot(alice, in: room, .joined)])
        harness.advance(.milliseconds(49_999))
        #expect(harness.status(room) == .ongoing)
        harness.decide(.workerDetached(ConductorHarness.worker(0)))
        harness.advance(.seconds(100))
        #expect(harness.status(room) == .ongoing)
        harness.connect(
            ConductorHarness.worker(0), transports: [harness.snapshot(alice, in: room, .joined)])
        harness.advance(.zero)
        #expect(harness.closing(room)?.reason == "alone")
    }

    @Test("a group call whose caller is left alone ends with its call")
    func groupCall() {
        let room = harness.groupCall { $0.timeouts.alone = .seconds(60) }
        let alice = harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.join(alice, in: room)
        harness.leave(ben, in: room)
        harness.advance(.seconds(60))
        #expect(harness.outcome(of: room) == "ended")
        #expect(harness.closing(room)?.reason == "alone")
    }
}
