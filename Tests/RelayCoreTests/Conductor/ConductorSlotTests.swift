import RTPCore
import RelayCore
import Testing

/// What the worker tells of slots and speakers, and what clients wish for them.
@Suite("Conductor: slots") struct ConductorSlotTests {
    private let worker = ConductorHarness.worker(0)

    /// A group of three; each has slot 0 for audio and slot 1 for video.
    private func group(
        _ harness: ConductorHarness
    ) -> (room: RoomID, alice: HarnessParticipant, ben: HarnessParticipant, cleo: HarnessParticipant) {
        let room = harness.createRoom("g", kind: .group)
        return (
            room, harness.joined("alice", in: room), harness.joined("ben", in: room), harness.joined("cleo", in: room)
        )
    }

    private func view(_ harness: ConductorHarness, _ participant: HarnessParticipant, in room: RoomID) -> [SlotView] {
        let view = harness.request(ConductorHarness.server, .room(room)).roomView
        return view?.participants.first { $0.id == participant.id }?.slots ?? []
    }

    private func wish(
        _ harness: ConductorHarness, _ participant: HarnessParticipant, in room: RoomID, _ requests: [SlotRequest]
    ) -> ControlReply {
        let token = ConductorHarness.token(participant.uid, room, device: participant.device)
        return harness.request(token, .requestSlots(room, participant.id, requests))
    }

    private func wishes(_ harness: ConductorHarness) -> [WorkerCommand] {
        harness.lastTurn.commands.map(\.command).filter { if case .slots = $0 { true } else { false } }
    }

    // MARK: What the worker tells

    @Test("who comes into a slot is told by name and m-line, and shows in the view")
    func slotChanged() throws {
        let harness = ConductorHarness()
        let (room, alice, ben, cleo) = group(harness)
        harness.news(.slots(alice.handle, [SlotOccupant(section: 1, sender: ben.handle)], at: harness.now))
        let event = try #require(harness.lastTurn.events.first)
        #expect(harness.lines == ["slot.changed alice"] && event.participantID == alice.id)
        #expect(
            event.value("slots")
                == .array([
                    .object([
                        .init("mid", .string("1")), .init("kind", .string("video")), .init("uid", .string("ben")),
                        .init("participantId", .string(ben.id.text)),
                    ])
                ]))
        #expect(view(harness, alice, in: room).map(\.uid) == [nil, "ben"])
        #expect(view(harness, cleo, in: room).map(\.uid) == [nil, nil])
    }

    @Test("only slots that changed are told, and a slot that became free is told as nobody's")
    func onlyChanges() throws {
        let harness = ConductorHarness()
        let (_, alice, ben, cleo) = group(harness)
        let both = [
            SlotOccupant(section: 0, sender: ben.handle), SlotOccupant(section: 1, sender: cleo.handle),
        ]
        harness.news(.slots(alice.handle, both, at: harness.now))
        harness.news(.slots(alice.handle, both, at: harness.now))
        #expect(harness.lastTurn.events.isEmpty && harness.lastTurn.changedRooms.isEmpty)
        harness.news(.slots(alice.handle, [both[0]], at: harness.now))
        guard case .array(let slots)? = harness.lastTurn.events.first?.value("slots"), slots.count == 1,
            case .object(let fields) = slots[0]
        else {
            Issue.record("\(harness.lastTurn.events)")
            return
        }
        #expect(fields.first { $0.name == "uid" }?.value == .null)
        #expect(fields.first { $0.name == "mid" }?.value == .string("1"))
    }

    @Test("one who leaves is in no slot any more, without an event of its own")
    func leaver() {
        let harness = ConductorHarness()
        let (room, alice, ben, _) = group(harness)
        harness.news(.slots(alice.handle, [SlotOccupant(section: 1, sender: ben.handle)], at: harness.now))
        harness.news(.speaker(ben.handle, at: harness.now))
        harness.leave(ben, in: room)
        #expect(harness.lines == ["participant.left ben hangup"])
        #expect(view(harness, alice, in: room).map(\.uid) == [nil, nil])
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.speaker == nil)
        // The worker's word that crossed the leave.
        harness.news(.slots(alice.handle, [SlotOccupant(section: 1, sender: ben.handle)], at: harness.now))
        #expect(harness.lastTurn.events.isEmpty)
    }

    @Test("a new speaker is told once")
    func speaker() {
        let harness = ConductorHarness()
        let (room, alice, ben, _) = group(harness)
        harness.news(.speaker(alice.handle, at: harness.now))
        #expect(harness.lines == ["speaker.changed alice"])
        harness.news(.speaker(alice.handle, at: harness.now))
        #expect(harness.lines == [])
        harness.news(.speaker(ben.handle, at: harness.now))
        #expect(harness.lines == ["speaker.changed ben"])
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.speaker == ben.id)
    }

    @Test("what changed while control was away becomes an event with the hello's snapshot")
    func adoption() {
        let harness = ConductorHarness()
        let (room, alice, ben, cleo) = group(harness)
        harness.news(.slots(alice.handle, [SlotOccupant(section: 1, sender: ben.handle)], at: harness.now))
        harness.restart()
        var snapshots = [alice, ben, cleo].map { harness.snapshot($0, in: room, .joined) }
        snapshots[0].slots = [SlotOccupant(section: 1, sender: cleo.handle)]
        snapshots[2].isSpeaker = true
        harness.connect(worker, transports: snapshots)
        #expect(harness.lines.suffix(2) == ["slot.changed alice", "speaker.changed cleo"])
        #expect(view(harness, alice, in: room).map(\.uid) == [nil, "cleo"])
    }

    // MARK: What clients wish

    @Test("a pin and a height go to the worker as one command and show in the view")
    func pin() {
        let harness = ConductorHarness()
        let (room, alice, _, cleo) = group(harness)
        let reply = wish(harness, alice, in: room, [SlotRequest(mid: "1", uid: "cleo", height: 360)])
        #expect(
            wishes(harness) == [
                .slots(alice.handle, [SlotWish(section: 1, pinned: cleo.handle, wantedHeight: 360)])
            ])
        guard case .participant(let view) = reply else {
            Issue.record("\(reply)")
            return
        }
        #expect(view.slots.last?.request == SlotRequest(mid: "1", uid: "cleo", height: 360))
        _ = wish(harness, alice, in: room, [SlotRequest(mid: "1", uid: "cleo", height: 360)])
        #expect(wishes(harness) == [], "nothing new")
        _ = wish(harness, alice, in: room, [])
        #expect(wishes(harness) == [.slots(alice.handle, [])])
    }

    @Test("a pin names a user: it follows them over leaving, coming back and another device")
    func pinFollowsUser() {
        let harness = ConductorHarness()
        let room = harness.createRoom("g", kind: .group)
        let alice = harness.joined("alice", in: room)
        _ = wish(harness, alice, in: room, [SlotRequest(mid: "1", uid: "cleo")])
        #expect(wishes(harness) == [.slots(alice.handle, [SlotWish(section: 1)])], "cleo is not there yet")
        let cleo = harness.prepare("cleo", in: room)
        #expect(wishes(harness) == [.slots(alice.handle, [SlotWish(section: 1, pinned: cleo.handle)])])
        harness.news(.prepared(cleo.handle, at: harness.now))
        harness.join(cleo, in: room)
        let tablet = harness.prepare("cleo", in: room, device: "tablet")
        #expect(
            wishes(harness) == [.slots(alice.handle, [SlotWish(section: 1, pinned: cleo.handle)])],
            "the joined device counts")
        harness.news(.prepared(tablet.handle, at: harness.now))
        harness.join(tablet, in: room, takeover: true)
        #expect(wishes(harness) == [.slots(alice.handle, [SlotWish(section: 1, pinned: tablet.handle)])])
    }

    @Test("wishes are told again to a worker that comes back")
    func wishesAfterAbsence() {
        let harness = ConductorHarness()
        let (room, alice, ben, cleo) = group(harness)
        _ = wish(harness, alice, in: room, [SlotRequest(mid: "1", height: 180)])
        harness.restart()
        harness.connect(worker, transports: [alice, ben, cleo].map { harness.snapshot($0, in: room, .joined) })
        #expect(wishes(harness) == [.slots(alice.handle, [SlotWish(section: 1, wantedHeight: 180)])])
    }

    @Test("what is no video slot of the session, oneself, and a pin in a peer room are refused by field")
    func refusals() {
        let harness = ConductorHarness()
        let (room, alice, _, _) = group(harness)
        func field(_ requests: [SlotRequest]) -> JSONValue? {
            let problem = wish(harness, alice, in: room, requests).problem
            #expect(problem?.status == 422)
            return problem?.members.first { $0.name == "field" }?.value
        }
        #expect(field([SlotRequest(mid: "7")]) == .string("slots[0].mid"))
        #expect(field([SlotRequest(mid: "0", height: 100)]) == .string("slots[0].mid"), "an audio slot")
        #expect(field([SlotRequest(mid: "1", uid: "alice")]) == .string("slots[0].uid"))
        let (peer, dora, _) = harness.talking()
        let pin = wish(harness, dora, in: peer, [SlotRequest(mid: "1", uid: "x")]).problem
        #expect(pin?.status == 422)
        _ = wish(harness, dora, in: peer, [SlotRequest(mid: "1", height: 240)])
        #expect(wishes(harness) == [.slots(dora.handle, [SlotWish(section: 1, wantedHeight: 240)])])
    }

    @Test("in a peer room, where a height was asked for, the other one is in the slots while both are joined")
    func peerSlots() {
        let harness = ConductorHarness()
        let (room, alice, ben) = harness.talking()
        #expect(view(harness, alice, in: room) == [], "nothing was asked for")
        _ = wish(harness, alice, in: room, [SlotRequest(mid: "1", height: 240)])
        #expect(view(harness, alice, in: room).map(\.participantID) == [ben.id, ben.id])
        #expect(view(harness, alice, in: room).last?.request?.height == 240)
    }

    @Test("nobody wishes for another's slots but the server")
    func rights() {
        let harness = ConductorHarness()
        let (room, alice, _, _) = group(harness)
        let request = ControlRequest.requestSlots(room, alice.id, [SlotRequest(mid: "1", height: 90)])
        #expect(harness.problem(ConductorHarness.token("ben", room), request)?.status == 404)
        #expect(harness.problem(ConductorHarness.server, request) == nil)
        #expect(wishes(harness).count == 1)
    }
}
