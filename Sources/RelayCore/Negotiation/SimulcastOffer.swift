import RTPCore

/// The simulcast streams that an m-line offers to send (RFC 8853), and how the answer takes them. Accepted with up to
/// `Limits.layersPerTrack` streams, told apart by RTP stream ids (RFC 8851, RFC 8852); what is not offered in full is answered
/// as one stream.
struct SimulcastOffer {
    /// In the offer's order.
    let streamIDs: [String]
    /// The dialect of before RFC 8853, `send rid=a;b`, which earlier Firefox speaks: it is answered in kind.
    let isEarly: Bool

    /// Nil where the m-line offers no simulcast that we serve: fewer than two streams, or streams without ids.
    init?(_ media: SessionDescription.Media) {
        let fields = (media.simulcast ?? "").split(separator: " ")
        guard let at = fields.firstIndex(of: "send"), at + 1 < fields.count else { return nil }
        var list = fields[at + 1]
        isEarly = list.hasPrefix("rid=")
        if isEarly { list = list.dropFirst(4) }
        let sent = Set(media.restrictions.filter(\.sends).map(\.id))
        var streamIDs: [String] = []
        for stream in list.split(separator: ";") {
            // Of alternatives the first one is meant; `~` marks a stream that is paused for now.
            guard let first = stream.split(separator: ",").first else { continue }
            let id = String(first.hasPrefix("~") ? first.dropFirst() : first)
            guard Self.isStreamID(id), sent.contains(id), !streamIDs.contains(id) else { continue }
            streamIDs.append(id)
        }
        guard streamIDs.count > 1 else { return nil }
        self.streamIDs = Array(streamIDs.prefix(Limits.layersPerTrack))
    }

    /// Letters and digits with `-` and `_` (RFC 8851 §10), as long as a header extension element holds.
    private static func isStreamID(_ id: String) -> Bool {
        (1...HeaderExtensionElement.identifierByteLimit).contains(id.utf8.count)
            && id.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// Writes what the answer says of it.
    func answer(in section: inout SessionDescription.Media) {
        section.restrictions = streamIDs.map { SessionDescription.Restriction(id: $0, sends: false) }
        section.simulcast = "recv " + (isEarly ? "rid=" : "") + streamIDs.joined(separator: ";")
    }
}
