import RTPCore
import Testing

@Suite("Peer address text")
struct PeerAddressTextTests {
    @Test(
        "IPv4 literals are read and written",
        arguments: [
            ("0.0.0.0", 0), ("127.0.0.1", 0x7F00_0001), ("255.255.255.255", 0xFFFF_FFFF),
            ("192.0.2.10", 0xC000_020A),
        ] as [(String, UInt32)])
    func ipv4(_ text: String, _ value: UInt32) throws {
        let peer = try #require(PeerAddress(address: text, port: 9))
        #expect(peer.isIPv4)
        #expect(peer.ipv4 == value)
        #expect(peer.addressText == text)
    }

    @Test(
        "what is not exactly an IPv4 literal is refused",
        arguments: [
            "", "1", "1.2.3", "1.2.3.", ".1.2.3.4", "1.2.3.4.", "1.2.3.4.5", "1.2.3.256", "01.2.3.4",
            "1.2.3.00", "1..2.3",
            "1.2.3.4 ", " 1.2.3.4", "1.2.3.4:5", "0x1.2.3.4", "1.2.3.-4", "1.2.3.1000", "localhost",
            "1.2.3.٤",
        ])
    func badIPv4(_ text: String) {
        #expect(PeerAddress(address: text, port: 9) == nil)
    }

    @Test(
        "IPv6 literals are read, and written as RFC 5952 wants",
        arguments: [
            ("::", "::"), ("::1", "::1"), ("1::", "1::"), ("2001:db8::1", "2001:db8::1"),
            ("2001:0DB8:0:0:0:0:0:1", "2001:db8::1"), ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
            ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"), ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("fe80::a:b:c:d", "fe80::a:b:c:d"), ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
            ("0:0:0:0:0:0:0:0", "::"),
            ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"), ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"),
            ("64:ff9b::192.0.2.1", "64:ff9b::c000:201"), ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
            ("ABCD:EF01:2345:6789:abcd:ef01:2345:6789", "abcd:ef01:2345:6789:abcd:ef01:2345:6789"),
            ("1:0:0:0:5:0:0:0", "1::5:0:0:0"), ("::ffff:0:0:1", "::ffff:0:0:1"),
        ])
    func ipv6(_ text: String, _ canonical: String) throws {
        let peer = try #require(PeerAddress(address: text, port: 9))
        #expect(!peer.isIPv4)
        #expect(peer.addressText == canonical)
        #expect(PeerAddress(address: canonical, port: 9) == peer)
    }

    @Test(
        "an IPv4-mapped IPv6 literal is the IPv4 address", arguments: ["::ffff:192.0.2.1", "::FFFF:c000:201"])
    func mapped(_ text: String) {
        #expect(PeerAddress(address: text, port: 9) == PeerAddress(address: "192.0.2.1", port: 9))
    }

    @Test(
        "what is not exactly an IPv6 literal is refused",
        arguments: [
            ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "g::", "fe80::1%eth0",
            "[::1]", "::1/64",
            "1:2:3:4:5:6:7:", ":1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:1.2.3.4", "::1.2.3", "::1.2.3.4:5",
            "1.2.3.4::", "::1 ",
            "1:2:3:4::5:6:7:8", "::1.2.3.256", "0000:0000:0000:0000:0000:0000:0000:0000:0000",
        ])
    func badIPv6(_ text: String) {
        #expect(PeerAddress(address: text, port: 9) == nil)
    }

    @Test("groups land in the right half")
    func halves() throws {
        let peer = try #require(PeerAddress(address: "1:2:3:4:5:6:7:8", port: 9))
        #expect(peer.high == 0x0001_0002_0003_0004)
        #expect(peer.low == 0x0005_0006_0007_0008)
    }

    @Test("the full text carries the port, with brackets for IPv6")
    func fullText() {
        #expect(PeerAddress(address: "192.0.2.1", port: 5_000)?.text == "192.0.2.1:5000")
        #expect(PeerAddress(address: "2001:db8::1", port: 5_000)?.text == "[2001:db8::1]:5000")
    }

    @Test("a description hides the last octet of IPv4 and keeps the port")
    func redactedIPv4() throws {
        let peer = try #require(PeerAddress(address: "192.0.2.123", port: 5_000))
        #expect("\(peer)" == "192.0.2.x:5000")
        #expect(String(reflecting: peer) == "192.0.2.x:5000")
    }

    @Test("a description hides the last 80 bits of IPv6 and keeps the port")
    func redactedIPv6() throws {
        let peer = try #require(PeerAddress(address: "2001:db8:7:8:9:a:b:c", port: 5_000))
        #expect("\(peer)" == "[2001:db8:7:x]:5000")
        #expect(String(reflecting: peer) == "[2001:db8:7:x]:5000")
    }

    @Test("addresses written and read again are the same, for many bit patterns")
    func roundTrip() throws {
        var random = RandomSource.seeded(1)
        for _ in 0..<2_000 {
            // Sparse values, so that zero groups and runs of them occur often.
            let high = random.next() & random.next() & random.next() & 0xFFFF_0000_FFFF_00FF
            let low = random.next() & random.next() & random.next() & random.next()
            let peer = PeerAddress(high: high, low: low, port: 1)
            #expect(PeerAddress(address: peer.addressText, port: 1) == peer)
        }
    }
}
