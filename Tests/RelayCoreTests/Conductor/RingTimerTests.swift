import RTPCore
import RelayCore
import Testing

/// The timers of a ring in virtual time, each 1 ms before and at its boundary, and over a restart.
@Suite("Ring: timers")
struct RingTimerTests {
    let harness = ConductorHarness()

    @Test("the window ends at 45 s and not 1 ms before", arguments: [false, true])
    func window(isReached: Bool) {
        let room = harness.call()
        if isReached { harness.ringing("ben", in: room) }
        harness.advance(.milliseconds(44_999))
        #expect(harness.status(room) == .initiated)
        harness.advance(.milliseconds(1))
        #expect(harness.outcome(of: room) == (isReached ? "unanswered" : "unreachable"))
    }

    @Test("a room's own window counts")
    func ownWindow() {
        let room = harness.call { $0.ring?.window = .milliseconds(7) }
        harness.advance(.milliseconds(6))
        #expect(harness.status(room) == .initiated)
        harness.advance(.milliseconds(1))
        #expect(harness.outcome(of: room) == "unreachable")
    }

    @Test("a claim leaves no window behind")
    func noWindowAfterClaim() {
        let room = harness.call()
        #expect(harness.record(room)?.ring?.view.windowEndsAtMs == harness.wallClockMs + 45_000)
        harness.answer("ben", in: room)
        #expect(harness.record(room)?.ring?.view.windowEndsAtMs == nil)
        #expect(harness.conductor.counts.timers == 1)
    }

    @Test("20 s after the claim the call has failed and not 1 ms before")
    func joinAfterClaim() {
        let room = harness.call()
        harness.answer("ben", in: room)
        harness.advance(.milliseconds(19_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.outcome(of: room) == "failed")
        #expect(Self.missing(harness, room) == ["alice no-join", "ben no-join"])
    }

    @Test("a room's own join limit counts")
    func ownJoinLimit() {
        let room = harness.call { $0.timeouts.joinAfterClaim = .milliseconds(5) }
        harness.answer("ben", in: room)
        harness.advance(.milliseconds(4))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.outcome(of: room) == "failed")
    }

    @Test("both joined 1 ms before the limit: the call goes on without a ring's timer")
    func joinedInTime() {
        let room = harness.call { $0.timeouts.idle = nil }
        let alice = harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.advance(.milliseconds(19_999))
        harness.join(alice, in: room)
        harness.advance(.seconds(600))
        #expect(harness.status(room) == .ongoing)
        #expect(harness.conductor.counts.timers == 0)
    }

    @Test("a join at the limit comes too late: 410 with the outcome")
    func joinedTooLate() {
        let room = harness.call()
        let alice = harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.move(to: harness.now + .seconds(20))
        let problem = harness.join(alice, in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.members.first?.value == .string("failed"))
        #expect(harness.leaveReason(alice) == "failed")
        #expect(harness.leaveReason(ben) == "peer-left")
    }

    @Test(
        "missing names who and why",
        arguments: [
            (TransportEnd.handshakeFailed, "dtls"), (.fingerprintMismatch, "fingerprint"),
            (.noSRTPProfile, "no-srtp-profile"),
        ])
    func missingReasons(_ end: TransportEnd, _ reason: String) {
        let room = harness.call()
        harness.callerPrepared(in: room, joinOnAnswer: true)
        let ben = harness.prepare("ben", in: room, state: .joined)
        harness.ended(ben, end)
        #expect(harness.status(room) == .ongoing)
        harness.advance(.seconds(20))
        #expect(harness.outcome(of: room) == "failed")
        #expect(Self.missing(harness, room) == ["ben \(reason)"])
    }

    @Test("one whose media path is not up is missing for ice, one that is prepared for no-join")
    func missingStates() {
        let room = harness.call()
        harness.prepared("alice", in: room)
        harness.prepare("ben", in: room, state: .joined)
        harness.advance(.seconds(20))
        #expect(Self.missing(harness, room) == ["alice no-join", "ben ice"])
    }

    @Test("a claimer whose first session failed prepares again within the limit")
    func prepareAgain() {
        let room = harness.call()
        harness.callerPrepared(in: room, joinOnAnswer: true)
        let first = harness.prepare("ben", in: room, state: .joined)
        harness.ended(first, .handshakeFailed)
        harness.advance(.seconds(10))
        let second = harness.prepare("ben", in: room, state: .joined)
        harness.news(.joined(second.handle, at: harness.now))
        harness.advance(.seconds(60))
        #expect(harness.status(room) == .ongoing)
    }

    @Test("a ring has no empty-room timer, and an early expiry of the caller does not end it")
    func noEmptyTimer() {
        let room = harness.call {
            $0.ring?.window = .seconds(400)
            $0.timeouts.prepared = .seconds(10)
        }
        let alice = harness.prepared("alice", in: room)
        harness.advance(.seconds(399))
        #expect(harness.leaveReason(alice) == "expired")
        #expect(harness.status(room) == .initiated)
        harness.advance(.seconds(1))
        #expect(harness.outcome(of: room) == "unreachable")
    }

    @Test("the duration counts from the moment both are joined")
    func duration() {
        let room = harness.call()
        let alice = harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.advance(.seconds(3))
        harness.join(alice, in: room)
        harness.advance(.seconds(7))
        harness.end(.ended, "alice", in: room)
        #expect(harness.ends(of: room).first?.value("durationMs") == .integer(7_000))
    }

    // MARK: Restart

    @Test("a window survives a restart to the millisecond")
    func windowOverRestart() {
        let room = harness.call()
        harness.ringing("ben", in: room)
        harness.advance(.seconds(30))
        harness.restart()
        harness.advance(.milliseconds(14_999))
        #expect(harness.status(room) == .initiated)
        harness.advance(.milliseconds(1))
        #expect(harness.outcome(of: room) == "unanswered")
    }

    @Test("a window that ended while control was away ends at its start, before any request")
    func windowWhileAway() {
        let room = harness.call()
        harness.restart()
        harness.move(to: harness.now + .seconds(50))
        #expect(harness.answer("ben", in: room).problem?.code == "unanswered")
        #expect(harness.outcome(of: room) == "unreachable")
    }

    @Test("the join limit survives a restart to the millisecond")
    func joinLimitOverRestart() {
        let room = harness.call()
        harness.answer("ben", in: room)
        harness.advance(.seconds(5))
        harness.restart()
        harness.advance(.milliseconds(14_999))
        #expect(harness.status(room) == .ongoing)
        harness.advance(.milliseconds(1))
        #expect(harness.outcome(of: room) == "failed")
    }

    @Test("a ring lives on in the next boot, its window counted by the wall clock")
    func windowOverReboot() {
        let room = harness.call()
        harness.prepared("alice", in: room)
        harness.advance(.seconds(40))
        harness.restart(isSameBoot: false)
        harness.connect(ConductorHarness.worker(0, epoch: 2))
        harness.advance(.milliseconds(4_999))
        #expect(harness.status(room) == .initiated)
        harness.advance(.milliseconds(1))
        #expect(harness.outcome(of: room) == "unreachable")
    }

    @Test("the join limit waits for a worker that may know of an open gate")
    func joinLimitWaitsForWorker() {
        let room = harness.call()
        harness.callerPrepared(in: room, joinOnAnswer: true)
        let alice = harness.record(room)!.participants[0]
        let ben = harness.prepare("ben", in: room, state: .joined)
        harness.decide(.workerDetached(ConductorHarness.worker(0)))
        harness.advance(.seconds(25))
        #expect(harness.status(room) == .ongoing)
        let caller = HarnessParticipant(id: alice.id, handle: alice.handle, uid: "alice", device: "phone")
        harness.connect(
            ConductorHarness.worker(0),
            transports: [harness.snapshot(caller, in: room, .joined), harness.snapshot(ben, in: room, .joined)])
        #expect(harness.status(room) == .ongoing)
        harness.advance(.seconds(60))
        #expect(harness.outcome(of: room) == nil)
    }

    @Test("a gate that is open without a claim is the claim that was lost with the process")
    func claimLostWithProcess() {
        let room = harness.call()
        let alice = harness.prepared("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.restart()
        harness.connect(
            ConductorHarness.worker(0),
            transports: [harness.snapshot(alice, in: room, .prepared), harness.snapshot(ben, in: room, .joined)])
        #expect(harness.lines.contains("call.answered ben"))
        #expect(harness.status(room) == .ongoing)
    }

    @Test("a ringing room of a dead worker stays, and its caller prepares again")
    func workerDeath() {
        let room = harness.call()
        let alice = harness.prepared("alice", in: room)
        harness.lose(ConductorHarness.worker(0))
        #expect(harness.leaveReason(alice) == "node-lost")
        #expect(harness.status(room) == .initiated)
        harness.connect(ConductorHarness.worker(0, epoch: 2))
        harness.prepare("alice", in: room)
        harness.answer("ben", in: room)
        harness.lose(ConductorHarness.worker(0, epoch: 2))
        #expect(harness.outcome(of: room) == "node-lost")
    }

    static func missing(_ harness: ConductorHarness, _ room: RoomID) -> [String] {
        guard case .array(let entries)? = harness.ends(of: room).first?.value("missing") else { return [] }
        return entries.map { entry in
            guard case .object(let fields) = entry else { return "" }
            return fields.map { if case .string(let text) = $0.value { text } else { "" } }.joined(separator: " ")
        }
    }
}
