import RTPCore

// Recordings: what of a room is kept on disk. Here is decided who may ask, what is recorded and when it is over; the room's worker does it, and
// says when the files are whole. One recording a room at a time, on one worker: it ends when nobody is in the room any more.

extension Conductor {
    // MARK: What is asked for

    func startRecording(
        _ specification: RecordingSpecification, of roomID: RoomID, for principal: Principal
    ) throws(Problem) -> ControlReply {
        try requireRecording(principal)
        let room = try liveRoom(roomID, for: principal)
        guard let bounds = configuration.recording else {
            throw Problem(
                status: 501, code: "recording-off",
                detail: "this node records nothing: it was started without --recordings")
        }
        try check(specification.minutes, field: "minutes", limit: bounds.minutes)
        try check(specification.mebibytes, field: "mebibytes", limit: bounds.mebibytes)
        if let running = room.record.recording {
            throw Problem(
                status: 409, code: "already-recording",
                detail:
                    "\(roomID) is recorded as \(running.id)\(running.ending == nil ? "" : ", which is being finished")",
                members: [JSONValue.Field("recordingId", .string(running.id.text))])
        }
        guard let id = room.record.worker, let worker = workers[id] else {
            throw Problem(status: 409, code: "nobody-to-record", detail: "nobody is in \(roomID)")
        }
        guard worker.isConnected else { throw overloaded("the worker of \(roomID) is away") }
        guard worker.canCapture else {
            throw Self.outdated(
                "the worker of \(roomID) is of an earlier build, which cannot record: it goes with its rooms")
        }
        guard
            recordings.values.count(where: { roomsByHandle[$0]?.record.recording?.worker == id })
                < ConductorConfiguration.recordingsPerWorker
        else {
            throw overloaded(
                "the worker of \(roomID) records \(ConductorConfiguration.recordingsPerWorker) rooms, its limit")
        }
        let recording = begin(specification, of: room, on: id, by: principal)
        return .recording(room.record.view(of: recording))
    }

    /// One that has ended already, or is about to, is stopped all the same.
    func stopRecording(
        _ id: RecordingID, of roomID: RoomID, for principal: Principal
    ) throws(Problem) -> ControlReply {
        try requireRecording(principal)
        let room = try room(roomID, for: principal)
        if room.record.endedRecordings?.contains(id) == true { return .done }
        guard room.record.recording?.id == id else {
            throw Problem(
                status: 404, code: "no-such-recording", detail: "no recording \(id) is made of \(roomID)")
        }
        endRecording(of: room, for: .stopped)
        return .done
    }

    private func requireRecording(_ principal: Principal) throws(Problem) {
        if case .participant(let identity) = principal, !identity.grants.record {
            throw Problem(status: 403, code: "forbidden", detail: "the token does not grant record")
        }
    }

    private func check(_ value: Int64?, field: String, limit: Int64) throws(Problem) {
        guard let value, value > limit else { return }
        throw Problem(
            status: 422, code: "recording-too-large", detail: "\(field) \(value) is more than this node's \(limit)",
            members: [JSONValue.Field("field", .string(field)), JSONValue.Field("limit", .integer(limit))])
    }

    // MARK: Beginning

    private func begin(
        _ specification: RecordingSpecification, of room: ConductedRoom, on worker: WorkerID, by principal: Principal
    ) -> RecordingRecord {
        let id = drawRecordingID()
        let recording = RecordingRecord(
            id: id, handle: RecordingHandle(random.next() | 1), specification: specification, startedAtMs: wallClockMs,
            folder: RecordingOrder.folderName(room: room.record.id, recording: id.text), worker: worker)
        room.record.recording = recording
        recordings[recording.handle] = room.record.handle
        emit(
            .recordingStarted, in: room, of: nil, reason: nil,
            data: RecordingView.fields(id, specification, folder: recording.folder), at: now)
        if case .participant(let identity) = principal {
            turn.events[turn.events.count - 1].uid = identity.uid
            turn.events[turn.events.count - 1].device = identity.device
        }
        order(recording, of: room)
        return recording
    }

    private func order(_ recording: RecordingRecord, of room: ConductedRoom) {
        let bounds = configuration.recording ?? RecordingBounds(minutes: 1, mebibytes: 1)
        let specification = recording.specification
        let minutes = min(specification.minutes ?? bounds.minutes, bounds.minutes)
        let mebibytes = min(specification.mebibytes ?? bounds.mebibytes, bounds.mebibytes)
        command(
            .record(
                RecordingOrder(
                    recording: recording.handle, room: room.record.handle, id: recording.id.text,
                    roomName: room.record.id.text, folder: recording.folder, audio: specification.audio,
                    video: specification.video, mix: specification.mix, byteLimit: mebibytes << 20,
                    duration: .seconds(60 * minutes))), to: recording.worker)
        for participant in room.record.participants { nameRecorded(participant, in: room) }
    }

    /// Somebody is in whose files will need a name.
    func nameRecorded(_ participant: ParticipantRecord, in room: ConductedRoom) {
        guard let recording = room.record.recording, recording.ending == nil else { return }
        command(
            .nameRecorded(
                recording.handle,
                RecordedParticipant(
                    handle: participant.handle, id: participant.id.text, uid: participant.uid,
                    device: participant.device)), to: recording.worker)
    }

    // MARK: Ends

    /// The worker is told; `recording.ended` follows when it has finished the files.
    func endRecording(of room: ConductedRoom, for reason: RecordingEndReason) {
        guard let recording = room.record.recording, recording.ending == nil else { return }
        room.record.recording?.ending = reason
        change(room)
        command(.stopRecording(recording.handle), to: recording.worker)
    }

    /// A worker says that a recording's files are whole.
    func noteRecorded(_ report: RecordingReport, by worker: WorkerID, at time: Instant) {
        guard let room = recordings[report.recording].flatMap({ roomsByHandle[$0] }),
            let recording = room.record.recording, recording.handle == report.recording, recording.worker == worker
        else { return }
        let own = report.end == .stopped ? recording.ending?.rawValue : nil
        tellEnd(
            of: recording, in: room, reason: own ?? report.end.word,
            data: [
                JSONValue.Field("bytes", .integer(report.byteCount)),
                JSONValue.Field("durationMs", .integer(report.durationMs)),
                JSONValue.Field("droppedPackets", .integer(Int64(clamping: report.droppedPackets))),
                JSONValue.Field("files", .array(report.files.map(\.json))),
            ], at: min(max(time, Instant(nanoseconds: 0)), now))
    }

    private func tellEnd(
        of recording: RecordingRecord, in room: ConductedRoom, reason: String, data: [JSONValue.Field], at time: Instant
    ) {
        room.record.recording = nil
        recordings[recording.handle] = nil
        var ended = room.record.endedRecordings ?? []
        ended.append(recording.id)
        room.record.endedRecordings = Array(ended.suffix(ConductorConfiguration.endedRecordingsKept))
        emit(
            .recordingEnded, in: room, of: nil, reason: reason,
            data: RecordingView.fields(recording.id, recording.specification, folder: recording.folder) + data, at: time
        )
    }

    // MARK: When processes die

    /// The worker's process is gone: nobody will tell more than the folder has.
    func loseRecordings(on worker: WorkerID) {
        let lost = recordings.values.compactMap { roomsByHandle[$0] }
            .filter { $0.record.recording?.worker == worker }
            .sorted { $0.record.ordinal < $1.record.ordinal }
        for room in lost {
            guard let recording = room.record.recording else { continue }
            tellEnd(of: recording, in: room, reason: RecordingEndReason.workerLost.rawValue, data: [], at: now)
        }
    }

    /// A restored room's recording waits for its worker, whoever else is on it.
    func restoreRecording(of room: ConductedRoom) {
        guard let recording = room.record.recording else { return }
        recordings[recording.handle] = room.record.handle
        if workers[recording.worker] == nil { workers[recording.worker] = ConductedWorker(recording.worker) }
    }

    /// What a worker records against what it should: orders and ends that never arrived go out now.
    func compareRecordings(of hello: WorkerHello) {
        for handle in hello.recordings {
            let recording = recordings[handle].flatMap { roomsByHandle[$0] }?.record.recording
            guard recording?.handle != handle || recording?.ending != nil else { continue }
            command(.stopRecording(handle), to: hello.worker)
        }
        let expected = recordings.values.compactMap { roomsByHandle[$0] }
            .filter { $0.record.recording?.worker == hello.worker }
            .sorted { $0.record.ordinal < $1.record.ordinal }
        for room in expected {
            guard let recording = room.record.recording, !hello.recordings.contains(recording.handle) else { continue }
            if recording.ending == nil {
                order(recording, of: room)
            } else {
                tellEnd(of: recording, in: room, reason: recording.ending?.rawValue ?? "stopped", data: [], at: now)
            }
        }
    }
}

extension RoomRecord {
    func view(of recording: RecordingRecord) -> RecordingView {
        RecordingView(
            id: recording.id, roomID: id, specification: recording.specification, folder: recording.folder,
            startedAtMs: recording.startedAtMs, isEnding: recording.ending != nil)
    }
}
