import COpenSSL
import RTPCore

/// One DTLS association in the server role, from the first record to its end, over memory BIOs.
///
/// Owns the SSL object and every decision about it: when there is one, when it is replaced, when a flight is sent again. Time
/// is the caller's: OpenSSL's own timers, which read the real clock, are set so far away that they never fire, and the last
/// unanswered flight is repeated from a copy after 200 ms, doubling. Refuses addresses, sockets, threads, and any word from
/// the network that is not authenticated: a plaintext alert ends nothing.
///
/// Confined to the handshaker's thread.
final class DTLSConnection {
    enum State: Hashable {
        /// No SSL object: nothing has come yet, or the last object died and the next ClientHello starts anew.
        case idle
        case handshaking
        case established
        case ended
    }

    /// What a call brought about, in this order: datagrams to send, then at most one of the others.
    struct Output {
        var datagrams: [[UInt8]] = []
        var keys: SRTPKeys?
        var end: TransportEnd?
    }

    private(set) var state = State.idle
    /// Next moment at which `advance` has something to do.
    var deadline: Instant {
        guard state == .idle || state == .handshaking else { return .distantFuture }
        return min(handshakeDeadline, min(abandonAt, repeatAt))
    }
    /// How many SSL objects this association has used up.
    private(set) var attemptCount = 0
    /// Flights of ours that were sent again because no answer came.
    private(set) var repeatedFlightCount = 0

    private let identity: DTLSIdentity
    private let fingerprints: [CertificateFingerprint]
    private let limits: HandshakeLimits
    private var ssl: SSLObject?
    private var clientRandom: [UInt8]?
    private var clientHasAnswered = false
    private var flight: [[UInt8]] = []
    private var repeatAt = Instant.distantFuture
    private var repeatInterval = Interval.zero
    private var handshakeDeadline = Instant.distantFuture
    private var abandonAt = Instant.distantFuture
    /// What to report when the handshake is given up.
    private var failure = TransportEnd.handshakeFailed

    init(identity: DTLSIdentity, fingerprints: [CertificateFingerprint], limits: HandshakeLimits) {
        self.identity = identity
        self.fingerprints = fingerprints
        self.limits = limits
    }

    /// Whether `input` would make a new SSL object.
    func needsObject(for input: DTLSInput) -> Bool { state == .idle && input.hasClientHello }

    /// One datagram from the client, already filtered.
    func receive(_ input: DTLSInput, now: Instant) -> Output {
        var output = Output()
        switch state {
        case .idle, .handshaking:
            handshake(input, now: now, into: &output)
        case .established:
            listen(input, into: &output)
        case .ended:
            break
        }
        return output
    }

    /// Repeats a flight or gives up, when `deadline` has come.
    func advance(to now: Instant) -> Output {
        var output = Output()
        guard deadline <= now else { return output }
        if handshakeDeadline <= now || abandonAt <= now {
            end(failure, into: &output)
        } else {
            output.datagrams = flight
            repeatedFlightCount += 1
            repeatInterval = repeatInterval * 2
            repeatAt = now + repeatInterval
        }
        return output
    }

    /// Our close_notify, where the association is up. Nothing comes after it.
    func close() -> Output {
        var output = Output()
        if state == .established, let ssl {
            ssl.shutdown()
            output.datagrams = ssl.takeOutput()
        }
        forget()
        return output
    }

    // MARK: - Handshake

    private func handshake(_ input: DTLSInput, now: Instant, into output: inout Output) {
        if let alert = input.plaintextFatalAlert, state == .handshaking {
            // The client may have given up, or somebody wants us to believe so. Its next handshake message tells.
            if alert == 70 { failure = .noSRTPProfile }
            abandonAt = min(abandonAt, now + limits.silenceAfterFailure)
        }
        guard !input.accepted.isEmpty else { return }
        if state == .handshaking, !clientHasAnswered, let random = input.clientRandom, let known = clientRandom,
            random != known
        {
            // Another ClientHello than the one we answered, and nobody took up that answer: the newer one is believed.
            discardObject(now: now)
        }
        if state == .idle {
            guard input.hasClientHello, attemptCount < limits.attempts, let fresh = SSLObject(identity.context)
            else { return }
            attemptCount += 1
            ssl = fresh
            state = .handshaking
            clientRandom = nil
            clientHasAnswered = false
            if handshakeDeadline == .distantFuture { handshakeDeadline = now + limits.duration }
        }
        abandonAt = .distantFuture
        if let random = input.clientRandom { clientRandom = random }
        guard let ssl else { return }
        let outcome = ssl.handshake(input.accepted)
        let sent = ssl.takeOutput()
        switch outcome {
        case .waiting:
            output.datagrams = sent
            if input.hasAnswer { clientHasAnswered = true }
            if !sent.isEmpty {
                flight = sent
                repeatInterval = limits.firstRepeat
                repeatAt = now + repeatInterval
            }
        case .finished:
            output.datagrams = sent
            flight = []
            repeatAt = .distantFuture
            establish(ssl, into: &output)
        case .died(let lacksCommonGround):
            if lacksCommonGround { failure = .noSRTPProfile }
            discardObject(now: now)
            if attemptCount >= limits.attempts { end(failure, into: &output) }
        }
    }

    private func establish(_ ssl: SSLObject, into output: inout Output) {
        guard ssl.peerMatches(fingerprints) else {
            return refuse(.fingerprintMismatch, ssl, into: &output)
        }
        guard let keys = ssl.exportKeys(asServer: true) else {
            return refuse(.noSRTPProfile, ssl, into: &output)
        }
        state = .established
        output.keys = keys
    }

    /// A finished handshake that must not be used: the client is told so, encrypted, and no key is made.
    private func refuse(_ reason: TransportEnd, _ ssl: SSLObject, into output: inout Output) {
        ssl.shutdown()
        output.datagrams += ssl.takeOutput()
        end(reason, into: &output)
    }

    // MARK: - Established

    private func listen(_ input: DTLSInput, into output: inout Output) {
        guard let ssl, !input.accepted.isEmpty else { return }
        // Feeding what comes after the handshake is what repeats a lost last flight: OpenSSL answers a repeated Finished.
        let isClosed = ssl.read(input.accepted)
        if isClosed { ssl.shutdown() }
        output.datagrams = ssl.takeOutput()
        if isClosed { end(.closed, into: &output) }
    }

    // MARK: - Ends

    private func discardObject(now: Instant) {
        ssl = nil
        state = .idle
        flight = []
        repeatAt = .distantFuture
        clientRandom = nil
        abandonAt = min(abandonAt, now + limits.silenceAfterFailure)
    }

    private func end(_ reason: TransportEnd, into output: inout Output) {
        output.end = reason
        forget()
    }

    private func forget() {
        state = .ended
        ssl = nil
        flight = []
    }
}
