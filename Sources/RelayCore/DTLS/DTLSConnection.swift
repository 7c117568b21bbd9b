import COpenSSL
import RTPCore

/// One DTLS association in the server role, from the first record to its end, over memory BIOs.
///
/// Owns the SSL objects and every decision about them: when there is one, when another is tried, when a flight is sent again,
/// and that none is left once the keys are out (`DTLSRemnant`).
/// Time is the caller's: OpenSSL's own timers, which read the real clock, are set so far away that they never fire, and an
/// unanswered flight is repeated from a copy after 200 ms, doubling. Refuses addresses, sockets, threads, and any word from
/// the network that is not authenticated: a plaintext alert ends nothing, and a second ClientHello does not displace the
/// first but is tried beside it, because only a verified Finished tells which one was the client's.
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

    /// One ClientHello's handshake.
    private final class Candidate {
        let ssl: SSLObject
        /// Of the ClientHello; nil until the part that carries it has come.
        var clientRandom: [UInt8]?
        /// Our last flight; empty while the hello is incomplete.
        var flight: [[UInt8]] = []
        init(_ ssl: SSLObject) { self.ssl = ssl }
    }

    private(set) var state = State.idle
    /// How many SSL objects this association has used up.
    private(set) var attemptCount = 0
    /// Flights of ours that were sent again because no answer came.
    private(set) var repeatedFlightCount = 0
    /// SSL objects of an unfinished handshake.
    var unfinishedObjectCount: Int { candidates.count }
    /// Next moment at which `advance` has something to do.
    var deadline: Instant {
        guard state == .idle || state == .handshaking else { return .distantFuture }
        return min(handshakeDeadline, min(abandonAt, repeatAt))
    }

    private let identity: DTLSIdentity
    private let fingerprints: [CertificateFingerprint]
    private let limits: HandshakeLimits
    /// The one whose hello was heard last comes last: its flight is the one that is repeated.
    private var candidates: [Candidate] = []
    private var remnant: DTLSRemnant?
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

    /// One datagram from the client, already filtered. A new SSL object is made only when `mayCreate`.
    func receive(_ input: DTLSInput, mayCreate: Bool, now: Instant) -> Output {
        var output = Output()
        switch state {
        case .idle, .handshaking:
            handshake(input, mayCreate: mayCreate, now: now, into: &output)
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
        } else if let latest = candidates.last(where: { !$0.flight.isEmpty }) {
            output.datagrams = latest.flight
            repeatedFlightCount += 1
            repeatInterval = repeatInterval * 2
            repeatAt = now + repeatInterval
        } else {
            repeatAt = .distantFuture
        }
        return output
    }

    /// Our close_notify, where the association is up. Nothing comes after it.
    func close() -> Output {
        var output = Output()
        if let remnant { output.datagrams = [remnant.closeNotify()] }
        forget()
        return output
    }

    /// Whether a hello stands in `input` that none of the present SSL objects can take.
    func needsObject(for input: DTLSInput) -> Bool {
        guard input.hasClientHello, state == .idle || state == .handshaking else { return false }
        guard let random = input.clientRandom else { return candidates.isEmpty }
        return !candidates.contains { $0.clientRandom == nil || $0.clientRandom == random }
    }

    // MARK: - Handshake

    private func handshake(_ input: DTLSInput, mayCreate: Bool, now: Instant, into output: inout Output) {
        if let alert = input.plaintextFatalAlert, state == .handshaking {
            // The client may have given up, or somebody wants us to believe so. Its next handshake message tells.
            if alert == 70 { failure = .noSRTPProfile }
            abandonAt = min(abandonAt, now + limits.silenceAfterFailure)
        }
        guard !input.accepted.isEmpty else { return }
        if needsObject(for: input), mayCreate { addCandidate(now: now) }
        for candidate in addressees(of: input) {
            abandonAt = .distantFuture
            let outcome = candidate.ssl.handshake(input.accepted)
            let sent = candidate.ssl.takeOutput()
            switch outcome {
            case .waiting:
                guard !sent.isEmpty else { continue }
                output.datagrams += sent
                candidate.flight = sent
                repeatInterval = limits.firstRepeat
                repeatAt = now + repeatInterval
            case .finished:
                output.datagrams += sent
                establish(candidate.ssl, lastFlight: sent, into: &output)
                return
            case .died(let lacksCommonGround):
                if lacksCommonGround { failure = .noSRTPProfile }
                candidates.removeAll { $0 === candidate }
            }
        }
        guard candidates.isEmpty, state == .handshaking else { return }
        state = .idle
        repeatAt = .distantFuture
        abandonAt = now + limits.silenceAfterFailure
        if attemptCount >= limits.attempts { end(failure, into: &output) }
    }

    private func addCandidate(now: Instant) {
        guard attemptCount < limits.attempts, let ssl = SSLObject(identity.context) else { return }
        attemptCount += 1
        candidates.append(Candidate(ssl))
        state = .handshaking
        if handshakeDeadline == .distantFuture { handshakeDeadline = now + limits.duration }
    }

    /// Whose handshake `input` belongs to: a hello's own by its random, a part of a hello that does not carry it to all that
    /// still wait for parts, anything later to all that have answered a hello.
    private func addressees(of input: DTLSInput) -> [Candidate] {
        guard input.hasClientHello else { return candidates.filter { !$0.flight.isEmpty } }
        guard let random = input.clientRandom else { return candidates.filter { $0.flight.isEmpty } }
        let known = candidates.firstIndex { $0.clientRandom == random }
        guard let index = known ?? candidates.firstIndex(where: { $0.clientRandom == nil }) else { return [] }
        let candidate = candidates.remove(at: index)
        candidate.clientRandom = random
        candidates.append(candidate)
        return [candidate]
    }

    /// Takes the keys out and lets the SSL object go: it holds 57 KB, what may still happen needs half a kilobyte.
    private func establish(_ ssl: SSLObject, lastFlight: [[UInt8]], into output: inout Output) {
        guard ssl.peerMatches(fingerprints) else {
            return refuse(.fingerprintMismatch, ssl, into: &output)
        }
        guard let keys = ssl.exportKeys(asServer: true), let remnant = DTLSRemnant(ssl, lastFlight: lastFlight)
        else {
            return refuse(.noSRTPProfile, ssl, into: &output)
        }
        candidates = []
        self.remnant = remnant
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
        guard let remnant else { return }
        switch remnant.receive(input.accepted) {
        case .none:
            break
        case .repeatsFinished:
            // The very same datagrams: a client that has seen them drops them, one that has not is waiting for them.
            output.datagrams = remnant.lastFlight
        case .closes:
            output.datagrams = [remnant.closeNotify()]
            end(.closed, into: &output)
        }
    }

    // MARK: - Ends

    private func end(_ reason: TransportEnd, into output: inout Output) {
        output.end = reason
        forget()
    }

    private func forget() {
        state = .ended
        candidates = []
        remnant = nil
    }
}
