import RTPCore
import RelayCore

/// What stands beside a recording's files: whose each of them is, and where in time it lies. Pure.
struct RecordingIndex {
    enum State: String { case recording, mixing, ended }

    var recorder: RoomRecorder
    var state: State
    var end: RecordingEnd?
    /// The wall clock at the beginning and now, in ms since 1970.
    var startedAtMs: Int64
    var nowMs: Int64
    var durationMs: Int64
    /// The file of all voices, or why there is none.
    var mix: RecordedFile?
    var mixFault: String?
    /// Bytes of a file that are on the disk.
    var byteCount: (String) -> Int64

    var text: [UInt8] { JSONText.of(value) + [0x0A] }

    private var value: JSONValue {
        let order = recorder.order
        var fields: [JSONValue.Field] = [
            .init("recordingId", .string(order.id)), .init("roomId", .string(order.roomName)),
            .init("state", .string(state.rawValue)), .init("startedAt", ViewJSON.time(startedAtMs)),
            .init("updatedAt", ViewJSON.time(nowMs)), .init("durationMs", .integer(durationMs)),
        ]
        if state != .recording { fields.append(.init("endedAt", ViewJSON.time(startedAtMs + durationMs))) }
        if let end { fields.append(.init("reason", .string(end.word))) }
        fields += [
            .init("droppedPackets", .integer(Int64(clamping: recorder.droppedPackets))),
            .init("ignoredPackets", .integer(Int64(clamping: recorder.ignoredPackets))),
            .init("participants", .array(recorder.people.map(Self.participant))),
            .init("files", .array(recorder.files.map(file) + (mix.map { [Self.mixed($0)] } ?? []))),
        ]
        if let mixFault { fields.append(.init("mixFault", .string(mixFault))) }
        return .object(fields)
    }

    private static func participant(_ participant: RecordedParticipant) -> JSONValue {
        .object([
            .init("participantId", .string(participant.id)), .init("uid", .string(participant.uid)),
            .init("device", .string(participant.device)),
        ])
    }

    private func file(_ file: TrackFile) -> JSONValue {
        let person = recorder.people.first { $0.handle == file.participant }
        var fields: [JSONValue.Field] = [
            .init("file", .string(file.name)), .init("kind", .string(ViewJSON.name(of: file.kind))),
            .init("participantId", .string(person?.id ?? "")), .init("uid", .string(person?.uid ?? "")),
            .init("codec", .string(ViewJSON.name(of: file.codec))), .init("bytes", .integer(byteCount(file.name))),
            .init("offsetMs", .number(Self.milliseconds(file.offset))),
            .init("durationMs", .integer(file.facts.durationMs)),
            .init("clock", .string(file.isByReports ? "sender-reports" : "arrival")),
            .init("driftMs", .number(Self.milliseconds(file.drift))),
            .init("packets", .integer(Int64(clamping: file.facts.packets))),
            .init("packetsLost", .integer(Int64(clamping: file.facts.packetsLost))),
            .init("packetsLate", .integer(Int64(clamping: file.facts.packetsLate))),
            .init("packetsUnused", .integer(Int64(clamping: file.facts.packetsUnused))),
            .init("sourceChanges", .integer(Int64(clamping: file.facts.sourceChanges))),
        ]
        if file.kind == .audio { fields.append(.init("gapMs", .integer(file.facts.gapMs))) }
        if file.kind == .video {
            fields += [
                .init("frames", .integer(Int64(clamping: file.facts.frames))),
                .init("keyFrames", .integer(Int64(clamping: file.facts.keyFrames))),
                .init("framesUnused", .integer(Int64(clamping: file.facts.framesUnused))),
            ]
            if let size = file.facts.size {
                fields += [
                    .init("width", .integer(Int64(size.width))), .init("height", .integer(Int64(size.height))),
                ]
            }
        }
        return .object(fields)
    }

    private static func mixed(_ file: RecordedFile) -> JSONValue {
        .object([
            .init("file", .string(file.name)), .init("kind", .string("mix")), .init("codec", .string("opus")),
            .init("bytes", .integer(file.byteCount)), .init("offsetMs", .number(Double(file.offsetMs))),
            .init("durationMs", .integer(file.durationMs)),
        ])
    }

    private static func milliseconds(_ interval: Interval) -> Double {
        (Double(interval.microseconds) / 100).rounded() / 10
    }
}
