import RTPCore

// The link between control and a worker, as bytes: what the messages are and how long they may be. A
// connection carries frames, each a 32-bit big-endian byte count and then that many bytes: version, kind,
// fields. Both ends are ours and run as one user; still nothing that arrives traps or allocates beyond the
// bounds below.

/// One message of the link. Commands go from control to a worker, all others from a worker to control.
public enum LinkMessage: Hashable, Sendable {
    case command(WorkerCommand)
    /// The first message of a worker on a connection, and only that.
    case hello(WorkerHello)
    case news(WorkerNews)
    /// Every 2 s: the worker's counters since it started, by metric name.
    case counters([WorkerCounter])
    /// Every second: what the worker carries.
    case load(WorkerLoad)
    /// A piece of the capture that was ordered.
    case captured(CapturePart)
}

/// One value of a worker for the metrics. The label tells apart what shares a name (`drops`,
/// `stun-malformed`).
public struct WorkerCounter: Hashable, Sendable {
    public var name: String
    /// Empty when the name stands for itself.
    public var label: String
    public var value: UInt64
    public init(_ name: String, label: String = "", _ value: UInt64) {
        self.name = name
        self.label = label
        self.value = value
    }
}

/// Why bytes are no message. The connection that brought them is closed.
public enum LinkRefusal: Error, Hashable, Sendable {
    /// The fields end before their message does.
    case truncated
    /// Bytes follow the last field.
    case trailingBytes(Int)
    case unknownVersion(UInt8)
    case unknownKind(UInt8)
    /// The frame names more bytes than its kind may have.
    case tooLong(Int)
    /// A field has a value that it cannot have; its name.
    case badValue(String)
}

/// Numbers of the link's format.
public enum LinkFormat {
    /// Raised with every change of the bytes. A worker speaks this one.
    public static let version: UInt8 = 10
    /// What control understands, and answers a worker in: calls outlive an upgrade of control, so their workers are of
    /// earlier builds. 8: a worker reports its load; 9: it captures and records, statistics tell what the relay itself lost;
    /// 10: the hello names the build.
    public static let versions: ClosedRange<UInt8> = 7...version
    /// A frame's length field, and version and kind behind it.
    static let lengthByteCount = 4
    static let headByteCount = 2
    /// Every message but a hello, without the length field. A transport with 64 m-lines needs about 12 KiB.
    public static let messageByteCount = 64 << 10
    /// A hello carries up to 10,000 news of at most 128 bytes and a snapshot of 41 bytes per transport,
    /// 9 more for each of its slots that is taken.
    public static let helloByteCount = 16 << 20

    enum Kind: UInt8 { case command = 1, hello, news, counters, load, captured }

    static func limit(ofKind kind: UInt8) -> Int {
        kind == Kind.hello.rawValue ? helloByteCount : messageByteCount
    }
}

extension LinkMessage {
    /// The whole frame, length included, in a version of the link that is understood here.
    /// - Precondition: the message obeys the format's limits (bounded by `Limits` long before).
    public func encoded(version: UInt8 = LinkFormat.version) -> [UInt8] {
        precondition(LinkFormat.versions.contains(version), "link version \(version)")
        var writer = LinkWriter(version: version)
        writer.append(UInt32(0))
        writer.append(version)
        let kind: LinkFormat.Kind =
            switch self {
            case .command: .command
            case .hello: .hello
            case .news: .news
            case .counters: .counters
            case .load: .load
            case .captured: .captured
            }
        writer.append(kind.rawValue)
        switch self {
        case .command(let command): writer.append(command)
        case .hello(let hello): writer.append(hello)
        case .news(let news): writer.append(news)
        case .counters(let counters): writer.append(counters)
        case .load(let load): writer.append(load)
        case .captured(let part): writer.append(part)
        }
        let byteCount = writer.bytes.count - LinkFormat.lengthByteCount
        precondition(
            byteCount <= LinkFormat.limit(ofKind: kind.rawValue), "a link message of \(byteCount) bytes")
        writer.overwriteLength(byteCount)
        return writer.bytes
    }

    /// Reads one frame's bytes behind the length field.
    public init(decoding bytes: ArraySlice<UInt8>) throws(LinkRefusal) {
        guard let version = bytes.first else { throw .truncated }
        guard LinkFormat.versions.contains(version) else { throw .unknownVersion(version) }
        var reader = LinkReader(bytes.dropFirst(), version: version)
        let number: UInt8 = try reader.integer()
        guard let kind = LinkFormat.Kind(rawValue: number) else { throw .unknownKind(number) }
        guard bytes.count <= LinkFormat.limit(ofKind: number) else { throw .tooLong(bytes.count) }
        switch kind {
        case .command: self = .command(try reader.command())
        case .hello: self = .hello(try reader.hello())
        case .news: self = .news(try reader.news())
        case .counters: self = .counters(try reader.counters())
        case .load: self = .load(try reader.load())
        case .captured: self = .captured(try reader.capturePart())
        }
        try reader.finish()
    }
}
