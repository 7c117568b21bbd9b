// The attributes of codecs, header extensions and sources.

extension SDPReader {
    mutating func readMap(_ line: AttributeLine) throws(SDPError) {
        let fields = line.value.fields
        guard fields.count == 2, let payloadType = fields[0].decimal(upTo: 127) else {
            throw line.fault("expected <payload type> <name>/<clock rate>", limit: 127)
        }
        let parts = fields[1].split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard (2...3).contains(parts.count), parts[0].isToken,
            let clockRate = parts[1].decimal(upTo: UInt64(UInt32.max)), clockRate > 0
        else { throw line.fault("expected <name>/<clock rate>[/<channels>]") }
        var codec = SessionDescription.Codec(
            payloadType: UInt8(payloadType), name: parts[0].text, clockRate: UInt32(clockRate))
        if parts.count == 3 {
            guard let channels = parts[2].decimal(upTo: 255) else {
                throw line.fault("channels are no number")
            }
            codec.channelCount = Int(channels)
        }
        try line.set(&pending.maps[codec.payloadType], to: codec)
    }

    mutating func readParameters(_ line: AttributeLine) throws(SDPError) {
        let (head, tail) = line.value.halves(at: 0x20)
        // Formats of other protocols (`webrtc-datachannel`) have no payload type: nothing of theirs is kept.
        guard let payloadType = head.decimal(upTo: 127) else { return }
        try line.set(&pending.parameters[UInt8(payloadType)], to: (tail ?? []).trimmed.text)
    }

    mutating func readFeedback(_ line: AttributeLine) throws(SDPError) {
        let fields = line.value.fields
        guard let target = fields.first, fields.count >= 2 else {
            throw line.fault("expected <payload type or *> <type>")
        }
        let text = fields.dropFirst().map(\.text).joined(separator: " ")
        if target.elementsEqual("*".utf8) {
            pending.feedback.append((nil, text))
            return
        }
        guard let payloadType = target.decimal(upTo: 127) else {
            throw line.fault("the payload type is no number", limit: 127)
        }
        pending.feedback.append((UInt8(payloadType), text))
    }

    mutating func readExtension(_ line: AttributeLine) throws(SDPError) {
        let fields = line.value.fields
        guard fields.count >= 2, fields[1].isVisible else {
            throw line.fault("expected <id>[/<direction>] <URI>")
        }
        let (idBytes, directionBytes) = fields[0].halves(at: UInt8(ascii: "/"))
        // RFC 8285 §5: 1…255, and 4096…4351 for "whichever id you like".
        guard let id = idBytes.decimal(upTo: 4_351), id > 0, id < 256 || id >= 4_096 else {
            throw line.fault("the id is not within 1…255", limit: 255)
        }
        var direction: SessionDescription.Direction?
        if let directionBytes {
            direction = SessionDescription.Direction(rawValue: directionBytes.text)
            guard direction != nil else { throw line.fault("the direction is unknown") }
        }
        media?.extensions.append(
            SessionDescription.Extension(id: Int(id), direction: direction, uri: fields[1].text))
    }

    mutating func readSource(_ line: AttributeLine) throws(SDPError) {
        let fields = line.value.fields
        if line.name == "ssrc-group" {
            let ssrcs = fields.dropFirst().map { $0.decimal(upTo: UInt64(UInt32.max)) }
            guard let semantics = fields.first, semantics.isToken, !ssrcs.isEmpty,
                ssrcs.allSatisfy({ $0 != nil })
            else { throw line.fault("expected <semantics> <SSRC> …") }
            media?.sourceGroups.append(
                SessionDescription.SourceGroup(
                    semantics: semantics.text, ssrcs: ssrcs.compactMap { $0.map(UInt32.init) }))
            return
        }
        guard let first = fields.first, let number = first.decimal(upTo: UInt64(UInt32.max)) else {
            throw line.fault("expected <SSRC> <attribute>")
        }
        let ssrc = UInt32(number)
        var cname: String?
        if fields.count > 1 {
            let (name, value) = fields[1].halves(at: UInt8(ascii: ":"))
            if name.elementsEqual("cname".utf8) { cname = value?.text }
        }
        guard let index = media?.sources.firstIndex(where: { $0.ssrc == ssrc }) else {
            media?.sources.append(SessionDescription.Source(ssrc: ssrc, cname: cname))
            return
        }
        if let cname { media?.sources[index].cname = cname }
    }
}
