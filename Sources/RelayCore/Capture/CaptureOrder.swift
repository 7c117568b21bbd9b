import RTPCore

/// Names one capture on the link and in the log.
public struct CaptureID: Hashable, Sendable, CustomStringConvertible {
    public var value: UInt64
    public init(_ value: UInt64) { self.value = value }
    public var description: String { "cap_" + String(value, radix: 36) }
}

/// What an operator asks: the headers of one room's datagrams, for so long and no more than so much.
public struct CaptureSpecification: Hashable, Sendable {
    public static let secondsAllowed: ClosedRange<Int64> = 1...300
    public static let kibibytesAllowed: ClosedRange<Int64> = 16...16_384
    public var duration = Interval.seconds(60)
    /// Of the file.
    public var byteLimit = 4 << 20
    public init() {}
}

/// The same as a worker gets it.
public struct CaptureOrder: Hashable, Sendable {
    public var id: CaptureID
    public var room: RoomHandle
    public var duration: Interval
    public var byteLimit: Int
    public init(id: CaptureID, room: RoomHandle, duration: Interval, byteLimit: Int) {
        self.id = id
        self.room = room
        self.duration = duration
        self.byteLimit = byteLimit
    }
}

/// A piece of the file as the worker tells it, at most `CapturePart.byteLimit` bytes.
public struct CapturePart: Hashable, Sendable {
    public static let byteLimit = 32 << 10
    public var id: CaptureID
    public var bytes: [UInt8]
    /// Nil while more is to come.
    public var end: CaptureEnd?
    public init(id: CaptureID, bytes: [UInt8], end: CaptureEnd? = nil) {
        self.id = id
        self.bytes = bytes
        self.end = end
    }
}

/// Why a capture is over.
public enum CaptureEnd: UInt8, Hashable, Sendable, CaseIterable {
    /// Its time is up.
    case time
    /// The file is as large as it may be.
    case size
    case stopped
    /// Nobody of the room is on the worker any more.
    case roomEmpty
    /// The worker carries out another one.
    case busy

    public var name: String {
        switch self {
        case .time: "time"
        case .size: "size"
        case .stopped: "stopped"
        case .roomEmpty: "room-empty"
        case .busy: "busy"
        }
    }
}
