import RTPCore

// Slots: who is seen and heard where. The worker decides and tells; here it is remembered, told as events, and combined with
// what clients wish: pins by user, since a user's participant changes with the device, and heights.

/// One entry of `PUT {location}/slots`.
public struct SlotRequest: Hashable, Sendable, Codable {
    /// Names the slot by its m-line.
    public var mid: String
    /// Who is to be seen there; nil: whom the relay chooses.
    public var uid: String?
    /// The picture's height that is worth sending, in pixels; 0: any.
    public var height: UInt16
    public init(mid: String, uid: String? = nil, height: UInt16 = 0) {
        self.mid = mid
        self.uid = uid
        self.height = height
    }

    /// The largest height that may be asked for: 8K.
    public static let largestHeight: UInt16 = 4_320
}

/// A slot as the API shows it.
public struct SlotView: Hashable, Sendable {
    public var mid: String
    public var kind: MediaKind
    /// Whose media it carries; nil: nobody's.
    public var uid: String?
    public var participantID: ParticipantID?
    /// What was asked for it.
    public var request: SlotRequest?

    /// As events and views show it.
    public var json: JSONValue {
        var fields = [
            JSONValue.Field("mid", .string(mid)), JSONValue.Field("kind", .string(kind.name)),
            JSONValue.Field("uid", uid.map { .string($0) } ?? .null),
            JSONValue.Field("participantId", participantID.map { .string($0.text) } ?? .null),
        ]
        if let pinned = request?.uid { fields.append(JSONValue.Field("pinned", .string(pinned))) }
        if let height = request?.height, height > 0 {
            fields.append(JSONValue.Field("height", .integer(Int64(height))))
        }
        return .object(fields)
    }
}

extension Conductor {
    // MARK: What the worker tells

    /// Emits what changed. Whoever has left the room meanwhile is in no slot any more.
    func noteSlots(
        _ told: [SlotOccupant], ofParticipantAt index: Int, in room: ConductedRoom, at time: Instant
    ) {
        let receiver = room.record.participants[index]
        let occupants = told.filter {
            Int($0.section) < receiver.transport.sections.count && room.record.index(of: $0.sender) != nil
        }
        guard occupants != receiver.slots else { return }
        room.record.participants[index].slots = occupants
        let changed = Set(occupants).symmetricDifference(receiver.slots).map(\.section)
        let slots = Set(changed).sorted().map { room.record.slot($0, ofParticipantAt: index).json }
        emit(
            .slotChanged, in: room, of: receiver, reason: nil, data: [JSONValue.Field("slots", .array(slots))],
            at: time)
    }

    func noteSpeaker(_ handle: ParticipantHandle, in room: ConductedRoom, at time: Instant) {
        guard room.record.speaker != handle, let index = room.record.index(of: handle),
            room.record.participants[index].lifecycle.state == .joined
        else { return }
        room.record.speaker = handle
        emit(.speakerChanged, in: room, of: room.record.participants[index], at: time)
    }

    /// One who is out is in no slot: `participant.left` and `participant.replaced` say so.
    func forgetSlots(of handle: ParticipantHandle, in room: ConductedRoom) {
        if room.record.speaker == handle { room.record.speaker = nil }
        for index in room.record.participants.indices
        where room.record.participants[index].slots.contains(where: { $0.sender == handle }) {
            room.record.participants[index].slots.removeAll { $0.sender == handle }
        }
    }

    /// The worker's snapshot counts, as its news do.
    func compareSlots(of snapshot: TransportSnapshot, in room: ConductedRoom) {
        guard let index = room.record.index(of: snapshot.participant) else { return }
        noteSlots(snapshot.slots, ofParticipantAt: index, in: room, at: now)
        if snapshot.isSpeaker { noteSpeaker(snapshot.participant, in: room, at: now) }
        if !room.record.participants[index].slotRequests.isEmpty { commandSlots(ofParticipantAt: index, in: room) }
    }

    // MARK: What clients wish

    func requestSlots(
        _ requests: [SlotRequest], of id: ParticipantID, in roomID: RoomID, for principal: Principal
    ) throws(Problem) -> ControlReply {
        let room = try liveRoom(roomID, for: principal)
        let index = try session(id, in: room, for: principal)
        let participant = room.record.participants[index]
        for (position, request) in requests.enumerated() {
            try check(request, at: position, of: participant, in: room)
        }
        if participant.slotRequests != requests {
            room.record.participants[index].slotRequests = requests
            change(room)
            commandSlots(ofParticipantAt: index, in: room)
        }
        return .participant(room.record.view(ofParticipantAt: index))
    }

    private func check(
        _ request: SlotRequest, at position: Int, of participant: ParticipantRecord, in room: ConductedRoom
    ) throws(Problem) {
        guard let section = participant.transport.sections.first(where: { $0.mid == request.mid && $0.clientReceives })
        else {
            throw Problem(
                status: 422, code: "no-such-slot",
                detail: "slots[\(position)].mid \(request.mid) is no m-line on which this session receives",
                members: [JSONValue.Field("field", .string("slots[\(position)].mid"))])
        }
        guard section.kind == .video else {
            throw Problem(
                status: 422, code: "no-such-slot",
                detail: "slots[\(position)].mid \(request.mid) is an audio slot: the loudest are heard there",
                members: [JSONValue.Field("field", .string("slots[\(position)].mid"))])
        }
        guard let uid = request.uid else { return }
        guard room.record.specification.kind == .group, uid != participant.uid else {
            throw Problem(
                status: 422, code: "invalid-field",
                detail: uid == participant.uid
                    ? "slots[\(position)].uid \(uid) is the receiver itself"
                    : "slots[\(position)].uid \(uid): a peer room has one other, who needs no pin",
                members: [JSONValue.Field("field", .string("slots[\(position)].uid"))])
        }
    }

    /// Whoever came may be pinned by others.
    func commandSlots(thatPin uid: String, in room: ConductedRoom) {
        for index in room.record.participants.indices
        where room.record.participants[index].slotRequests.contains(where: { $0.uid == uid }) {
            commandSlots(ofParticipantAt: index, in: room)
        }
    }

    private func commandSlots(ofParticipantAt index: Int, in room: ConductedRoom) {
        let participant = room.record.participants[index]
        let wishes = participant.slotRequests.compactMap { request -> SlotWish? in
            let section = participant.transport.sections.firstIndex { $0.mid == request.mid }
            guard let section else { return nil }
            // Of a user's devices the joined one, else the latest.
            let devices = room.record.participants.filter { $0.uid == request.uid }
            let pinned = devices.first { $0.lifecycle.state == .joined } ?? devices.last
            return SlotWish(section: UInt8(section), pinned: pinned?.handle, wantedHeight: request.height)
        }
        command(.slots(participant.handle, wishes), to: room.record.worker)
    }
}

extension RoomRecord {
    /// A participant with its slots.
    func view(ofParticipantAt index: Int) -> ParticipantView {
        var view = participants[index].view
        guard specification.kind == .group || !participants[index].slotRequests.isEmpty else { return view }
        let sections = participants[index].transport.sections
        view.slots = sections.indices.filter { sections[$0].clientReceives }
            .map { slot(UInt8($0), ofParticipantAt: index) }
        return view
    }

    func slot(_ section: UInt8, ofParticipantAt index: Int) -> SlotView {
        let receiver = participants[index]
        let line = receiver.transport.sections[Int(section)]
        let sender = sender(in: section, of: receiver)
        return SlotView(
            mid: line.mid, kind: line.kind, uid: sender?.uid, participantID: sender?.id,
            request: receiver.slotRequests.first { $0.mid == line.mid })
    }

    private func sender(in section: UInt8, of receiver: ParticipantRecord) -> ParticipantRecord? {
        guard specification.kind == .peer else {
            return receiver.slots.first { $0.section == section }
                .flatMap { index(of: $0.sender) }.map { participants[$0] }
        }
        // Workers tell no slots of a peer room: the other one is in the first of each kind.
        let kind = receiver.transport.sections[Int(section)].kind
        let first = receiver.transport.sections.firstIndex { $0.kind == kind && $0.clientReceives }
        guard first == Int(section), receiver.lifecycle.state == .joined else { return nil }
        return participants.first { $0.uid != receiver.uid && $0.lifecycle.state == .joined }
    }
}
