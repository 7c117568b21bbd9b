import RTPCore
import RelayTesting
import Testing

@Suite("STUN username")
struct STUNUsernameTests {
    /// A request with nothing but this username.
    static func request(_ username: String) -> [UInt8] {
        let text = Array(username.utf8)
        let padded = text + [UInt8](repeating: 0, count: -text.count & 3)
        let length = padded.count + 4
        return [0, 1, UInt8(length >> 8), UInt8(length & 255), 0x21, 0x12, 0xA4, 0x42]
            + [UInt8](repeating: 7, count: 12) + [0, 6, UInt8(text.count >> 8), UInt8(text.count & 255)]
            + padded
    }
    static func parts(_ username: String) -> [String]? {
        let bytes = request(username)
        return STUNMessage.read(bytes)?.usernameParts(in: bytes.span).map {
            [
                String(decoding: bytes[$0.receiver], as: UTF8.self),
                String(decoding: bytes[$0.sender], as: UTF8.self),
            ]
        }
    }

    @Test(
        "a username splits at its first colon",
        arguments: [
            ("srvU:cliF", ["srvU", "cliF"]), ("a:b", ["a", "b"]), ("a:b:c", ["a", "b:c"]),
        ] as [(String, [String])])
    func splits(_ username: String, _ expected: [String]) {
        #expect(Self.parts(username) == expected)
    }

    @Test("a username without two parts is not split", arguments: ["", ":", "a", "a:", ":a", "abcd"])
    func doesNotSplit(_ username: String) {
        #expect(Self.parts(username) == nil)
    }

    @Test(
        "only receiver:sender in this order and whole equals",
        arguments: [
            ("srvU:cliF", true), ("cliF:srvU", false), ("srvU:cliF:", false), ("srvU;cliF", false),
            ("srvU:cli", false),
            ("srvUcliF", false), ("SRVU:cliF", false), ("", false),
        ])
    func equals(_ username: String, _ expected: Bool) throws {
        let bytes = Self.request(username)
        let message = try #require(STUNMessage.read(bytes))
        #expect(message.usernameIs("srvU", "cliF", in: bytes) == expected)
    }

    @Test("a username of 508 bytes is read, one of 509 is refused")
    func limit() {
        #expect(STUNMessage.read(Self.request(String(repeating: "x", count: 508)))?.usernameByteCount == 508)
        #expect(
            STUNMessage.refusal(of: Self.request(String(repeating: "x", count: 509))) == .malformedAttribute)
    }
}
