import Foundation
import RTPCore
import RelayHTTP
import Testing

@testable import MediaRelay

@Suite("Webhook transport") struct WebhookTransportTests {
    private func result(
        of url: String, isLoopback: Bool = true, change: (inout WebhookTransport.Limits) -> Void = { _ in }
    ) throws -> WebhookResult? {
        var limits = WebhookTransport.Limits()
        limits.connect = .seconds(10)
        limits.total = .seconds(10)
        change(&limits)
        let transport = WebhookTransport(limits: limits, connections: 4)
        let wakeUp = try WakeUp()
        transport.post(
            .init(endpoint: 3, token: 7, url: url, headers: ["X-A: b"], body: [1, 2, 3], isLoopback: isLoopback))
        let end = MonotonicClock.now() + .seconds(20)
        while MonotonicClock.now() < end {
            if let ended = transport.perform().first {
                #expect(ended.endpoint == 3 && ended.token == 7 && transport.isIdle)
                return ended.result
            }
            transport.wait(for: wakeUp.descriptor, until: end, now: MonotonicClock.now())
        }
        return nil
    }

    private func isUnreachable(_ result: WebhookResult?) -> Bool {
        if case .unreachable? = result { true } else { false }
    }

    @Test("an address that the rule forbids is not connected to") func forbidden() throws {
        let receiver = try WebhookReceiver()
        let result = try result(of: "http://127.0.0.1:\(receiver.port)/", isLoopback: false)
        #expect(result == .unreachable(cause: "its address may not be connected to"))
        #expect(receiver.connectionCount == 0)
        // The same one, allowed.
        #expect(try self.result(of: "http://127.0.0.1:\(receiver.port)/") == .delivered)
    }

    @Test(
        "an answer is judged by its status",
        arguments: [
            (200, WebhookResult.delivered), (202, .delivered), (299, .delivered), (410, .gone),
            (301, .refused(status: 301, retryAfter: nil)), (400, .refused(status: 400, retryAfter: nil)),
            (404, .refused(status: 404, retryAfter: nil)), (500, .refused(status: 500, retryAfter: nil)),
        ]) func statuses(_ status: Int, _ expected: WebhookResult) throws
    {
        let receiver = try WebhookReceiver { _ in HTTPResponse(status: status) }
        #expect(try result(of: "http://127.0.0.1:\(receiver.port)/") == expected)
    }

    @Test("Retry-After is read, in seconds") func retryAfter() throws {
        let receiver = try WebhookReceiver { _ in
            HTTPResponse(status: 503, headers: [.init("Retry-After", "17")])
        }
        let expected = WebhookResult.refused(status: 503, retryAfter: .seconds(17))
        #expect(try result(of: "http://127.0.0.1:\(receiver.port)/") == expected)
    }

    @Test("nobody listening is the endpoint's fault, no answer in time the request's") func silence() throws {
        let receiver = try WebhookReceiver { _ in nil }
        let url = "http://127.0.0.1:\(receiver.port)/"
        #expect(try result(of: url) { $0.total = .milliseconds(100) } == .timedOut)
        receiver.close()
        #expect(isUnreachable(try result(of: url)))
    }

    @Test("a certificate that nobody vouches for is refused, one of a known authority is taken") func tls() throws {
        let certificate = try OwnCertificate()
        let receiver = try WebhookReceiver(
            tls: .init(certificatePath: certificate.certificatePath, privateKeyPath: certificate.keyPath))
        let url = "https://localhost:\(receiver.port)/"
        #expect(isUnreachable(try result(of: url)))
        #expect(receiver.all.isEmpty)
        #expect(try result(of: url) { $0.authorities = certificate.certificatePath } == .delivered)
        // Its name is another one.
        let other = try result(of: "https://127.0.0.1:\(receiver.port)/") {
            $0.authorities = certificate.certificatePath
        }
        #expect(isUnreachable(other))
        #expect(receiver.all.count == 1)
    }
}
