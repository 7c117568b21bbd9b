import CMediaCrypto
import RTPCore

// ICE-lite (RFC 8445 §2.5) with path validation by our own checks. Here, and nowhere else, an address becomes known. Nothing is
// answered, kept or changed for a message that does not verify. What a check means for the choice of path is in
// MediaEngine+Paths.

extension MediaEngine {
    func receiveSTUN(
        _ bytes: UnsafeMutablePointer<UInt8>, count: Int, from peer: PeerAddress, local: UInt8, now: Instant
    ) {
        let datagram = UnsafeBufferPointer(start: bytes, count: count)
        guard let message = STUNMessage(datagram.span), message.method == STUN.bindingMethod else {
            return counters.drop(.stunMalformed)
        }
        switch message.messageClass {
        case .request:
            receiveCheck(message, datagram, from: peer, local: local, now: now)
        case .success:
            receiveCheckAnswer(message, datagram, from: peer, now: now)
        case .indication, .failure:
            counters.drop(.stunUnexpectedClass)
        }
    }

    // MARK: The client's checks

    private func receiveCheck(
        _ message: STUNMessage, _ datagram: UnsafeBufferPointer<UInt8>, from peer: PeerAddress, local: UInt8,
        now: Instant
    ) {
        // Every check carries FINGERPRINT (RFC 8445 §7.1.1); one without it is no client's.
        guard message.hasFingerprint else { return counters.drop(.stunMalformed) }
        guard message.hasIntegrity, let username = message.usernameParts(in: datagram.span) else {
            return counters.drop(.stunNoCredentials)
        }
        guard let key = ufragKey(datagram[username.receiver]), let index = transportByUfrag[key],
            let details = details[Int(index)]
        else { return counters.drop(.stunUnknownUfrag) }
        let known = flows.find(peer)
        let isSelected = known?.transport == index && known?.path == Int32(transports[Int(index)].selectedPath)
        let isCurrent = datagram[username.receiver].elementsEqual(details.localICE.ufrag.utf8)
        guard
            let credentials = isCurrent
                ? (details.localICE, details.remoteICE) : oldCredentials(details, isSelected: isSelected, now: now)
        else { return counters.drop(.stunUnknownUfrag) }
        guard datagram[username.sender].elementsEqual(credentials.1.ufrag.utf8) else {
            return counters.drop(.stunRemoteUfrag)
        }
        // A flood of forged checks must not cost a hash each (T21); the selected address always gets its turn.
        let share = isSelected ? nil : checkBudget.take(for: peer, now: now)
        guard isSelected || share != nil else { return counters.drop(.stunRateLimited) }
        guard verifies(message, datagram, password: credentials.0.password) else {
            return counters.drop(.stunIntegrity)
        }
        share?.pointee.giveBack(rate: Limits.failedChecksPerSecond)
        if let known, known.transport != index,
            now - pathAt(known.transport, known.path).pointee.lastReceived < Limits.addressHold
        {
            return counters.drop(.stunAddressInUse)
        }
        // From here on it is the client speaking.
        let pathIndex = learn(peer, local: local, for: index, now: now)
        authenticated(index, path: pathIndex, count: datagram.count, now: now)
        if let unknown = message.firstUnknownRequired {
            counters.drop(.stunUnknownAttribute)
            return answer(message, error: 420, unknown: unknown, credentials.0, pathAt(index, pathIndex))
        }
        if message.iceControlled != nil {
            // We are always the controlled side (RFC 8445 §7.3.1.1).
            counters.drop(.stunRoleConflict)
            return answer(message, error: 487, unknown: nil, credentials.0, pathAt(index, pathIndex))
        }
        if isCurrent, let old = details.oldICE {
            forgetUfrag(old.local.ufrag, of: index)
            details.oldICE = nil
        }
        answer(message, error: nil, unknown: nil, credentials.0, pathAt(index, pathIndex))
        counters.checksAnswered &+= 1
        follow(index, path: pathIndex, isNominated: message.hasUseCandidate, now: now)
    }

    private func oldCredentials(
        _ details: TransportDetails, isSelected: Bool, now: Instant
    ) -> (ICECredentials, ICECredentials)? {
        guard let old = details.oldICE, isSelected, now < old.until else { return nil }
        return (old.local, old.remote)
    }

    private func verifies(
        _ message: STUNMessage, _ datagram: UnsafeBufferPointer<UInt8>, password: String
    ) -> Bool {
        guard let carried = message.integrity(in: datagram.span), let base = datagram.baseAddress else {
            return false
        }
        let length = message.integrityLengthField
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 2) { field in
            field[0] = UInt8(truncatingIfNeeded: length >> 8)
            field[1] = UInt8(truncatingIfNeeded: length)
            let expected = hmac(
                password, (base, 2), (UnsafePointer(field.baseAddress ?? UnsafeMutablePointer(mutating: base)), 2),
                (base + 4, message.integrityPrefixByteCount - 4))
            return expected.matches(carried)
        }
    }

    private func hmac(
        _ password: String, _ a: (UnsafePointer<UInt8>, Int), _ b: (UnsafePointer<UInt8>, Int),
        _ c: (UnsafePointer<UInt8>, Int)
    ) -> STUNIntegrity {
        var password = password
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { mac in
            password.withUTF8 { key in
                mc_hmac_sha1_segments(
                    key.baseAddress, key.count, a.0, a.1, b.0, b.1, c.0, c.1, mac.baseAddress)
            }
            return STUNIntegrity(UnsafeBufferPointer(mac).span, at: 0)
        }
    }

    private func answer(
        _ message: STUNMessage, error: Int?, unknown: UInt16?, _ local: ICECredentials,
        _ path: UnsafeMutablePointer<Path>
    ) {
        var out = OutputSpan(buffer: scratch, initializedCount: 0)
        var writer = STUNWriter(
            error == nil ? .success : .failure, transactionID: message.transactionID, to: &out)
        if let error { writer.appendErrorCode(error, to: &out) }
        if let unknown { writer.appendUnknownAttribute(unknown, to: &out) }
        if error == nil { writer.appendMappedAddress(path.pointee.address, to: &out) }
        seal(&writer, password: local.password, &out)
        let count = out.finalize(for: scratch)
        precondition(writer.fits, "a STUN answer larger than a slot")
        guard let base = scratch.baseAddress else { return }
        send(base, count: count, to: path)
    }

    private func seal(_ writer: inout STUNWriter, password: String, _ out: inout OutputSpan<UInt8>) {
        writer.appendIntegrity(to: &out) { prefix in
            prefix.withUnsafeBufferPointer { bytes in
                guard let base = bytes.baseAddress else { preconditionFailure("a message without a header") }
                return hmac(password, (base, bytes.count), (base, 0), (base, 0))
            }
        }
        writer.appendFingerprint(to: &out)
    }

    // MARK: Our checks

    /// Sends the checks that are due: to the selected path in its interval, and repeats to every path that has not answered.
    func sendDueChecks(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        for pathIndex in 0..<Int32(transport.pointee.pathCount) {
            let path = pathAt(index, pathIndex)
            guard path.pointee.address != .none else { continue }
            let isSelected = pathIndex == Int32(transport.pointee.selectedPath)
            guard now >= nextCheck(path.pointee, isSelected: isSelected, transport.pointee) else { continue }
            if path.pointee.isCheckPending {
                path.pointee.checkRetries &+= 1
                if Int(path.pointee.checkRetries) > Limits.checkRetries.count {
                    path.pointee.isCheckPending = false
                    path.pointee.checkRetries = 0
                    if !isSelected { continue }
                }
            }
            sendCheck(index, pathIndex, now: now)
        }
        leaveSilentPath(index, now: now)
        updateNextCheck(index)
    }

    /// When a path wants its next check.
    private func nextCheck(_ path: Path, isSelected: Bool, _ transport: Transport) -> Instant {
        if path.isCheckPending {
            let retry = min(Int(path.checkRetries), Limits.checkRetries.count - 1)
            return path.checkSentAt + Limits.checkRetries[retry]
        }
        guard isSelected else { return .distantFuture }
        let interval =
            transport.flags.contains(.joined) ? Limits.checkIntervalJoined : Limits.checkIntervalPrepared
        // ± 20 % by the transaction's random bits, so that many clients' checks spread out.
        let spread = interval.nanoseconds / 100 * (Int64(path.transactionLow % 41) - 20)
        return path.checkSentAt + interval + .nanoseconds(spread)
    }

    private func updateNextCheck(_ index: Int32) {
        let transport = transports + Int(index)
        var next = Instant.distantFuture
        for pathIndex in 0..<Int32(transport.pointee.pathCount) {
            let path = pathAt(index, pathIndex).pointee
            guard path.address != .none else { continue }
            let isSelected = pathIndex == Int32(transport.pointee.selectedPath)
            next = min(next, nextCheck(path, isSelected: isSelected, transport.pointee))
        }
        transport.pointee.nextCheck = next
    }

    /// One Binding request to a path with exactly the attributes that all clients answer without side effect
    /// (EXPERIMENTS.md A): never ICE-CONTROLLING, never USE-CANDIDATE.
    func sendCheck(_ index: Int32, _ pathIndex: Int32, now: Instant) {
        guard let details = details[Int(index)] else { return }
        let path = pathAt(index, pathIndex)
        if !path.pointee.isCheckPending { path.pointee.checkRetries = 0 }
        path.pointee.isCheckPending = true
        path.pointee.transactionHigh = UInt32(truncatingIfNeeded: random.next())
        path.pointee.transactionLow = random.next()
        path.pointee.checkSentAt = now
        var out = OutputSpan(buffer: scratch, initializedCount: 0)
        let id = STUNTransactionID(high: path.pointee.transactionHigh, low: path.pointee.transactionLow)
        var writer = STUNWriter(.request, transactionID: id, to: &out)
        let remote = Array(details.remoteICE.ufrag.utf8)
        let local = Array(details.localICE.ufrag.utf8)
        writer.appendUsername(receiver: remote.span, sender: local.span, to: &out)
        // Type preference of a host candidate, component 1 (RFC 8445 §5.1.2.1).
        writer.appendPriority(126 << 24 | 65_535 << 8 | 255, to: &out)
        writer.appendControlled(tieBreaker: details.tieBreaker, to: &out)
        seal(&writer, password: details.remoteICE.password, &out)
        let count = out.finalize(for: scratch)
        precondition(writer.fits, "a STUN check larger than a slot")
        guard let base = scratch.baseAddress else { return }
        send(base, count: count, to: path)
        updateNextCheck(index)
    }

    /// The answer to a check of ours: right transaction, from the address we asked, with the client's key.
    private func receiveCheckAnswer(
        _ message: STUNMessage, _ datagram: UnsafeBufferPointer<UInt8>, from peer: PeerAddress, now: Instant
    ) {
        guard let flow = flows.find(peer), let details = details[Int(flow.transport)] else {
            return counters.drop(.stunUnknownTransaction)
        }
        let path = pathAt(flow.transport, flow.path)
        guard path.pointee.isCheckPending, message.transactionID.high == path.pointee.transactionHigh,
            message.transactionID.low == path.pointee.transactionLow
        else { return counters.drop(.stunUnknownTransaction) }
        guard verifies(message, datagram, password: details.remoteICE.password) else {
            return counters.drop(.stunIntegrity)
        }
        authenticated(flow.transport, path: flow.path, count: datagram.count, now: now)
        let transport = transports + Int(flow.transport)
        path.pointee.isCheckPending = false
        path.pointee.checkRetries = 0
        path.pointee.isValidated = true
        if flow.path == Int32(transport.pointee.selectedPath) {
            let roundTrip = (now - path.pointee.checkSentAt).microseconds
            transport.pointee.statistics.note(roundTripMicroseconds: UInt32(clamping: max(1, roundTrip)))
        } else if !transport.pointee.hasPeer {
            select(flow.path, of: flow.transport, now: now)
        } else if path.pointee.isNominated {
            move(flow.transport, to: flow.path, now: now)
        }
        updateNextCheck(flow.transport)
        reschedule(flow.transport, now: now)
    }

    // MARK: Restart

    /// New credentials on both sides (RFC 8445 §9). The old ones stay good from the selected address until the first check
    /// with the new ones, at most 30 s.
    func restartICE(_ index: Int32, local: ICECredentials, remote: ICECredentials, now: Instant) {
        guard let details = details[Int(index)], let key = ufragKey(local.ufrag.utf8) else { return }
        if let old = details.oldICE { forgetUfrag(old.local.ufrag, of: index) }
        details.oldICE = (details.localICE, details.remoteICE, now + Limits.oldCredentialsLifetime)
        details.localICE = local
        details.remoteICE = remote
        transportByUfrag[key] = index
        for pathIndex in 0..<Int32(transports[Int(index)].pathCount) {
            pathAt(index, pathIndex).pointee.isNominated = false
            pathAt(index, pathIndex).pointee.isCheckPending = false
        }
        updateNextCheck(index)
        reschedule(index, now: now)
    }
}
