import CLinuxIO
import Foundation
import RTPCore
import RelayCore
import RelayTesting

/// DTLS handshakes of the worker's handshaker without its thread, sockets or ICE: what the relay's side of one costs, and a
/// target for profilers. The client's side is not timed.
enum HandshakeBench {
    static func run(_ count: Int, isJSON: Bool) throws {
        let handshaker = Handshaker(identity: try DTLSIdentity())
        let identity = DTLSClientIdentity()
        let fingerprint = identity.fingerprint()
        // As the worker does.
        DTLSIdentity.readCertificatesDirectly()
        var samples: [Double] = []
        for number in 0..<count {
            let handle = ParticipantHandle(UInt64(number) + 1)
            let now = Instant(nanoseconds: 1_000_000_000 * Int64(number + 1))
            let client = DTLSClient(identity: identity)
            var spent: Int64 = 0
            var isUp = false
            func serve(_ request: HandshakeRequest) {
                let begin = lio_thread_cpu_ns()
                let results = timedHandshake(handshaker, request, now: now)
                spent += lio_thread_cpu_ns() - begin
                for result in results {
                    switch result {
                    case .datagram(_, let bytes): client.receive(bytes, now: now)
                    case .established: isUp = true
                    case .ended(_, let end): Report(isJSON: isJSON).progress("handshake \(number) ended: \(end)")
                    }
                }
            }
            serve(.begin(handle, fingerprints: [fingerprint]))
            client.start(now: now)
            for _ in 0..<8 where !isUp {
                for datagram in client.takeDatagrams() { serve(.records(handle, datagram)) }
            }
            guard isUp, client.state == .established else {
                throw BenchFailure(description: "handshake \(number) did not come to its end")
            }
            samples.append(Double(spent))
            serve(.close(handle))
        }
        Report(isJSON: isJSON).addHandshakes(samples)
    }
}

/// Under a name of its own for profilers, as `timedStep`.
@inline(never) private func timedHandshake(
    _ handshaker: Handshaker, _ request: HandshakeRequest, now: Instant
) -> [HandshakeResult] {
    handshaker.receive(request, now: now)
    return handshaker.takeResults()
}
