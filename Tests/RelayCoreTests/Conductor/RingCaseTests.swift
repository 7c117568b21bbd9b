import RTPCore
import RelayCore
import Testing

/// The cases from the field about calls, by their names in `Tests/Fixtures/cases`; where a case leaves the rule open,
/// CALLS.md's is meant.
@Suite("Ring: cases")
struct RingCaseTests {
    // MARK: X01 glare

    @Test("X01 two who call each other are in one call, whatever they do next: the room created first, while it rings")
    func x01Glare() {
        var random = RandomSource.seeded(101)
        var answeredCount = 0
        for _ in 0..<300 {
            let harness = ConductorHarness()
            let isAliceFirst = random.next() % 2 == 0
            let (first, second) = isAliceFirst ? ("alice", "ben") : ("ben", "alice")
            let room = harness.call("first", from: first, to: second)
            var crossing = RoomSpecification(id: RoomID("second"), kind: .peer, media: .video)
            crossing.ring = RingSpecification(caller: second, callees: [first])
            let problem = harness.problem(ConductorHarness.server, .createRoom(crossing))
            #expect(problem?.code == "glare")
            #expect(problem?.members == [JSONValue.Field("roomId", .string("first"))])
            for _ in 0..<6 {
                switch random.next() % 4 {
                case 0: _ = harness.request(ConductorHarness.token(first, room), prepare(room, harness))
                case 1: _ = harness.request(ConductorHarness.token(second, room), prepare(room, harness))
                case 2: harness.answer(second, in: room)
                default: if random.next() % 3 == 0 { harness.end(.cancelled, first, in: room) }
                }
            }
            #expect(harness.record(RoomID("second")!) == nil)
            if harness.events.contains(where: { $0.type == .callAnswered }) { answeredCount += 1 }
            harness.advance(.seconds(400))
            #expect(harness.ends(of: room).count == 1)
        }
        #expect((50..<300).contains(answeredCount))
    }

    private func prepare(_ room: RoomID, _ harness: ConductorHarness) -> ControlRequest {
        .prepare(room, state: .prepared, offer: conductorOffer(ufrag: harness.nextUfrag()))
    }

    // MARK: X03 answer and cancel cross

    @Test("X03 of an answer and a cancel that cross the first decides, and both are told the same, 2,000 times")
    func x03AnswerAndCancel() {
        var random = RandomSource.seeded(303)
        var outcomes: [String: Int] = [:]
        for _ in 0..<2_000 {
            let harness = ConductorHarness()
            let room = harness.call()
            let isAnswerFirst = random.next() % 2 == 0
            let delay = Interval.microseconds(Int64(random.next() % 1_000))
            if isAnswerFirst { harness.answer("ben", in: room) } else { harness.end(.cancelled, "alice", in: room) }
            harness.advance(delay)
            if isAnswerFirst {
                #expect(harness.end(.cancelled, "alice", in: room).roomView?.outcome == .ended)
            } else {
                let problem = harness.answer("ben", in: room).problem
                #expect(problem?.status == 410 && problem?.code == "cancelled")
            }
            outcomes[harness.outcome(of: room) ?? "", default: 0] += 1
        }
        #expect(Set(outcomes.keys) == ["ended", "cancelled"])
    }

    @Test("X03 a call is answered while the caller's dead transport is not lost yet, and ends as lost when it is")
    func x03DeadCaller() {
        let harness = ConductorHarness()
        let room = harness.call()
        let alice = harness.callerPrepared(in: room, joinOnAnswer: true)
        let ben = harness.prepared("ben", in: room)
        guard let alice else { return }
        harness.news(.interrupted(alice.handle, at: harness.now))
        harness.join(ben, in: room)
        #expect(harness.status(room) == .ongoing)
        harness.advance(.seconds(20))
        harness.ended(alice, .lost)
        #expect(harness.outcome(of: room) == "lost")
        #expect(harness.leaveReason(ben) == "peer-left")
    }

    @Test("X03 both leave within a millisecond after the answer: ended, once, with the duration from both joined")
    func x03BothLeave() {
        let harness = ConductorHarness()
        let (room, alice, ben) = harness.talking()
        harness.advance(.seconds(5))
        #expect(harness.leave(alice, in: room) == .done)
        harness.advance(.milliseconds(1))
        #expect(harness.leave(ben, in: room) == .done)
        #expect(harness.outcome(of: room) == "ended")
        #expect(harness.ends(of: room).first?.value("durationMs") == .integer(5_000))
    }

    // MARK: X05 busy

    @Test("X05 one device that says busy for itself leaves the others ringing; for its user it ends the call as busy")
    func x05Busy() {
        let harness = ConductorHarness()
        let first = harness.call()
        harness.end(.busy, "ben", in: first, device: "laptop", scope: .device)
        #expect(harness.status(first) == .initiated)
        #expect(harness.answer("ben", in: first, device: "laptop").problem?.code == "rejected")
        #expect(harness.answer("ben", in: first).problem == nil)
        let second = harness.call(from: "cat", to: "dan")
        harness.end(.busy, "dan", in: second)
        #expect(harness.outcome(of: second) == "busy")
    }

    @Test("X05 a leg that is dead makes its user busy until it is lost and no longer", arguments: [false, true])
    func x05StaleLeg(_ isLost: Bool) {
        let harness = ConductorHarness()
        let (old, _, ben) = harness.talking()
        if isLost { harness.ended(ben, .lost) } else { harness.news(.interrupted(ben.handle, at: harness.now)) }
        let room = harness.call(from: "cat", to: "ben") { $0.ifBusy = .refuse }
        #expect(harness.outcome(of: room) == (isLost ? nil : "busy"))
        #expect(harness.outcome(of: old) == (isLost ? "lost" : nil))
    }

    @Test("X05 joining a second call is 409, or with end=others leaves the first in the same decision, told once")
    func x05SecondCall() {
        let harness = ConductorHarness()
        let (old, _, _) = harness.talking()
        let room = harness.call(from: "cat", to: "ben")
        harness.callerPrepared(in: room, uid: "cat", joinOnAnswer: true)
        let ben = harness.prepared("ben", in: room)
        #expect(harness.join(ben, in: room).problem?.code == "already-joined")
        #expect(harness.status(room) == .initiated)
        #expect(harness.join(ben, in: room, endOthers: true).joinedView != nil)
        #expect(harness.outcome(of: old) == "ended")
        #expect(harness.ends(of: old).count == 1)
        #expect(harness.state(ben, in: room) == .joined)
    }

    // MARK: X06 timers

    @Test("X06 a join around the window's end is answered or unanswered, never both", arguments: [-1, 0, 1])
    func x06Window(_ offsetMs: Int64) {
        let harness = ConductorHarness()
        let room = harness.call()
        let phone = harness.prepared("ben", in: room)
        // A device that comes late does not extend the window.
        harness.advance(.seconds(40))
        harness.prepared("ben", in: room, device: "laptop")
        harness.move(to: harness.now + .milliseconds(5_000 + offsetMs))
        let reply = harness.join(phone, in: room)
        harness.advance(.seconds(1))
        let isAnswered = harness.events.contains { $0.type == .callAnswered }
        #expect(isAnswered == (offsetMs < 0))
        #expect((harness.outcome(of: room) == "unanswered") == (offsetMs >= 0))
        #expect(reply.problem?.code == (offsetMs < 0 ? nil : "unanswered"))
    }

    @Test("X06 whose media is up 20 s after the answer is too late, 1 ms before it is not", arguments: [-1, 0, 1])
    func x06Join(_ offsetMs: Int64) {
        let harness = ConductorHarness()
        let room = harness.call()
        harness.callerPrepared(in: room, joinOnAnswer: true)
        harness.advance(.seconds(10))
        let ben = harness.prepare("ben", in: room, state: .joined)
        harness.move(to: harness.now + .milliseconds(20_000 + offsetMs))
        harness.news(.joined(ben.handle, at: harness.now))
        harness.advance(.seconds(60))
        #expect(harness.outcome(of: room) == (offsetMs < 0 ? nil : "failed"))
    }

    @Test("X06 a prepared caller without a callee expires after 5 min and frees everything", arguments: [-1, 0, 1])
    func x06Prepared(_ offsetMs: Int64) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        harness.move(to: harness.now + .milliseconds(300_000 + offsetMs))
        harness.decide(.timer)
        #expect(harness.state(alice, in: room) == (offsetMs < 0 ? .prepared : nil))
        guard offsetMs >= 0 else { return }
        #expect(harness.closing(room)?.reason == "expired")
        #expect(harness.held[ConductorHarness.worker(0)] == [])
        #expect(harness.conductor.counts.timers == 1)
    }

    // MARK: X07 sleepers

    @Test("X07 a device that wakes after five hours learns that the call is over, and a new one never gets the old id")
    func x07Sleeper() {
        var configuration = ConductorConfiguration()
        configuration.retention = .seconds(6 * 3_600)
        let harness = ConductorHarness(configuration)
        let room = harness.call("call-7")
        harness.advance(.seconds(50))
        let token = ConductorHarness.token("ben", room)
        // Until 5 min after the end its token reads the outcome, then nothing at all.
        #expect(harness.request(token, .room(room)).roomView?.outcome == .unreachable)
        #expect(harness.problem(token, prepare(room, harness))?.status == 410)
        harness.advance(.seconds(5 * 3_600))
        for request in [ControlRequest.room(room), .answer(room), prepare(room, harness), .ringing(room)] {
            #expect(harness.problem(token, request)?.status == 404)
        }
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.outcome == .unreachable)
        var again = RoomSpecification(id: room, kind: .peer, media: .video)
        again.ring = RingSpecification(caller: "alice", callees: ["ben"])
        #expect(harness.problem(ConductorHarness.server, .createRoom(again))?.status == 410)
    }

    @Test("X07 unknown, ended and not allowed are three answers that programs tell apart")
    func x07ThreeAnswers() {
        let harness = ConductorHarness()
        let room = harness.call()
        let other = ConductorHarness.token("ben", RoomID("elsewhere")!)
        #expect(harness.problem(other, .answer(room))?.code == "call-not-found")
        #expect(harness.problem(ConductorHarness.token("dan", room), .answer(room))?.status == 403)
        harness.end(.cancelled, "alice", in: room)
        #expect(harness.problem(ConductorHarness.token("ben", room), .answer(room))?.status == 410)
    }

    @Test("X07 the push says when the call began and how long it rings")
    func x07PushSaysWhen() {
        let harness = ConductorHarness()
        harness.call()
        let initiated = harness.events.first { $0.type == .callInitiated }
        #expect(initiated?.value("initiatedAtMs") == .integer(harness.wallClockMs))
        #expect(initiated?.value("ringTimeoutMs") == .integer(45_000))
    }

    @Test("X07 a session that left is 410 with the reason")
    func x07DeletedSession() {
        let harness = ConductorHarness()
        let room = harness.call()
        harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.leave(ben, in: room)
        let problem = harness.join(ben, in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.members == [JSONValue.Field("reason", .string("hangup"))])
    }

    // MARK: X08 restart

    @Test("X08 control is killed while one call rings and one is answered: both go on, nothing is invented")
    func x08Ringing() {
        let harness = ConductorHarness()
        let (talking, alice, ben) = harness.talking()
        let ringing = harness.call(from: "cat", to: "dan")
        let cat = harness.prepared("cat", in: ringing)
        harness.advance(.seconds(10))
        harness.restart()
        harness.connect(
            ConductorHarness.worker(0),
            transports: [
                harness.snapshot(alice, in: talking, .joined), harness.snapshot(ben, in: talking, .joined),
                harness.snapshot(cat, in: ringing, .prepared),
            ])
        #expect(harness.lines == ["node.started"])
        #expect(harness.answer("dan", in: ringing).problem == nil)
        #expect(harness.leave(alice, in: talking) == .done)
        #expect(harness.outcome(of: talking) == "ended")
    }

    // MARK: X12 odd orders

    @Test("X12 a join after the own decline is 410 rejected, the decline repeated is 200 with the outcome")
    func x12Declined() {
        let harness = ConductorHarness()
        let room = harness.call()
        let ben = harness.prepared("ben", in: room)
        harness.end(.rejected, "ben", in: room)
        #expect(harness.join(ben, in: room).problem?.code == "rejected")
        #expect(harness.end(.rejected, "ben", in: room).roomView?.outcome == .rejected)
        #expect(harness.ends(of: room).count == 1)
    }

    @Test("X12 an answer whose session comes 19.9 s later is a call, 20.1 s later it failed", arguments: [199, 201])
    func x12LateSession(_ tenths: Int64) {
        let harness = ConductorHarness()
        let room = harness.call()
        harness.callerPrepared(in: room, joinOnAnswer: true)
        harness.answer("ben", in: room)
        harness.move(to: harness.now + .milliseconds(tenths * 100))
        let reply = harness.request(
            ConductorHarness.token("ben", room),
            .prepare(room, state: .joined, offer: conductorOffer(ufrag: "late")))
        #expect((reply.problem?.status == 410) == (tenths == 201))
        #expect(harness.outcome(of: room) == (tenths == 201 ? "failed" : nil))
    }

    @Test("X12 the same join with the same key is one join")
    func x12SameKey() {
        let harness = ConductorHarness()
        let room = harness.call()
        let ben = harness.prepared("ben", in: room)
        let join = ControlRequest.join(room, ben.id, endOthers: false, takeover: false)
        let key = IdempotencyKey(text: "tap", digest: "join")
        let first = harness.request(ConductorHarness.token("ben", room), join, key: key)
        #expect(
            harness.request(ConductorHarness.token("ben", room), join, key: key)
                == .repeated(ConductorHarness.text(of: first)))
        #expect(harness.events.count { $0.type == .participantJoined } == 1)
    }

    // MARK: Cases of other classes that touch prepare and join

    @Test("S02 an offer that is refused leaves no half-made session, and the next one works", arguments: [true, false])
    func s02Refused(_ isOfRing: Bool) {
        let harness = ConductorHarness()
        let room = isOfRing ? harness.call() : harness.createRoom()
        let text = String(decoding: conductorOffer(ufrag: "half"), as: UTF8.self)
        let unbundled = text.split(separator: "\r\n").filter { !$0.hasPrefix("a=group") && !$0.hasPrefix("a=mid") }
        let offer = Array(unbundled.map { $0 + "\r\n" }.joined().utf8)
        let status = harness.problem(
            ConductorHarness.token("alice", room), .prepare(room, state: .prepared, offer: offer))?.status
        #expect(status.map { (400..<500).contains($0) } == true)
        #expect(harness.record(room)?.participants.isEmpty == true)
        #expect(harness.lastTurn.commands.isEmpty)
        harness.prepare("alice", in: room)
        #expect(harness.held[ConductorHarness.worker(0)]?.count == 1)
    }

    @Test("I05 an ICE restart of a joined side keeps the call as it is and tells nobody")
    func i05Restart() {
        let harness = ConductorHarness()
        let (room, alice, _) = harness.talking()
        let fragment = "a=ice-ufrag:again\r\na=ice-pwd:zyxwvutsrqponmlkjihgfedc\r\n"
        let reply = harness.request(
            ConductorHarness.token("alice", room),
            .trickle(room, alice.id, ifMatch: "*", fragment: Array(fragment.utf8)))
        guard case .restarted(_, "2") = reply else {
            Issue.record("\(reply)")
            return
        }
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.state(alice, in: room) == .joined)
        #expect(harness.status(room) == .ongoing)
    }

    @Test("I06 a silent side is interrupted, comes back without joining anew, and ends the peer call when it is lost")
    func i06Liveness() {
        let harness = ConductorHarness()
        let (room, alice, ben) = harness.talking()
        harness.news(.interrupted(ben.handle, at: harness.now))
        #expect(harness.lines == ["participant.interrupted ben"])
        harness.advance(.seconds(20))
        harness.news(.recovered(ben.handle, at: harness.now))
        #expect(harness.lines == ["participant.recovered ben"])
        #expect(harness.state(ben, in: room) == .joined)
        harness.ended(ben, .lost)
        #expect(harness.leaveReason(alice) == "peer-left")
        #expect(harness.outcome(of: room) == "lost")
    }

    @Test("D04 a close_notify, a DELETE or both at once end the call once", arguments: ["close", "both", "delete"])
    func d04Close(_ how: String) {
        let harness = ConductorHarness()
        let (room, alice, ben) = harness.talking()
        if how != "delete" { harness.ended(alice, .closed) }
        if how != "close" { #expect(harness.leave(alice, in: room) == .done) }
        #expect(harness.outcome(of: room) == "ended")
        #expect(harness.events.count { $0.type == .participantLeft } == 2)
        #expect(harness.leaveReason(ben) == "peer-left")
        #expect(harness.held[ConductorHarness.worker(0)] == [])
    }
}
