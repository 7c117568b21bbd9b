import RTPCore

// Preparing: an offer becomes a participant with a transport on the room's worker. Everything that can refuse
// it comes before anything changes, so that nothing half-made stays behind.

extension Conductor {
    func prepare(
        in roomID: RoomID, state: PrepareState?, offer: [UInt8], joinOnAnswer: Bool, earlyKeyFrame: Bool,
        for principal: Principal
    ) throws(Problem) -> ControlReply {
        guard case .participant(let identity) = principal else {
            throw Problem(
                status: 403, code: "forbidden", detail: "a session is prepared with a participant's token")
        }
        let room = try liveRoom(roomID, for: principal)
        let ring = room.record.ring
        guard !joinOnAnswer || ring?.caller == identity.uid else {
            throw Problem(status: 400, code: "invalid-field", detail: "join=on-answer is for a ring's caller only")
        }
        guard !earlyKeyFrame || ring?.caller == identity.uid else {
            throw Problem(status: 400, code: "invalid-field", detail: "earlyKeyFrame is for a ring's caller only")
        }
        guard ring == nil || state != nil else {
            throw Problem(
                status: 400, code: "invalid-field",
                detail: "state is required in a room with a ring, so that nothing answers by accident")
        }
        let predecessor = room.record.participants.first {
            $0.uid == identity.uid && $0.device == identity.device
        }
        if let predecessor, try OfferIdentity(offer: offer) == predecessor.session.offer {
            return .prepared(
                predecessor.id, answer: Array(predecessor.session.answer.utf8), etag: predecessor.etag, isNew: false)
        }
        guard mayPrepare(in: room.record) else { throw draining() }
        if predecessor == nil { try checkPlace(for: identity, in: room) }
        let admission = try admit(
            identity.uid, identity.device, to: room, joining: state == .joined, takeover: false)
        let worker = try worker(for: room, isReplacement: predecessor != nil)
        let isLateCaller = joinOnAnswer && ring?.stage != .ringing
        let wantsJoin = wantsJoin(isLateCaller ? .joined : state, replacing: predecessor)
        if wantsJoin, predecessor?.lifecycle.claimsSeat != true {
            let others = rivals(of: identity.uid, in: room, except: predecessor?.handle)
            if let other = others.first { throw alreadyJoined(other) }
        }
        let specification = room.record.specification
        var policy = NegotiationPolicy(
            kind: specification.kind, media: specification.media, videoCodec: specification.videoCodec,
            grants: identity.grants)
        policy.red = specification.red
        let session = try Negotiator.negotiate(
            offer: offer, policy: policy, endpoint: worker.endpoint, random: &random)
        var participant = makeParticipant(
            identity, session: session, in: room, wantsJoin: wantsJoin && admission == .free,
            inheritsSeat: predecessor?.lifecycle.holdsSeat ?? false)
        participant.transport.keepsKeyFrame = earlyKeyFrame
        participant.media = inheritedMedia(of: identity, replacing: predecessor, in: room)
        participant.transport.gates = participant.media.gates(in: room.record.callMedia.media)
        enter(participant, into: room, on: worker.id, replacing: predecessor)
        if ring?.caller == identity.uid {
            room.record.ring?.devicesJoiningOnAnswer.removeAll { $0 == identity.device }
            if joinOnAnswer { room.record.ring?.devicesJoiningOnAnswer.append(identity.device) }
        }
        if wantsJoin, admission == .claims {
            claim(identity.uid, on: identity.device, in: room)
            apply(.joinRequested, to: participant.handle, in: room, at: now, transportIsGone: false)
        }
        return .prepared(participant.id, answer: session.answer, etag: participant.etag, isNew: true)
    }

    /// A room without ring is joined unless the client asks to wait. Who comes in another's place wants what
    /// that one did.
    private func wantsJoin(_ state: PrepareState?, replacing predecessor: ParticipantRecord?) -> Bool {
        if let predecessor { return predecessor.lifecycle.claimsSeat || state == .joined }
        return state != .prepared
    }

    private func checkPlace(for identity: ParticipantIdentity, in room: ConductedRoom) throws(Problem) {
        let specification = room.record.specification
        let present = room.record.participants
        switch specification.kind {
        case .peer:
            let users = Set(present.map(\.uid))
            guard users.contains(identity.uid) || users.count < 2 else {
                throw roomFull("a peer room takes two users, and two others are in \(room.record.id)")
            }
        case .group:
            guard present.count < specification.maxParticipants else {
                throw roomFull(
                    "room \(room.record.id) has \(present.count) participants; its limit is "
                        + "\(specification.maxParticipants)")
            }
        }
        let waiting = (sessions[identity.uid] ?? []).count { handle in
            guard let record = roomsByParticipant[handle]?.record, let index = record.index(of: handle) else {
                return false
            }
            return record.participants[index].lifecycle.state != .joined
        }
        guard waiting < configuration.preparedPerUser else {
            throw Problem(
                status: 429, code: "overloaded",
                detail: "user \(identity.uid) has \(waiting) sessions that are not joined; the limit is "
                    + "\(configuration.preparedPerUser)",
                retryAfterSeconds: configuration.retryAfterSeconds)
        }
    }

    private func roomFull(_ detail: String) -> Problem {
        Problem(status: 409, code: "room-full", detail: detail)
    }

    private func makeParticipant(
        _ identity: ParticipantIdentity, session: NegotiatedSession, in room: ConductedRoom, wantsJoin: Bool,
        inheritsSeat: Bool
    ) -> ParticipantRecord {
        // With another device of the user still joined the gate waits for that one to be removed first.
        let isTakeover = room.record.participants.contains {
            $0.uid == identity.uid && $0.device != identity.device && $0.lifecycle.state == .joined
        }
        let transport = TransportConfiguration(
            participant: drawParticipantHandle(), room: room.record.handle,
            isPeerRoom: room.record.specification.kind == .peer, joinsWhenReady: wantsJoin && !isTakeover,
            localICE: session.localICE, remoteICE: session.remoteICE, fingerprints: session.fingerprints,
            sections: session.sections)
        return ParticipantRecord(
            id: drawParticipantID(), uid: identity.uid, device: identity.device,
            lifecycle: ParticipantLifecycle(wantsJoin: wantsJoin, inheritsSeat: inheritsSeat),
            session: SessionRecord(
                transport: transport, offer: session.identity,
                answer: String(decoding: session.answer, as: UTF8.self)),
            generation: 1, videoUnsupported: session.videoUnsupported,
            createdAtMs: wallClockMs, preparedAtMs: nil, joinedAtMs: nil, deadline: nil,
            statistics: TransportStatistics())
    }

    private func enter(
        _ participant: ParticipantRecord, into room: ConductedRoom, on worker: WorkerID,
        replacing predecessor: ParticipantRecord?
    ) {
        room.record.worker = worker
        workers[worker]?.rooms.insert(room.record.handle)
        workers[worker]?.transportCount += 1
        roomsByParticipant[participant.handle] = room
        sessions[participant.uid, default: []].append(participant.handle)
        // The new transport is made before the old one goes: a worker's room is never empty in between.
        command(.create(participant.transport), to: worker)
        nameRecorded(participant, in: room)
        tally.connecting += 1
        if let predecessor, let index = room.record.index(of: predecessor.handle) {
            room.record.participants[index] = participant
            forget(predecessor, of: room, reason: nil)
            command(.remove(predecessor.handle), to: worker)
            noteDeparture(
                of: predecessor, from: room, reason: nil, detail: nil, at: now, worker: worker, awaitsFigures: true)
            emit(
                .participantReplaced, in: room, of: predecessor, reason: nil,
                data: [JSONValue.Field("by", .string(participant.id.text))], at: now)
            settlePrompts(in: room)
        } else {
            room.record.participants.append(participant)
            perform(room.record.lifecycle.receive(.came), on: room, at: now)
        }
        guard let index = room.record.index(of: participant.handle) else { return }
        setDeadline(now + room.record.specification.timeouts.connecting, ofParticipantAt: index, in: room)
        emit(.participantConnecting, in: room, of: participant, at: now)
        tellInheritedMedia(ofParticipantAt: index, in: room)
        commandSlots(thatPin: participant.uid, in: room)
    }
}
