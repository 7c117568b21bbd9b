import Foundation
import RelayClient
import Testing

@testable import MediaRelay

@Suite("Webhook configuration") struct WebhookEndpointTests {
    private let secret = WebhookRig.secret

    private func refusal(
        _ urls: [String], secrets: [String]? = nil, dialects: [String] = [], allowsPlainHTTP: Bool = false
    ) -> String? {
        do throws(WebhookEndpoint.Failure) {
            _ = try WebhookEndpoint.endpoints(
                urls: urls, secrets: secrets ?? ["a=\(secret)"], dialects: dialects, allowsPlainHTTP: allowsPlainHTTP)
            return nil
        } catch {
            return error.description
        }
    }

    @Test("an endpoint has a name, a URL, its secrets and its dialect") func whole() throws {
        let endpoints = try WebhookEndpoint.endpoints(
            urls: ["a=https://example.org/x?y=z", "b=http://127.0.0.1:9/"],
            secrets: ["a=\(secret)", "b=\(secret)", "b=\(WebhookSecret.random())"], dialects: ["b=legacy"],
            allowsPlainHTTP: false)
        #expect(endpoints.map(\.name) == ["a", "b"])
        #expect(endpoints.map(\.url) == ["https://example.org/x?y=z", "http://127.0.0.1:9/"])
        #expect(endpoints.map(\.secrets.count) == [1, 2])
        #expect(endpoints.map(\.dialect) == [.current, .legacy])
        #expect(endpoints.map(\.isLoopback) == [false, true])
    }

    @Test("secrets come from a file, one a line") func file() throws {
        let folder = TemporaryFolder()
        try "\(secret)\n\(WebhookSecret.random())\n".write(
            toFile: folder.path + "/secrets", atomically: false, encoding: .utf8)
        let endpoints = try WebhookEndpoint.endpoints(
            urls: ["a=https://example.org"], secrets: ["a=@\(folder.path)/secrets"], dialects: [],
            allowsPlainHTTP: false)
        #expect(endpoints[0].secrets.count == 2)
        #expect(refusal(["a=https://example.org"], secrets: ["a=@\(folder.path)/none"])?.contains("file") == true)
    }

    @Test(
        "what would be unsafe or cannot work is refused by its name",
        arguments: [
            "https://example.org", "a", "a b=https://example.org", "a=ftp://example.org", "a=http://example.org",
            "a=http://10.0.0.1/", "a=https://", "a=https://u:p@example.org/", "a=https://example.org/#x",
            "a=http://2130706433/", "a=http://0x7f.1/", "a=http://127.1/", "a=http://0177.0.0.1/",
            "a=file:///etc/passwd",
        ]) func refused(_ text: String)
    { #expect(refusal([text]) != nil) }

    @Test("plain HTTP beyond loopback needs to be allowed") func plain() {
        #expect(refusal(["a=http://signaling.internal/"])?.contains("--webhook-insecure-http") == true)
        #expect(refusal(["a=http://signaling.internal/"], allowsPlainHTTP: true) == nil)
        for host in ["127.0.0.1", "127.9.9.9:80", "[::1]:80", "localhost"] {
            #expect(refusal(["a=http://\(host)/"]) == nil, "\(host)")
        }
    }

    @Test("an endpoint without a secret, a secret without an endpoint and a bad secret are refused, none is shown")
    func secrets() {
        #expect(refusal(["a=https://h"], secrets: [])?.contains("--webhook-secret") == true)
        #expect(refusal(["a=https://h"], secrets: ["a=\(secret)", "b=\(secret)"])?.contains("no --webhook b") == true)
        for bad in ["whsec_", "whsec_????", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "whsec_c2hvcnQ="] {
            let text = refusal(["a=https://h"], secrets: ["a=\(bad)"])
            #expect(text != nil && !(text ?? "").contains("c2hvcnQ") && !(text ?? "").contains("MDEy"), "\(bad)")
        }
        #expect(refusal(["a=https://h", "a=https://i"])?.contains("twice") == true)
        #expect(refusal(["a=https://h"], dialects: ["a=old"]) != nil)
    }

    @Test(
        "only public and private addresses are connected to, whatever their spelling",
        arguments: [
            ("8.8.8.8", true), ("10.1.2.3", true), ("192.168.1.1", true), ("172.16.0.1", true), ("127.0.0.1", false),
            ("127.255.255.254", false), ("0.0.0.0", false), ("0.1.2.3", false), ("169.254.169.254", false),
            ("224.0.0.1", false), ("240.0.0.1", false), ("255.255.255.255", false), ("2001:db8::1", true),
            ("fd00::1", true), ("::", false), ("::1", false), ("fe80::1", false), ("febf::1", false),
            ("ff02::1", false),
            ("::ffff:127.0.0.1", false), ("::ffff:169.254.169.254", false), ("::ffff:8.8.8.8", true),
            ("::127.0.0.1", false), ("::8.8.8.8", true), ("64:ff9b::127.0.0.1", false),
            ("64:ff9b::169.254.169.254", false), ("64:ff9b::8.8.8.8", true), ("::ffff:0.0.0.0", false),
        ]) func addresses(_ text: String, _ isAllowed: Bool)
    {
        #expect(WebhookAddressRule.allows(bytes(text), loopback: false) == isAllowed)
    }

    @Test("a URL of this machine is connected to this machine only") func loopback() {
        #expect(WebhookAddressRule.allows(bytes("127.0.0.1"), loopback: true))
        #expect(WebhookAddressRule.allows(bytes("::1"), loopback: true))
        for other in ["8.8.8.8", "10.0.0.1", "169.254.169.254", "2001:db8::1"] {
            #expect(!WebhookAddressRule.allows(bytes(other), loopback: true), "\(other)")
        }
    }

    private func bytes(_ text: String) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: text.contains(":") ? 16 : 4)
        let isAddress = inet_pton(text.contains(":") ? AF_INET6 : AF_INET, text, &result)
        precondition(isAddress == 1, text)
        return result
    }
}
