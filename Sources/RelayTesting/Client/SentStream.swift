import RTPCore
import RelayCore

/// One RTP stream that a client sends, with the RTX stream that repairs it: numbers, clock, counts and the last packets.
final class SentStream {
    let kind: MediaKind
    var section: ClientSection
    var ssrc: UInt32
    var rtxSSRC: UInt32
    /// Number of the next packet, extended: its upper bits are the rollover counter.
    var next: UInt64
    var nextRTX: UInt64
    var timestampBase: UInt32
    var maker: MediaMaker
    var stampNumber: UInt64 = 0
    var packetCount: UInt32 = 0
    var octetCount: UInt32 = 0
    var repairCount = 0
    var lastTimestamp: UInt32 = 0
    var lastSentAt = Instant(nanoseconds: 0)
    /// The RTP stream id; empty where there is one stream only.
    var streamID = ""
    var pattern = LayerPattern()
    var wantsKeyFrame = true
    var wasPaused = false
    var keyFrameRequestCount = 0
    var keyFrameCount = 0
    /// Plain packets by number: what RTX repeats.
    private(set) var history: [UInt16: Plain] = [:]

    struct Plain {
        var extended: UInt64
        var timestamp: UInt32
        var marker: Bool
        var payload: [UInt8]
    }

    init(section: ClientSection, ssrc: UInt32, rtxSSRC: UInt32, maker: MediaMaker, random: inout RandomSource) {
        kind = section.kind
        self.section = section
        self.ssrc = ssrc
        self.rtxSSRC = rtxSSRC
        self.maker = maker
        next = UInt64.random(in: 1_024...32_767, using: &random)
        nextRTX = UInt64.random(in: 1_024...32_767, using: &random)
        timestampBase = UInt32.random(in: 0...UInt32.max, using: &random)
    }

    func remember(_ packet: Plain) {
        history[UInt16(truncatingIfNeeded: packet.extended)] = packet
        if packet.extended >= 600 { history[UInt16(truncatingIfNeeded: packet.extended - 600)] = nil }
    }

    func timestamp(at now: Instant) -> UInt32 {
        let rate = Int64(kind == .audio ? 48_000 : 90_000)
        return timestampBase &+ UInt32(truncatingIfNeeded: now.nanoseconds / 1_000 * rate / 1_000_000)
    }
}

/// One m-line as client and relay agreed on it, read out of the answer.
public struct ClientSection: Hashable, Sendable {
    public var index: Int
    public var kind: MediaKind
    public var mid: String
    public var payloadType: UInt8
    public var rtxPayloadType: UInt8?
    public var redPayloadType: UInt8?
    /// RED is the answer's first: what is sent comes as RED.
    public var sendsRED = false
    public var extensions = HeaderExtensionIDs()
    public var sends: Bool
    public var receives: Bool
    /// What the relay says that it sends with.
    public var relaySSRC: UInt32?
    public var relayRTXSSRC: UInt32?
    public var hasNACK: Bool
    public var hasTransportCC: Bool

    /// Media comes under this payload type.
    func takes(_ type: UInt8) -> Bool { type == payloadType || type == redPayloadType }

    /// Accepted sections of an answer.
    static func all(of answer: SessionDescription) -> [ClientSection] {
        answer.media.enumerated().compactMap { index, media in
            guard !media.isRejected, let codec = media.codecs.first(where: { $0.name.lowercased() != "red" }),
                let kind: MediaKind = media.kind == "audio" ? .audio : media.kind == "video" ? .video : nil
            else { return nil }
            var section = ClientSection(
                index: index, kind: kind, mid: media.mid ?? "", payloadType: codec.payloadType,
                rtxPayloadType: media.codecs.first { $0.name.lowercased() == "rtx" }?.payloadType,
                sends: media.direction.receives, receives: media.direction.sends,
                relaySSRC: nil, relayRTXSSRC: nil,
                hasNACK: codec.feedback.contains("nack"), hasTransportCC: codec.feedback.contains("transport-cc"))
            section.redPayloadType = media.codecs.first { $0.name.lowercased() == "red" }?.payloadType
            section.sendsRED = media.codecs.first?.payloadType == section.redPayloadType
            if let group = media.sourceGroups.first(where: { $0.semantics == "FID" }), group.ssrcs.count == 2 {
                section.relaySSRC = group.ssrcs[0]
                section.relayRTXSSRC = group.ssrcs[1]
            } else {
                section.relaySSRC = media.sources.first?.ssrc
            }
            for mapping in media.extensions {
                guard let known = HeaderExtensionKind.allCases.first(where: { $0.uri == mapping.uri }),
                    let id = UInt8(exactly: mapping.id)
                else { continue }
                section.extensions[known] = id
            }
            return section
        }
    }
}
