import Foundation
import RTPCore
import RelayClient
import RelayCore
import RelayHTTP
import Testing

@testable import MediaRelay

@Suite("Webhooks over loopback") struct WebhookThreadTests {
    private let rig = WebhookRig()

    private func refusal(_ received: WebhookReceiver.Received, _ secrets: [String]) throws -> WebhookSignature.Refusal?
    {
        let headers = received.request.headers
        let known = try secrets.map { try WebhookSecret($0) }
        do throws(WebhookSignature.Refusal) {
            try WebhookSignature.verify(
                id: headers.first("webhook-id"), timestamp: headers.first("webhook-timestamp"),
                signature: headers.first("webhook-signature"), body: received.request.body, secrets: known,
                nowSeconds: WallClock.nowMs / 1_000)
            return nil
        } catch {
            return error
        }
    }

    @Test("an event is POSTed as it is in the log, signed so that the client library takes it") func delivery() throws {
        let receiver = try WebhookReceiver()
        try rig.start(["main=http://127.0.0.1:\(receiver.port)/hooks?x=1"])
        rig.happen("r", json: { "{\"seq\":\($0),\"text\":\"ü\"}" })
        #expect(receiver.wait { $0.taken == ["evt_1"] })
        let received = try #require(receiver.all.first)
        #expect(received.request.method == "POST" && received.request.target == "/hooks?x=1")
        #expect(received.request.headers.first("Content-Type") == "application/json")
        #expect(received.request.body == Array("{\"seq\":1,\"text\":\"ü\"}".utf8))
        #expect(try refusal(received, [WebhookRig.secret]) == nil)
        #expect(try refusal(received, [WebhookSecret.random()]) == .signature)
        var changed = received
        changed.request = HTTPRequest(
            id: received.request.id, method: "POST", target: "/", headers: received.request.headers, body: [0x7B])
        #expect(try refusal(changed, [WebhookRig.secret]) == .signature)
    }

    @Test("a new endpoint gets what happens from its first start on") func fromNowOn() throws {
        let receiver = try WebhookReceiver()
        try rig.start([])
        rig.happen("r")
        rig.stop()
        try rig.start(["main=http://127.0.0.1:\(receiver.port)/"])
        rig.happen("r")
        #expect(receiver.wait { $0.taken == ["evt_2"] })
    }

    @Test("a secret and a URL that are replaced while it runs are those of the next request") func replaced() throws {
        let (before, after) = (try WebhookReceiver(), try WebhookReceiver())
        try rig.start(["main=http://127.0.0.1:\(before.port)/"])
        rig.happen("r")
        #expect(before.wait { $0.taken == ["evt_1"] })
        let secret = WebhookSecret.random()
        rig.webhooks?.use(
            try WebhookEndpoint.endpoints(
                urls: ["main=http://127.0.0.1:\(after.port)/"], secrets: ["main=\(secret)"], dialects: [],
                allowsPlainHTTP: false))
        rig.happen("r")
        #expect(after.wait { $0.taken == ["evt_2"] } && before.taken == ["evt_1"])
        let received = try #require(after.all.first)
        #expect(try refusal(received, [secret]) == nil)
        #expect(try refusal(received, [WebhookRig.secret]) == .signature)
    }

    @Test("with two secrets either one verifies, so that one replaces the other without a gap") func rotation() throws {
        let receiver = try WebhookReceiver()
        let new = WebhookSecret.random()
        try rig.start(
            ["main=http://127.0.0.1:\(receiver.port)/"], secrets: ["main=\(WebhookRig.secret)", "main=\(new)"])
        rig.happen("r")
        #expect(receiver.wait { $0.taken == ["evt_1"] })
        let received = try #require(receiver.all.first)
        for secret in [WebhookRig.secret, new] { #expect(try refusal(received, [secret]) == nil) }
    }

    @Test("an endpoint that was dead for a while, over a restart too, gets everything in order and with the same ids")
    func dead() throws {
        let receiver = try WebhookReceiver()
        let port = receiver.port
        try rig.start(["main=http://127.0.0.1:\(port)/"])
        rig.happen("a", "b")
        #expect(receiver.wait { $0.taken.count == 2 })
        receiver.close()
        for _ in 0..<20 { rig.happen("a", "b", "c", nil) }
        rig.stop()
        try rig.start(["main=http://127.0.0.1:\(port)/"])
        for _ in 0..<20 { rig.happen("a", "c") }
        try receiver.open(port: port)
        #expect(receiver.wait { $0.taken.count == 122 })
        // Events 3…82 lie in fours, 83…122 in twos.
        let numbers = receiver.taken.compactMap { UInt64($0.dropFirst(4)) }
        #expect(Set(numbers) == Set(1...122))
        func room(_ seq: UInt64) -> UInt64 {
            seq <= 2 ? seq : seq <= 82 ? (seq - 3) % 4 + 1 : (seq - 83) % 2 == 0 ? 1 : 3
        }
        for index in 1...4 as ClosedRange<UInt64> {
            let own = numbers.filter { room($0) == index }
            #expect(own == own.sorted(), "room \(index)")
        }
    }

    @Test("an endpoint that never answers holds up neither the other one nor the rest of its own rooms") func slow()
        throws
    {
        let slow = try WebhookReceiver { id in id == "evt_1" ? nil : HTTPResponse(status: 200) }
        let quick = try WebhookReceiver()
        try rig.start(["slow=http://127.0.0.1:\(slow.port)/", "quick=http://127.0.0.1:\(quick.port)/"]) {
            $0.total = .milliseconds(500)
        }
        rig.happen("stuck", "free", "free", "stuck")
        #expect(quick.wait { $0.taken.count == 4 })
        #expect(slow.wait { $0.taken == ["evt_2", "evt_3"] })
        slow.setAnswer { _ in HTTPResponse(status: 200) }
        #expect(slow.wait { $0.taken.count == 4 })
        #expect(slow.taken.filter { ["evt_1", "evt_4"].contains($0) } == ["evt_1", "evt_4"])
    }

    @Test("410 stops one endpoint and not the other") func gone() throws {
        let closed = try WebhookReceiver { _ in HTTPResponse(status: 410) }
        let open = try WebhookReceiver()
        try rig.start(["closed=http://127.0.0.1:\(closed.port)/", "open=http://127.0.0.1:\(open.port)/"])
        rig.happen("a")
        #expect(closed.wait { $0.all.count == 1 })
        for _ in 0..<10 { rig.happen("a", "b") }
        #expect(open.wait { $0.taken.count == 21 })
        #expect(closed.all.count == 1)
        #expect(rig.status("closed")?.state == .gone)
        #expect(rig.log.contains("410"))
    }

    @Test("a redirect is a refusal: what is signed for one host is not sent to another") func redirect() throws {
        let other = try WebhookReceiver()
        let port = other.port
        let receiver = try WebhookReceiver { _ in
            HTTPResponse(status: 307, headers: [.init("Location", "http://127.0.0.1:\(port)/")])
        }
        try rig.start(["main=http://127.0.0.1:\(receiver.port)/"])
        rig.happen("a")
        #expect(receiver.wait { $0.all.count >= 3 })
        #expect(other.all.isEmpty)
    }

    @Test("a long answer is cut off and counts by its status") func longAnswer() throws {
        let receiver = try WebhookReceiver { _ in
            HTTPResponse(status: 200, body: [UInt8](repeating: 0x61, count: 1_000_000))
        }
        try rig.start(["main=http://127.0.0.1:\(receiver.port)/"])
        rig.happen("a")
        rig.happen("a")
        #expect(receiver.wait { $0.taken == ["evt_1", "evt_2"] })
        #expect(rig.status("main")?.failed == 0)
    }

    @Test("a stop waits for what can be delivered, and the next start repeats nothing of it") func stop() throws {
        let receiver = try WebhookReceiver()
        try rig.start(["main=http://127.0.0.1:\(receiver.port)/"])
        for _ in 0..<20 { rig.happen("a", "b", "c") }
        rig.stop(grace: .seconds(10))
        #expect(receiver.taken.count == 60)
        try rig.start(["main=http://127.0.0.1:\(receiver.port)/"])
        rig.happen("a")
        #expect(receiver.wait { $0.taken.count == 61 })
        #expect(receiver.all.count == 61)
    }

    @Test("connections are kept: a thousand events need no more than there are requests at once") func keepAlive()
        throws
    {
        let receiver = try WebhookReceiver()
        try rig.start(["main=http://127.0.0.1:\(receiver.port)/"])
        for round in 0..<100 { rig.happen("a\(round % 7)", "b", "c", "d", "e", "f\(round % 3)", "g", "h", nil, "i") }
        #expect(receiver.wait { $0.taken.count == 1_000 })
        #expect(receiver.connectionCount <= 16)
    }

    @Test("neither a secret nor a URL is in the log or in an error") func secrecy() throws {
        let receiver = try WebhookReceiver { _ in HTTPResponse(status: 500) }
        try rig.start(["main=http://127.0.0.1:\(receiver.port)/path-of-a-token"])
        rig.happen("a", "b", "c", "d")
        #expect(receiver.wait { $0.all.count > 8 })
        receiver.close()
        rig.happen("a")
        rig.stop(grace: .milliseconds(100))
        #expect(rig.log.contains("webhook"))
        for secret in ["path-of-a-token", WebhookRig.secret, String(WebhookRig.secret.dropFirst(6))] {
            #expect(!rig.log.contains(secret))
        }
        let endpoint = try #require(
            try WebhookEndpoint.endpoints(
                urls: ["a=https://h/path-of-a-token"], secrets: ["a=\(WebhookRig.secret)"], dialects: [],
                allowsPlainHTTP: false
            ).first)
        #expect(!"\(endpoint)".contains("token") && !"\(endpoint.secrets)".contains("MDEy"))
    }
}
