import RTPCore

// The way out of one packet for one receiver: its header, written afresh, and the seal, straight into the send slot.

extension MediaEngine {
    /// The first packet of a source into a slot of sound: marked, so that the receiver may settle anew (RFC 3551 §4.1).
    /// It takes no earlier packet along: those are another source's, or from before the slot's turn.
    @inline(never) func passFirst(
        _ subscription: UnsafeMutablePointer<Subscription>, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, now: Instant
    ) {
        var header = header
        header.marker = true
        pass(
            subscription, header: header, packet: packet, payload: payload, payloadByteCount: payloadByteCount,
            index: index, now: now)
    }

    /// One packet into a slot that is aligned to its source.
    @inline(__always) func pass(
        _ subscription: UnsafeMutablePointer<Subscription>, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, now: Instant
    ) {
        pass(
            subscription, as: subscription.pointee.payloadType, header: header, packet: packet, payload: payload,
            payloadByteCount: payloadByteCount, index: index, now: now)
    }

    /// The same under another of the slot's payload types.
    @inline(never) func pass(
        _ subscription: UnsafeMutablePointer<Subscription>, as payloadType: UInt8, header: RTPHeader,
        packet: UnsafeMutablePointer<UInt8>, payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int,
        index: UInt64, now: Instant
    ) {
        passInline(
            subscription, as: payloadType, header: header, packet: packet, payload: payload,
            payloadByteCount: payloadByteCount, index: index, now: now)
    }

    /// The same again, compiled into the loops over a track's slots: a call with so many values costs a tenth of the packet.
    @inline(__always) func passInline(
        _ subscription: UnsafeMutablePointer<Subscription>, as payloadType: UInt8, header: RTPHeader,
        packet: UnsafeMutablePointer<UInt8>, payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int,
        index: UInt64, now: Instant
    ) {
        guard let sequence = subscription.pointee.sequence.map(index) else { return counters.drop(.rtpTooOld) }
        writeInline(
            subscription, payloadType: payloadType, ssrc: subscription.pointee.ssrc,
            sequence: sequence, header: header, packet: packet, originalSequence: -1, payload: payload,
            payloadByteCount: payloadByteCount, now: now)
        subscription.pointee.packetsSent &+= 1
        subscription.pointee.octetsSent &+= UInt32(truncatingIfNeeded: payloadByteCount)
        subscription.pointee.lastSent = now
    }

    /// Writes one packet for one receiver straight into its send slot and seals it there.
    /// - Parameter originalSequence: RFC 4588's OSN for a repair, written before the payload; -1 for media.
    @inline(never) func write(
        _ subscription: UnsafeMutablePointer<Subscription>, payloadType: UInt8, ssrc: UInt32, sequence: UInt64,
        header: RTPHeader, packet: UnsafeMutablePointer<UInt8>, originalSequence: Int,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, now: Instant
    ) {
        writeInline(
            subscription, payloadType: payloadType, ssrc: ssrc, sequence: sequence, header: header, packet: packet,
            originalSequence: originalSequence, payload: payload, payloadByteCount: payloadByteCount, now: now)
    }

    @inline(__always) private func writeInline(
        _ subscription: UnsafeMutablePointer<Subscription>, payloadType: UInt8, ssrc: UInt32, sequence: UInt64,
        header: RTPHeader, packet: UnsafeMutablePointer<UInt8>, originalSequence: Int,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, now: Instant
    ) {
        let receiver = transports + Int(subscription.pointee.receiver)
        guard let cipher = receiver.pointee.sendCipher, receiver.pointee.hasPeer else {
            return discard(.sendWithoutPath, for: receiver)
        }
        guard let out = transmit.reserve() else { return discard(.transmitFull, for: receiver) }
        out[1] = payloadType | (header.marker ? 0x80 : 0)
        storeBigEndian(UInt16(truncatingIfNeeded: sequence), at: out + 2)
        storeBigEndian(subscription.pointee.timestamp.map(header.timestamp), at: out + 4)
        storeBigEndian(ssrc, at: out + 8)
        let isNumbered =
            receiver.pointee.flags.contains(.numbered) && subscription.pointee.transportCCID != 0
        let extensionByteCount = writeExtensions(
            subscription, packet: packet,
            transportNumber: isNumbered ? receiver.pointee.downlink?.pointee.estimator.nextNumber : nil, to: out + 12)
        out[0] = extensionByteCount > 0 ? 0x90 : 0x80
        let headerByteCount = 12 &+ extensionByteCount
        // The OSN is payload of the RTX packet, so it is sealed with it: the payload must be contiguous.
        var body = payload
        var bodyByteCount = payloadByteCount
        guard headerByteCount &+ bodyByteCount &+ 18 <= TransmitBatch.slotByteCount else {
            return counters.drop(.rtpTooLarge)
        }
        if originalSequence >= 0 {
            body = out + headerByteCount
            (body + 2).update(from: payload, count: payloadByteCount)
            storeBigEndian(UInt16(truncatingIfNeeded: originalSequence), at: body)
            bodyByteCount &+= 2
        }
        let total = cipher.sealRTP(
            out, headerByteCount: headerByteCount, payload: body, payloadByteCount: bodyByteCount, ssrc: ssrc,
            index: sequence)
        transmit.commit(byteCount: total, to: receiver.pointee.peer, local: receiver.pointee.local)
        if receiver.pointee.nextTransportFeedback.nanoseconds &- now.nanoseconds < Limits.feedbackLead.nanoseconds {
            noteFeedbackRider(subscription.pointee.receiver)
        }
        if isNumbered {
            receiver.pointee.downlink?.pointee.estimator.sent(
                byteCount: total &+ Downlink.pathByteCount, at: now, probe: activeProbe)
        }
        receiver.pointee.statistics.packetsSent &+= 1
        receiver.pointee.statistics.bytesSent &+= UInt64(truncatingIfNeeded: total)
        counters.packetsForwarded &+= 1
        counters.bytesForwarded &+= UInt64(truncatingIfNeeded: total)
    }

    /// The receiver's own MID, its transport-wide number, and the elements that pass from leg to leg, under the receiver's ids
    /// (RFC 8285). Returns the block's byte count, 0 for none. Two-byte form only where an element needs it. What is copied is a
    /// few bytes, not worth a call; the slot has room for more than is needed.
    @inline(__always) private func writeExtensions(
        _ subscription: UnsafeMutablePointer<Subscription>, packet: UnsafeMutablePointer<UInt8>,
        transportNumber: UInt16?, to block: UnsafeMutablePointer<UInt8>
    ) -> Int {
        let place = MemoryLayout<Subscription>.offset(of: \.passedIDs).unsafelyUnwrapped
        let passed = (UnsafeRawPointer(subscription) + place).assumingMemoryBound(to: UInt8.self)
        let count = elementCount
        let mayBeTwoByte = hasWideElement || subscription.pointee.passesWideID
        let isTwoByte = subscription.pointee.midID > 14 || mayBeTwoByte && needsTwoByteForm(passed)
        var at = 4
        let midByteCount = Int(subscription.pointee.midByteCount)
        if subscription.pointee.midID != 0, midByteCount > 0 {
            at = writeElementHead(
                block, at: at, id: subscription.pointee.midID, byteCount: UInt8(truncatingIfNeeded: midByteCount),
                isTwoByte)
            UnsafeMutableRawPointer(block + at).storeBytes(of: subscription.pointee.mid, as: SIMD16<UInt8>.self)
            at &+= midByteCount
        }
        if let transportNumber {
            at = writeElementHead(block, at: at, id: subscription.pointee.transportCCID, byteCount: 2, isTwoByte)
            storeBigEndian(transportNumber, at: block + at)
            at &+= 2
        }
        var i = 0
        while i < count {
            let element = elements[i]
            i &+= 1
            let id = passed[Int(element.id & 15)]
            guard id != 0, at &+ Int(element.byteCount) < 200 else { continue }
            at = writeElementHead(block, at: at, id: id, byteCount: element.byteCount, isTwoByte)
            let source = packet + Int(element.offset)
            var k = 0
            while k < Int(element.byteCount) {
                block[at &+ k] = source[k]
                k &+= 1
            }
            at &+= Int(element.byteCount)
        }
        guard at > 4 else { return 0 }
        UnsafeMutableRawPointer(block + at).storeBytes(of: 0, as: UInt32.self)
        at = (at &+ 3) & ~3
        storeBigEndian(isTwoByte ? UInt16(0x1000) : UInt16(0xBEDE), at: block)
        storeBigEndian(UInt16(truncatingIfNeeded: (at &- 4) &>> 2), at: block + 2)
        return at
    }

    /// Whether the receiver gets an element that only the two-byte form can say.
    @inline(never) private func needsTwoByteForm(_ passed: UnsafePointer<UInt8>) -> Bool {
        var i = 0
        while i < elementCount {
            let element = elements[i]
            let id = passed[Int(element.id & 15)]
            if id > 14 || (id != 0 && (element.byteCount > 16 || element.byteCount == 0)) { return true }
            i &+= 1
        }
        return false
    }

    @inline(__always) private func writeElementHead(
        _ block: UnsafeMutablePointer<UInt8>, at: Int, id: UInt8, byteCount: UInt8, _ isTwoByte: Bool
    ) -> Int {
        guard isTwoByte else {
            block[at] = id &<< 4 | (byteCount &- 1)
            return at &+ 1
        }
        block[at] = id
        block[at &+ 1] = byteCount
        return at &+ 2
    }
}

@inline(__always) func storeBigEndian<Integer: FixedWidthInteger>(
    _ value: Integer, at pointer: UnsafeMutablePointer<UInt8>
) {
    UnsafeMutableRawPointer(pointer).storeBytes(of: value.bigEndian, as: Integer.self)
}
