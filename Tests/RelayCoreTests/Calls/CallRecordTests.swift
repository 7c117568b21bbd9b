import RTPCore
import RelayCore
import Testing

/// What the record of a room says after its end, outcome by outcome. The records come out of real turns.
@Suite("Call records") struct CallRecordTests {
    private let harness = ConductorHarness()

    private func record(_ room: RoomID, count: Int = 1) throws -> CallRecord {
        let records = harness.calls.filter { $0.room == room }
        #expect(records.count == count)
        return try #require(records.last)
    }

    private func cause(_ record: CallRecord) -> String {
        guard let cause = record.cause else { return "nobody" }
        return ([cause.kind.rawValue] + [cause.uid, cause.device].compactMap { $0 }).joined(separator: " ")
    }

    private func views(_ record: CallRecord) -> [String] {
        record.users.map { uid in
            guard let view = record.view(of: uid) else { return "\(uid) –" }
            return [uid, view.role.rawValue, view.direction?.rawValue, view.status.rawValue].compactMap { $0 }
                .joined(separator: " ")
        }
    }

    // MARK: Outcomes

    @Test("a call that was answered and hung up: both sides, who hung up, how long they talked") func ended() throws {
        let (room, _, ben) = harness.talking()
        harness.advance(.seconds(61))
        harness.leave(ben, in: room)
        let record = try record(room)
        #expect(record.outcome == .ended && record.reason == "hangup" && record.durationMs == 61_000)
        #expect(cause(record) == "participant ben phone")
        #expect(views(record) == ["alice caller outgoing answered", "ben callee incoming answered"])
        #expect(record.legs.map(\.uid).sorted() == ["alice", "ben"])
        #expect(record.claimer == ClaimerView(uid: "ben", device: "phone"))
    }

    @Test("a record is given out in the turn that tells the end, together with the room's last events")
    func sameTurn() throws {
        let (room, _, ben) = harness.talking()
        harness.leave(ben, in: room)
        #expect(harness.lastTurn.calls.map(\.room) == [room])
        #expect(harness.lastTurn.events.map(\.type).contains(.callEnded))
        #expect(harness.lastTurn.events.last?.type == .roomClosed)
    }

    @Test("declined and busy are the callee's word, and no missed call", arguments: [EndStatus.rejected, .busy])
    func declined(_ status: EndStatus) throws {
        let room = harness.call()
        harness.end(status, "ben", in: room, device: "tablet")
        let record = try record(room)
        #expect(record.outcome.rawValue == status.rawValue && record.durationMs == 0)
        #expect(cause(record) == "participant ben tablet")
        #expect(views(record) == ["alice caller outgoing \(status)", "ben callee incoming \(status)"])
    }

    @Test("cancelled by the caller is missed by the callee") func cancelled() throws {
        let room = harness.call()
        harness.end(.cancelled, "alice", in: room)
        let record = try record(room)
        #expect(record.outcome == .cancelled && cause(record) == "participant alice phone")
        #expect(views(record) == ["alice caller outgoing cancelled", "ben callee incoming missed"])
    }

    @Test("ringing out is the timer's doing, missed by the callee", arguments: [true, false])
    func rangOut(isReached: Bool) throws {
        let room = harness.call()
        if isReached { harness.ringing("ben", in: room) }
        harness.advance(.seconds(45))
        let record = try record(room)
        #expect(record.outcome == (isReached ? .unanswered : .unreachable) && cause(record) == "timer")
        #expect(record.callees[0].isReached == isReached)
        #expect(views(record)[0] == "alice caller outgoing \(isReached ? "unanswered" : "unreachable")")
        #expect(views(record)[1] == "ben callee incoming missed")
    }

    @Test("claimed and never joined is failed for both, and no missed call") func failed() throws {
        let room = harness.call()
        harness.answer("ben", in: room)
        harness.advance(.seconds(20))
        let record = try record(room)
        #expect(record.outcome == .failed && cause(record) == "timer" && record.durationMs == 0)
        #expect(views(record) == ["alice caller outgoing failed", "ben callee incoming failed"])
        #expect(record.missing.map { "\($0.uid) \($0.reason)" } == ["alice no-join", "ben no-join"])
    }

    @Test("a side that stayed away is named as what ended the call") func lost() throws {
        let (room, alice, _) = harness.talking()
        harness.ended(alice, .lost)
        let record = try record(room)
        #expect(record.outcome == .lost && cause(record) == "timer alice phone")
        #expect(views(record) == ["alice caller outgoing answered", "ben callee incoming answered"])
    }

    @Test("a client's close_notify is the client's doing") func closed() throws {
        let (room, alice, _) = harness.talking()
        harness.ended(alice, .closed)
        #expect(cause(try record(room)) == "participant alice phone")
    }

    @Test("drained and node-lost are the node's doing", arguments: [true, false]) func node(isDrain: Bool) throws {
        let (room, _, _) = harness.talking()
        if isDrain { harness.decide(.drain) } else { harness.lose(ConductorHarness.worker(0)) }
        let record = try record(room)
        #expect(record.outcome == (isDrain ? .drained : .nodeLost) && cause(record) == "node")
        #expect(!record.isComplete)
    }

    @Test("ended by the server over both heads while it rang is missed by the callee") func deleted() throws {
        let room = harness.call()
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        let record = try record(room)
        #expect(record.outcome == .ended && cause(record) == "server")
        #expect(views(record) == ["alice caller outgoing unanswered", "ben callee incoming missed"])
    }

    @Test("the server that speaks for a user names the user") func serverSpeaks() throws {
        let room = harness.call()
        harness.serverEnd(.rejected, "ben", in: room)
        #expect(cause(try record(room)) == "server ben")
    }

    @Test("answered elsewhere is answered, whichever device asks") func elsewhere() throws {
        let room = harness.call()
        harness.prepared("ben", in: room, device: "phone")
        let tablet = harness.prepared("ben", in: room, device: "tablet")
        harness.join(tablet, in: room)
        harness.joined("alice", in: room)
        harness.end(.ended, "alice", in: room)
        let record = try record(room)
        #expect(views(record) == ["alice caller outgoing answered", "ben callee incoming answered"])
        #expect(record.callees[0].device == "tablet")
        #expect(record.legs.first { $0.device == "phone" }?.reason == .answeredElsewhere)
    }

    @Test("a room without ring gets a record, with its participants and no call log direction") func withoutRing()
        throws
    {
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.prepared("ben", in: room)
        harness.advance(.seconds(5))
        harness.leave(alice, in: room)
        let record = try record(room)
        #expect(record.outcome == .ended && record.caller == nil && record.callees.isEmpty)
        #expect(views(record).sorted() == ["alice participant joined", "ben participant not-joined"])
    }

    @Test("a room that nobody ever joined expires with a record") func expired() throws {
        let room = harness.createRoom()
        harness.advance(.seconds(60))
        let record = try record(room)
        #expect(record.outcome == .expired && record.users.isEmpty && cause(record) == "timer" && record.isComplete)
    }

    @Test("in a group each callee's log shows its own outcome; one still rung at the end has missed it")
    func group() throws {
        let room = harness.groupCall(to: ["ben", "cat", "dan"])
        let alice = harness.joined("alice", in: room)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        harness.end(.rejected, "cat", in: room)
        harness.leave(ben, in: room)
        harness.leave(alice, in: room)
        let record = try record(room)
        #expect(
            views(record) == [
                "alice caller outgoing answered", "ben callee incoming answered", "cat callee incoming rejected",
                "dan callee incoming missed",
            ])
    }

    // MARK: Timeline

    @Test("the timeline of a call: pushed, rang, prepared, answered, joined, first media, each at its time")
    func timeline() throws {
        let start = harness.wallClockMs
        let room = harness.call()
        harness.advance(.milliseconds(100))
        _ = harness.request(ConductorHarness.server, .pushed(room, uid: "ben", device: "phone"))
        harness.advance(.milliseconds(100))
        harness.ringing("ben", in: room)
        harness.advance(.milliseconds(100))
        let ben = harness.prepared("ben", in: room)
        let alice = harness.prepared("alice", in: room)
        harness.advance(.milliseconds(100))
        harness.join(ben, in: room)
        harness.advance(.milliseconds(100))
        harness.join(alice, in: room)
        harness.advance(.milliseconds(100))
        harness.news(.media(ben.handle, .audio, at: harness.now))
        harness.advance(.milliseconds(100))
        harness.news(.media(ben.handle, .video, at: harness.now))
        harness.news(.media(alice.handle, .audio, at: harness.now))
        harness.advance(.milliseconds(100))
        harness.leave(alice, in: room)
        let record = try record(room)
        let callee = record.callees[0]
        #expect(record.createdAtMs == start)
        #expect(callee.pushes.map { "\($0.device) \($0.atMs - start)" } == ["phone 100"])
        #expect(callee.ringingAtMs == start + 200 && callee.answeredAtMs == start + 400)
        let leg = try #require(record.legs.first { $0.uid == "ben" })
        #expect(leg.createdAtMs == start + 300 && leg.preparedAtMs == start + 300 && leg.joinedAtMs == start + 400)
        #expect(leg.notes.firstAudioAtMs == start + 600 && leg.notes.firstVideoAtMs == start + 700)
        #expect(leg.leftAtMs == start + 800)
        #expect(record.startedAtMs == start + 400 && record.talkingSinceMs == start + 500)
        #expect(record.endedAtMs == start + 800 && record.durationMs == 300)
        let caller = try #require(record.legs.first { $0.uid == "alice" })
        #expect(caller.notes.firstAudioAtMs == start + 700 && caller.notes.firstVideoAtMs == nil)
    }

    @Test("interruptions are counted and timed, one that lasts to the end as well") func interruptions() throws {
        let (room, alice, ben) = harness.talking()
        harness.news(.interrupted(alice.handle, at: harness.now))
        harness.advance(.seconds(2))
        harness.news(.recovered(alice.handle, at: harness.now))
        harness.advance(.seconds(2))
        harness.news(.interrupted(alice.handle, at: harness.now))
        harness.advance(.seconds(3))
        harness.leave(ben, in: room)
        let leg = try #require(try record(room).legs.first { $0.uid == "alice" })
        #expect(leg.notes.interruptions == 2 && leg.notes.interruptedMs == 5_000)
    }

    @Test("the same device preparing anew leaves a leg of its own, replaced") func replaced() throws {
        let (room, _, ben) = harness.talking()
        harness.prepared("ben", in: room)
        harness.end(.ended, "alice", in: room)
        let legs = try record(room).legs.filter { $0.uid == "ben" }
        #expect(legs.count == 2 && legs[0].participant == ben.id && legs[0].reason == nil)
    }

    @Test("a group that lived long keeps the latest 64 legs, counts the others and knows their users") func bounded()
        throws
    {
        let room = harness.createRoom(kind: .group)
        let host = harness.joined("host", in: room)
        for number in 0..<70 {
            let guest = harness.prepared("guest\(number % 3)", in: room)
            harness.leave(guest, in: room)
        }
        harness.leave(host, in: room)
        harness.advance(.seconds(60))
        let record = try record(room)
        #expect(record.legs.count == 64 && record.omittedLegs == 7)
        #expect(record.legs.last?.uid == "host")
        #expect(record.omittedUsers == ["guest0", "guest1", "guest2"])
        #expect(record.users.count == 4)
    }
}
