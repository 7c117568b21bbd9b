import CMediaCrypto
import COpenSSL

/// What is left of an established association once its SSL object is freed: the record keys, a replay window and our last
/// flight. That is enough for the two things that may still happen before the end: a client that missed the last flight
/// repeats its own, and one side says goodbye. An SSL object would hold some 57 KB for it (EXPERIMENTS.md D).
///
/// Only for DTLS 1.2 with TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, the one suite that `DTLSIdentity` offers. Application
/// data is thrown away: there are no data channels here.
final class DTLSRemnant {
    enum Word: Hashable {
        /// Nothing, or nothing authentic.
        case none
        /// The client repeats its Finished: it wants our last flight again.
        case repeatsFinished
        /// An authentic close_notify or fatal alert.
        case closes
    }

    let lastFlight: [[UInt8]]
    /// Client key, server key (16 bytes each), client IV, server IV (4 each): RFC 5246 §6.3 for an AEAD suite.
    private var keys: [UInt8]
    private var nextNumber: UInt64
    private var highestSeen: UInt64 = 0
    /// Bit i: number `highestSeen - i` was seen.
    private var seen: UInt64 = 0

    private static let tagByteCount = 16
    private static let explicitNonceByteCount = 8

    /// Takes the keys out of a finished handshake; nil when OpenSSL does not give them.
    init?(_ object: SSLObject, lastFlight: [[UInt8]]) {
        keys = [UInt8](repeating: 0, count: 40)
        guard COpenSSL_tls12_key_block(object.ssl, &keys, keys.count) == 1 else { return nil }
        self.lastFlight = lastFlight
        nextNumber = 0
        // Our Finished has used up the first numbers of this epoch.
        for datagram in lastFlight {
            var cursor = DTLSRecordCursor()
            while let record = cursor.next(in: datagram) {
                if record.epoch == 1 { nextNumber += 1 }
            }
        }
    }

    deinit { mc_wipe(&keys, keys.count) }

    /// One datagram of records from the client.
    func receive(_ datagram: [UInt8]) -> Word {
        var word = Word.none
        var cursor = DTLSRecordCursor()
        while let record = cursor.next(in: datagram) {
            guard record.epoch == 1, let content = open(record, in: datagram) else { continue }
            switch record.type {
            case DTLSRecord.alert where content.count == 2 && (content[0] == 2 || content[1] == 0):
                return .closes
            case DTLSRecord.handshake where content.first == 20:
                word = .repeatsFinished
            default:
                break
            }
        }
        return word
    }

    /// Our close_notify: one record, one datagram.
    func closeNotify() -> [UInt8] {
        let content: [UInt8] = [1, 0]
        let number = UInt64(1) << 48 | nextNumber
        nextNumber += 1
        var sealed = [UInt8](repeating: 0, count: content.count)
        var tag = [UInt8](repeating: 0, count: Self.tagByteCount)
        let header = additionalData(number, DTLSRecord.alert, byteCount: content.count)
        let nonce = nonce(ivAt: 36, explicit: number)
        keys.withUnsafeBufferPointer { keys in
            mc_gcm_seal_raw(
                mc_backend(), keys.baseAddress.map { $0 + 16 }, nonce.high, nonce.low, header, header.count, content,
                content.count, &sealed, &tag)
        }
        let body = bigEndian(number) + sealed + tag
        return [DTLSRecord.alert, 0xFE, 0xFD] + bigEndian(number) + [0, UInt8(body.count)] + body
    }

    /// The plaintext of a record that is authentic and new.
    private func open(_ record: DTLSRecord, in datagram: [UInt8]) -> [UInt8]? {
        let start = record.range.lowerBound
        let body = Array(datagram[(start + DTLSRecord.headerByteCount)..<record.range.upperBound])
        let count = body.count - Self.explicitNonceByteCount - Self.tagByteCount
        guard count >= 0 else { return nil }
        let number = word(datagram, at: start + 3)
        guard isNew(number) else { return nil }
        let header = additionalData(number, record.type, byteCount: count)
        let nonce = nonce(ivAt: 32, explicit: word(body, at: 0))
        let sealed = Array(body[8..<8 + count])
        let tag = Array(body[(8 + count)...])
        var plain = [UInt8](repeating: 0, count: max(1, count))
        let status = mc_gcm_open_raw(
            mc_backend(), keys, nonce.high, nonce.low, header, header.count, sealed, count, &plain, tag)
        guard status == 0 else { return nil }
        mark(number)
        return Array(plain.prefix(count))
    }

    private func isNew(_ number: UInt64) -> Bool {
        if number > highestSeen || seen == 0 { return true }
        let age = highestSeen - number
        return age < 64 && seen >> age & 1 == 0
    }

    private func mark(_ number: UInt64) {
        if number > highestSeen || seen == 0 {
            let step = seen == 0 ? 64 : number - highestSeen
            seen = (step >= 64 ? 0 : seen << step) | 1
            highestSeen = number
        } else {
            seen |= 1 << (highestSeen - number)
        }
    }

    /// RFC 5288 §3: the implicit four bytes, then the explicit eight; as 8 and 4 bytes.
    private func nonce(ivAt offset: Int, explicit: UInt64) -> (high: UInt64, low: UInt32) {
        let fixed = UInt64(word32(keys, at: offset))
        return (fixed << 32 | explicit >> 32, UInt32(truncatingIfNeeded: explicit))
    }

    /// RFC 5246 §6.2.3.3 with the epoch in the number, as DTLS has it.
    private func additionalData(_ number: UInt64, _ type: UInt8, byteCount: Int) -> [UInt8] {
        bigEndian(number) + [type, 0xFE, 0xFD, UInt8(byteCount >> 8), UInt8(byteCount & 0xFF)]
    }

    private func bigEndian(_ value: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: value >> UInt64(56 - 8 * $0)) }
    }
    private func word(_ bytes: [UInt8], at offset: Int) -> UInt64 {
        bytes[offset..<offset + 8].reduce(0) { $0 << 8 | UInt64($1) }
    }
    private func word32(_ bytes: [UInt8], at offset: Int) -> UInt32 {
        bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
}
