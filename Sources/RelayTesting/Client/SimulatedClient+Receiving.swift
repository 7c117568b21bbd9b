import RTPCore
import RelayCore

// Media in: opened, checked for replay, put back together from repairs.

/// Where one incoming SSRC stands.
final class ReceivedIndices {
    var estimator = PacketIndexEstimator()
    var window = ReplayWindow.create()
    deinit { window.destroy() }
}

extension SimulatedClient {
    func receiveRTP(_ bytes: [UInt8]) {
        guard let cipher = receiveCipher else {
            counters.earlyRTP += 1
            return
        }
        guard let header = RTPHeader(bytes.span) else {
            counters.unopenedRTP += 1
            return
        }
        let state = receivedIndices[header.ssrc] ?? ReceivedIndices()
        let index = state.estimator.estimate(header.sequenceNumber)
        guard state.window.check(index) else {
            counters.replayedRTP += 1
            return
        }
        guard
            let plain = cipher.openedRTP(
                bytes, headerByteCount: header.headerByteCount, ssrc: header.ssrc, index: index)
        else {
            counters.unopenedRTP += 1
            return
        }
        state.estimator.update(index)
        state.window.mark(index)
        receivedIndices[header.ssrc] = state
        deliver(header, plain)
    }

    private func deliver(_ header: RTPHeader, _ plain: [UInt8]) {
        if options.sendsTransportFeedback { note(header, plain) }
        var payload = Array(plain[header.headerByteCount...])
        if header.hasPadding, let last = payload.last { payload.removeLast(min(payload.count, Int(last))) }
        if let section = sections.first(where: {
            $0.receives && $0.rtxPayloadType == header.payloadType && $0.relayRTXSSRC == header.ssrc
        }) {
            restore(section, header, plain, payload)
            return
        }
        guard
            let section = sections.first(where: {
                $0.receives && $0.takes(header.payloadType) && $0.relaySSRC == header.ssrc
            }) ?? sections.first(where: { $0.receives && $0.takes(header.payloadType) })
        else {
            counters.unknownSSRC += 1
            return
        }
        if section.relaySSRC != header.ssrc { counters.unknownSSRC += 1 }
        let stream = received[header.ssrc] ?? makeStream(header.ssrc, section.kind)
        received[header.ssrc] = stream
        if header.payloadType == section.redPayloadType {
            guard let primary = takeApart(payload, section, stream) else { return }
            payload = primary
        }
        store(
            stream, section, header, plain, payload, sequence: stream.extend(header.sequenceNumber), isRepair: false)
    }

    /// The primary of a RED payload; what it repeats is noted in `stream`.
    private func takeApart(_ payload: [UInt8], _ section: ClientSection, _ stream: ReceivedStream) -> [UInt8]? {
        guard var cursor = REDBlockCursor(payload.span) else {
            counters.malformedRED += 1
            return nil
        }
        stream.redCount += 1
        while let block = cursor.next(in: payload.span) {
            let content = Array(payload[block.offset..<block.offset + block.byteCount])
            if block.payloadType != section.payloadType { counters.malformedRED += 1 }
            if block.isPrimary { return content }
            stream.repeated(content)
        }
        return nil
    }

    /// The packet's transport-wide number, where it has one, goes into the next feedback.
    private func note(_ header: RTPHeader, _ plain: [UInt8]) {
        var cursor = HeaderExtensionCursor(header)
        while let element = cursor.next(in: plain.span) {
            guard element.byteCount == 2, sections.contains(where: { $0.extensions[.transportCC] == element.id })
            else { continue }
            feedback.record(
                UInt16(plain[element.offset]) << 8 | UInt16(plain[element.offset + 1]), arrival: now)
            feedbackAt = min(feedbackAt, now + .milliseconds(50))
        }
    }

    /// RFC 4588 §4: the first two bytes are the number of the packet that is repaired.
    private func restore(_ section: ClientSection, _ header: RTPHeader, _ plain: [UInt8], _ payload: [UInt8]) {
        guard payload.count >= 2, let ssrc = section.relaySSRC, let stream = received[ssrc] else { return }
        let number = UInt16(payload[0]) << 8 | UInt16(payload[1])
        store(
            stream, section, header, plain, Array(payload.dropFirst(2)), sequence: stream.extend(number),
            isRepair: true)
    }

    private func store(
        _ stream: ReceivedStream, _ section: ClientSection, _ header: RTPHeader, _ plain: [UInt8], _ payload: [UInt8],
        sequence: Int64, isRepair: Bool
    ) {
        var extensions: [UInt8: [UInt8]] = [:]
        var cursor = HeaderExtensionCursor(header)
        while let element = cursor.next(in: plain.span) {
            extensions[element.id] = Array(plain[element.offset..<element.offset + element.byteCount])
        }
        let mid = extensions[section.extensions[.mid]].map { String(decoding: $0, as: UTF8.self) }
        stream.receive(
            ReceivedStream.Packet(
                sequence: sequence, timestamp: header.timestamp, marker: header.marker,
                payloadType: header.payloadType, payload: options.keepsPackets ? payload : [],
                stamp: options.keepsPackets || options.notesSenders ? MediaStamp(readFrom: payload) : nil, mid: mid,
                extensions: extensions,
                arrivedAt: now, isRepair: isRepair),
            asksForRepairs: options.asksForRepairs && section.hasNACK,
            clockRate: section.kind == .audio ? 48_000 : 90_000, now: now)
    }

    /// The stream that the relay sends on the n-th section of a kind; nil when it announced none there.
    public func stream(_ kind: MediaKind, slot: Int = 0) -> ReceivedStream? {
        let slots = sections.filter { $0.kind == kind && $0.receives }
        guard slots.indices.contains(slot), let ssrc = slots[slot].relaySSRC else { return nil }
        return received[ssrc]
    }

    /// Numbers of the audio packets from `sender` that can be played: those that came, by themselves or repeated by another.
    public func audible(from sender: SimulatedClient, slot: Int = 0) -> Set<UInt64> {
        guard let stream = stream(.audio, slot: slot) else { return [] }
        return Set((stream.stamps + stream.repeatedStamps).filter { $0.sender == sender.tag }.map(\.number))
    }

    /// Numbers of the packets of a kind from `sender` that arrived whole, in the order they are played.
    public func heard(_ kind: MediaKind, from sender: SimulatedClient, slot: Int = 0) -> [UInt64] {
        (stream(kind, slot: slot)?.stamps ?? []).filter { $0.sender == sender.tag }.map(\.number)
    }
}
