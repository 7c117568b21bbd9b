import RTPCore
import RelayCore
import Testing

/// Races that concern no ring, and who may do what.
@Suite("Conductor: races")
struct ConductorRaceTests {
    @Test("both leave within a millisecond: ended once, and both get their 200")
    func bothLeave() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let bob = harness.joined("bob", in: room)
        #expect(harness.leave(alice, in: room) == .done)
        harness.advance(.milliseconds(1))
        #expect(harness.leave(bob, in: room) == .done)
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.record(room)?.outcome == .ended)
        #expect(harness.leaveReason(alice) == "hangup")
        #expect(harness.leaveReason(bob) == "peer-left")
    }

    @Test(
        "a leave crossing the close_notify of the same client is told once, whichever comes first",
        arguments: [true, false])
    func leaveAndClose(_ leaveFirst: Bool) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.joined("bob", in: room)
        if leaveFirst {
            #expect(harness.leave(alice, in: room) == .done)
            harness.ended(alice, .closed)
        } else {
            harness.ended(alice, .closed)
            #expect(harness.leave(alice, in: room) == .done)
        }
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.leaveReason(alice) == "hangup")
        #expect(harness.record(room)?.outcome == .ended)
    }

    @Test("both vanish: the first one lost decides the outcome")
    func bothLost() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let bob = harness.joined("bob", in: room)
        harness.ended(alice, .lost)
        harness.ended(bob, .lost)
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.record(room)?.outcome == .lost)
    }

    @Test("a join a millisecond before the prepared expiry joins, at the deadline it is 410", arguments: [true, false])
    func joinAndExpiry(_ before: Bool) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        // The timer itself is late: nobody called the conductor at the deadline.
        harness.move(to: harness.now + (before ? .milliseconds(299_999) : .seconds(300)))
        let reply = harness.join(alice, in: room)
        if before {
            #expect(reply.joinedView != nil)
            harness.advance(.seconds(10))
            #expect(harness.state(alice, in: room) == .joined)
        } else {
            #expect(reply.problem?.status == 410)
            #expect(reply.problem?.code == "expired")
            #expect(harness.lines == ["participant.left alice expired", "room.closed expired"])
        }
    }

    @Test(
        "keys a millisecond before the connecting expiry count, at the deadline they are late",
        arguments: [true, false])
    func keysAndExpiry(_ before: Bool) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        harness.move(to: harness.now + (before ? .milliseconds(29_999) : .seconds(30)))
        harness.news(.prepared(alice.handle, at: harness.now))
        #expect(harness.state(alice, in: room) == (before ? .prepared : nil))
        if !before {
            #expect(harness.lines == ["participant.left alice failed"])
            #expect(harness.lastTurn.commands.map(\.command).allSatisfy { $0 == .remove(alice.handle) })
        }
    }

    @Test(
        "a prepare a millisecond before the empty room's end keeps it, at the deadline it is 410",
        arguments: [true, false])
    func prepareAndEmptyRoom(_ before: Bool) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.move(to: harness.now + (before ? .milliseconds(59_999) : .seconds(60)))
        let problem = harness.problem(
            ConductorHarness.token("alice", room), .prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd")))
        #expect(problem?.status == (before ? nil : 410))
    }

    @Test("two rooms are joined by one user at once: the first wins, the second is 409")
    func twoRooms() {
        let harness = ConductorHarness()
        let first = harness.createRoom()
        let second = harness.createRoom()
        let one = harness.prepared("alice", in: first)
        let two = harness.prepared("alice", in: second)
        #expect(harness.join(two, in: second).joinedView != nil)
        #expect(harness.join(one, in: first).problem?.code == "already-joined")
    }

    @Test("a join crossing the room's deletion: whoever is second gets a definite answer")
    func joinAndDelete() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        let problem = harness.join(alice, in: room).problem
        #expect(problem?.status == 410)
        #expect(problem?.members == [JSONValue.Field("outcome", .string("ended"))])
    }

    @Test("news of a replaced transport do not touch its successor")
    func newsOfAReplacedTransport() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let old = harness.joined("alice", in: room)
        let new = harness.prepare("alice", in: room)
        harness.ended(old, .closed)
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.state(new, in: room) == .connecting)
        #expect(harness.record(room)?.status == .ongoing)
    }

    @Test("a leave of a replaced session is 200 and does not touch its successor")
    func leaveOfAReplacedSession() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let old = harness.joined("alice", in: room)
        let new = harness.prepare("alice", in: room)
        #expect(harness.leave(old, in: room) == .done)
        #expect(harness.state(new, in: room) == .connecting)
        #expect(harness.join(old, in: room).problem?.status == 410)
    }

    @Test("a gate that opened in the crash between two rooms ends the older one")
    func gateOpenedInTwoRooms() {
        let harness = ConductorHarness()
        let first = harness.createRoom()
        let second = harness.createRoom()
        let one = harness.joined("alice", in: first)
        let two = harness.prepared("alice", in: second)
        // The worker had the join of an end=others that was never stored.
        harness.news(.joined(two.handle, at: harness.now))
        #expect(harness.leaveReason(one) == "hangup")
        #expect(harness.state(two, in: second) == .joined)
    }
}

@Suite("Conductor: who may do what")
struct ConductorAuthorisationTests {
    @Test("the server's verbs are 403 for a participant", arguments: 0..<4)
    func serverVerbs(_ index: Int) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        let requests: [ControlRequest] = [
            .createRoom(RoomSpecification(id: nil, kind: .peer, media: .audio)),
            .listRooms(status: nil, uid: nil, cursor: nil, limit: 10),
            .deleteRoom(room, reason: nil),
            .kick(room, alice.id),
        ]
        let problem = harness.problem(ConductorHarness.token("alice", room), requests[index])
        #expect(problem?.status == 403)
        #expect(problem?.code == "forbidden")
    }

    @Test("the server key cannot prepare: a session belongs to a user")
    func serverCannotPrepare() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let request = ControlRequest.prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd"))
        #expect(harness.problem(ConductorHarness.server, request)?.status == 403)
    }

    @Test("a room that is not there and one that is another's get the same answer", arguments: 0..<5)
    func enumeration(_ index: Int) throws {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        let absent = try #require(RoomID("absent"))
        func request(_ room: RoomID) -> ControlRequest {
            [
                .room(room), .prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd")),
                .join(room, alice.id, endOthers: false, takeover: false), .leave(room, alice.id),
                .trickle(room, alice.id, ifMatch: "*", fragment: []),
            ][index]
        }
        let other = try #require(RoomID("other"))
        let foreign = harness.problem(ConductorHarness.token("mallory", other), request(room))
        let missing = harness.problem(ConductorHarness.token("mallory", absent), request(absent))
        #expect(foreign?.status == 404)
        #expect(foreign?.code == "call-not-found")
        #expect(foreign == missing)
    }

    @Test("another's session in the own room is as unknown as one that is not there", arguments: 0..<3)
    func othersSession(_ index: Int) throws {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        let absent = try #require(ParticipantID("p_absent"))
        func request(_ participant: ParticipantID) -> ControlRequest {
            [
                .join(room, participant, endOthers: false, takeover: false), .leave(room, participant),
                .trickle(room, participant, ifMatch: "*", fragment: []),
            ][index]
        }
        let foreign = harness.problem(ConductorHarness.token("bob", room), request(alice.id))
        let missing = harness.problem(ConductorHarness.token("bob", room), request(absent))
        #expect(foreign?.status == 404)
        #expect(foreign == missing)
        #expect(harness.state(alice, in: room) == .prepared)
    }

    @Test("a token of another device of the same user does not reach a session")
    func otherDevice() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room, device: "phone")
        let problem = harness.problem(
            ConductorHarness.token("alice", room, device: "laptop"), .leave(room, alice.id))
        #expect(problem?.status == 404)
    }

    @Test("who left stays unknown to others too")
    func departedOfOthers() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepared("alice", in: room)
        harness.leave(alice, in: room)
        #expect(harness.problem(ConductorHarness.token("bob", room), .leave(room, alice.id))?.status == 404)
    }

    @Test("a participant sees its own room, with or without a session")
    func ownRoom() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.prepared("alice", in: room)
        let view = harness.request(ConductorHarness.token("bob", room), .room(room)).roomView
        #expect(view?.participants.map(\.uid) == ["alice"])
    }

    @Test("what a token may not publish is not in the session")
    func grants() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let grants = Grants(publishAudio: true, publishVideo: false, subscribe: true, end: false)
        let identity = ParticipantIdentity(uid: "alice", device: "phone", room: room, grants: grants)
        _ = harness.request(
            .participant(identity), .prepare(room, state: nil, offer: conductorOffer(ufrag: "abcd")))
        let view = harness.request(ConductorHarness.server, .room(room)).roomView
        #expect(view?.participants.first?.sends == [.audio])
        #expect(view?.participants.first?.receives == [.audio, .video])
    }
}

@Suite("Conductor: ICE restart and trickle")
struct ConductorTrickleTests {
    private func session() -> (ConductorHarness, RoomID, HarnessParticipant) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        return (harness, room, harness.prepare("alice", in: room, ufrag: "first"))
    }
    private func fragment(ufrag: String?, fingerprintByte: String? = nil) -> [UInt8] {
        var lines: [String] = []
        if let ufrag { lines += ["a=ice-ufrag:\(ufrag)", "a=ice-pwd:zyxwvutsrqponmlkjihgfedc"] }
        if let byte = fingerprintByte {
            lines.append("a=fingerprint:sha-256 " + Array(repeating: byte, count: 32).joined(separator: ":"))
        }
        lines += ["m=audio 9 UDP/TLS/RTP/SAVPF 0", "a=mid:0"]
        return Array(lines.map { $0 + "\r\n" }.joined().utf8)
    }
    private func patch(
        _ harness: ConductorHarness, _ room: RoomID, _ participant: HarnessParticipant, _ ifMatch: String?,
        _ fragment: [UInt8]
    ) -> ControlReply {
        harness.request(
            ConductorHarness.token("alice", room),
            .trickle(room, participant.id, ifMatch: ifMatch, fragment: fragment))
    }

    @Test("a restart draws new credentials, tells the worker and gives a new ETag")
    func restart() {
        let (harness, room, alice) = session()
        let before = harness.record(room)?.participants.first?.transport.localICE
        let reply = patch(harness, room, alice, "*", fragment(ufrag: "second"))
        guard case .restarted(let answer, "2") = reply,
            case .restartICE(alice.handle, let local, let remote) = harness.lastTurn.commands.first?.command
        else {
            Issue.record("\(reply)")
            return
        }
        #expect(local != before)
        #expect(remote.ufrag == "second")
        #expect(String(decoding: answer, as: UTF8.self).contains("a=ice-ufrag:\(local.ufrag)"))
        #expect(harness.record(room)?.participants.first?.transport.localICE == local)
        #expect(harness.lastTurn.changedRooms == [room])
    }

    @Test(
        "a trickle with the current ETag is 204 and changes nothing", arguments: ["\"1\"", "\"0\", \"1\"", " \"1\" "])
    func trickle(_ ifMatch: String) {
        let (harness, room, alice) = session()
        #expect(patch(harness, room, alice, ifMatch, fragment(ufrag: "first")) == .trickleIgnored)
        #expect(harness.lastTurn.commands.isEmpty && harness.lastTurn.changedRooms.isEmpty)
    }

    @Test(
        "without If-Match it is 428, with a stale, weak or bare one 412",
        arguments: [
            (nil as String?, 428), ("\"0\"", 412), ("W/\"1\"", 412), ("1", 412), ("", 412),
        ])
    func preconditions(_ ifMatch: String?, _ status: Int) {
        let (harness, room, alice) = session()
        #expect(patch(harness, room, alice, ifMatch, fragment(ufrag: "first")).problem?.status == status)
    }

    @Test("after a restart the old ETag is stale")
    func staleAfterRestart() {
        let (harness, room, alice) = session()
        _ = patch(harness, room, alice, "*", fragment(ufrag: "second"))
        #expect(patch(harness, room, alice, "\"1\"", fragment(ufrag: "second")).problem?.status == 412)
        #expect(patch(harness, room, alice, "\"2\"", fragment(ufrag: "second")) == .trickleIgnored)
    }

    @Test("a restart with another certificate is 422 and restarts nothing")
    func otherFingerprint() {
        let (harness, room, alice) = session()
        let reply = patch(harness, room, alice, "*", fragment(ufrag: "second", fingerprintByte: "CD"))
        #expect(reply.problem?.status == 422)
        #expect(harness.lastTurn.commands.isEmpty)
    }

    @Test("new credentials under the current ETag are 422: a restart is asked for by *")
    func unaskedRestart() {
        let (harness, room, alice) = session()
        #expect(patch(harness, room, alice, "\"1\"", fragment(ufrag: "second")).problem?.status == 422)
    }

    @Test("a fragment that is none is 4xx and changes nothing", arguments: ["*", "\"1\""])
    func badFragment(_ ifMatch: String) {
        let (harness, room, alice) = session()
        let reply = patch(harness, room, alice, ifMatch, [0xFF, 0x00, 0x0A])
        #expect(reply.problem?.status == 400)
        #expect(harness.lastTurn.commands.isEmpty)
    }

    @Test("the identical offer after a restart is still the same session, under its new ETag")
    func identicalOfferAfterRestart() {
        let (harness, room, alice) = session()
        _ = patch(harness, room, alice, "*", fragment(ufrag: "second"))
        let reply = harness.request(
            ConductorHarness.token("alice", room),
            .prepare(room, state: .prepared, offer: conductorOffer(ufrag: "first")))
        guard case .prepared(alice.id, _, "2", false) = reply else {
            Issue.record("\(reply)")
            return
        }
    }

    @Test("a session that left is 410")
    func leftSession() {
        let (harness, room, alice) = session()
        harness.leave(alice, in: room)
        #expect(patch(harness, room, alice, "*", fragment(ufrag: "second")).problem?.status == 410)
    }
}
