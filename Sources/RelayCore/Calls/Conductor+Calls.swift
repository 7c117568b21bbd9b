import RTPCore

// What the conductor notes for call records, and when it gives one out: at the room's end, and once more when the
// last figures of its legs have come. It decides nothing about rooms.

/// A leg whose transport was told to go and whose last counters are on their way.
struct AwaitedFigures {
    var room: RoomHandle
    var worker: WorkerID
}

extension Conductor {
    func note(_ room: ConductedRoom, _ change: (inout RoomHistory) -> Void) {
        var history = room.record.history ?? RoomHistory()
        change(&history)
        room.record.history = history
    }

    private func note(_ index: Int, in room: ConductedRoom, _ change: (inout LegNotes) -> Void) {
        var notes = room.record.participants[index].notes ?? LegNotes()
        change(&notes)
        room.record.participants[index].notes = notes
    }

    func noteRinging(_ uid: String, in room: ConductedRoom) {
        let time = wallClockMs
        note(room) { if $0.ringingAtMs[uid] == nil { $0.ringingAtMs[uid] = time } }
    }

    /// Before anybody is taken out of the room.
    func noteMissing(_ users: [String], in room: ConductedRoom) {
        let missing = users.compactMap { uid in
            missingReason(of: uid, in: room).map { MissingUser(uid: uid, reason: $0) }
        }
        note(room) { $0.missing = missing }
    }

    func noteMedia(_ kind: MediaKind, ofParticipantAt index: Int, in room: ConductedRoom, at time: Instant) {
        let at = milliseconds(of: time)
        let participant = room.record.participants[index]
        let isFirst =
            kind == .audio ? participant.notes?.firstAudioAtMs == nil : participant.notes?.firstVideoAtMs == nil
        if isFirst, let joined = participant.joinedAtMs {
            turn.measures.append(.firstMedia(kind, after: .milliseconds(max(0, at - joined))))
        }
        note(index, in: room) { notes in
            switch kind {
            case .audio: notes.firstAudioAtMs = notes.firstAudioAtMs ?? at
            case .video: notes.firstVideoAtMs = notes.firstVideoAtMs ?? at
            }
        }
    }

    /// Its keys are in, by its worker's word.
    func notePreparation(ofParticipantAt index: Int, in room: ConductedRoom, at time: Instant) {
        let participant = room.record.participants[index]
        guard participant.preparedAtMs == nil else { return }
        turn.measures.append(.prepared(after: .milliseconds(max(0, milliseconds(of: time) - participant.createdAtMs))))
    }

    func noteInterruption(_ isInterrupted: Bool, ofParticipantAt index: Int, in room: ConductedRoom, at time: Instant) {
        let at = milliseconds(of: time)
        note(index, in: room) { notes in
            if isInterrupted {
                notes.interruptions = (notes.interruptions ?? 0) + 1
                notes.interruptedSinceMs = at
            } else {
                notes.endInterruption(atMs: at)
            }
        }
    }

    /// Counters of a joined participant: seen in views, and told where they say that its connection got better or
    /// worse.
    func noteStatistics(
        _ statistics: TransportStatistics, ofParticipantAt index: Int, in room: ConductedRoom, at time: Instant
    ) {
        room.record.participants[index].statistics = statistics
        let participant = room.record.participants[index]
        record(statistics, of: participant, in: room, at: time)
        var monitor = room.monitors[participant.handle] ?? QualityMonitor(told: participant.notes?.quality)
        let news = monitor.receive(statistics, at: time)
        room.monitors[participant.handle] = monitor
        guard let news else { return }
        note(index, in: room) { $0.quality = news.quality }
        emit(
            .participantQuality, in: room, of: participant, reason: nil,
            data: [
                JSONValue.Field("quality", .string(news.quality.grade.rawValue)),
                JSONValue.Field("leg", .string(news.quality.leg.rawValue)),
                JSONValue.Field("lossPercent", .number(news.measure.lossPercent)),
                JSONValue.Field("jitterMs", .number(news.measure.jitterMs)),
                JSONValue.Field("roundTripMs", .number(news.measure.roundTripMs)),
            ], at: time)
    }

    private func record(
        _ statistics: TransportStatistics, of participant: ParticipantRecord, in room: ConductedRoom, at time: Instant
    ) {
        guard let joinedAtMs = participant.joinedAtMs else { return }
        let joined = max(Instant(nanoseconds: 0), time - .milliseconds(max(0, milliseconds(of: time) - joinedAtMs)))
        var recorder =
            room.recorders[participant.handle]
            ?? LegRecorder(since: joined, startMs: joinedAtMs, first: statistics)
        if let row = recorder.receive(statistics, at: time) { turn.measures.append(.leg(row)) }
        room.recorders[participant.handle] = recorder
    }

    /// Every leg of a room over time: who left, then who is in.
    func series(of id: RoomID, for principal: Principal) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        let room = try room(id, for: principal)
        let left = (room.record.history?.legs ?? []).compactMap { leg in
            leg.series.map {
                LegSeriesView(
                    participant: leg.participant, uid: leg.uid, device: leg.device, leftAtMs: leg.leftAtMs, series: $0)
            }
        }
        let present = room.record.participants.compactMap { participant in
            room.recorders[participant.handle].map { recorder in
                var recorder = recorder
                return LegSeriesView(
                    participant: participant.id, uid: participant.uid, device: participant.device, leftAtMs: nil,
                    series: recorder.finish(participant.statistics, at: now))
            }
        }
        return .series(left + present)
    }

    /// What its leg measured over time, as far as that is known when it goes.
    private func series(
        of participant: ParticipantRecord, in room: ConductedRoom, until time: Instant
    ) -> LegSeries? {
        if var recorder = room.recorders.removeValue(forKey: participant.handle) {
            return recorder.finish(participant.statistics, at: time)
        }
        return participant.joinedAtMs.map { LegSeries(startMs: $0) }
    }

    /// A participant is out: its stay becomes a leg of the room's history.
    /// - Parameter awaitsFigures: its transport was told to go, and answers with its last counters.
    func noteDeparture(
        of participant: ParticipantRecord, from room: ConductedRoom, reason: LeaveReason?, detail: String?,
        at time: Instant, worker: WorkerID?, awaitsFigures: Bool
    ) {
        room.monitors[participant.handle] = nil
        var notes = participant.notes ?? LegNotes()
        notes.endInterruption(atMs: milliseconds(of: time))
        let leg = CallLeg(
            participant: participant.id, uid: participant.uid, device: participant.device,
            createdAtMs: participant.createdAtMs, preparedAtMs: participant.preparedAtMs,
            joinedAtMs: participant.joinedAtMs, leftAtMs: milliseconds(of: time), reason: reason, detail: detail,
            notes: notes, statistics: participant.statistics,
            series: series(of: participant, in: room, until: time),
            // Who is evacuated from a worker that is gone told nothing at its end.
            isFinal: !awaitsFigures && reason != .nodeLost, handle: participant.handle, worker: worker)
        if awaitsFigures, let worker, workers[worker]?.isConnected == true {
            awaitedFigures[participant.handle] = AwaitedFigures(room: room.record.handle, worker: worker)
        }
        note(room) { history in
            if let omitted = history.append(leg) { awaitedFigures[omitted.handle] = nil }
        }
        change(room)
    }

    /// Takes the last counters of a transport whose participant has left. False for other news.
    func takeFigures(_ news: WorkerNews) -> Bool {
        let figures: TransportStatistics
        guard let handle = news.participant else { return false }
        switch news {
        case .removed(_, let statistics, _): figures = statistics
        // It ended by itself while the command to remove it was on its way.
        case .ended(_, _, _, let statistics) where awaitedFigures[handle] != nil: figures = statistics
        default: return false
        }
        guard let awaited = awaitedFigures.removeValue(forKey: handle),
            let room = roomsByHandle[awaited.room]
        else { return true }
        note(room) { history in
            guard let index = history.legs.lastIndex(where: { $0.handle == handle }) else { return }
            history.legs[index].takeLast(figures)
            history.legs[index].isFinal = true
        }
        if room.record.status == .ended, !awaitsFigures(room) {
            giveOutRecord(of: room)
            change(room)
        }
        return true
    }

    private func awaitsFigures(_ room: ConductedRoom) -> Bool {
        room.record.history?.legs.contains { awaitedFigures[$0.handle] != nil } ?? false
    }

    /// Nobody will tell the last counters of this worker's removed transports any more, but for those that it still
    /// has.
    func forgetFigures(from worker: WorkerID, except held: Set<ParticipantHandle> = []) {
        awaitedFigures = awaitedFigures.filter { $0.value.worker != worker || held.contains($0.key) }
    }

    func forgetFigures(of room: ConductedRoom) {
        for leg in room.record.history?.legs ?? [] { awaitedFigures[leg.handle] = nil }
    }

    /// Those of a restored room may come with its worker's hello.
    func restoreFigures(of room: ConductedRoom) {
        for leg in room.record.history?.legs ?? [] where !leg.isFinal {
            guard let worker = leg.worker else { continue }
            awaitedFigures[leg.handle] = AwaitedFigures(room: room.record.handle, worker: worker)
        }
    }

    /// The room has ended and said so.
    func closeRecord(of room: ConductedRoom, by actor: String?, durationMs: Int64) {
        var cause = self.cause
        if cause?.kind == .server { cause?.uid = actor }
        note(room) { history in
            history.cause = cause
            history.durationMs = durationMs
        }
        giveOutRecord(of: room)
        if let outcome = room.record.outcome { turn.measures.append(.ended(outcome)) }
    }

    private func giveOutRecord(of room: ConductedRoom) {
        guard let record = CallRecord(room.record) else { preconditionFailure("a room without end has no record") }
        turn.calls.append(record)
    }

    /// Who stands behind an input, for the records of what it ends.
    func cause(of input: ConductorInput) -> CallCause? {
        switch input {
        case .request(_, .server, _), .keyedRequest(_, .server, _, _): return CallCause(.server)
        case .request(_, .participant(let identity), _), .keyedRequest(_, .participant(let identity), _, _):
            return CallCause(.participant, uid: identity.uid, device: identity.device)
        case .news(_, let news): return cause(of: news)
        case .timer: return CallCause(.timer)
        case .workerConnected, .workerDetached, .workerRetiring, .workerGone, .load, .drain: return CallCause(.node)
        }
    }

    func cause(of news: WorkerNews) -> CallCause? {
        var kind = CallCause.Kind.participant
        if case .ended(_, let end, _, _) = news, end == .lost || end == .handshakeFailed { kind = .timer }
        guard let handle = news.participant, let record = roomsByParticipant[handle]?.record,
            let index = record.index(of: handle)
        else { return CallCause(kind) }
        return CallCause(kind, uid: record.participants[index].uid, device: record.participants[index].device)
    }
}

extension LegNotes {
    mutating func endInterruption(atMs time: Int64) {
        guard let since = interruptedSinceMs else { return }
        interruptedMs = (interruptedMs ?? 0) + max(0, time - since)
        interruptedSinceMs = nil
    }
}
