import RTPCore
import RelayCore

// The controlling side of ICE with one pair: our address and the relay's. Checks until one is answered, then consent.

extension SimulatedClient {
    static let checkSpacing = Interval.milliseconds(100)
    static let consentRetry = Interval.milliseconds(500)

    /// The check that would be sent now; tests change a field and send it by `send`.
    public func makeCheck() -> TestCheck {
        let id = STUNTransactionID(high: UInt32(truncatingIfNeeded: random.next()), low: random.next())
        var check = TestCheck(
            transactionID: id, receiverUfrag: remoteICE.ufrag, senderUfrag: localICE.ufrag,
            password: remoteICE.password)
        check.controlling = UInt64(tag) << 32 | 1
        check.nominates = options.nominatesAtOnce || lastConsent != nil
        if options.nominatesOnce, isNominated { check.nominates = false }
        return check
    }

    /// Sends a check, changed as a test wants it.
    public func sendCheck(_ change: (inout TestCheck) -> Void = { _ in }) {
        var check = makeCheck()
        change(&check)
        outstandingChecks[check.transactionID] = now
        if outstandingChecks.count > 32 {
            outstandingChecks = outstandingChecks.filter { now - $0.value < .seconds(2) }
        }
        if check.nominates { isNominated = true }
        counters.checksSent += 1
        send(check.bytes)
        checkAt = now + (lastConsent == nil ? Self.checkSpacing : Self.consentRetry)
    }

    func receiveSTUN(_ bytes: [UInt8], from peer: PeerAddress) {
        guard let message = STUNMessage(bytes.span), message.method == STUN.bindingMethod else { return }
        switch message.messageClass {
        case .request: answer(message, bytes, from: peer)
        case .success: receiveAnswer(message, bytes)
        case .failure:
            guard outstandingChecks[message.transactionID] != nil else { return }
            counters.checkErrors[message.errorCode ?? 0, default: 0] += 1
        case .indication: break
        }
    }

    private func answer(_ message: STUNMessage, _ bytes: [UInt8], from peer: PeerAddress) {
        let local = Array(localICE.ufrag.utf8)
        let remote = Array(remoteICE.ufrag.utf8)
        guard message.usernameEquals(receiver: local.span, sender: remote.span, in: bytes.span),
            isAuthentic(message, bytes, password: localICE.password), message.hasFingerprint
        else {
            counters.unauthenticRelayChecks += 1
            return
        }
        counters.relayChecks += 1
        if message.iceControlled == nil || message.iceControlling != nil || message.hasUseCandidate
            || message.priority == nil
        {
            counters.improperRelayChecks += 1
        }
        guard options.answersChecks else { return }
        let answer = checkAnswer(
            transactionID: message.transactionID, mapped: peer, password: localICE.password)
        outgoing.append(Datagram(from: address, to: peer, bytes: answer))
    }

    private func receiveAnswer(_ message: STUNMessage, _ bytes: [UInt8]) {
        guard let sentAt = outstandingChecks[message.transactionID],
            isAuthentic(message, bytes, password: remoteICE.password)
        else { return }
        outstandingChecks[message.transactionID] = nil
        counters.checksAnswered += 1
        roundTrip = now - sentAt
        lastConsent = now
        mappedAddress = Self.mappedAddress(in: bytes)
        checkAt = now + options.consentInterval
        if phase == .checking {
            phase = .handshaking
            dtls.start(now: now)
            driveDTLS()
        }
        if !isNominated { sendCheck() }
    }

    /// XOR-MAPPED-ADDRESS of an IPv4 or IPv6 answer, read apart from the product's reader.
    private static func mappedAddress(in bytes: [UInt8]) -> PeerAddress? {
        var offset = 20
        while offset + 4 <= bytes.count {
            var attribute = ByteCursor(Array(bytes[offset...]))
            let (type, count) = (attribute.take16(), Int(attribute.take16()))
            guard attribute.count >= count else { return nil }
            if type == 0x0020, count >= 8 {
                _ = attribute.take8()
                let family = attribute.take8()
                let port = attribute.take16() ^ 0x2112
                if family == 1 { return PeerAddress(ipv4: attribute.take32() ^ 0x2112_A442, port: port) }
                guard count == 20 else { return nil }
                var mask = ByteCursor(Array(bytes[4..<20]))
                let words = (0..<4).map { _ in UInt64(attribute.take32() ^ mask.take32()) }
                return PeerAddress(
                    high: words[0] << 32 | words[1], low: words[2] << 32 | words[3], port: port)
            }
            offset += 4 + (count + 3) & ~3
        }
        return nil
    }
}
