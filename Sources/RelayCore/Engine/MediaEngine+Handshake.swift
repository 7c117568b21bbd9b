import RTPCore

// DTLS passes through: records from known addresses to the handshaker, its datagrams to the selected path, its keys into the
// transport.

extension MediaEngine {
    /// DTLS is taken only from an address that passed an authenticated check (T30).
    func receiveDTLS(_ bytes: UnsafeMutablePointer<UInt8>, count: Int, from peer: PeerAddress, now: Instant) {
        guard let flow = flows.find(peer) else { return counters.drop(.dtlsUnknownAddress) }
        let transport = transports + Int(flow.transport)
        guard transport.pointee.records.take(rate: Int64(Limits.recordsPerSecond), now: now) else {
            return counters.drop(.dtlsRateLimited)
        }
        guard handshakeRequests.count < Limits.pendingHandshakeRequests else {
            return counters.drop(.dtlsBacklog)
        }
        pathAt(flow.transport, flow.path).pointee.bytesReceived &+= UInt64(count)
        // The handshake may run on another path than the first that was checked, before any is nominated.
        if !transport.pointee.flags.contains(.hasKeys), Int32(transport.pointee.selectedPath) != flow.path {
            transport.pointee.selectedPath = Int8(flow.path)
            transport.pointee.peer = peer
            transport.pointee.local = pathAt(flow.transport, flow.path).pointee.local
        }
        let records = Array(UnsafeBufferPointer(start: bytes, count: count))
        handshakeRequests.append(.records(transport.pointee.handle, records))
    }

    /// Takes one result of the handshaker. Results for transports that are gone are dropped, except their close_notify.
    public func receive(_ result: HandshakeResult, now: Instant) {
        switch result {
        case .datagram(let handle, let bytes):
            sendRecords(bytes, of: handle)
        case .established(let handle, let keys):
            guard let index = transportByHandle[handle] else { return }
            install(keys, index, now: now)
        case .ended(let handle, let reason):
            guard let index = transportByHandle[handle] else { return }
            end(index, reason, now: now)
        }
    }

    private func sendRecords(_ bytes: [UInt8], of handle: ParticipantHandle) {
        precondition(bytes.count <= TransmitBatch.slotByteCount, "a DTLS datagram larger than a slot")
        bytes.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            if let index = transportByHandle[handle] {
                guard transports[Int(index)].hasPeer else { return counters.drop(.sendWithoutPath) }
                let selected = Int32(transports[Int(index)].selectedPath)
                return send(base, count: buffer.count, to: pathAt(index, selected))
            }
            guard let goodbye = goodbyes.removeValue(forKey: handle) else {
                return counters.drop(.sendWithoutPath)
            }
            guard let slot = transmit.reserve() else { return counters.drop(.transmitFull) }
            slot.update(from: base, count: buffer.count)
            transmit.commit(byteCount: buffer.count, to: goodbye.peer, local: goodbye.local)
        }
    }

    private func install(_ keys: SRTPKeys, _ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        guard !transport.pointee.flags.contains(.hasKeys) else { return }
        transport.pointee.receiveCipher = .create(
            profile: keys.profile, masterKey: keys.receiveKey, masterSalt: keys.receiveSalt)
        transport.pointee.sendCipher = .create(
            profile: keys.profile, masterKey: keys.sendKey, masterSalt: keys.sendSalt)
        transport.pointee.flags.insert(.hasKeys)
        transport.pointee.phaseSince = now
        transport.pointee.lastAuthenticated = now
        // The client took part in the handshake over this path: it is there and wants what we send.
        let selected = transport.pointee.selectedPath
        if selected >= 0 { pathAt(index, Int32(selected)).pointee.isValidated = true }
        news.append(.prepared(transport.pointee.handle, at: now))
        if transport.pointee.flags.contains(.joinWanted) {
            join(index, now: now)
        } else {
            reschedule(index, now: now)
        }
    }
}
