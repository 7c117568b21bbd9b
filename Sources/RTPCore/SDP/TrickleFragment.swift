/// The body of a trickle or ICE restart request and of its answer: `application/trickle-ice-sdpfrag` (RFC
/// 8840 §9, RFC 9725 §4.3). An SDP without the lines before its attributes; read under the same bounds as a
/// whole description.
public struct TrickleFragment: Hashable, Sendable {
    /// Attributes and pseudo m-lines. Never printed: it holds the ICE password.
    public var content: SessionDescription

    public init(content: SessionDescription) {
        self.content = content
    }

    public init(parsing bytes: [UInt8]) throws(SDPError) {
        var reader = SDPReader(bytes)
        content = try reader.read(isFragment: true)
    }

    /// ICE credentials, wherever they stand: session level or the first section that has both.
    public var iceUfrag: String? { carrier?.iceUfrag }
    public var icePassword: String? { carrier?.icePassword }

    /// Every fingerprint of the fragment; mostly none.
    public var fingerprints: [SessionDescription.Fingerprint] {
        content.transport.fingerprints + content.media.flatMap(\.transport.fingerprints)
    }

    /// With CRLF line endings.
    public func serialized() -> [UInt8] {
        var writer = SDPWriter(isFragment: true)
        writer.session(content)
        return writer.bytes
    }

    private var carrier: SessionDescription.Transport? {
        let levels = content.media.map(\.transport) + [content.transport]
        return levels.first { $0.iceUfrag != nil && $0.icePassword != nil }
    }
}
