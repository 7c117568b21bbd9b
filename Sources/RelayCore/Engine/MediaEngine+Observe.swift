import RTPCore

// What a packet says on its way through, beside its payload: extension elements, transport-wide numbers, key frames, losses.

extension MediaEngine {
    /// Notes the packet's extension elements in `elements` (at most 16; ids above 15 never pass). False when the block lies.
    @inline(__always) func readElements(_ header: RTPHeader, _ packet: UnsafePointer<UInt8>, count: Int) -> Bool {
        elementCount = 0
        hasWideElement = false
        guard header.extensionByteCount > 0 else { return true }
        // Nearly all senders use the one-byte form. The header's reader has seen to it that the block lies in the packet.
        guard header.extensionProfile == 0xBEDE else { return readOtherElements(header, packet, count: count) }
        var at = header.extensionOffset
        let end = at &+ header.extensionByteCount
        var found = 0
        while at < end {
            let head = packet[at]
            at &+= 1
            if head == 0 { continue }
            let id = head &>> 4
            guard id != 0, id != 15, found < 16 else { break }
            let byteCount = Int(head & 15) &+ 1
            guard byteCount <= end &- at else { return false }
            elements[found] = (id, UInt16(truncatingIfNeeded: at), UInt8(truncatingIfNeeded: byteCount))
            found &+= 1
            at &+= byteCount
        }
        elementCount = found
        return true
    }

    /// The same of the two-byte form.
    @inline(never) private func readOtherElements(
        _ header: RTPHeader, _ packet: UnsafePointer<UInt8>, count: Int
    ) -> Bool {
        let bytes = UnsafeBufferPointer(start: packet, count: count).span
        var cursor = HeaderExtensionCursor(header)
        while let element = cursor.next(in: bytes) {
            guard element.id <= 15, elementCount < 16 else { continue }
            elements[elementCount] = (
                element.id, UInt16(truncatingIfNeeded: element.offset),
                UInt8(truncatingIfNeeded: element.byteCount)
            )
            if element.byteCount > 16 || element.byteCount == 0 { hasWideElement = true }
            elementCount &+= 1
        }
        return !cursor.isMalformed
    }

    @inline(__always) func recordTransportCC(
        _ id: UInt8, _ packet: Span<UInt8>, _ transportIndex: Int32, feedbackBy due: Instant, now: Instant
    ) {
        var i = 0
        while i < elementCount {
            let element = elements[i]
            if element.id == id, element.byteCount == 2 {
                let at = Int(element.offset)
                let sequence = UInt16(packet[at]) &<< 8 | UInt16(packet[at &+ 1])
                let transport = transports + Int(transportIndex)
                if transport.pointee.transportFeedback == nil { transport.pointee.transportFeedback = .create() }
                transport.pointee.transportFeedback?.record(sequence, arrival: now)
                if due < transport.pointee.nextTransportFeedback {
                    transport.pointee.nextTransportFeedback = due
                    timers.setIfEarlier(transportIndex, to: due)
                }
                return
            }
            i &+= 1
        }
    }

    /// Key frames and losses of a video track.
    @inline(__always) func observeVideo(
        _ trackIndex: Int32, payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, now: Instant
    ) {
        let track = tracks[trackIndex]
        if track.pointee.keyFrames.isWaiting,
            isKeyFrameStart(
                track.pointee.codec, UnsafeBufferPointer(start: payload, count: payloadByteCount).span)
        {
            track.pointee.keyFrames.keyFrameArrived(now: now)
            track.pointee.loss?.keyFrameStarts(at: index)
            if track.pointee.awaitingCount > 0 { keyFrameForWaiting(trackIndex, now: now) }
        }
        guard track.pointee.repairsLoss else { return }
        if case .needsKeyFrame? = track.pointee.loss?.received(index, now: now) {
            track.pointee.keyFrames.request(now: now, urgent: false)
            wake(track.pointee.transport, forRepairAt: now)
        }
        if let deadline = track.pointee.loss?.deadline, deadline < .distantFuture {
            wake(track.pointee.transport, forRepairAt: deadline)
        }
    }

    /// A payload that cannot be read is not a key frame; it is forwarded all the same (T06).
    func isKeyFrameStart(_ codec: MediaCodec, _ payload: Span<UInt8>) -> Bool {
        switch codec {
        case .opus: false
        case .vp8: VP8Descriptor.startsKeyFrame(payload)
        case .vp9: VP9Descriptor.startsKeyFrame(payload)
        case .h264: H264Payload.startsKeyFrame(payload)
        case .av1: AV1Payload.startsKeyFrame(payload)
        }
    }

    @inline(__always) func announceMedia(_ trackIndex: Int32, now: Instant) {
        let track = tracks[trackIndex]
        guard !track.pointee.isAnnounced else { return }
        track.pointee.isAnnounced = true
        news.append(.media(transports[Int(track.pointee.transport)].handle, track.pointee.kind, at: now))
    }
}
