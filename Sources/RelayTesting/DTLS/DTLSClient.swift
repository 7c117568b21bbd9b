import COpenSSL
import RTPCore
import RelayCore

/// A DTLS client in virtual time over OpenSSL: datagrams and `now` in, datagrams and keys out. It repeats an unanswered
/// flight as real clients do, with fresh record numbers, and can cut its hello into pieces in any order.
///
/// OpenSSL repeats flights by the real clock only. So its timer is made to expire at once a few times after each flight:
/// the repeats come out in advance, each with record numbers of its own, and are held back until their time.
/// Confined to one thread.
public final class DTLSClient {
    public enum State: Hashable {
        case idle, handshaking, established
        /// The handshake died, or the server's authenticated alert came.
        case closed
    }

    public private(set) var state = State.idle
    /// Keys as the client sees them; nil until established, and when no profile was agreed on.
    public private(set) var keys: SRTPKeys?
    /// Flights sent again.
    public private(set) var repeatCount = 0
    public private(set) var deadline = Instant.distantFuture
    /// Cuts the hello: given the message's byte count, the pieces to send, in order, each in a datagram of its own.
    public var helloPieces: ((Int) -> [Range<Int>])?
    /// First repeat of a flight; doubles.
    public var firstRepeat: Interval = .milliseconds(500)

    public let identity: DTLSClientIdentity
    private let object: SSLObject
    private let repeats = RepeatMarks()
    private var heldBack: [[UInt8]] = []
    private var repeatInterval = Interval.zero
    private var plaintextRecordNumber: UInt64 = 0
    private var outgoing: [[UInt8]] = []
    private let datagramByteCount: Int

    /// `datagramByteCount`: bound of what it sends; GStreamer cuts at 256.
    public init(identity: DTLSClientIdentity = DTLSClientIdentity(), datagramByteCount: Int = 1200) {
        guard
            let object = SSLObject(identity.context, isClient: true, datagramByteCount: datagramByteCount)
        else { preconditionFailure("OpenSSL is out of memory") }
        self.identity = identity
        self.object = object
        self.datagramByteCount = datagramByteCount
        repeats.output = SSL_get_wbio(object.ssl)
        SSL_set_ex_data(object.ssl, 0, Unmanaged.passUnretained(repeats).toOpaque())
        DTLS_set_timer_cb(object.ssl, expireAtOnceAFewTimes)
    }

    /// Sends the hello.
    public func start(now: Instant) {
        guard state == .idle else { return }
        state = .handshaking
        shakeHands([], now: now)
    }

    public func receive(_ datagram: [UInt8], now: Instant) {
        switch state {
        case .handshaking:
            shakeHands(datagram, now: now)
        case .established:
            if object.read(datagram) { state = .closed }
            outgoing += object.takeOutput()
        case .idle, .closed:
            break
        }
    }

    public func advance(to now: Instant) {
        guard deadline <= now else { return }
        guard state == .handshaking, !heldBack.isEmpty else {
            deadline = .distantFuture
            return
        }
        repeatCount += 1
        send(heldBack.removeFirst())
        repeatInterval = repeatInterval * 2
        deadline = now + repeatInterval
    }

    /// Sends close_notify, where the association is up.
    public func close() {
        if state == .established {
            object.shutdown()
            outgoing += object.takeOutput()
        }
        state = .closed
        deadline = .distantFuture
    }

    /// Sends bytes as a data channel would.
    public func sendApplicationData(_ bytes: [UInt8]) {
        precondition(state == .established)
        precondition(SSL_write(object.ssl, bytes, Int32(bytes.count)) == bytes.count)
        outgoing += object.takeOutput()
    }

    public func takeDatagrams() -> [[UInt8]] {
        defer { outgoing = [] }
        return outgoing
    }

    /// Whether the server's certificate has `fingerprint`; false before the handshake is done.
    public func serverMatches(_ fingerprint: CertificateFingerprint) -> Bool {
        object.peerMatches([fingerprint])
    }

    private func shakeHands(_ datagram: [UInt8], now: Instant) {
        repeats.offsets = []
        let outcome = object.handshake(datagram)
        let bytes = object.takeBytes()
        var flights: [[UInt8]] = []
        var start = 0
        for offset in repeats.offsets + [bytes.count] where offset > start {
            flights.append(Array(bytes[start..<offset]))
            start = offset
        }
        if let first = flights.first {
            send(first)
            heldBack = Array(flights.dropFirst())
            repeatInterval = firstRepeat
            deadline = now + repeatInterval
        }
        switch outcome {
        case .waiting: break
        case .finished:
            state = .established
            keys = object.exportKeys(asServer: false)
            deadline = .distantFuture
        case .died:
            state = .closed
            deadline = .distantFuture
        }
    }

    // MARK: - Shaping

    /// Puts the records of a flight into datagrams. Plaintext records are numbered here, because a hello cut anew has other
    /// records than OpenSSL counted.
    private func send(_ flight: [UInt8]) {
        var records = splitRecords(flight)
        if let helloPieces, let hello = reassembledHello(records) {
            for piece in helloPieces(hello.count) {
                var record = Array(records[0][0..<11])
                let fragment = uint24(hello.count) + [0, 0] + uint24(piece.lowerBound) + uint24(piece.count)
                record += [UInt8((piece.count + 12) >> 8), UInt8((piece.count + 12) & 0xFF), 1]
                record += fragment + hello[piece]
                outgoing.append(numbered(record))
            }
            return
        }
        var current: [UInt8] = []
        while !records.isEmpty {
            let record = numbered(records.removeFirst())
            if !current.isEmpty, current.count + record.count > datagramByteCount {
                outgoing.append(current)
                current = []
            }
            current += record
        }
        if !current.isEmpty { outgoing.append(current) }
    }

    private func numbered(_ record: [UInt8]) -> [UInt8] {
        guard record[3] == 0, record[4] == 0 else { return record }
        var result = record
        for index in 0..<6 {
            result[5 + index] = UInt8(truncatingIfNeeded: plaintextRecordNumber >> UInt64(8 * (5 - index)))
        }
        plaintextRecordNumber += 1
        return result
    }

    private func splitRecords(_ bytes: [UInt8]) -> [[UInt8]] {
        var records: [[UInt8]] = []
        var offset = 0
        while offset + 13 <= bytes.count {
            let end = offset + 13 + (Int(bytes[offset + 11]) << 8 | Int(bytes[offset + 12]))
            records.append(Array(bytes[offset..<end]))
            offset = end
        }
        return records
    }

    /// The body of the ClientHello that `records` carry; nil when they carry something else.
    private func reassembledHello(_ records: [[UInt8]]) -> [UInt8]? {
        guard let first = records.first, first[0] == 22, first[3] == 0, first[4] == 0, first[13] == 1
        else { return nil }
        return records.reduce(into: []) { body, record in body += record[25...] }
    }

    private func uint24(_ value: Int) -> [UInt8] {
        [UInt8(value >> 16 & 0xFF), UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF)]
    }
}

/// Where in OpenSSL's output each repeat of the current flight begins.
private final class RepeatMarks {
    var offsets: [Int] = []
    var count = 0
    var output: OpaquePointer?
    static let limit = 6
}

/// OpenSSL asks with 0 when a flight goes out, and with the last duration each time that it is about to repeat the flight.
private let expireAtOnceAFewTimes: @convention(c) (OpaquePointer?, UInt32) -> UInt32 = { ssl, last in
    guard let context = SSL_get_ex_data(ssl, 0) else { return 4_000_000_000 }
    let marks = Unmanaged<RepeatMarks>.fromOpaque(context).takeUnretainedValue()
    if last == 0 {
        marks.count = 0
    } else {
        marks.count += 1
        marks.offsets.append(BIO_ctrl_pending(marks.output))
    }
    return marks.count < RepeatMarks.limit ? 1 : 4_000_000_000
}
