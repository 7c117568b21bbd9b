// What is let through to OpenSSL. Before the handshake is done, one datagram that is not even a plausible part of it ends an
// SSL object for good (half of the sixteen hostile ones in the vectors do), and a client that has already sent its
// certificate never says hello again. So records are looked at first, and those that no honest client sends in this state
// are taken out. Nothing here is a security check: only OpenSSL decides what is authentic.

/// One DTLS record as it stands in a datagram (RFC 6347 §4.1).
struct DTLSRecord {
    var type: UInt8
    var epoch: UInt16
    /// Of the whole record, header included.
    var range: Range<Int>

    static let headerByteCount = 13
    static let changeCipherSpec: UInt8 = 20
    static let alert: UInt8 = 21
    static let handshake: UInt8 = 22
    static let applicationData: UInt8 = 23
}

/// The records of a datagram, in order, up to the first that is malformed.
struct DTLSRecordCursor {
    private var offset = 0
    /// Set when the datagram ended in something that is no record of DTLS 1.0 or 1.2.
    private(set) var isMalformed = false

    init() {}

    mutating func next(in bytes: [UInt8]) -> DTLSRecord? {
        guard offset < bytes.count, !isMalformed else { return nil }
        guard bytes.count - offset >= DTLSRecord.headerByteCount else {
            isMalformed = true
            return nil
        }
        let type = bytes[offset]
        let byteCount = Int(bytes[offset + 11]) << 8 | Int(bytes[offset + 12])
        let end = offset + DTLSRecord.headerByteCount + byteCount
        guard (DTLSRecord.changeCipherSpec...DTLSRecord.applicationData).contains(type),
            bytes[offset + 1] == 0xFE, bytes[offset + 2] == 0xFD || bytes[offset + 2] == 0xFF,
            byteCount > 0, end <= bytes.count
        else {
            isMalformed = true
            return nil
        }
        let epoch = UInt16(bytes[offset + 3]) << 8 | UInt16(bytes[offset + 4])
        defer { offset = end }
        return DTLSRecord(type: type, epoch: epoch, range: offset..<end)
    }
}

/// What a datagram holds for a server, and the part of it that OpenSSL may see.
struct DTLSInput {
    /// The records that passed, joined.
    var accepted: [UInt8] = []
    /// A ClientHello or a part of one is among them.
    var hasClientHello = false
    /// The client's random number, where the part of the ClientHello that carries it is among them.
    var clientRandom: [UInt8]?
    /// The last unauthenticated fatal alert (taken out): a hint that the client has given up, or a forgery.
    var plaintextFatalAlert: UInt8?
    /// Something was taken out.
    var hasRefused = false

    /// The longest handshake message worth reassembling: a certificate list of 16 KB and its frame.
    static let maximumMessageByteCount = DTLSIdentity.maximumCertificateListByteCount + 1024

    init(_ datagram: [UInt8], isEstablished: Bool) {
        var cursor = DTLSRecordCursor()
        while let record = cursor.next(in: datagram) {
            if accepts(record, in: datagram, isEstablished: isEstablished) {
                accepted += datagram[record.range]
            } else {
                hasRefused = true
            }
        }
        if cursor.isMalformed { hasRefused = true }
    }

    private mutating func accepts(_ record: DTLSRecord, in bytes: [UInt8], isEstablished: Bool) -> Bool {
        guard record.epoch == 0 else {
            // Encrypted: only OpenSSL can tell. There is no third epoch without renegotiation.
            return record.epoch == 1 && (isEstablished || record.type != DTLSRecord.applicationData)
        }
        let body = (record.range.lowerBound + DTLSRecord.headerByteCount)..<record.range.upperBound
        switch record.type {
        case DTLSRecord.changeCipherSpec:
            return body.count == 1 && bytes[body.lowerBound] == 1
        case DTLSRecord.handshake:
            return acceptsMessages(body, in: bytes)
        case DTLSRecord.alert:
            if body.count == 2, bytes[body.lowerBound] == 2 { plaintextFatalAlert = bytes[body.lowerBound + 1] }
            return false
        default:
            return false
        }
    }

    /// Walks the handshake fragments of one plaintext record (RFC 6347 §4.2.2).
    private mutating func acceptsMessages(_ body: Range<Int>, in bytes: [UInt8]) -> Bool {
        var offset = body.lowerBound
        var sawHello = false
        var random: [UInt8]?
        while offset < body.upperBound {
            guard body.upperBound - offset >= 12 else { return false }
            let messageByteCount = uint24(bytes, offset + 1)
            let fragmentOffset = uint24(bytes, offset + 6)
            let fragmentByteCount = uint24(bytes, offset + 9)
            let start = offset + 12
            guard messageByteCount <= Self.maximumMessageByteCount,
                fragmentOffset + fragmentByteCount <= messageByteCount,
                fragmentByteCount > 0 || messageByteCount == 0,
                start + fragmentByteCount <= body.upperBound
            else { return false }
            switch bytes[offset] {
            case 1:
                sawHello = true
                if fragmentOffset == 0, fragmentByteCount >= 34 { random = Array(bytes[start + 2..<start + 34]) }
            case 11, 15, 16:
                break
            default:
                // Certificate, CertificateVerify, ClientKeyExchange and, encrypted, Finished are all that a client sends.
                return false
            }
            offset = start + fragmentByteCount
        }
        if sawHello { hasClientHello = true }
        if random != nil { clientRandom = random }
        return true
    }

    private func uint24(_ bytes: [UInt8], _ offset: Int) -> Int {
        Int(bytes[offset]) << 16 | Int(bytes[offset + 1]) << 8 | Int(bytes[offset + 2])
    }
}

/// Packs the records of one burst of OpenSSL's output into datagrams of at most `limit` bytes. Plaintext alerts are left out:
/// a client would believe the one that a forged packet provoked.
func datagrams(of output: [UInt8], limit: Int) -> [[UInt8]] {
    var result: [[UInt8]] = []
    var current: [UInt8] = []
    var cursor = DTLSRecordCursor()
    while let record = cursor.next(in: output) {
        if record.type == DTLSRecord.alert, record.epoch == 0 { continue }
        if !current.isEmpty, current.count + record.range.count > limit {
            result.append(current)
            current = []
        }
        current += output[record.range]
    }
    precondition(!cursor.isMalformed, "OpenSSL wrote something that is no record")
    if !current.isEmpty { result.append(current) }
    return result
}
