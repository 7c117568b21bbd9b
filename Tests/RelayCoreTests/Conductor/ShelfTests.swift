import RTPCore
import RelayCore
import Testing

/// Ended rooms over a restart: told about as before, and read only when somebody asks.
@Suite("Ended rooms on the shelf")
struct ShelfTests {
    private static let server = ConductorHarness.server

    private func look(_ harness: ConductorHarness, _ room: RoomID) -> RoomView? {
        if case .room(let view) = harness.request(Self.server, .room(room)) { return view }
        return nil
    }

    private func list(_ harness: ConductorHarness, _ status: RoomStatus?, limit: Int = 50) -> [RoomID] {
        var seen: [RoomID] = []
        var cursor: String?
        repeat {
            let request = ControlRequest.listRooms(status: status, uid: nil, cursor: cursor, limit: limit)
            guard case .rooms(let views, let next, _) = harness.request(Self.server, request) else { break }
            seen += views.map(\.id)
            cursor = next
        } while cursor != nil
        return seen
    }

    private func ended(_ harness: ConductorHarness, _ id: String? = nil) -> RoomID {
        let room = harness.createRoom(id)
        _ = harness.request(Self.server, .deleteRoom(room, reason: nil))
        harness.advance(.milliseconds(1))
        return room
    }

    @Test("a restart reads no ended room; who looks at one sees what was there before, and it is read once")
    func looked() {
        let harness = ConductorHarness()
        let room = ended(harness)
        let before = look(harness, room)
        #expect(before?.status == .ended)
        harness.restart()
        harness.decide(.timer)
        #expect(harness.unshelved.isEmpty)
        #expect(harness.conductor.counts.endedRooms == 1)
        #expect(look(harness, room)?.outcome == before?.outcome)
        #expect(look(harness, room)?.status == .ended)
        #expect(harness.unshelved == [room])
        #expect(harness.conductor.counts.endedRooms == 1)
    }

    @Test("a listing has shelved and live rooms in the order of their creation; one of live rooms reads none")
    func listed() {
        let harness = ConductorHarness()
        var all: [RoomID] = []
        var live: [RoomID] = []
        for number in 0..<9 {
            if number.isMultiple(of: 3) {
                live.append(harness.createRoom())
                all.append(live[live.count - 1])
            } else {
                all.append(ended(harness))
            }
        }
        harness.restart()
        #expect(list(harness, .initiated, limit: 2) == live)
        #expect(harness.unshelved.isEmpty)
        let later = harness.createRoom()
        #expect(list(harness, nil, limit: 2) == all + [later])
        #expect(harness.unshelved.count == 6)
    }

    @Test("an id on the shelf is not given again: 410 and how it ended")
    func neverReused() {
        let harness = ConductorHarness()
        let room = ended(harness, "r")
        harness.restart()
        let again = RoomSpecification(id: room, kind: .peer, media: .video)
        let problem = harness.problem(Self.server, .createRoom(again))
        #expect(problem?.status == 410)
        #expect(problem?.code == "ended")
        var other = again
        other.media = .audio
        #expect(harness.problem(Self.server, .createRoom(other))?.status == 409)
    }

    @Test("its participant may look for five minutes after the end, not longer")
    func participantsLook() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        let ben = harness.joined("ben", in: room)
        harness.leave(alice, in: room)
        for one in [alice, ben] { harness.ended(one, .closed) }
        #expect(harness.journal[room]?.isSettled == true)
        harness.restart()
        let token = ConductorHarness.token("alice", room)
        guard case .room(let view) = harness.request(token, .room(room)) else {
            Issue.record("alice can not look")
            return
        }
        #expect(view.status == .ended)
        harness.advance(.seconds(301))
        #expect(harness.problem(token, .room(room))?.status == 404)
    }

    @Test("shelved rooms are forgotten when their time is over, the longest ended first, unread")
    func forgotten() {
        let harness = ConductorHarness()
        let first = ended(harness)
        harness.advance(.seconds(60))
        let second = ended(harness)
        harness.restart()
        harness.advance(.seconds(3_600 - 61))
        #expect(harness.forgotten.isEmpty)
        harness.advance(.seconds(2))
        #expect(Array(harness.forgotten.keys) == [first])
        harness.advance(.seconds(60))
        #expect(Set(harness.forgotten.keys) == [first, second])
        #expect(harness.unshelved.isEmpty)
        #expect(harness.conductor.counts.endedRooms == 0)
    }

    @Test("one that the journal can not read is 404, and is forgotten like the others")
    func unreadable() {
        let harness = ConductorHarness()
        let (bad, good) = (ended(harness), ended(harness))
        harness.restart()
        harness.unreadable = [bad]
        #expect(harness.problem(Self.server, .room(bad))?.status == 404)
        #expect(list(harness, .ended) == [good])
        harness.advance(.seconds(3_601))
        #expect(harness.conductor.counts.endedRooms == 0)
        #expect(harness.forgotten.count == 2)
    }

    @Test("a room whose last figures are still to come is not settled: they reach its record after a restart")
    func unsettled() throws {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.joined("ben", in: room)
        harness.leave(alice, in: room)
        let record = try #require(harness.journal[room])
        #expect(record.status == .ended && !record.isSettled)
        harness.restart()
        harness.connect(ConductorHarness.worker(0))
        #expect(harness.unshelved.isEmpty && harness.conductor.counts.endedRooms == 1)
    }
}
