// Why bytes are refused as a session description, and the bounds that are checked before anything is stored.

/// Bounds of the SDP reader. They are checked before the value concerned is stored.
public enum SDPLimits {
    /// Bytes of a whole description (API.md, "Manners").
    public static let byteCount = 32 * 1024
    /// m-lines of a description (API.md, "Manners").
    public static let mediaCount = 64
    /// Lines of one section, the session level being one (SECURITY T82). The fullest browser offer known has
    /// 170.
    public static let sectionLineCount = 256
    /// Bytes of one line without its ending. The longest lines of browsers (sha-512 fingerprints, m-lines)
    /// stay below 300.
    public static let lineByteCount = 2048
}

/// What is wrong with a session description, and where. The text never repeats bytes of the input.
public struct SDPError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Kind: Hashable, Sendable {
        /// More than `limit` of something.
        case limit
        /// Not the form of a session description at all.
        case form
        /// An attribute that is understood has a value that is not.
        case value
        /// A second, different value where there can be one.
        case duplicate
    }

    public var kind: Kind
    /// Counted from 1.
    public var line: Int
    /// Such as `a=fingerprint` or `m=`; empty where the fault is no attribute's.
    public var attribute: String
    /// The bound that was passed, where there is one.
    public var limit: Int?
    /// For people: what is wrong.
    public var detail: String

    public init(kind: Kind, line: Int, attribute: String, limit: Int?, detail: String) {
        self.kind = kind
        self.line = line
        self.attribute = attribute
        self.limit = limit
        self.detail = detail
    }

    public var description: String {
        let place = attribute.isEmpty ? "line \(line)" : "line \(line), \(attribute)"
        guard let limit else { return "\(place): \(detail)" }
        return "\(place): \(detail) (limit \(limit))"
    }
}
