import RTPCore
import RelayCore

// What the media loop does for a capture: picks the datagrams of its room, in and out, and tells the parts. Nothing here runs
// while there is none.

extension MediaLoop {
    func begin(_ order: CaptureOrder, now: Instant) {
        guard capture == nil else { return link.tell(CapturePart(id: order.id, bytes: [], end: .busy), now: now) }
        capture = PacketCapture(order, worker: worker, now: now)
        log.line("a capture of headers begins", .init("capture.id", .string(order.id.description)))
    }

    func stopCapture(_ id: CaptureID, now: Instant) {
        guard capture?.order.id == id else { return }
        capture?.stop(.stopped)
        tellCapture(now: now)
    }

    @inline(never) func captureReceived(
        _ bytes: UnsafePointer<UInt8>, count: Int, from peer: PeerAddress, local: UInt8, now: Instant
    ) {
        guard let room = capture?.order.room, engine.room(of: peer) == room else { return }
        capture?.note(
            bytes, count: count, from: peer, to: address(of: local, for: peer), isInbound: true, now: now)
    }

    @inline(never) func captureSent(now: Instant) {
        guard let room = capture?.order.room else { return }
        let batch = engine.transmit
        for index in 0..<batch.count {
            let entry = batch.entries[index]
            guard engine.room(of: entry.peer) == room else { continue }
            capture?.note(
                batch.slots + index * TransmitBatch.slotByteCount, count: Int(entry.byteCount),
                from: address(of: entry.local, for: entry.peer), to: entry.peer, isInbound: false, now: now)
        }
    }

    func tellCapture(now: Instant) {
        guard let room = capture?.order.room else { return }
        // Nobody waits for what control can not be told.
        if !link.isConnected { capture?.stop(.stopped) }
        for part in capture?.advance(to: now, roomIsHere: engine.holds(room)) ?? [] {
            link.tell(part, now: now)
            guard let end = part.end else { continue }
            capture = nil
            log.line(
                "a capture of headers is over", .init("capture.id", .string(part.id.description)),
                .init("reason", .string(end.name)))
        }
    }

    /// As clients know it: the address that the datagram came to, with the worker's port.
    private func address(of local: UInt8, for peer: PeerAddress) -> PeerAddress {
        guard let source = table.source(of: local, to: peer) else { return PeerAddress(high: 0, low: 0, port: 0) }
        let socket = sockets[source.pointee.socket].address
        let isKnown = source.pointee.high != 0 || source.pointee.low != 0
        return PeerAddress(
            high: isKnown ? source.pointee.high : socket.high, low: isKnown ? source.pointee.low : socket.low,
            port: socket.port)
    }
}
