import RTPCore
import RelayCore

@testable import RelayTesting

extension FuzzTarget {
    /// Whatever is asked of the conductor, in whatever order, between workers that die and come back: the rules of every
    /// history hold (`HistoryRules`). Bytes choose the moves.
    static let calls = FuzzTarget(
        name: "calls", byteLimit: 600,
        seeds: {
            (1...40).map { (seed: UInt64) -> [UInt8] in
                var random = RandomSource.seeded(seed)
                return (0..<Int(seed) * 8).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            }
        }
    ) { bytes in
        if let broken = History(seed: 1, choices: bytes).run() { fatalError("broken promise: \(broken)") }
    }

    /// Records that any client sends before it has keys get no further than a handshake: no keys, nobody's end but its own,
    /// few bytes out. An input is a row of datagrams from two clients, with time between them.
    static let dtls = FuzzTarget(
        name: "dtls", byteLimit: 4_096,
        seeds: {
            let client = DTLSClient(identity: ClientDialect.chromium.makeIdentity(), datagramByteCount: 1_200)
            client.start(now: Instant(nanoseconds: 1_000_000_000))
            let hello = client.takeDatagrams()
            let records = vectors("dtls", "cases") + keptInputs("dtls") + hello
            let greeting = hello.flatMap { act($0) }
            let acts = records.map { act($0) }
            return [greeting] + acts + acts.map { (one: [UInt8]) -> [UInt8] in greeting + one }
        }
    ) { bytes in
        var input = FuzzInput(bytes)
        let handshaker = Handshaker(identity: dtlsIdentity)
        let clients = [ParticipantHandle(1), ParticipantHandle(2)]
        let fingerprint = CertificateFingerprint(algorithm: .sha256, bytes: [UInt8](repeating: 9, count: 32))
        var now = Instant(nanoseconds: 1_000_000_000)
        for client in clients { handshaker.receive(.begin(client, fingerprints: [fingerprint]), now: now) }
        while !input.isEmpty {
            let kind = input.byte()
            now += .milliseconds(Int64(kind >> 1) * 10)
            while handshaker.deadline <= now { handshaker.advance(to: now) }
            handshaker.receive(.records(clients[Int(kind & 1)], input.piece()), now: now)
            for result in handshaker.takeResults() { check(result, clients) }
        }
        for client in clients { handshaker.receive(.close(client), now: now) }
        require(handshaker.count == 0 && handshaker.inFlightCount == 0, "an association outlives its end")
    }

    @Sendable private static func act(_ datagram: [UInt8]) -> [UInt8] {
        let long: [UInt8] = [2, 255, UInt8(datagram.count >> 8), UInt8(datagram.count & 255)]
        let short: [UInt8] = [2, UInt8(min(datagram.count, 254))]
        return (datagram.count < 255 ? short : long) + datagram
    }

    private static func check(_ result: HandshakeResult, _ clients: [ParticipantHandle]) {
        switch result {
        case .datagram(let handle, let bytes):
            require(clients.contains(handle) && bytes.count <= 1_200, "a datagram of \(bytes.count) bytes")
        case .established: fatalError("broken promise: keys out of a handshake that nobody made")
        case .ended(let handle, let end): require(clients.contains(handle) && end != .closed, "a wrong end")
        }
    }
}

private nonisolated(unsafe) let dtlsIdentity: DTLSIdentity = {
    do {
        return try DTLSIdentity()
    } catch {
        fatalError("no certificate: \(error)")
    }
}()
