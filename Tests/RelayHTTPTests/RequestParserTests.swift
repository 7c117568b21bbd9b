import RelayHTTP
import Testing

/// The parser alone: grammar, framing and limits, without a socket.
struct RequestParserTests {
    @Test("a request keeps method, target and fields as they were sent")
    func fields() throws {
        let request = try #require(
            Parsing("PATCH /v1/rooms/a%20b?x=1 HTTP/1.1\r\nhOST: r\r\nX-One:  a b \t\r\nx-one: c\r\n\r\n")
                .requests.first)
        #expect(request.method == "PATCH" && request.target == "/v1/rooms/a%20b?x=1")
        #expect(request.headers.first("x-ONE") == "a b")
        #expect(request.headers.all("X-One") == ["a b", "c"])
        #expect(request.headers.pairs.map(\.name) == ["hOST", "X-One", "x-one"])
        #expect(request.headers.first("X") == nil)
    }

    @Test("an answer is the same whatever the pieces the bytes come in", arguments: [1, 2, 3, 7, 100])
    func pieces(size: Int) {
        for vector in RequestVector.all where vector.bytes.count < 4096 {
            let whole = Parsing(vector.bytes)
            let split = Parsing(vector.bytes, pieceByteCount: size)
            #expect(whole.end == split.end && whole.requests.count == split.requests.count, "\(vector.name)")
            #expect(whole.requests.map(\.body) == split.requests.map(\.body), "\(vector.name)")
        }
    }

    @Test("a target of 8 KiB is taken and one byte more is 414")
    func targetLimit() {
        func status(_ count: Int) -> Int? {
            Parsing("GET /" + String(repeating: "a", count: count - 1) + " HTTP/1.1\r\nHost: r\r\n\r\n")
                .status
        }
        #expect(status(8192) == nil)
        #expect(status(8193) == 414)
    }

    @Test("a header section of 16 KiB is taken and one byte more is 431")
    func headerLimit() {
        func status(_ count: Int) -> Int? {
            // "Host: r" and its line end are 9 bytes, "X: " and its line end 5, the empty line 2.
            Parsing(
                "GET /a HTTP/1.1\r\nHost: r\r\nX: " + String(repeating: "a", count: count - 16) + "\r\n\r\n"
            ).status
        }
        #expect(status(16_384) == nil)
        #expect(status(16_385) == 431)
    }

    @Test("100 fields are taken and one more is 431")
    func fieldLimit() {
        func status(_ count: Int) -> Int? {
            Parsing(
                "GET /a HTTP/1.1\r\nHost: r\r\n" + String(repeating: "X: y\r\n", count: count - 1) + "\r\n"
            ).status
        }
        #expect(status(100) == nil)
        #expect(status(101) == 431)
    }

    @Test("a body of 64 KiB is taken and a Content-Length of one more is 413 before any body byte")
    func bodyLimit() {
        let body = String(repeating: "b", count: 65_536)
        #expect(Parsing(Text.post("Content-Length: 65536", body: body)).requests.first?.body.count == 65_536)
        #expect(Parsing(Text.post("Content-Length: 65537")).status == 413)
    }

    @Test("chunks of 64 KiB together are taken and a chunk size of one more is 413 before its data")
    func chunkedBodyLimit() {
        let body = String(repeating: "b", count: 0x8000)
        let half = "8000\r\n\(body)\r\n"
        #expect(Parsing(Text.chunked(half + half + "0\r\n\r\n")).requests.first?.body.count == 65_536)
        #expect(Parsing(Text.chunked(half + "8001\r\n")).status == 413)
    }

    @Test("a refused length is never held in memory: the largest 63-bit length is 413 at once")
    func hugeLength() {
        #expect(Parsing(Text.post("Content-Length: 9223372036854775807")).status == 413)
        #expect(Parsing(Text.chunked("7fffffffffffffff\r\n")).status == 413)
    }

    @Test("HTTP/1.0 without Host is taken and keeps the connection only when it asks")
    func legacy() throws {
        let plain = try #require(Parsing("GET /a HTTP/1.0\r\n\r\n").requests.first)
        #expect(plain.isLegacy && !plain.keepsAlive)
        let kept = try #require(Parsing("GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").requests.first)
        #expect(kept.keepsAlive)
    }

    @Test("CONNECT is 405: no tunnel")
    func connect() {
        #expect(Parsing("CONNECT relay.test:22 HTTP/1.1\r\nHost: relay.test:22\r\n\r\n").status == 405)
    }

    @Test(
        "a target in absolute form or of another scheme is refused",
        arguments: [
            "http://evil.test/a", "a", "*", "//", "?x", "evil.test:80",
        ])
    func targetForms(target: String) {
        let expected: Int? = target == "//" ? nil : 400
        #expect(Parsing("GET \(target) HTTP/1.1\r\nHost: r\r\n\r\n").status == expected)
    }

    @Test(
        "a character that URIs do not have is refused in a target",
        arguments: [
            "#", "\"", "<", ">", "\\", "^", "`", "{", "|", "}", "[", "\u{7f}", "\u{e9}", "%", "%4", "%zz",
        ])
    func targetCharacters(text: String) {
        #expect(Parsing("GET /a\(text) HTTP/1.1\r\nHost: r\r\n\r\n").status == 400)
    }

    @Test(
        "a control character is refused as soon as it comes, before the line ends",
        arguments: [
            0x00, 0x01, 0x08, 0x0b, 0x0c, 0x1b, 0x1f, 0x7f,
        ])
    func controls(byte: UInt8) {
        let inTarget = Array("GET /".utf8) + [byte]
        let inValue = Array("GET /a HTTP/1.1\r\nX: y".utf8) + [byte]
        #expect(Parsing(inTarget).status == 400)
        #expect(Parsing(inValue).status == 400)
    }

    @Test("an empty line before a request is forgiven once")
    func emptyLines() {
        #expect(Parsing("\r\n" + Text.get()).requests.count == 1)
        #expect(Parsing("\r\n\r\n" + Text.get()).status == 400)
    }

    @Test(
        "HTTP/1.0 and 1.1 are spoken, any other version is 505",
        arguments: [
            ("HTTP/0.9", 505), ("HTTP/2.0", 505), ("HTTP/1.2", 505), ("HTTP/9.9", 505), ("HTTP/1.", 400),
            ("HTTP/11", 400),
            ("HTTX/1.1", 400), ("http/1.1", 400),
        ])
    func versions(version: String, status: Int) {
        #expect(Parsing("GET /a \(version)\r\nHost: r\r\n\r\n").status == status)
    }

    @Test("a Host that is no host is refused", arguments: ["", "a b", "a/b", "a@b", "a?b", "a,b\u{e9}"])
    func hosts(host: String) {
        #expect(Parsing("GET /a HTTP/1.1\r\nHost: \(host)\r\n\r\n").status == 400)
    }

    @Test("bytes behind a request are left for the next one")
    func pipelined() {
        let parsing = Parsing(Text.post("Content-Length: 2", body: "{}") + Text.get() + "GET /c")
        #expect(parsing.requests.map(\.method) == ["POST", "GET"])
        #expect(parsing.parser.isMidRequest)
    }

    @Test("a request that expects 100-continue asks for it once, and not when its body is there already")
    func expectContinue() {
        var waiting = Parsing(Text.post("Content-Length: 2", "Expect: 100-Continue")).parser
        let answers = [waiting.takeContinue(), waiting.takeContinue()]
        #expect(answers == [true, false])
        var going = Parsing(Text.post("Content-Length: 2", "Expect: 100-continue", body: "{")).parser
        let late = going.takeContinue()
        #expect(!late)
    }

    @Test("100-continue without a body to wait for is ignored")
    func expectWithoutBody() {
        let parsing = Parsing(Text.get("Expect: 100-continue"))
        #expect(parsing.requests.count == 1)
    }

    @Test("a chunk extension of 256 bytes is taken and a longer one is refused")
    func chunkExtensionLimit() {
        func status(_ count: Int) -> Int? {
            Parsing(Text.chunked("1;" + String(repeating: "a", count: count) + "\r\nx\r\n0\r\n\r\n")).status
        }
        #expect(status(256) == nil)
        #expect(status(257) == 400)
    }

    @Test(
        "a chunk size is hexadecimal digits and nothing else",
        arguments: [
            "+1", "-1", "0x1", " 1", "1 ", "1\t", "1;a b", "1;a=\"x\"", "g", "\u{ff11}", "1\u{0}",
            "11111111111111111",
            "8000000000000000",
        ])
    func chunkSizes(size: String) {
        #expect(Parsing(Text.chunked("\(size)\r\nx\r\n0\r\n\r\n")).status == 400)
    }

    @Test("a million bytes in chunks of one byte never trap, whatever the limit says")
    func tinyChunks() {
        var limits = RequestParser.Limits()
        limits.bodyByteCount = 100_000
        let text = Text.chunked(String(repeating: "1\r\nx\r\n", count: 100_000) + "0\r\n\r\n")
        #expect(Parsing(text, limits: limits).requests.first?.body.count == 100_000)
        limits.bodyByteCount = 99_999
        #expect(Parsing(text, limits: limits).status == 413)
    }

    @Test("a refusal's sentence never repeats a byte of the request")
    func refusalText() {
        for vector in RequestVector.all {
            guard let refusal = Parsing(vector.bytes).refusal else { continue }
            #expect(refusal.detail.utf8.allSatisfy { (0x20...0x7e).contains($0) }, "\(vector.name)")
            #expect(
                !refusal.detail.contains("relay.test") && !refusal.detail.contains("evil"), "\(vector.name)")
        }
    }

    @Test("mutated requests never trap and never leave the parser's limits")
    func mutations() {
        var state: UInt64 = 0x9e37_79b9_7f4a_7c15
        func random(_ bound: Int) -> Int {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return Int(state % UInt64(bound))
        }
        let words: [[UInt8]] = [
            [13, 10], [10], [0], [0xe2, 0x84, 0xaa], [0xc5, 0xbf], Array(": ".utf8), Array("chunked".utf8),
            Array("Content-Length: 3\r\n".utf8), Array("Transfer-Encoding: chunked\r\n".utf8), [0xff], [32],
            [9],
        ]
        let seeds = RequestVector.all.filter { $0.bytes.count < 2048 && !$0.bytes.isEmpty }
        var refusedCount = 0
        var takenCount = 0
        for _ in 0..<20_000 {
            var bytes = seeds[random(seeds.count)].bytes
            for _ in 0...random(4) {
                let index = random(bytes.count)
                switch random(4) {
                case 0: bytes[index] = UInt8(truncatingIfNeeded: random(256))
                case 1: bytes.insert(contentsOf: words[random(words.count)], at: index)
                case 2 where bytes.count > 1: bytes.remove(at: index)
                default: bytes.append(contentsOf: seeds[random(seeds.count)].bytes)
                }
            }
            let parsing = Parsing(bytes, pieceByteCount: 1 + random(64))
            refusedCount += parsing.refusal == nil ? 0 : 1
            takenCount += parsing.requests.count
            #expect(parsing.requests.allSatisfy { $0.body.count <= 65_536 && $0.headers.count <= 100 })
        }
        // Both ways are taken, or the mutations would show nothing.
        #expect(refusedCount > 1000 && takenCount > 1000)
    }
}
