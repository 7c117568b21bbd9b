import RTPCore

/// A recording's id, drawn by us with 128 random bits. Opaque.
public struct RecordingID: Hashable, Sendable, Codable, CustomStringConvertible {
    public let text: String
    public init?(_ text: String) {
        guard isIdentifier(text) else { return nil }
        self.text = text
    }
    public var description: String { text }
}

/// The body of `POST /v1/rooms/{room}/recordings`, validated for form.
public struct RecordingSpecification: Hashable, Sendable, Codable {
    public var audio = true
    public var video = true
    /// A file of all voices together, made at the end.
    public var mix = false
    /// Nil: as long and as large as the node allows.
    public var minutes: Int64?
    public var mebibytes: Int64?
    public init() {}

    var isSound: Bool { [minutes, mebibytes].allSatisfy { $0.map { (1...1 << 30).contains($0) } ?? true } }
}

/// How much one recording may be at most.
public struct RecordingBounds: Hashable, Sendable {
    public var minutes: Int64
    public var mebibytes: Int64
    public init(minutes: Int64, mebibytes: Int64) {
        self.minutes = minutes
        self.mebibytes = mebibytes
    }
}

/// Why a recording ended, in the conductor's words; a worker's own are `RecordingEnd`.
public enum RecordingEndReason: String, Hashable, Sendable, Codable {
    /// By its `DELETE`.
    case stopped
    case roomEnded = "room-ended"
    /// Nobody is in the room any more.
    case left
    /// The worker's process is gone: what it had written is there.
    case workerLost = "worker-lost"
}

/// A recording that runs, or whose end is awaited: part of the room's record, so that it goes on over a restart of control.
public struct RecordingRecord: Hashable, Sendable, Codable {
    public let id: RecordingID
    public let handle: RecordingHandle
    public let specification: RecordingSpecification
    public let startedAtMs: Int64
    /// Its folder below the node's.
    public let folder: String
    /// Who carries it.
    public let worker: WorkerID
    /// It was told to end, for this.
    public internal(set) var ending: RecordingEndReason?
}

/// A recording as the API shows it.
public struct RecordingView: Hashable, Sendable {
    public var id: RecordingID
    public var roomID: RoomID
    public var specification: RecordingSpecification
    public var folder: String
    public var startedAtMs: Int64
    /// It has been stopped, and its files are being finished.
    public var isEnding: Bool

    /// As events and views show it.
    public static func fields(
        _ id: RecordingID, _ specification: RecordingSpecification, folder: String
    ) -> [JSONValue.Field] {
        [
            JSONValue.Field("recordingId", .string(id.text)), JSONValue.Field("folder", .string(folder)),
            JSONValue.Field("audio", .bool(specification.audio)), JSONValue.Field("video", .bool(specification.video)),
            JSONValue.Field("mix", .bool(specification.mix)),
        ]
    }
}

extension RecordedFile {
    /// As `recording.ended` tells it.
    var json: JSONValue {
        var fields = [JSONValue.Field("file", .string(name)), JSONValue.Field("kind", .string(kind.word))]
        if !participantID.isEmpty { fields.append(JSONValue.Field("participantId", .string(participantID))) }
        if !uid.isEmpty { fields.append(JSONValue.Field("uid", .string(uid))) }
        return .object(
            fields + [
                JSONValue.Field("bytes", .integer(byteCount)), JSONValue.Field("durationMs", .integer(durationMs)),
                JSONValue.Field("offsetMs", .integer(offsetMs)),
            ])
    }
}

extension RecordedFile.Kind {
    /// In the words of events and indexes.
    public var word: String {
        switch self {
        case .audio: "audio"
        case .video: "video"
        case .mix: "mix"
        }
    }
}
