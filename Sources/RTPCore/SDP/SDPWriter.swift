// Writes a session description as bytes, lines ending in CRLF (RFC 8866 §5). Writes what `SessionDescription`
// holds and nothing else; the values are the caller's, who made them or read them with the reader.

extension SessionDescription {
    /// The whole description, as of `application/sdp`.
    public func serialized() -> [UInt8] {
        var writer = SDPWriter(isFragment: false)
        writer.line("v=0")
        writer.line("o=- \(sessionID) \(sessionVersion) IN IP4 127.0.0.1")
        writer.line("s=-")
        writer.line("t=0 0")
        writer.session(self)
        return writer.bytes
    }
}

struct SDPWriter {
    private(set) var bytes: [UInt8] = []
    /// Fragments have attributes and pseudo m-lines only, and say nothing of directions (RFC 8840 §9).
    private let isFragment: Bool

    init(isFragment: Bool) {
        self.isFragment = isFragment
        bytes.reserveCapacity(4096)
    }

    mutating func line(_ text: String) {
        bytes.append(contentsOf: text.utf8)
        bytes.append(0x0D)
        bytes.append(0x0A)
    }

    /// Session-level attributes and all sections, without the lines before them.
    mutating func session(_ description: SessionDescription) {
        for group in description.groups {
            line("a=group:" + ([group.semantics] + group.mids).joined(separator: " "))
        }
        if description.isICELite { line("a=ice-lite") }
        transport(description.transport)
        if let direction = description.direction { line("a=\(direction.rawValue)") }
        for section in description.media { media(section) }
    }

    private mutating func transport(_ transport: SessionDescription.Transport) {
        if let ufrag = transport.iceUfrag { line("a=ice-ufrag:" + ufrag) }
        if let password = transport.icePassword { line("a=ice-pwd:" + password) }
        if !transport.iceOptions.isEmpty {
            line("a=ice-options:" + transport.iceOptions.joined(separator: " "))
        }
        for fingerprint in transport.fingerprints {
            line("a=fingerprint:\(fingerprint.algorithm) \(colonHex(fingerprint.bytes))")
        }
        if let setup = transport.setup { line("a=setup:\(setup.rawValue)") }
        if transport.allowsMixedExtensions { line("a=extmap-allow-mixed") }
    }

    private mutating func media(_ media: SessionDescription.Media) {
        line(
            "m=\(media.kind) \(media.port) \(media.transportProtocol) \(media.formats.joined(separator: " "))"
        )
        if !isFragment { line("c=IN IP4 0.0.0.0") }
        if let mid = media.mid { line("a=mid:" + mid) }
        transport(media.transport)
        for candidate in media.candidates {
            line(
                "a=candidate:\(candidate.foundation) \(candidate.component) \(candidate.isStream ? "tcp" : "udp") \(candidate.priority) "
                    + "\(candidate.address) \(candidate.port) typ host\(candidate.isStream ? " tcptype passive" : "")")
        }
        if media.hasEndOfCandidates { line("a=end-of-candidates") }
        if !isFragment { line("a=\(media.direction.rawValue)") }
        if media.isBundleOnly { line("a=bundle-only") }
        if media.hasRTCPMux { line("a=rtcp-mux") }
        if media.hasRTCPMuxOnly { line("a=rtcp-mux-only") }
        if media.hasReducedSizeRTCP { line("a=rtcp-rsize") }
        if let mode = media.receiverRoundTrip { line("a=rtcp-xr:rcvr-rtt=" + mode) }
        for mapping in media.extensions {
            let direction = mapping.direction.map { "/" + $0.rawValue } ?? ""
            line("a=extmap:\(mapping.id)\(direction) \(mapping.uri)")
        }
        for codec in media.codecs { self.codec(codec) }
        sources(media)
    }

    private mutating func codec(_ codec: SessionDescription.Codec) {
        let channels = codec.channelCount.map { "/\($0)" } ?? ""
        line("a=rtpmap:\(codec.payloadType) \(codec.name)/\(codec.clockRate)\(channels)")
        for feedback in codec.feedback { line("a=rtcp-fb:\(codec.payloadType) \(feedback)") }
        if let parameters = codec.formatParameters { line("a=fmtp:\(codec.payloadType) \(parameters)") }
    }

    private mutating func sources(_ media: SessionDescription.Media) {
        for restriction in media.restrictions {
            line("a=rid:\(restriction.id) \(restriction.sends ? "send" : "recv")")
        }
        if let simulcast = media.simulcast { line("a=simulcast:" + simulcast) }
        for identifier in media.streams {
            let track = identifier.track.map { " " + $0 } ?? ""
            line("a=msid:\(identifier.stream ?? "-")\(track)")
        }
        for group in media.sourceGroups {
            line("a=ssrc-group:" + ([group.semantics] + group.ssrcs.map(String.init)).joined(separator: " "))
        }
        // RFC 5576 §6.1 demands a cname of every source that is named: one without is not written.
        for source in media.sources {
            if let cname = source.cname { line("a=ssrc:\(source.ssrc) cname:\(cname)") }
        }
    }
}

/// Upper-case pairs between colons (RFC 8122 §5).
private func colonHex(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    text.reserveCapacity(bytes.count * 3)
    func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x41 + value - 10 }
    for byte in bytes {
        if !text.isEmpty { text.append(UInt8(ascii: ":")) }
        text.append(digit(byte >> 4))
        text.append(digit(byte & 15))
    }
    return String(decoding: text, as: UTF8.self)
}
