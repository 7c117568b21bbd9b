import RTPCore

/// Finds a room's codec among the payload types of one m-line, and what the answer says of it.
struct CodecChoice {
    /// The answer's line: the offered payload type and name, our parameters, the feedback that both know.
    var codec: SessionDescription.Codec
    /// The answer's RTX line (RFC 4588), when the offer has one for this payload type.
    var retransmission: SessionDescription.Codec?
    /// The answer's RED line (RFC 2198), where the room has it and the offer has one for this payload type.
    var redundancy: SessionDescription.Codec?
    var feedback: RTCPFeedback

    enum Absence: Error {
        /// No payload type has the codec in the form we serve.
        case unsupported
        /// It is there, but on a number that RTCP's packet types collide with (RFC 5761 §4): 64…95.
        case reservedPayloadType(UInt8)
    }

    /// - Parameter red: RED is answered where it is offered.
    init(_ wanted: MediaCodec, in media: SessionDescription.Media, red: Bool = false) throws(Absence) {
        let candidates = media.codecs.compactMap { offered in
            answerParameters(wanted, offered).map { (offered: offered, parameters: $0) }
        }
        guard let first = candidates.first else { throw .unsupported }
        guard let match = candidates.first(where: { !isReserved($0.offered.payloadType) }) else {
            throw .reservedPayloadType(first.offered.payloadType)
        }
        codec = SessionDescription.Codec(
            payloadType: match.offered.payloadType, name: match.offered.name,
            clockRate: match.offered.clockRate,
            channelCount: match.offered.channelCount)
        codec.formatParameters = match.parameters.text
        feedback = []
        for (text, option) in CodecChoice.knownFeedback where match.offered.feedback.contains(text) {
            codec.feedback.append(text)
            feedback.insert(option)
        }
        let wantedType = String(match.offered.payloadType)
        retransmission = media.codecs.first { candidate in
            candidate.name.lowercased() == "rtx" && candidate.clockRate == wanted.clockRate
                && candidate.parameter("apt") == wantedType && !isReserved(candidate.payloadType)
        }
        retransmission?.feedback = []
        retransmission?.formatParameters = "apt=" + wantedType
        guard wanted == .opus, red else { return }
        redundancy = media.codecs.first { $0.repeats(wantedType, like: match.offered) && !isReserved($0.payloadType) }
        redundancy?.feedback = []
    }

    /// The answer's lines, the preferred one first: a client sends RED where RED stands first (EXPERIMENTS.md G).
    var codecs: [SessionDescription.Codec] {
        (redundancy.map { [$0] } ?? []) + [codec] + (retransmission.map { [$0] } ?? [])
    }

    private static let knownFeedback: [(String, RTCPFeedback)] = [
        ("nack", .nack), ("nack pli", .pli), ("ccm fir", .fir), ("goog-remb", .remb),
        ("transport-cc", .transportCC), ("rrtr", .referenceTime),
    ]
}

extension SessionDescription.Codec {
    /// RED that carries nothing but `payloadType`: `a=fmtp` names it once for each block (RFC 2198 §5).
    fileprivate func repeats(_ payloadType: String, like primary: SessionDescription.Codec) -> Bool {
        guard name.lowercased() == "red", clockRate == primary.clockRate, channelCount == primary.channelCount,
            let blocks = formatParameters?.split(separator: "/"), (1...16).contains(blocks.count)
        else { return false }
        return blocks.allSatisfy { $0 == payloadType }
    }
}

private func isReserved(_ payloadType: UInt8) -> Bool { (64...95).contains(payloadType) }

/// The answer's fmtp; `text` nil for none. An optional inside a struct, because "does not match" is nil too.
private struct AnswerParameters {
    var text: String?
}

/// Nil when `offered` is not `wanted` in the form that we serve.
private func answerParameters(_ wanted: MediaCodec, _ offered: SessionDescription.Codec) -> AnswerParameters? {
    guard offered.clockRate == wanted.clockRate, offered.name.lowercased() == wanted.sdpName else {
        return nil
    }
    switch wanted {
    case .opus:
        // RFC 7587 §7: always two channels. No usedtx: gaps are the sender's own choice, not ours to ask for.
        return offered.channelCount == 2 ? AnswerParameters(text: "minptime=10;useinbandfec=1") : nil
    case .vp8:
        return AnswerParameters(text: nil)
    case .vp9:
        guard let profile = offered.parameter("profile-id") else { return AnswerParameters(text: nil) }
        return profile == "0" ? AnswerParameters(text: "profile-id=0") : nil
    case .av1:
        return av1Parameters(offered)
    case .h264:
        return h264Parameters(offered)
    }
}

/// Main profile (0), which is what an absent parameter means (AV1 RTP specification §7.2). Level and tier are
/// repeated.
private func av1Parameters(_ offered: SessionDescription.Codec) -> AnswerParameters? {
    guard offered.parameter("profile") ?? "0" == "0" else { return nil }
    var parts: [String] = []
    if let level = offered.parameter("level-idx").flatMap({ UInt8($0) }), level <= 31 {
        parts.append("level-idx=\(level)")
    }
    if offered.parameter("profile") != nil { parts.append("profile=0") }
    if let tier = offered.parameter("tier").flatMap({ UInt8($0) }), tier <= 1 { parts.append("tier=\(tier)") }
    return AnswerParameters(text: parts.isEmpty ? nil : parts.joined(separator: ";"))
}

/// Constrained baseline with packetization mode 1, answered as 42e01f. RFC 6184 §8.1 table 5: profile_idc 42
/// with bits x1xx0000 is constrained baseline; without a profile-level-id it would be plain baseline.
private func h264Parameters(_ offered: SessionDescription.Codec) -> AnswerParameters? {
    guard offered.parameter("packetization-mode") == "1", let text = offered.parameter("profile-level-id"),
        text.utf8.count == 6, let profile = UInt32(text, radix: 16), profile >> 16 == 0x42,
        profile & 0x4F00 == 0x4000
    else { return nil }
    if offered.parameter("level-asymmetry-allowed") == "1" {
        return AnswerParameters(
            text: "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f")
    }
    // Without asymmetry the answer may only lower the level (RFC 6184 §8.2.2).
    let level = min(profile & 0xFF, 0x1F)
    let digits = (level < 16 ? "0" : "") + String(level, radix: 16)
    return AnswerParameters(text: "packetization-mode=1;profile-level-id=42e0" + digits)
}

extension MediaCodec {
    /// The name in `a=rtpmap`, lower case; names are compared without case.
    var sdpName: String {
        switch self {
        case .opus: "opus"
        case .vp8: "vp8"
        case .h264: "h264"
        case .vp9: "vp9"
        case .av1: "av1"
        }
    }
}
