import RTPCore
import RelayCore
import Testing

@Suite("Conductor: rooms")
struct ConductorRoomTests {
    private func create(_ harness: ConductorHarness, _ specification: RoomSpecification) -> ControlReply {
        harness.request(ConductorHarness.server, .createRoom(specification))
    }
    private func specification(_ id: String? = nil) -> RoomSpecification {
        RoomSpecification(id: id.flatMap { RoomID($0) }, kind: .peer, media: .audio)
    }

    @Test("the first decision says node.started, before anything else")
    func nodeStarted() {
        let harness = ConductorHarness(workers: 0)
        harness.createRoom()
        #expect(harness.lines == ["node.started", "room.created"])
        #expect(harness.events.first?.value("epoch") != nil)
    }

    @Test("before its first decision the conductor wants to be called at once")
    func deadlineBeforeStart() {
        let conductor = Conductor(
            configuration: ConductorConfiguration(), random: .seeded(1), restoring: [], idempotency: [], nextSeq: 1,
            isSameBoot: true, knownEnded: { _ in nil })
        #expect(conductor.deadline == Instant(nanoseconds: 0))
    }

    @Test("a room without an id gets one with 128 random bits")
    func drawnID() {
        let harness = ConductorHarness()
        let ids = (0..<50).map { _ in harness.createRoom().text }
        #expect(Set(ids).count == 50)
        #expect(ids.allSatisfy { $0.hasPrefix("r_") && $0.utf8.count == 24 })
    }

    @Test("the same id and body again is the same room, not a new one")
    func sameBodyAgain() {
        let harness = ConductorHarness()
        guard case .created(let first, true) = create(harness, specification("call-1")) else { return }
        let again = create(harness, specification("call-1"))
        guard case .created(let second, false) = again else {
            Issue.record("\(again)")
            return
        }
        #expect(second.id == first.id)
        #expect(harness.lastTurn.events.isEmpty)
    }

    @Test("the same id with another body is 409, live or ended")
    func anotherBody() {
        let harness = ConductorHarness()
        let room = harness.createRoom("call-1")
        #expect(create(harness, specification("call-1")).problem?.status == 409)
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        #expect(create(harness, specification("call-1")).problem?.status == 409)
    }

    @Test("the same id and body after the end is 410 with the outcome")
    func endedID() {
        let harness = ConductorHarness()
        _ = create(harness, specification("call-1"))
        _ = harness.request(ConductorHarness.server, .deleteRoom(RoomID("call-1")!, reason: nil))
        let problem = create(harness, specification("call-1")).problem
        #expect(problem?.status == 410)
        #expect(problem?.members == [JSONValue.Field("outcome", .string("ended"))])
    }

    @Test("an id that was forgotten is refused by the journal's word")
    func forgottenID() {
        let harness = ConductorHarness()
        _ = create(harness, specification("call-1"))
        harness.restart(knownEnded: { $0.text == "call-0" ? .lost : nil })
        let problem = create(harness, specification("call-0")).problem
        #expect(problem?.status == 410)
        #expect(problem?.members == [JSONValue.Field("outcome", .string("lost"))])
        #expect(create(harness, specification("call-2")).problem == nil)
    }

    @Test("rooms beyond the node's limit are 503 naming the limit; ended ones do not count")
    func roomLimit() {
        var configuration = ConductorConfiguration()
        configuration.roomsPerNode = 2
        let harness = ConductorHarness(configuration)
        let first = harness.createRoom()
        harness.createRoom()
        let problem = create(harness, specification()).problem
        #expect(problem?.status == 503)
        #expect(problem?.code == "overloaded")
        #expect(problem?.detail.contains("2") == true)
        _ = harness.request(ConductorHarness.server, .deleteRoom(first, reason: nil))
        #expect(create(harness, specification()).problem == nil)
    }

    @Test("values that a room may not have are 422 naming them", arguments: 0..<7)
    func invalidSpecification(_ index: Int) {
        let changes: [(String, (inout RoomSpecification) -> Void)] = [
            ("maxParticipants", { $0.maxParticipants = 0 }),
            ("maxParticipants", { $0.maxParticipants = 101 }),
            ("videoCodec", { $0.videoCodec = .opus }),
            ("metadata", { $0.metadata = String(repeating: "x", count: 4_097) }),
            ("prepared", { $0.timeouts.prepared = .zero }),
            ("empty", { $0.timeouts.empty = Interval(nanoseconds: .max) }),
            ("maxDuration", { $0.timeouts.maxDuration = Interval(nanoseconds: -1) }),
        ]
        var invalid = specification()
        changes[index].1(&invalid)
        let problem = create(ConductorHarness(), invalid).problem
        #expect(problem?.status == 422)
        #expect(problem?.detail.contains(changes[index].0) == true)
    }

    @Test("a listing gives rooms in the order of their creation, page by page, each once")
    func listing() {
        let harness = ConductorHarness()
        let ids = (0..<7).map { _ in harness.createRoom() }
        var seen: [RoomID] = []
        var cursor: String?
        repeat {
            let reply = harness.request(
                ConductorHarness.server, .listRooms(status: nil, uid: nil, cursor: cursor, limit: 3))
            guard case .rooms(let views, let next, _) = reply else { break }
            seen += views.map(\.id)
            cursor = next
        } while cursor != nil
        #expect(seen == ids)
    }

    @Test("a listing by status and by user gives only those")
    func filteredListing() {
        let harness = ConductorHarness()
        let first = harness.createRoom()
        let second = harness.createRoom()
        harness.createRoom()
        harness.joined("alice", in: first)
        harness.prepared("alice", in: second)
        func list(_ status: RoomStatus?, _ uid: String?) -> [RoomID] {
            let request = ControlRequest.listRooms(status: status, uid: uid, cursor: nil, limit: 50)
            guard case .rooms(let views, nil, _) = harness.request(ConductorHarness.server, request) else { return [] }
            return views.map(\.id)
        }
        #expect(list(.ongoing, nil) == [first])
        #expect(list(nil, "alice") == [first, second])
        #expect(list(.initiated, "alice") == [second])
        #expect(list(nil, "nobody") == [])
    }

    @Test("a cursor that no listing gave is 400", arguments: ["x", "-1", "18446744073709551615", ""])
    func badCursor(_ cursor: String) {
        let harness = ConductorHarness()
        let request = ControlRequest.listRooms(status: nil, uid: nil, cursor: cursor, limit: 5)
        #expect(harness.problem(ConductorHarness.server, request)?.status == 400)
    }

    @Test("a listing goes on when rooms before its cursor were forgotten")
    func listingAfterForgetting() {
        var configuration = ConductorConfiguration()
        configuration.endedRoomsKept = 1
        let harness = ConductorHarness(configuration)
        let ids = (0..<300).map { _ in harness.createRoom() }
        for id in ids.prefix(250) { _ = harness.request(ConductorHarness.server, .deleteRoom(id, reason: nil)) }
        let request = ControlRequest.listRooms(status: nil, uid: nil, cursor: "200", limit: 500)
        guard case .rooms(let views, nil, _) = harness.request(ConductorHarness.server, request) else { return }
        #expect(views.map(\.id) == Array(ids[249...]))
    }

    @Test("a view carries the number of the newest event that it knows of")
    func viewCursor() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        let view = harness.request(ConductorHarness.server, .room(room)).roomView
        #expect(view?.seq == harness.events.last?.seq)
        #expect(view?.status == .ongoing)
        #expect(view?.participants.first?.state == .joined)
    }

    @Test("a listing carries the number of the newest event, also an empty one", arguments: [nil, "alice", "nobody"])
    func listingCursor(_ uid: String?) {
        let harness = ConductorHarness()
        harness.joined("alice", in: harness.createRoom())
        let request = ControlRequest.listRooms(status: .ongoing, uid: uid, cursor: nil, limit: 5)
        guard case .rooms(let views, _, let seq) = harness.request(ConductorHarness.server, request) else {
            Issue.record("no listing")
            return
        }
        #expect(views.count == (uid == "nobody" ? 0 : 1))
        #expect(seq == harness.events.last?.seq)
    }

    @Test("a deleted room ends for everybody with the given reason, and again it is done")
    func deleteRoom() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.prepared("bob", in: room)
        #expect(harness.request(ConductorHarness.server, .deleteRoom(room, reason: "abuse")) == .done)
        #expect(
            harness.lines == [
                "participant.left alice room-ended", "participant.left bob room-ended", "room.closed abuse",
            ])
        #expect(harness.lastTurn.commands.map(\.command).first == .remove(alice.handle))
        #expect(harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil)) == .done)
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.record(room)?.reason == "abuse")
    }

    @Test("a room in which nobody ever was is closed after the empty time as expired")
    func emptyRoomCloses() {
        let harness = ConductorHarness()
        let room = harness.createRoom { $0.timeouts.empty = .seconds(10) }
        harness.advance(.seconds(9))
        #expect(harness.record(room)?.status == .initiated)
        harness.advance(.seconds(1))
        #expect(harness.record(room)?.outcome == .expired)
        #expect(harness.closing(room)?.reason == "empty")
    }

    @Test("the empty time starts anew when the last one leaves, and a group then ends")
    func emptyGroupEnds() {
        let harness = ConductorHarness()
        let room = harness.createRoom(kind: .group) { $0.timeouts.idle = nil }
        harness.advance(.seconds(59))
        let alice = harness.joined("alice", in: room)
        harness.advance(.seconds(600))
        harness.leave(alice, in: room)
        #expect(harness.record(room)?.status == .ongoing)
        #expect(harness.record(room)?.worker == nil)
        harness.advance(.seconds(59))
        #expect(harness.record(room)?.status == .ongoing)
        harness.advance(.seconds(1))
        #expect(harness.record(room)?.outcome == .ended)
        #expect(harness.closing(room)?.value("durationMs") == .integer(660_000))
    }

    @Test("a room with a longest duration is warned a minute before and then ends")
    func maxDuration() {
        let harness = ConductorHarness()
        let room = harness.createRoom {
            $0.timeouts.maxDuration = .seconds(600)
            $0.timeouts.idle = nil
        }
        harness.joined("alice", in: room)
        harness.joined("bob", in: room)
        harness.advance(.seconds(540))
        #expect(harness.lines == ["room.warning max-duration"])
        #expect(harness.lastTurn.events.first?.value("remainingMs") == .integer(60_000))
        harness.advance(.seconds(60))
        #expect(harness.lines.last == "room.closed max-duration")
        #expect(harness.record(room)?.outcome == .ended)
    }

    @Test("an ended room is told about for its retention and then forgotten")
    func retention() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        harness.advance(.seconds(3_599))
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.outcome == .ended)
        harness.advance(.seconds(1))
        #expect(harness.problem(ConductorHarness.server, .room(room))?.status == 404)
        #expect(harness.forgotten[room] == .ended)
        #expect(harness.conductor.counts.timers == 0)
    }

    @Test("an ended room keeps its retention over a restart")
    func retentionOverRestart() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        harness.advance(.seconds(3_000))
        harness.restart()
        harness.decide(.timer)
        harness.advance(.seconds(599))
        #expect(harness.problem(ConductorHarness.server, .room(room)) == nil)
        harness.advance(.seconds(2))
        #expect(harness.problem(ConductorHarness.server, .room(room))?.status == 404)
    }

    @Test("a draining node ends every room as drained and takes nothing new")
    func drain() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        harness.joined("alice", in: room)
        harness.decide(.drain)
        #expect(harness.lines == ["node.draining", "participant.left alice drained", "room.closed drained"])
        #expect(harness.lastTurn.commands.last?.command == .shutDown)
        let problem = create(harness, specification()).problem
        #expect(problem?.status == 503)
        #expect(problem?.code == "draining")
        harness.decide(.drain)
        #expect(harness.lastTurn.events.isEmpty)
    }
}
