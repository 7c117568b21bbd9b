import CMediaCrypto
import RTPCore

/// Connectivity checks and their answers as clients write them. Each field may be left out or made wrong by tests.
public struct TestCheck: Sendable {
    public var transactionID: STUNTransactionID
    /// `receiver:sender`; empty halves leave USERNAME out.
    public var receiverUfrag: String
    public var senderUfrag: String
    /// The receiver's password.
    public var password: String
    public var priority: UInt32? = 0x6E7F_1EFF
    public var controlling: UInt64? = 0x1122_3344_5566_7788
    public var controlled: UInt64?
    public var nominates = false
    public var hasIntegrity = true
    public var hasFingerprint = true

    public init(transactionID: STUNTransactionID, receiverUfrag: String, senderUfrag: String, password: String) {
        self.transactionID = transactionID
        self.receiverUfrag = receiverUfrag
        self.senderUfrag = senderUfrag
        self.password = password
    }

    public var bytes: [UInt8] {
        [UInt8](capacity: 600) { out in
            var writer = STUNWriter(.request, transactionID: transactionID, to: &out)
            if !receiverUfrag.isEmpty {
                let receiver = Array(receiverUfrag.utf8)
                let sender = Array(senderUfrag.utf8)
                writer.appendUsername(receiver: receiver.span, sender: sender.span, to: &out)
            }
            if let priority { writer.appendPriority(priority, to: &out) }
            if let controlling { writer.appendControlling(tieBreaker: controlling, to: &out) }
            if let controlled { writer.appendControlled(tieBreaker: controlled, to: &out) }
            if nominates { writer.appendUseCandidate(to: &out) }
            if hasIntegrity { writer.appendIntegrity(to: &out) { stunIntegrity($0, key: Array(password.utf8)) } }
            if hasFingerprint { writer.appendFingerprint(to: &out) }
        }
    }
}

/// A success response with the mapped address and our integrity.
public func checkAnswer(
    transactionID: STUNTransactionID, mapped: PeerAddress, password: String
) -> [UInt8] {
    [UInt8](capacity: 200) { out in
        var writer = STUNWriter(.success, transactionID: transactionID, to: &out)
        writer.appendMappedAddress(mapped, to: &out)
        writer.appendIntegrity(to: &out) { stunIntegrity($0, key: Array(password.utf8)) }
        writer.appendFingerprint(to: &out)
    }
}

/// HMAC-SHA1 over the bytes as they are.
func stunIntegrity(_ bytes: Span<UInt8>, key: [UInt8]) -> STUNIntegrity {
    var mac = [UInt8](repeating: 0, count: 20)
    let message = bytes.indices.map { bytes[$0] }
    mc_hmac_sha1_segments(key, key.count, message, message.count, nil, 0, nil, 0, &mac)
    return STUNIntegrity(mac.span, at: 0)
}

/// Whether a message carries the right MESSAGE-INTEGRITY for `password`.
func isAuthentic(_ message: STUNMessage, _ bytes: [UInt8], password: String) -> Bool {
    guard let stated = message.integrity(in: bytes.span) else { return false }
    var covered = Array(bytes.prefix(message.integrityPrefixByteCount))
    covered[2] = UInt8(message.integrityLengthField >> 8)
    covered[3] = UInt8(message.integrityLengthField & 0xFF)
    return stunIntegrity(covered.span, key: Array(password.utf8)).matches(stated)
}
