import RTPCore

// Creating, listing, looking at and ending rooms: the server key's verbs.

extension Conductor {
    func create(_ specification: RoomSpecification, for principal: Principal) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        if let id = specification.id, let room = try existing(id, specification) {
            return .created(view(of: room), isNew: false)
        }
        guard !isDraining else { throw draining() }
        try validate(specification)
        try checkRing(of: specification)
        if let tone = specification.warningTone { try checkSound(SoundName(.tone, tone), field: "warningTone") }
        let liveCount = tally.initiatedRooms + tally.ongoingRooms
        guard liveCount < configuration.roomsPerNode else {
            throw overloaded("\(liveCount) rooms are open; the limit of this node is \(configuration.roomsPerNode)")
        }
        return .created(view(of: open(specification)), isNew: true)
    }

    private func open(_ specification: RoomSpecification) -> ConductedRoom {
        let record = RoomRecord(
            id: specification.id ?? drawRoomID(), handle: drawRoomHandle(), ordinal: listing.nextOrdinal,
            specification: specification, createdAtMs: wallClockMs)
        let room = index(record)
        emit(
            .roomCreated, in: room, of: nil, reason: nil,
            data: [
                JSONValue.Field("kind", .string(specification.kind.rawValue)),
                JSONValue.Field("media", .string(specification.media.rawValue)),
            ], at: now)
        if specification.ring == nil { startEmptyTimer(of: room) } else { startRing(of: room) }
        return room
    }

    /// A room that has the id already: the same body is the same request. Nil when the id was never used.
    private func existing(_ id: RoomID, _ specification: RoomSpecification) throws(Problem) -> ConductedRoom? {
        guard let room = held(id) else {
            if let outcome = knownEnded(id) { throw .ended(id, outcome) }
            return nil
        }
        guard room.record.specification == specification else {
            throw Problem(
                status: 409, code: "session-already-active",
                detail: "room id \(id) was used with another body; ids are never reused")
        }
        if let outcome = room.record.outcome { throw .ended(id, outcome) }
        return room
    }

    private func validate(_ specification: RoomSpecification) throws(Problem) {
        func refuse(_ detail: String) -> Problem {
            Problem(status: 422, code: "invalid-room", detail: detail)
        }
        let limit = configuration.participantsPerRoom
        guard (1...limit).contains(specification.maxParticipants) else {
            throw refuse("maxParticipants \(specification.maxParticipants) is not in 1…\(limit)")
        }
        guard specification.videoCodec.kind == .video else { throw refuse("videoCodec names an audio codec") }
        let metadataByteCount = specification.metadata?.utf8.count ?? 0
        guard metadataByteCount <= ConductorConfiguration.metadataByteLimit else {
            throw refuse(
                "metadata has \(metadataByteCount) bytes; the limit is \(ConductorConfiguration.metadataByteLimit)")
        }
        let timeouts = specification.timeouts
        let named: [(String, Interval?)] = [
            ("prepared", timeouts.prepared), ("connecting", timeouts.connecting), ("empty", timeouts.empty),
            ("maxDuration", timeouts.maxDuration), ("idle", timeouts.idle), ("alone", timeouts.alone),
            ("joinAfterClaim", timeouts.joinAfterClaim),
        ]
        for case (let name, let value?) in named {
            guard value > .zero, value <= ConductorConfiguration.longestTimeout else {
                let longestMs = ConductorConfiguration.longestTimeout.milliseconds
                throw refuse("timeout \(name) of \(value.milliseconds) ms is not in 1…\(longestMs)")
            }
        }
    }

    func look(at id: RoomID, for principal: Principal) throws(Problem) -> ControlReply {
        .room(view(of: try room(id, for: principal)))
    }

    func delete(_ id: RoomID, reason: String?, for principal: Principal) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        let room = try room(id, for: principal)
        if case .end(_, let others, let standard) = room.record.lifecycle.receive(.deleted) {
            finish(room, others: others, reason: reason ?? standard, at: now)
        }
        return .done
    }

    // MARK: Listing

    func list(
        status: RoomStatus?, uid: String?, cursor: String?, limit: Int, for principal: Principal
    ) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        var after: UInt64 = 0
        if let cursor {
            guard let ordinal = UInt64(cursor), ordinal < UInt64.max else {
                throw Problem(status: 400, code: "invalid-cursor", detail: "cursor is not one that a listing gave")
            }
            after = ordinal
        }
        let pageSize = min(max(limit, 1), ConductorConfiguration.listLimit)
        if let uid { return list(ofUser: uid, status: status, after: after, pageSize: pageSize) }
        var views: [RoomView] = []
        var index = listing.firstIndex(after: after)
        let end = min(listing.entries.count, index + ConductorConfiguration.listScanLimit)
        while index < end, views.count < pageSize {
            if let handle = listing.entries[index].room, mayBe(handle, status), let room = held(handle),
                status == nil || room.record.status == status
            {
                views.append(view(of: room))
            }
            index += 1
        }
        let hasMore = index < listing.entries.count
        let next = hasMore ? String(listing.entries[index - 1].ordinal) : nil
        return .rooms(views, nextCursor: next, seq: newestSeq)
    }

    /// Without taking a room from the shelf that is not wanted.
    private func mayBe(_ room: RoomHandle, _ status: RoomStatus?) -> Bool {
        status == nil || status == .ended || shelf[room] == nil
    }

    /// The rooms that a user is in, calls or is called to.
    private func list(
        ofUser uid: String, status: RoomStatus?, after: UInt64, pageSize: Int
    ) -> ControlReply {
        var records: [UInt64: RoomRecord] = [:]
        for handle in sessions[uid] ?? [] {
            guard let record = roomsByParticipant[handle]?.record, record.ordinal > after else { continue }
            if status == nil || record.status == status { records[record.ordinal] = record }
        }
        for room in ordered(Set(calls[uid] ?? [])) where room.record.ordinal > after {
            if status == nil || room.record.status == status { records[room.record.ordinal] = room.record }
        }
        let ordinals = records.keys.sorted()
        let page = ordinals.prefix(pageSize)
        let views = page.compactMap { records[$0]?.view(seq: newestSeq) }
        let next = ordinals.count > pageSize ? page.last.map { String($0) } : nil
        return .rooms(views, nextCursor: next, seq: newestSeq)
    }
}
