import RTPCore

// Bytes of recordings' orders, names and reports.

extension LinkWriter {
    mutating func append(_ order: RecordingOrder) {
        append(order.recording.value)
        append(order.room.value)
        append(order.id)
        append(order.roomName)
        append(order.folder)
        append(order.audio)
        append(order.video)
        append(order.mix)
        append(order.byteLimit)
        append(order.duration.nanoseconds)
    }

    mutating func append(_ participant: RecordedParticipant) {
        append(participant.handle.value)
        append(participant.id)
        append(participant.uid)
        append(participant.device)
    }

    mutating func append(_ report: RecordingReport) {
        append(report.recording.value)
        append(report.room.value)
        append(report.end.rawValue)
        append(list: Array(report.files.prefix(RecordingReport.fileLimit))) { writer, file in
            writer.append(file.name)
            writer.append(file.kind.rawValue)
            writer.append(file.participantID)
            writer.append(file.uid)
            writer.append(file.byteCount)
            writer.append(file.durationMs)
            writer.append(file.offsetMs)
        }
        append(report.byteCount)
        append(report.durationMs)
        append(report.droppedPackets)
    }
}

extension LinkReader {
    mutating func recording() throws(LinkRefusal) -> RecordingHandle {
        let value: UInt64 = try integer()
        guard value != 0 else { throw .badValue("recording") }
        return RecordingHandle(value)
    }

    mutating func recordingOrder() throws(LinkRefusal) -> RecordingOrder {
        let recording = try recording()
        let room = try room()
        let id = try identifier("recording id")
        let roomName = try identifier("room id")
        let folder = try string("folder")
        guard RecordingOrder.isFolderName(folder) else { throw .badValue("folder") }
        let (audio, video, mix) = (try bool("audio"), try bool("video"), try bool("mix"))
        let byteLimit = try count("byte limit")
        let duration = Interval.nanoseconds(try count("duration"))
        return RecordingOrder(
            recording: recording, room: room, id: id, roomName: roomName, folder: folder, audio: audio, video: video,
            mix: mix, byteLimit: byteLimit, duration: duration)
    }

    mutating func recordedParticipant() throws(LinkRefusal) -> RecordedParticipant {
        let handle = try participant()
        let id = try identifier("participant id")
        let uid = try identifier("uid")
        return RecordedParticipant(handle: handle, id: id, uid: uid, device: try identifier("device"))
    }

    mutating func recordingReport() throws(LinkRefusal) -> RecordingReport {
        let recording = try recording()
        let room = try room()
        let end: RecordingEnd = try choice("recording end")
        let files = try list(elementByteCount: 31, limit: RecordingReport.fileLimit, "files") {
            (reader) throws(LinkRefusal) in
            let name = try reader.string("file")
            guard RecordingOrder.isFolderName(name) else { throw .badValue("file") }
            let kind: RecordedFile.Kind = try reader.choice("file kind")
            let participantID = try reader.string("participant")
            let uid = try reader.string("uid")
            guard participantID.utf8.count <= 128, uid.utf8.count <= 128 else { throw .badValue("participant") }
            let byteCount = try reader.count("file bytes")
            let durationMs = try reader.count("file duration")
            let offsetMs: Int64 = try reader.integer()
            guard offsetMs.magnitude < 1 << 48 else { throw .badValue("file offset") }
            return RecordedFile(
                name: name, kind: kind, participantID: participantID, uid: uid, byteCount: byteCount,
                durationMs: durationMs, offsetMs: offsetMs)
        }
        let byteCount = try count("bytes")
        let durationMs = try count("duration")
        return RecordingReport(
            recording: recording, room: room, end: end, files: files, byteCount: byteCount, durationMs: durationMs,
            droppedPackets: try integer())
    }

    private mutating func identifier(_ field: StaticString) throws(LinkRefusal) -> String {
        let text = try string(field)
        guard isIdentifier(text) else { throw .badValue("\(field)") }
        return text
    }

    /// Not negative, and far from where arithmetic would run over.
    private mutating func count(_ field: StaticString) throws(LinkRefusal) -> Int64 {
        let value: Int64 = try integer()
        guard (0..<1 << 60).contains(value) else { throw .badValue("\(field)") }
        return value
    }
}
