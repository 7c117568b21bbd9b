import RTPCore
import RelayCore

// Media out: made in time, protected, remembered for repairs.

extension SimulatedClient {
    /// Begins to send audio and video (tracks are put in).
    public func startMedia(now: Instant) {
        self.now = now
        guard !isSendingMedia, phase == .connected else { return }
        isSendingMedia = true
        if sent[.audio] != nil { audioAt = now }
        if sent[.video] != nil { videoAt = now }
        wantsKeyFrame = true
    }

    /// Takes the tracks out again.
    public func stopMedia() {
        isSendingMedia = false
        audioAt = .distantFuture
        videoAt = .distantFuture
    }

    /// Stops one kind only, or lets it go on.
    public func mute(_ kind: MediaKind, _ muted: Bool) {
        if muted { isMuted.insert(kind) } else { isMuted.remove(kind) }
    }

    /// The SSRC that this client sends a kind with.
    public func sendingSSRC(_ kind: MediaKind) -> UInt32? { sent[kind]?.ssrc }
    /// The SSRC that it repairs a kind with; nil without RTX.
    public func repairSSRC(_ kind: MediaKind) -> UInt32? {
        sent[kind].flatMap { $0.rtxSSRC == 0 ? nil : $0.rtxSSRC }
    }
    /// Stamps sent so far of a kind: their numbers are 0 ..< count.
    public func sentCount(_ kind: MediaKind) -> UInt64 { sent[kind]?.stampNumber ?? 0 }

    /// Goes on with another SSRC and other numbers, unannounced.
    public func changeSSRC(_ kind: MediaKind, to ssrc: UInt32) {
        guard let stream = sent[kind] else { return }
        stream.ssrc = ssrc
        stream.next = UInt64.random(in: 1_024...32_767, using: &random)
        wantsKeyFrame = true
    }

    /// Sets the number of the next packet (below 65536): before anything was sent, to come close to a rollover.
    public func setNextSequence(_ kind: MediaKind, _ number: UInt16) { sent[kind]?.next = UInt64(number) }

    /// Jumps ahead to an extended number.
    public func setNextIndex(_ kind: MediaKind, _ index: UInt64) { sent[kind]?.next = index }

    /// The full number of the next packet of a kind.
    public func nextSequence(_ kind: MediaKind) -> UInt64 { sent[kind]?.next ?? 0 }

    func sendDueMedia() {
        while audioAt <= now {
            audioAt += options.audioInterval
            if !isMuted.contains(.audio) { sendAudio() }
        }
        while videoAt <= now {
            videoAt += options.videoInterval
            if !isMuted.contains(.video) { sendPicture() }
        }
    }

    private func sendAudio() {
        guard let stream = sent[.audio] else { return }
        if !options.opusPackets.isEmpty {
            let payload = options.opusPackets[opusIndex % options.opusPackets.count]
            opusIndex += 1
            sendMedia(stream, payload, marker: false, stamps: false)
            return
        }
        for content in stream.maker.frame(isKey: false, packetCount: 1, byteCount: options.audioPayloadByteCount) {
            sendMedia(stream, content, marker: false, stamps: true)
        }
    }

    private func sendPicture() {
        guard let stream = sent[.video] else { return }
        if !streams.isEmpty { return sendLayeredPictures() }
        let isKey = wantsKeyFrame
        wantsKeyFrame = false
        let count = isKey ? options.packetsPerKeyFrame : options.packetsPerFrame
        let contents = stream.maker.frame(
            isKey: isKey, packetCount: limited(count), byteCount: options.videoPayloadByteCount)
        for (index, content) in contents.enumerated() {
            sendMedia(stream, content, marker: index == contents.count - 1, stamps: true)
        }
    }

    /// How many of a picture's packets the relay's limit allows: at least one, or the picture would stand still.
    private func limited(_ count: Int) -> Int {
        guard options.obeysBitrateLimits, let bitrateLimit else { return count }
        let audio = 1_000_000_000 / options.audioInterval.nanoseconds * Int64(options.audioPayloadByteCount + 80) * 8
        let bits = max(0, Double(bitrateLimit) - Double(audio)) * Double(options.videoInterval.nanoseconds) / 1e9
        pictureCredit = min(pictureCredit + bits / 8, Double(count * (options.videoPayloadByteCount + 80)) * 2)
        let allowed = max(1, min(count, Int(pictureCredit) / (options.videoPayloadByteCount + 80)))
        pictureCredit = max(0, pictureCredit - Double(allowed * (options.videoPayloadByteCount + 80)))
        return allowed
    }

    func sendMedia(_ stream: SentStream, _ content: [UInt8], marker: Bool, stamps: Bool) {
        var payload = content
        if stamps {
            payload = MediaStamp(sender: tag, number: stream.stampNumber)
                .stamped(content, uncovered: stream.maker.uncovered)
        }
        stream.stampNumber += 1
        let plain = SentStream.Plain(
            extended: stream.next, timestamp: stream.timestamp(at: now), marker: marker, payload: payload)
        stream.next += 1
        stream.packetCount &+= 1
        stream.octetCount &+= UInt32(payload.count)
        stream.lastTimestamp = plain.timestamp
        stream.lastSentAt = now
        stream.remember(plain)
        let red = redundant(stream, plain)
        sendRTP(
            header: header(
                stream.section, payloadType: red?.payloadType ?? stream.section.payloadType, ssrc: stream.ssrc,
                sequence: plain.extended, timestamp: plain.timestamp, marker: marker, streamID: stream.streamID),
            payload: red?.payload ?? payload, ssrc: stream.ssrc, index: plain.extended)
    }

    /// The packet as RED, written by hand: as many earlier ones as there are and fit, oldest first, then itself.
    private func redundant(
        _ stream: SentStream, _ plain: SentStream.Plain
    ) -> (payloadType: UInt8, payload: [UInt8])? {
        guard stream.section.sendsRED, let payloadType = stream.section.redPayloadType else { return nil }
        var head: [UInt8] = []
        var body: [UInt8] = []
        for age in (1...UInt64(max(1, options.repeatedPackets))).reversed() where options.repeatedPackets > 0 {
            guard plain.extended >= age,
                let earlier = stream.history[UInt16(truncatingIfNeeded: plain.extended - age)],
                earlier.extended == plain.extended - age
            else { continue }
            let offset = plain.timestamp &- earlier.timestamp
            guard offset > 0, offset < 1 << 14, earlier.payload.count < 1 << 10 else { continue }
            head += be32(
                UInt32(0x80 | stream.section.payloadType) << 24 | offset << 10 | UInt32(earlier.payload.count))
            body += earlier.payload
        }
        return (payloadType, head + [stream.section.payloadType] + body + plain.payload)
    }

    /// Answers a NACK: by RTX where there is one, else by the same packet again.
    func resend(_ stream: SentStream, _ number: UInt16) {
        guard let plain = stream.history[number] else { return }
        stream.repairCount += 1
        counters.repairsSent += 1
        guard let rtxType = stream.section.rtxPayloadType, stream.rtxSSRC != 0 else {
            sendRTP(
                header: header(
                    stream.section, payloadType: stream.section.payloadType, ssrc: stream.ssrc,
                    sequence: plain.extended, timestamp: plain.timestamp, marker: plain.marker),
                payload: plain.payload, ssrc: stream.ssrc, index: plain.extended)
            return
        }
        let index = stream.nextRTX
        stream.nextRTX += 1
        sendRTP(
            header: header(
                stream.section, payloadType: rtxType, ssrc: stream.rtxSSRC, sequence: index,
                timestamp: plain.timestamp, marker: plain.marker, repairedStreamID: stream.streamID),
            payload: be16(UInt16(truncatingIfNeeded: plain.extended)) + plain.payload, ssrc: stream.rtxSSRC,
            index: index)
    }

    /// Sends packets of nothing but padding: libwebrtc's probes, on the RTX stream or on the media stream itself.
    public func sendProbes(_ kind: MediaKind, count: Int, onRTX: Bool, now: Instant) {
        self.now = now
        guard let stream = sent[kind] else { return }
        for _ in 0..<count {
            let isRTX = onRTX && stream.rtxSSRC != 0
            let index = isRTX ? stream.nextRTX : stream.next
            if isRTX { stream.nextRTX += 1 } else { stream.next += 1 }
            let ssrc = isRTX ? stream.rtxSSRC : stream.ssrc
            let payloadType = isRTX ? stream.section.rtxPayloadType ?? 0 : stream.section.payloadType
            var header = header(
                stream.section, payloadType: payloadType, ssrc: ssrc, sequence: index,
                timestamp: stream.lastTimestamp, marker: false)
            header[0] |= 0x20
            sendRTP(
                header: header, payload: [UInt8](repeating: 0, count: 223) + [224], ssrc: ssrc, index: index)
        }
    }

    /// A header with the elements that were negotiated for `section`.
    func header(
        _ section: ClientSection, payloadType: UInt8, ssrc: UInt32, sequence: UInt64, timestamp: UInt32, marker: Bool,
        streamID: String = "", repairedStreamID: String = ""
    ) -> [UInt8] {
        var elements: [UInt8] = []
        func add(_ kind: HeaderExtensionKind, _ body: [UInt8]) {
            let id = section.extensions[kind]
            guard id != 0, id < 15, !body.isEmpty else { return }
            elements += [id << 4 | UInt8(body.count - 1)] + body
        }
        add(.mid, Array(section.mid.utf8))
        add(.rid, Array(streamID.utf8))
        add(.repairedRID, Array(repairedStreamID.utf8))
        if section.kind == .audio, options.tellsLevels {
            let isVoice = options.marksVoice && audioLevel < SpeechActivity.silence
            add(.audioLevel, [(isVoice ? 0x80 : 0) | audioLevel])
        }
        if section.extensions[.transportCC] != 0 {
            add(.transportCC, be16(transportNumber))
            transportNumber &+= 1
        }
        let sendTime = UInt32(truncatingIfNeeded: (now.nanoseconds / 1_000) * (1 << 18) / 1_000_000)
        add(.absSendTime, Array(be32(sendTime & 0xFF_FFFF).dropFirst()))
        while !elements.count.isMultiple(of: 4) { elements.append(0) }
        var bytes: [UInt8] = [elements.isEmpty ? 0x80 : 0x90, (marker ? 0x80 : 0) | payloadType]
        bytes += be16(UInt16(truncatingIfNeeded: sequence)) + be32(timestamp) + be32(ssrc)
        if !elements.isEmpty { bytes += [0xBE, 0xDE] + be16(UInt16(elements.count / 4)) + elements }
        return bytes
    }

    /// Protects and sends one packet.
    func sendRTP(header: [UInt8], payload: [UInt8], ssrc: UInt32, index: UInt64) {
        guard let cipher = sendCipher else { return }
        send(cipher.sealed(header: header, payload: payload, ssrc: ssrc, index: index))
    }

    /// Protects and sends a packet as it is, header and all (its CSRCs and extension must lie within): for malformed packets of
    /// an authentic sender. `index`: the full index; nil: the number in the packet, without rollover.
    public func sendProtected(rtp packet: [UInt8], headerByteCount: Int, index: UInt64? = nil) {
        precondition(packet.count >= headerByteCount && headerByteCount >= 12)
        var cursor = ByteCursor(Array(packet[2..<12]))
        let number = cursor.take16()
        cursor.skip(4)
        let ssrc = cursor.take32()
        sendRTP(
            header: Array(packet[0..<headerByteCount]), payload: Array(packet[headerByteCount...]), ssrc: ssrc,
            index: index ?? UInt64(number))
    }
}
