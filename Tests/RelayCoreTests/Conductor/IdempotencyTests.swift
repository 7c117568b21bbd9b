import Foundation
import RTPCore
import RelayCore
import Testing

/// `Idempotency-Key`: the same request twice is one request, whatever it was.
@Suite("Conductor: idempotency keys")
struct IdempotencyTests {
    private func specification(_ id: String? = nil) -> RoomSpecification {
        RoomSpecification(id: id.flatMap { RoomID($0) }, kind: .peer, media: .audio)
    }

    @discardableResult
    private func create(
        _ harness: ConductorHarness, _ specification: RoomSpecification, key: String, digest: String = "create",
        keyID: String = "key1"
    ) -> ControlReply {
        harness.request(
            .server(keyID: keyID), .createRoom(specification), key: IdempotencyKey(text: key, digest: digest))
    }

    @Test("a key repeats the first answer word by word, even when the room has changed since")
    func creation() {
        let harness = ConductorHarness()
        let first = create(harness, specification(), key: "k")
        guard case .created(let view, true) = first else { return }
        harness.joined("alice", in: view.id)
        #expect(create(harness, specification(), key: "k") == .repeated(ConductorHarness.text(of: first)))
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.conductor.counts.initiatedRooms + harness.conductor.counts.ongoingRooms == 1)
    }

    @Test("a key with another request is 422 and changes nothing")
    func reused() {
        let harness = ConductorHarness()
        create(harness, specification(), key: "k")
        let problem = create(harness, specification(), key: "k", digest: "other").problem
        #expect(problem?.status == 422)
        #expect(problem?.code == "idempotency-key-reused")
        #expect(harness.lastTurn.events.isEmpty)
    }

    enum Verb: String, Sendable, CaseIterable { case end, answer, ringing, join, sessions, pushed, restart }

    @Test("every verb of a call may come twice with a key and happens once", arguments: Verb.allCases)
    func verbs(_ verb: Verb) {
        let harness = ConductorHarness()
        let room = harness.call()
        let ben = harness.prepared("ben", in: room)
        let token = ConductorHarness.token("ben", room)
        let fragment = Array("a=ice-ufrag:again\r\na=ice-pwd:zyxwvutsrqponmlkjihgfedc\r\n".utf8)
        let (principal, request): (Principal, ControlRequest) =
            switch verb {
            case .end: (token, .end(room, .rejected, uid: nil, scope: .user))
            case .answer: (token, .answer(room))
            case .ringing: (token, .ringing(room))
            case .join: (token, .join(room, ben.id, endOthers: false, takeover: false))
            case .sessions: (token, .prepare(room, state: .joined, offer: conductorOffer(ufrag: "once")))
            case .pushed: (ConductorHarness.server, .pushed(room, uid: "ben", device: "phone"))
            case .restart: (token, .trickle(room, ben.id, ifMatch: "*", fragment: fragment))
            }
        let key = IdempotencyKey(text: "k", digest: verb.rawValue)
        let first = harness.request(principal, request, key: key)
        #expect(first.problem == nil)
        #expect(harness.lastTurn.idempotency.count == 1)
        let events = harness.events.count
        // Whatever happens in between, even the end of the room.
        if verb != .end { harness.end(.ended, "alice", in: room) }
        let between = harness.events.count
        #expect(verb == .end ? between == events : between > events)
        #expect(harness.request(principal, request, key: key) == .repeated(ConductorHarness.text(of: first)))
        #expect(harness.events.count == between)
        #expect(harness.lastTurn.commands.isEmpty)
    }

    @Test("a refusal is repeated as well, though it would be another answer now")
    func refusal() {
        let harness = ConductorHarness()
        let room = harness.call()
        let key = IdempotencyKey(text: "k", digest: "cancel")
        let cancel = ControlRequest.end(room, .cancelled, uid: nil, scope: .user)
        let first = harness.request(ConductorHarness.token("ben", room), cancel, key: key)
        #expect(first.problem?.status == 403)
        harness.end(.cancelled, "alice", in: room)
        #expect(
            harness.request(ConductorHarness.token("ben", room), cancel, key: key)
                == .repeated(ConductorHarness.text(of: first)))
    }

    @Test("an answer that asks to come again later is not remembered")
    func tryAgain() {
        var configuration = ConductorConfiguration()
        configuration.roomsPerNode = 1
        let harness = ConductorHarness(configuration)
        let room = harness.createRoom()
        #expect(create(harness, specification(), key: "k").problem?.status == 503)
        #expect(harness.lastTurn.idempotency.isEmpty)
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        guard case .created(_, true) = create(harness, specification(), key: "k") else {
            Issue.record("not created: \(harness.lastTurn.replies)")
            return
        }
    }

    @Test("server keys do not share their idempotency keys, nor do users, nor rooms")
    func scopes() {
        let harness = ConductorHarness()
        guard case .created(let one, true) = create(harness, specification(), key: "k", keyID: "a"),
            case .created(let two, true) = create(harness, specification(), key: "k", keyID: "b")
        else {
            Issue.record("not created")
            return
        }
        let key = IdempotencyKey(text: "k", digest: "look")
        for (uid, room) in [("alice", one.id), ("ben", one.id), ("alice", two.id)] {
            let reply = harness.request(ConductorHarness.token(uid, room), .room(room), key: key)
            #expect(reply.roomView?.id == room)
        }
        #expect(harness.conductor.counts.idempotencyKeys == 5)
        // A user's devices are one.
        let again = harness.request(ConductorHarness.token("ben", one.id, device: "tv"), .room(one.id), key: key)
        guard case .repeated = again else {
            Issue.record("\(again)")
            return
        }
    }

    @Test("a key is kept 24 h, survives a restart, and is then deleted from the journal too")
    func life() {
        let harness = ConductorHarness()
        let first = create(harness, specification(), key: "k")
        #expect(harness.lastTurn.idempotency.map(\.key) == ["k"])
        harness.advance(.seconds(23 * 3_600))
        harness.restart()
        #expect(create(harness, specification(), key: "k") == .repeated(ConductorHarness.text(of: first)))
        harness.advance(.milliseconds(3_599_999))
        #expect(harness.keys.count == 1)
        harness.advance(.milliseconds(1))
        #expect(harness.keys.isEmpty)
        guard case .created(_, true) = create(harness, specification(), key: "k") else {
            Issue.record("the key was remembered too long")
            return
        }
    }

    @Test("the oldest keys make room where there are too many, and leave the journal")
    func bounded() {
        var configuration = ConductorConfiguration()
        configuration.idempotencyKeysKept = 3
        let harness = ConductorHarness(configuration)
        for index in 0...3 { create(harness, specification(), key: "k\(index)") }
        #expect(harness.conductor.counts.idempotencyKeys == 3)
        #expect(harness.keys.map(\.key) == ["k1", "k2", "k3"])
    }

    @Test("long answers are bounded by their bytes")
    func boundedBytes() {
        var configuration = ConductorConfiguration()
        configuration.idempotencyBytesKept = 10_000
        let harness = ConductorHarness(configuration)
        for index in 0..<100 { create(harness, specification(), key: "k\(index)") }
        #expect((2..<50).contains(harness.conductor.counts.idempotencyKeys))
        #expect(harness.keys.last?.key == "k99")
    }

    @Test("a user that uses up its keys crowds out nobody else's")
    func boundedPerUser() {
        var configuration = ConductorConfiguration()
        configuration.idempotencyKeysKept = 50
        let harness = ConductorHarness(configuration)
        guard case .created(let view, _) = create(harness, specification(), key: "server") else { return }
        func look(_ uid: String, _ key: String) {
            _ = harness.request(
                ConductorHarness.token(uid, view.id), .room(view.id), key: IdempotencyKey(text: key, digest: "look"))
        }
        look("ben", "k")
        for index in 0..<1_000 { look("alice", "k\(index)") }
        #expect(harness.conductor.counts.idempotencyKeys == 1 + 1 + 32)
        #expect(Set(harness.keys.map(\.key)).isSuperset(of: ["server", "k", "k999"]))
        for index in 0..<100 { look("user\(index)", "k") }
        #expect(harness.conductor.counts.idempotencyKeys == 1 + 50)
        #expect(harness.keys.contains { $0.key == "server" })
    }

    @Test("an empty or overlong key is 400", arguments: [0, 256])
    func length(_ count: Int) {
        let harness = ConductorHarness()
        let problem = create(harness, specification(), key: String(repeating: "k", count: count)).problem
        #expect(problem?.status == 400)
        #expect(harness.conductor.counts.initiatedRooms == 0)
    }

    @Test("a record survives JSON")
    func json() throws {
        let harness = ConductorHarness()
        create(harness, specification(), key: "k")
        let record = try #require(harness.keys.first)
        #expect(try JSONDecoder().decode(IdempotencyRecord.self, from: JSONEncoder().encode(record)) == record)
    }

    @Test("a record from when only creations had keys still gives its answer")
    func oldRecord() throws {
        let text = """
            {"createdAtMs":1767225600000,"key":"k","keyID":"key1","roomID":{"text":"r_old"},"seq":7,"request":
            {"allowParallel":false,"kind":"peer","maxParticipants":2,"media":"audio","timeouts":{"connecting":
            {"nanoseconds":30000000000},"empty":{"nanoseconds":60000000000},"prepared":{"nanoseconds":300000000000}},
            "videoCodec":\(try Self.codec())}}
            """
        let record = try JSONDecoder().decode(IdempotencyRecord.self, from: Data(text.utf8))
        let harness = ConductorHarness()
        harness.keys = [record]
        harness.restart()
        guard case .repeated(let answer) = create(harness, specification(), key: "k", digest: "any") else {
            Issue.record("an old key was not known")
            return
        }
        #expect(answer.body.contains("r_old"))
        var other = specification()
        other.metadata = "{}"
        #expect(create(harness, other, key: "k", digest: "any").problem?.status == 422)
    }

    private static func codec() throws -> String {
        String(decoding: try JSONEncoder().encode([MediaCodec.vp8]).dropFirst().dropLast(), as: UTF8.self)
    }
}
