import RelayHTTP
import Testing

/// The 106 raw requests, held by the parser alone and over a socket, each followed by a good request.
struct RequestVectorTests {
    static let good = Array("GET /good HTTP/1.1\r\nHost: relay.test\r\n\r\n".utf8)
    static let refused = RequestVector.all.filter { !$0.mayBeAccepted && !$0.isPartial }
    static let accepted = RequestVector.all.filter { $0.mayBeAccepted && !$0.isPartial }
    static let partial = RequestVector.all.filter(\.isPartial)

    @Test("every row of the vectors is held by exactly one of the tests below")
    func rowsAreAllThere() {
        #expect(RequestVector.all.count == 106)
        #expect(Self.refused.count + Self.accepted.count + Self.partial.count == 106)
        #expect(RequestVector.all.filter { $0.name.hasPrefix("smuggle-") }.count == 10)
    }

    @Test(
        "a request that must be refused is refused with its status, and nothing behind it is read",
        arguments: refused)
    func parserRefuses(vector: RequestVector) throws {
        let parsing = Parsing(vector.bytes + Self.good)
        let status = try #require(parsing.status)
        #expect(vector.refusals.contains(status), "\(status) is not \(vector.expect)")
        #expect(parsing.requests.isEmpty)
    }

    @Test(
        "a request that may be taken is taken or refused as demanded, and then so is the one behind it",
        arguments: accepted)
    func parserAccepts(vector: RequestVector) {
        let parsing = Parsing(vector.bytes + Self.good)
        if let status = parsing.status {
            #expect(vector.refusals.contains(status), "\(status) is not \(vector.expect)")
        } else {
            #expect(parsing.requests.count == (vector.name == "pipeline-two" ? 3 : 2))
            #expect(parsing.requests.last?.target == "/good")
        }
    }

    @Test("a request that is not whole waits", arguments: partial)
    func parserWaits(vector: RequestVector) {
        let parsing = Parsing(vector.bytes)
        #expect(parsing.end == .needsMore && parsing.requests.isEmpty)
        #expect(parsing.parser.isMidRequest == !vector.bytes.isEmpty)
    }

    @Test(
        "over a socket a refused request gets one problem document and a close, and the good one behind it nothing",
        arguments: refused)
    func serverRefuses(vector: RequestVector) throws {
        let test = try TestServer()
        let client = try test.connect()
        client.send(vector.bytes + Self.good)
        let response = try client.readResponse()
        #expect(vector.refusals.contains(response.status), "\(response.status) is not \(vector.expect)")
        #expect(response.header("Content-Type") == "application/problem+json")
        #expect(response.header("Connection") == "close")
        #expect(response.text.contains("\"status\":\(response.status)"))
        #expect(client.readToEnd().isEmpty, "a second answer")
        #expect(client.sawEnd, "a reset instead of a close")
        #expect(test.requests.isEmpty, "a refused request reached the application")
    }

    @Test(
        "over a socket a request that may be taken is answered as demanded, and then so is the good one behind it",
        arguments: accepted)
    func serverAccepts(vector: RequestVector) throws {
        let test = try TestServer()
        let client = try test.connect()
        client.send(vector.bytes + Self.good)
        let isStar = vector.name == "options-star"
        for _ in 0..<(vector.name == "pipeline-two" ? 2 : 1) {
            let response = try client.readResponse()
            guard response.header("Connection") != "close" else {
                #expect(
                    vector.refusals.contains(response.status), "\(response.status) is not \(vector.expect)")
                #expect(client.readToEnd().isEmpty && client.sawEnd && test.requests.isEmpty)
                return
            }
            let allowed = vector.expect.contains("404") || isStar ? [404] : [200]
            #expect(allowed.contains(response.status), "\(response.status) is not \(vector.expect)")
        }
        #expect(try client.readResponse().text == "GET /good ")
    }

    @Test(
        "over a socket a request that is not whole is waited for until its deadline closes",
        arguments: partial)
    func serverWaits(vector: RequestVector) throws {
        let test = try TestServer {
            $0.deadlines.headMs = 30
            $0.deadlines.bodyMs = 30
        }
        let client = try test.connect()
        client.send(vector.bytes)
        if vector.name == "expect-100" { #expect(try client.readHead().status == 100) }
        if !vector.bytes.isEmpty { #expect(try client.readResponse().status == 408) }
        #expect(client.readToEnd().isEmpty && client.sawEnd && test.requests.isEmpty)
        #expect(test.waitForCounters { $0.timeouts == 1 })
    }

    @Test("a path with an encoded CR LF reaches the application encoded and comes back in no header")
    func encodedLineEnd() throws {
        let test = try TestServer()
        let client = try test.connect()
        let response = try client.get("/a%0d%0aX:%20y")
        #expect(response.status == 404 && response.header("X") == nil)
        #expect(test.requests.first?.path == "/a%0d%0aX:%20y")
        #expect(test.requests.first?.pathSegments == nil)
    }

    @Test(
        "none of the ten smuggled requests is answered, in pieces of one byte as well",
        arguments: RequestVector.all.filter { $0.name.hasPrefix("smuggle-") })
    func smuggled(vector: RequestVector) throws {
        #expect(Parsing(vector.bytes, pieceByteCount: 1).status == 400)
        let test = try TestServer()
        let client = try test.connect()
        for byte in vector.bytes { client.send([byte]) }
        let answer = String(decoding: client.readToEnd(), as: UTF8.self)
        #expect(answer.hasPrefix("HTTP/1.1 400 "))
        #expect(answer.components("HTTP/1.1") == 1)
        #expect(test.requests.isEmpty)
    }
}

extension String {
    /// How often a text stands in the string.
    func components(_ text: String) -> Int { ranges(of: text).count }
}
