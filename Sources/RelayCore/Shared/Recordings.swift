import RTPCore

// Recordings as conductor and workers speak of them: orders one way, reports the other.

/// How conductor and workers name a recording on the link: 64 random bits, never 0.
public struct RecordingHandle: Hashable, Sendable, Codable {
    public var value: UInt64
    public init(_ value: UInt64) { self.value = value }
}

/// What of a room is recorded, where to, and how much at most.
public struct RecordingOrder: Hashable, Sendable {
    public var recording: RecordingHandle
    public var room: RoomHandle
    /// The recording's id and the room's, as the API names them.
    public var id: String
    public var roomName: String
    /// The name of its folder below the node's folder of recordings: no path.
    public var folder: String
    public var audio: Bool
    public var video: Bool
    /// A file of all voices beside the others, made at the end.
    public var mix: Bool
    public var byteLimit: Int64
    public var duration: Interval

    public init(
        recording: RecordingHandle, room: RoomHandle, id: String, roomName: String, folder: String, audio: Bool = true,
        video: Bool = true, mix: Bool = false, byteLimit: Int64, duration: Interval
    ) {
        self.recording = recording
        self.room = room
        self.id = id
        self.roomName = roomName
        self.folder = folder
        self.audio = audio
        self.video = video
        self.mix = mix
        self.byteLimit = byteLimit
        self.duration = duration
    }

    /// A folder's name that cannot lead elsewhere: no separator, no leading dot.
    public static func isFolderName(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count) && text.utf8.first != UInt8(ascii: ".")
            && text.utf8.allSatisfy { $0 == UInt8(ascii: "%") || isIdentifierByte($0) }
    }

    /// The folder of a room's recording: both ids, with the one dot that a file system would take amiss written as `%2E`.
    public static func folderName(room: RoomID, recording: String) -> String {
        let name = room.text.first == "." ? "%2E" + room.text.dropFirst() : room.text
        return name + "_" + recording
    }
}

/// Whose media a recording has, by the names that its index tells.
public struct RecordedParticipant: Hashable, Sendable {
    public var handle: ParticipantHandle
    public var id: String
    public var uid: String
    public var device: String
    public init(handle: ParticipantHandle, id: String, uid: String, device: String) {
        self.handle = handle
        self.id = id
        self.uid = uid
        self.device = device
    }
}

/// Why a recording ended, as a worker tells it.
public enum RecordingEnd: UInt8, Hashable, Sendable, Codable, CaseIterable {
    /// By order.
    case stopped
    /// The disk took no more.
    case diskFull
    /// The recording is as large as one may be.
    case sizeLimit
    /// It is as long as one may be.
    case timeLimit
    /// All recordings of the node together are as large as they may be.
    case folderLimit
    /// Its folder could not be made, or could not be written to.
    case failed

    /// In the words of events.
    public var word: String {
        switch self {
        case .stopped: "stopped"
        case .diskFull: "disk-full"
        case .sizeLimit: "size-limit"
        case .timeLimit: "time-limit"
        case .folderLimit: "folder-limit"
        case .failed: "failed"
        }
    }
}

/// One file of a recording that has ended.
public struct RecordedFile: Hashable, Sendable {
    public enum Kind: UInt8, Hashable, Sendable { case audio, video, mix }
    public var name: String
    public var kind: Kind
    /// Whose it is, by the ids of the API; empty: everybody's.
    public var participantID: String
    public var uid: String
    public var byteCount: Int64
    public var durationMs: Int64
    /// From the recording's beginning to the file's, on the node's wall clock.
    public var offsetMs: Int64
    public init(
        name: String, kind: Kind, participantID: String = "", uid: String = "", byteCount: Int64, durationMs: Int64,
        offsetMs: Int64
    ) {
        self.name = name
        self.kind = kind
        self.participantID = participantID
        self.uid = uid
        self.byteCount = byteCount
        self.durationMs = durationMs
        self.offsetMs = offsetMs
    }
}

/// What a worker tells of a recording that has ended: everything that is on disk.
public struct RecordingReport: Hashable, Sendable {
    /// Files that a report names at most; the index names all.
    public static let fileLimit = 128

    public var recording: RecordingHandle
    public var room: RoomHandle
    public var end: RecordingEnd
    /// The first of them, at most `fileLimit`.
    public var files: [RecordedFile]
    public var byteCount: Int64
    public var durationMs: Int64
    /// Packets that the recorder had no room for: its disk was too slow.
    public var droppedPackets: UInt64
    public init(
        recording: RecordingHandle, room: RoomHandle, end: RecordingEnd, files: [RecordedFile] = [],
        byteCount: Int64 = 0, durationMs: Int64 = 0, droppedPackets: UInt64 = 0
    ) {
        self.recording = recording
        self.room = room
        self.end = end
        self.files = files
        self.byteCount = byteCount
        self.durationMs = durationMs
        self.droppedPackets = droppedPackets
    }
}
