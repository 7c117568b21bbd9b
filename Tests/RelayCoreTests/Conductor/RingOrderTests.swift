import RTPCore
import RelayCore
import Testing

/// CALLS.md, "Order within a decision", and who is told what.
@Suite("Ring: order of events")
struct RingOrderTests {
    let harness = ConductorHarness()

    @Test("a room with a ring is created, then its call initiated")
    func creation() {
        harness.call()
        #expect(harness.lines == ["room.created", "call.initiated alice"])
    }

    @Test("call.initiated carries what a push needs")
    func push() {
        let room = harness.call("c1") {
            $0.ring?.callerName = "Alice A."
            $0.ring?.callerAvatarURL = "https://example.org/a.png"
            $0.ring?.conversationID = "conv"
        }
        let fields = harness.events.last!.data
        let expected: [(String, JSONValue)] = [
            ("sessionId", .string(room.text)), ("callerUid", .string("alice")), ("callerName", .string("Alice A.")),
            ("callerAvatarUrl", .string("https://example.org/a.png")), ("callType", .string("video")),
            ("receiverType", .string("user")), ("receiverUid", .string("ben")),
            ("callees", .array([.string("ben")])), ("conversationId", .string("conv")),
            ("initiatedAtMs", .integer(harness.wallClockMs)), ("ringTimeoutMs", .integer(45_000)),
            ("isVideo", .bool(true)), ("isPeerCall", .bool(true)),
        ]
        #expect(fields == expected.map { JSONValue.Field($0.0, $0.1) })
    }

    @Test("an answer and an end repeat who calls whom and since when, so that each can be understood alone")
    func repeated() {
        func call(_ event: RelayEvent?) -> [String: JSONValue] {
            guard case .object(let fields)? = event?.value("call") else { return [:] }
            return Dictionary(uniqueKeysWithValues: fields.map { ($0.name, $0.value) })
        }
        let room = harness.talking().room
        harness.end(.ended, "alice", in: room)
        let answered = call(harness.events.first { $0.type == .callAnswered })
        let ended = call(harness.ends(of: room).first)
        for told in [answered, ended] {
            #expect(told["callerUid"] == .string("alice") && told["receiverUid"] == .string("ben"))
            #expect(told["receiverType"] == .string("user") && told["callType"] == .string("video"))
            #expect(told["initiatedAtMs"] != nil && told["answeredAtMs"] != nil)
        }
        #expect(answered["joinedAtMs"] == nil && ended["joinedAtMs"] != nil)
        let declined = harness.call("c2", from: "cat", to: "dan")
        harness.end(.busy, "dan", in: declined)
        #expect(call(harness.ends(of: declined).first)["answeredAtMs"] == nil)
    }

    @Test("a callee's prepared device rings, and a second one does not ring again")
    func prepared() {
        let room = harness.call()
        harness.prepared("ben", in: room)
        #expect(harness.lines == ["participant.prepared ben", "call.ringing ben"])
        harness.prepared("ben", in: room, device: "laptop")
        #expect(harness.lines == ["participant.prepared ben"])
        harness.ringing("ben", in: room)
        #expect(harness.lines == [])
    }

    @Test("a caller's prepared device does not ring")
    func callerPrepared() {
        let room = harness.call()
        harness.prepared("alice", in: room)
        #expect(harness.lines == ["participant.prepared alice"])
    }

    @Test("answered, then the other devices' leaves, then joined: with a caller who joins on the answer")
    func claim() {
        let room = harness.call()
        harness.callerPrepared(in: room, joinOnAnswer: true)
        let ben = harness.prepared("ben", in: room)
        harness.prepared("ben", in: room, device: "laptop")
        harness.join(ben, in: room)
        #expect(
            harness.lines == [
                "call.answered ben", "participant.left ben answered-elsewhere", "participant.joined alice",
                "participant.joined ben",
            ])
    }

    @Test("with join=on-answer both gates are flipped by the deciding turn")
    func gates() {
        let room = harness.call()
        let alice = harness.callerPrepared(in: room, joinOnAnswer: true)
        let ben = harness.prepared("ben", in: room)
        harness.join(ben, in: room)
        let joined: Set<ParticipantHandle> = Set(
            harness.lastTurn.commands.compactMap { if case .join(let handle) = $0.command { handle } else { nil } })
        #expect(joined == [alice?.handle ?? ParticipantHandle(0), ben.handle])
    }

    @Test("an answer without a session joins the caller on answer, not the callee")
    func answerOnly() {
        let room = harness.call()
        harness.callerPrepared(in: room, joinOnAnswer: true)
        harness.prepared("ben", in: room)
        harness.answer("ben", in: room)
        #expect(harness.lines == ["call.answered ben", "participant.joined alice"])
    }

    @Test("a caller who prepares anew without join=on-answer no longer joins on it")
    func withdrawn() {
        let room = harness.call()
        harness.callerPrepared(in: room, joinOnAnswer: true)
        harness.callerPrepared(in: room, joinOnAnswer: false)
        harness.answer("ben", in: room)
        #expect(harness.lines == ["call.answered ben"])
    }

    @Test("a caller whose keys come after the claim joins when they come")
    func lateKeys() {
        let room = harness.call()
        let alice = harness.callerPrepared(in: room, joinOnAnswer: true, keys: false)
        harness.answer("ben", in: room)
        #expect(harness.lines == ["call.answered ben"])
        harness.news(.joined(alice!.handle, at: harness.now))
        #expect(harness.lines == ["participant.prepared alice", "participant.joined alice"])
    }

    @Test("a caller who prepares for the answer after the claim is on the way to joined")
    func lateCaller() {
        let room = harness.call()
        harness.answer("ben", in: room)
        harness.callerPrepared(in: room, joinOnAnswer: true, keys: false)
        #expect(harness.record(room)?.participants.first?.lifecycle.claimsSeat == true)
    }

    @Test("call.ended comes first at a decline, then the leaves, then room.closed")
    func decline() {
        let room = harness.call()
        harness.prepared("alice", in: room)
        harness.prepared("ben", in: room)
        harness.end(.rejected, "ben", in: room)
        #expect(
            harness.lines == [
                "call.ended rejected", "participant.left alice declined", "participant.left ben declined",
                "room.closed rejected",
            ])
        #expect(harness.ends(of: room).first?.value("by") == .string("ben"))
    }

    @Test("the caller's leave before the claim is a cancel that everybody is told", arguments: [false, true])
    func callersLeave(byCloseNotify: Bool) {
        let room = harness.call()
        let alice = harness.prepared("alice", in: room)
        harness.prepared("ben", in: room)
        if byCloseNotify { harness.ended(alice, .closed) } else { harness.leave(alice, in: room) }
        #expect(
            harness.lines == [
                "call.ended cancelled", "participant.left alice cancelled", "participant.left ben cancelled",
                "room.closed cancelled",
            ])
    }

    @Test("a joined one's leave ends the call: call.ended is first")
    func hangUp() {
        let call = harness.talking()
        harness.leave(call.ben, in: call.room)
        #expect(
            harness.lines == [
                "call.ended hangup", "participant.left ben hangup", "participant.left alice peer-left",
                "room.closed hangup",
            ])
    }

    @Test("a side that stays away ends the call as lost")
    func lost() {
        let call = harness.talking()
        harness.ended(call.alice, .lost)
        #expect(harness.outcome(of: call.room) == "lost")
        #expect(harness.lines.prefix(2) == ["call.ended lost", "participant.left alice lost"])
    }

    @Test("before the claim a lost, failed or kicked caller is only removed, joined or not", arguments: [false, true])
    func callerOnlyRemoved(isJoined: Bool) {
        let room = harness.call()
        for end in [TransportEnd.lost, .handshakeFailed] {
            let alice = harness.prepared("alice", in: room)
            if isJoined { harness.join(alice, in: room) }
            harness.ended(alice, end)
            #expect(harness.status(room) == .initiated)
        }
        let alice = harness.prepared("alice", in: room)
        _ = harness.request(ConductorHarness.server, .kick(room, alice.id))
        #expect(harness.status(room) == .initiated)
        #expect(harness.answer("ben", in: room).problem == nil)
    }

    @Test("before the claim a callee's device that leaves is only removed")
    func calleeOnlyRemoved() {
        let room = harness.call()
        let ben = harness.prepared("ben", in: room)
        harness.leave(ben, in: room)
        #expect(harness.status(room) == .initiated)
        #expect(harness.lines == ["participant.left ben hangup"])
    }

    @Test("the server's DELETE and a drain end a ringing call once, call.ended first", arguments: [false, true])
    func serverEnds(byDrain: Bool) {
        let room = harness.call()
        harness.prepared("alice", in: room)
        if byDrain {
            harness.decide(.drain)
        } else {
            _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        }
        #expect(harness.outcome(of: room) == (byDrain ? "drained" : "ended"))
        #expect(harness.lines.first { !$0.hasPrefix("node") }?.hasPrefix("call.ended") == true)
    }

    @Test("a room without ring has no call events")
    func withoutRing() {
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.leave(alice, in: room)
        #expect(!harness.events.contains { $0.type.rawValue.hasPrefix("call") })
    }
}
