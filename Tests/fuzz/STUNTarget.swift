import RTPCore

extension FuzzTarget {
    /// A STUN message is refused, or says the same when it is written again out of what was read.
    static let stun = FuzzTarget(
        name: "stun", byteLimit: 1_024, seeds: { vectors("stun", "cases") + keptInputs("stun") + keptInputs("any") }
    ) { bytes in
        guard let message = STUNMessage(bytes.span) else { return }
        require(message.integrityPrefixByteCount <= bytes.count, "the HMAC covers bytes that are not there")
        require(message.usernameByteCount <= STUN.usernameByteLimit, "a username of more than 508 bytes")
        let parts = message.usernameParts(in: bytes.span)
        if let parts {
            let isSame = message.usernameEquals(
                receiver: bytes.span.extracting(parts.receiver), sender: bytes.span.extracting(parts.sender),
                in: bytes.span)
            require(isSame, "a username is not its own parts")
        }
        let again = rewritten(message, bytes, parts)
        guard let copy = STUNMessage(again.span) else { fatalError("broken promise: what was written is not read") }
        require(copy.messageClass == message.messageClass && copy.method == message.method, "another class or method")
        require(copy.transactionID == message.transactionID, "another transaction")
        require(copy.priority == message.priority && copy.hasUseCandidate == message.hasUseCandidate, "another check")
        require(copy.iceControlled == message.iceControlled, "another role")
        require(copy.iceControlling == message.iceControlling, "another tie-breaker")
        require(copy.mappedAddress == message.mappedAddress, "another address")
        require(copy.errorCode == message.errorCode, "another error")
        require(copy.hasIntegrity && copy.hasFingerprint, "no integrity or fingerprint")
        if let parts, let copied = copy.usernameParts(in: again.span) {
            require(Array(bytes[parts.sender]) == Array(again[copied.sender]), "another sender")
            require(Array(bytes[parts.receiver]) == Array(again[copied.receiver]), "another receiver")
        }
        require((parts == nil) == (copy.usernameParts(in: again.span) == nil), "a username came or went")
    }

    private static func rewritten(
        _ message: STUNMessage, _ bytes: [UInt8], _ parts: (receiver: Range<Int>, sender: Range<Int>)?
    ) -> [UInt8] {
        written(1_024) { out in
            var writer = STUNWriter(
                message.messageClass, method: message.method, transactionID: message.transactionID, to: &out)
            if let parts {
                writer.appendUsername(
                    receiver: bytes.span.extracting(parts.receiver), sender: bytes.span.extracting(parts.sender),
                    to: &out)
            }
            if let priority = message.priority { writer.appendPriority(priority, to: &out) }
            if message.hasUseCandidate { writer.appendUseCandidate(to: &out) }
            if let tieBreaker = message.iceControlled { writer.appendControlled(tieBreaker: tieBreaker, to: &out) }
            if let tieBreaker = message.iceControlling { writer.appendControlling(tieBreaker: tieBreaker, to: &out) }
            if let address = message.mappedAddress { writer.appendMappedAddress(address, to: &out) }
            if let code = message.errorCode { writer.appendErrorCode(code, to: &out) }
            if let type = message.firstUnknownRequired { writer.appendUnknownAttribute(type, to: &out) }
            let integrity = message.integrity(in: bytes.span) ?? STUNIntegrity(high: 1, middle: 2, low: 3)
            writer.appendIntegrity(to: &out) { _ in integrity }
            writer.appendFingerprint(to: &out)
            require(writer.fits, "a message of known attributes does not fit")
        }
    }
}
