import RTPCore
import RelayCore
import Testing

// What the tests of the ring say often: alice calls ben.

extension ConductorHarness {
    /// A peer room in which alice calls ben.
    @discardableResult
    func call(
        _ id: String? = nil, from caller: String = "alice", to callee: String = "ben",
        _ change: (inout RoomSpecification) -> Void = { _ in }
    ) -> RoomID {
        createRoom(id) {
            $0.ring = RingSpecification(caller: caller, callees: [callee])
            change(&$0)
        }
    }

    @discardableResult
    func groupCall(
        from caller: String = "alice", to callees: [String] = ["ben", "cat"],
        _ change: (inout RoomSpecification) -> Void = { _ in }
    ) -> RoomID {
        createRoom(kind: .group) {
            $0.ring = RingSpecification(caller: caller, callees: callees)
            change(&$0)
        }
    }

    @discardableResult
    func answer(_ uid: String, in room: RoomID, device: String = "phone") -> ControlReply {
        request(Self.token(uid, room, device: device), .answer(room))
    }

    @discardableResult
    func ringing(_ uid: String, in room: RoomID, device: String = "phone") -> ControlReply {
        request(Self.token(uid, room, device: device), .ringing(room))
    }

    @discardableResult
    func end(
        _ status: EndStatus, _ uid: String, in room: RoomID, device: String = "phone", scope: EndScope = .user
    ) -> ControlReply {
        request(Self.token(uid, room, device: device), .end(room, status, uid: nil, scope: scope))
    }

    @discardableResult
    func serverEnd(_ status: EndStatus, _ uid: String?, in room: RoomID) -> ControlReply {
        request(Self.server, .end(room, status, uid: uid, scope: .user))
    }

    /// Alice and ben in their call, joined both.
    func talking() -> (room: RoomID, alice: HarnessParticipant, ben: HarnessParticipant) {
        let room = call()
        let alice = prepared("alice", in: room)
        let ben = prepared("ben", in: room)
        join(ben, in: room)
        join(alice, in: room)
        return (room, alice, ben)
    }

    @discardableResult
    func callerPrepared(
        in room: RoomID, uid: String = "alice", joinOnAnswer: Bool, keys: Bool = true
    ) -> HarnessParticipant? {
        let reply = request(
            Self.token(uid, room),
            .prepare(room, state: .prepared, offer: conductorOffer(ufrag: nextUfrag()), joinOnAnswer: joinOnAnswer))
        guard case .prepared(let id, _, _, _) = reply, let caller = participant(id, in: room) else { return nil }
        if keys { news(.prepared(caller.handle, at: now)) }
        return caller
    }

    /// CALLS.md, "Order within a decision", for whatever happened.
    func expectOrder(of events: [RelayEvent]) {
        let ranks: [RelayEventType: Int] = [
            .roomCreated: 0, .callInitiated: 1, .participantPrepared: 2, .callRinging: 3, .callAnswered: 4,
            .calleeEnded: 5, .callEnded: 6, .roomClosed: 8,
        ]
        let left = 7
        for room in Set(events.compactMap(\.roomID)) {
            let types = events.filter { $0.roomID == room }.map(\.type)
            guard let first = types.first, !types.contains(.participantReplaced) else { continue }
            if types.contains(.callEnded) {
                let order = types.compactMap { $0 == .participantLeft ? left : ranks[$0] }
                #expect(order == order.sorted(), "\(types)")
            } else if let answered = types.firstIndex(of: .callAnswered) {
                let early: Set<RelayEventType> = [.participantLeft, .participantJoined]
                #expect(early.isDisjoint(with: types[..<answered]), "\(types)")
                let joins = types.firstIndex(of: .participantJoined) ?? types.count
                #expect(!types[joins...].contains(.participantLeft), "\(types)")
            } else if first == .roomCreated {
                #expect(types.count == 1 || types[1] == .callInitiated, "\(types)")
            }
        }
    }

    func ends(of room: RoomID) -> [RelayEvent] { events.filter { $0.type == .callEnded && $0.roomID == room } }

    /// How the call ended, as its one `call.ended` tells it.
    func outcome(of room: RoomID) -> String? {
        guard case .string(let outcome)? = ends(of: room).first?.value("outcome") else { return nil }
        #expect(ends(of: room).count == 1)
        return outcome
    }

    func calleeOutcomes(of room: RoomID) -> [String] {
        events.filter { $0.type == .calleeEnded && $0.roomID == room }.map { event in
            guard case .string(let outcome)? = event.value("outcome") else { return "" }
            return "\(event.uid ?? "") \(outcome)"
        }
    }

    func status(_ room: RoomID) -> RoomStatus? { record(room)?.status }
}
