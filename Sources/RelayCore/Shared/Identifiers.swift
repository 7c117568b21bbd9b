/// A room's id, chosen by the signaling server or drawn by us: `[A-Za-z0-9._-]{1,128}`. Opaque.
public struct RoomID: Hashable, Sendable, Codable, CustomStringConvertible {
    public let text: String
    /// Nil unless `text` is `[A-Za-z0-9._-]{1,128}`.
    public init?(_ text: String) {
        guard isIdentifier(text) else { return nil }
        self.text = text
    }
    public var description: String { text }
}

/// A participant's id, drawn by us with 128 random bits: `p_` and 22 base64url characters. Opaque.
public struct ParticipantID: Hashable, Sendable, Codable, CustomStringConvertible {
    public let text: String
    public init?(_ text: String) {
        guard isIdentifier(text) else { return nil }
        self.text = text
    }
    public var description: String { text }
}

/// Whether `text` is `[A-Za-z0-9._-]{1,128}`, the form of every id in the API.
public func isIdentifier(_ text: String) -> Bool {
    let bytes = text.utf8
    guard (1...128).contains(bytes.count) else { return false }
    return bytes.allSatisfy(isIdentifierByte)
}

func isIdentifierByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
    default: false
    }
}

/// How conductor and workers name a participant on the link: 64 random bits, never 0, unique over the node's journal.
public struct ParticipantHandle: Hashable, Sendable, Codable {
    public var value: UInt64
    public init(_ value: UInt64) { self.value = value }
}

/// How conductor and workers name a room on the link: 64 random bits, never 0.
public struct RoomHandle: Hashable, Sendable, Codable {
    public var value: UInt64
    public init(_ value: UInt64) { self.value = value }
}

/// One worker process in one life: its index (0 ..< N, the port slot) and a random epoch drawn when it starts.
public struct WorkerID: Hashable, Sendable, Codable {
    public var index: Int
    public var epoch: UInt64
    public init(index: Int, epoch: UInt64) {
        self.index = index
        self.epoch = epoch
    }
}
