import RTPCore
import RelayCore

// The offer, written as text in the client's dialect.

extension SimulatedClient {
    /// The SDP offer. The same each time: a client makes one offer.
    public func offer() -> [UInt8] {
        if sent.isEmpty { drawSources() }
        var kinds: [(kind: MediaKind, sends: Bool)] = [(.audio, true)]
        if options.hasVideo { kinds.append((.video, true)) }
        kinds += Array(repeating: (.audio, false), count: options.extraAudioSlots)
        kinds += Array(repeating: (.video, false), count: options.hasVideo ? options.extraVideoSlots : 0)
        let mids = kinds.enumerated().map { options.dialect.mid($0.offset, $0.element.kind) }
        var lines = [
            "v=0", "o=- \(tag) 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE \(mids.joined(separator: " "))",
        ]
        if options.dialect == .chromium || options.dialect == .libwebrtc { lines.append("a=extmap-allow-mixed") }
        if options.dialect == .firefox { lines += fingerprintLines + ["a=ice-options:trickle"] }
        lines.append("a=msid-semantic: WMS s\(tag)")
        for (index, entry) in kinds.enumerated() {
            lines += section(index, entry.kind, sends: entry.sends, mid: mids[index])
        }
        return Array((lines.joined(separator: "\r\n") + "\r\n").utf8)
    }

    private var fingerprintLines: [String] {
        let algorithms: [(String, FingerprintAlgorithm)] =
            options.dialect == .aiortc
            ? [("sha-256", .sha256), ("sha-384", .sha384), ("sha-512", .sha512)] : [("sha-256", .sha256)]
        return algorithms.map { name, algorithm in
            let hex = dtls.identity.fingerprint(algorithm).bytes
                .map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }
            return "a=fingerprint:\(name) \(hex.joined(separator: ":"))"
        }
    }

    private func section(_ index: Int, _ kind: MediaKind, sends: Bool, mid: String) -> [String] {
        let dialect = options.dialect
        let video = dialect.video(options.videoCodec)
        let payloadType = kind == .audio ? dialect.opus : video.payloadType
        var formats = [payloadType]
        if kind == .video, let rtx = video.rtxPayloadType { formats.append(rtx) }
        if kind == .audio, options.offersRED { formats.append(ClientDialect.red) }
        let isBundleOnly = dialect == .gstreamer && index > 0
        let name = kind == .audio ? "audio" : "video"
        var lines = [
            "m=\(name) \(isBundleOnly ? 0 : 9) UDP/TLS/RTP/SAVPF \(formats.map { "\($0)" }.joined(separator: " "))",
            "c=IN IP4 0.0.0.0",
        ]
        if isBundleOnly { lines.append("a=bundle-only") }
        lines += ["a=ice-ufrag:\(localICE.ufrag)", "a=ice-pwd:\(localICE.password)"]
        if dialect != .firefox { lines += fingerprintLines }
        lines += [options.namesDTLSRole ? "a=setup:active" : "a=setup:actpass", "a=mid:\(mid)"]
        lines += dialect.extensions(kind).map { "a=extmap:\($0.id)\($0.suffix) \($0.kind.uri)" }
        lines += [sends ? (options.receives ? "a=sendrecv" : "a=sendonly") : "a=recvonly", "a=rtcp-mux"]
        if dialect != .aiortc { lines.append("a=rtcp-rsize") }
        if options.offersReferenceTimes { lines.append("a=rtcp-xr:rcvr-rtt=all") }
        if sends { lines.append("a=msid:s\(tag) \(name)\(tag)") }
        lines += kind == .audio ? audioCodec(payloadType) : videoCodec(video)
        if sends, kind == .video { lines += simulcastLines }
        let isNamed = options.signalsSSRCs && (kind == .audio || options.streamIDs.isEmpty)
        guard sends, isNamed, let stream = sent[kind] else { return lines }
        if stream.rtxSSRC != 0 { lines.append("a=ssrc-group:FID \(stream.ssrc) \(stream.rtxSSRC)") }
        lines.append("a=ssrc:\(stream.ssrc) cname:c\(tag)")
        if stream.rtxSSRC != 0 { lines.append("a=ssrc:\(stream.rtxSSRC) cname:c\(tag)") }
        return lines
    }

    private func audioCodec(_ payloadType: UInt8) -> [String] {
        let name = options.dialect == .gstreamer ? "OPUS" : "opus"
        var lines = ["a=rtpmap:\(payloadType) \(name)/48000/2"]
        if options.dialect != .aiortc { lines.append("a=fmtp:\(payloadType) minptime=10;useinbandfec=1") }
        if options.dialect.hasTransportCC, options.dialect != .firefox {
            lines.append("a=rtcp-fb:\(payloadType) transport-cc")
        }
        if options.offersRED {
            lines += [
                "a=rtpmap:\(ClientDialect.red) red/48000/2",
                "a=fmtp:\(ClientDialect.red) \(payloadType)/\(payloadType)",
            ]
        }
        return lines
    }

    private func videoCodec(_ codec: ClientDialect.Codec) -> [String] {
        let payloadType = codec.payloadType
        var lines: [String] = []
        if options.videoCodec == .h264 {
            lines += [
                "a=rtpmap:\(payloadType) H264/90000",
                "a=fmtp:\(payloadType) level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f",
            ]
        } else {
            let name = options.videoCodec == .vp9 ? "VP9" : options.videoCodec == .av1 ? "AV1" : "VP8"
            lines.append("a=rtpmap:\(payloadType) \(name)/90000")
        }
        lines += ["nack", "nack pli", "ccm fir", "goog-remb"].map { "a=rtcp-fb:\(payloadType) \($0)" }
        if options.dialect.hasTransportCC { lines.append("a=rtcp-fb:\(payloadType) transport-cc") }
        if let rtx = codec.rtxPayloadType {
            lines += ["a=rtpmap:\(rtx) rtx/90000", "a=fmtp:\(rtx) apt=\(payloadType)"]
        }
        return lines
    }

    /// SSRCs and first numbers, before the offer names them.
    private func drawSources() {
        func draw() -> UInt32 { UInt32.random(in: 1...UInt32.max, using: &random) }
        for kind in MediaKind.allCases where kind == .audio || options.hasVideo {
            let named = kind == .audio ? options.audioSSRC : options.videoSSRC
            let hasRTX = kind == .video && options.dialect.video(options.videoCodec).rtxPayloadType != nil
            let placeholder = ClientSection(
                index: 0, kind: kind, mid: "", payloadType: 0, rtxPayloadType: nil, sends: false, receives: false,
                relaySSRC: nil, relayRTXSSRC: nil, hasNACK: false, hasTransportCC: false)
            let maker = MediaMaker(kind == .audio ? .opus : options.videoCodec == .h264 ? .h264 : .vp8)
            let ssrc = named ?? draw()
            let rtxSSRC = hasRTX ? draw() : 0
            sent[kind] = SentStream(
                section: placeholder, ssrc: ssrc, rtxSSRC: rtxSSRC, maker: maker, random: &random)
        }
        drawStreams()
        if streams.isEmpty, options.temporalLayerCount > 1, let stream = sent[.video] { streams = [stream] }
    }

    /// Binds what is sent and received to the answer's sections.
    func prepareStreams() {
        if sent.isEmpty { drawSources() }
        for kind in MediaKind.allCases {
            guard let section = sections.first(where: { $0.kind == kind && $0.sends }) else {
                sent[kind] = nil
                continue
            }
            sent[kind]?.section = section
            if section.rtxPayloadType == nil { sent[kind]?.rtxSSRC = 0 }
        }
        for stream in streams {
            if let section = sent[.video]?.section { stream.section = section }
            if stream.section.rtxPayloadType == nil { stream.rtxSSRC = 0 }
        }
        for section in sections where section.receives {
            guard let ssrc = section.relaySSRC, received[ssrc] == nil else { continue }
            received[ssrc] = makeStream(ssrc, section.kind)
        }
    }

    func makeStream(_ ssrc: UInt32, _ kind: MediaKind) -> ReceivedStream {
        let stream = ReceivedStream(ssrc: ssrc, kind: kind)
        if !options.keepsPackets { stream.keptPackets = 0 }
        return stream
    }
}
