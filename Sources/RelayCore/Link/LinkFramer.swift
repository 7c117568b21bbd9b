/// Cuts the bytes of one connection into messages. Holds at most one incomplete message; refuses a frame as
/// soon as its head shows that it is too long or of no known kind. After a refusal the connection is of no
/// use any more.
public struct LinkFramer: Sendable {
    private var buffer: [UInt8] = []
    /// Bytes at the front of `buffer` that were read already.
    private var consumed = 0
    /// Of the latest message; nil before the first.
    public private(set) var version: UInt8?

    public init() {}

    /// Bytes held that make no whole message yet, or were not asked for yet.
    public var bufferedByteCount: Int { buffer.count - consumed }

    public mutating func append(_ bytes: UnsafeRawBufferPointer) {
        if consumed > 0 {
            buffer.removeFirst(consumed)
            consumed = 0
        }
        buffer.append(contentsOf: bytes)
    }

    /// The next whole message; nil until there is one.
    public mutating func next() throws(LinkRefusal) -> LinkMessage? {
        let headEnd = consumed + LinkFormat.lengthByteCount + LinkFormat.headByteCount
        guard buffer.count >= headEnd else { return nil }
        var length = 0
        for index in consumed..<consumed + LinkFormat.lengthByteCount {
            length = length << 8 | Int(buffer[index])
        }
        let version = buffer[headEnd - 2]
        guard LinkFormat.versions.contains(version) else { throw .unknownVersion(version) }
        let kind = buffer[headEnd - 1]
        guard LinkFormat.Kind(rawValue: kind) != nil else { throw .unknownKind(kind) }
        guard length >= LinkFormat.headByteCount else { throw .truncated }
        guard length <= LinkFormat.limit(ofKind: kind) else { throw .tooLong(length) }
        let start = consumed + LinkFormat.lengthByteCount
        guard buffer.count >= start + length else { return nil }
        let message = try LinkMessage(decoding: buffer[start..<start + length])
        consumed = start + length
        self.version = version
        return message
    }
}
