import RelayHTTP
import Testing

/// Ordinary requests and answers over loopback.
struct ServingTests {
    @Test("a request is answered by what the application responds")
    func answers() throws {
        let test = try TestServer()
        let response = try test.connect().get("/a?x=1")
        #expect(response.status == 200)
        #expect(response.text == "GET /a?x=1 ")
        #expect(response.header("Content-Type") == "text/plain")
        #expect(response.header("Date")?.hasSuffix(" GMT") == true)
    }

    @Test("a body of Content-Length reaches the application whole")
    func sizedBody() throws {
        let test = try TestServer()
        let response = try test.connect().request(
            "POST /a HTTP/1.1\r\nHost: relay.test\r\nContent-Length: 5\r\n\r\nhello")
        #expect(response.text == "POST /a hello")
    }

    @Test("a chunked body reaches the application decoded")
    func chunkedBody() throws {
        let test = try TestServer()
        let response = try test.connect().request(
            "POST /a HTTP/1.1\r\nHost: relay.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
        )
        #expect(response.text == "POST /a hello")
    }

    @Test("a connection is used again for the next request")
    func keepAlive() throws {
        let test = try TestServer()
        let client = try test.connect()
        for _ in 0..<3 { #expect(try client.get("/a").status == 200) }
        #expect(test.server.counters.connections == 1)
    }

    @Test("a client that says Connection: close gets its answer and the end of the connection")
    func connectionClose() throws {
        let test = try TestServer()
        let client = try test.connect()
        let response = try client.request("GET /a HTTP/1.1\r\nHost: relay.test\r\nConnection: close\r\n\r\n")
        #expect(response.header("Connection") == "close")
        #expect(client.readToEnd().isEmpty && client.sawEnd)
    }

    @Test("an answer to HEAD has the length and no body, and the connection goes on")
    func head() throws {
        let test = try TestServer()
        let client = try test.connect()
        client.send("HEAD /a HTTP/1.1\r\nHost: r\r\n\r\n" + Text.get())
        let response = try client.readResponse(toHead: true)
        #expect(response.status == 200 && response.header("Content-Length") == "8")
        #expect(try client.readResponse().text == "GET /a ")
    }

    @Test("OPTIONS of a path and of the whole server reach the application")
    func options() throws {
        let test = try TestServer()
        let client = try test.connect()
        #expect(try client.request("OPTIONS /a HTTP/1.1\r\nHost: r\r\n\r\n").status == 200)
        #expect(try client.request("OPTIONS * HTTP/1.1\r\nHost: r\r\n\r\n").status == 404)
        #expect(test.requests.map(\.path) == ["/a", "*"])
    }

    @Test("204 and 304 have neither length nor body", arguments: [204, 304])
    func noContent(status: Int) throws {
        let test = try TestServer { _ in
        } application: { server, request in
            server.respond(request.id, HTTPResponse(status: status, body: [0x61]))
        }
        let client = try test.connect()
        for _ in 0..<2 {
            let response = try client.get("/a")
            #expect(response.status == status && response.header("Content-Length") == nil)
        }
    }

    @Test("100 Continue is sent once, before the body, and then the answer")
    func expectContinue() throws {
        let test = try TestServer()
        let client = try test.connect()
        client.send(Text.post("Content-Length: 2", "Expect: 100-continue"))
        #expect(try client.readHead().status == 100)
        client.send("{")
        client.send("}")
        #expect(try client.readResponse().text == "POST /a {}")
        #expect(try client.get("/b").status == 200)
    }

    @Test("a body that comes with its head gets no 100 Continue")
    func noContinue() throws {
        let test = try TestServer()
        let response = try test.connect().request(
            Text.post("Content-Length: 2", "Expect: 100-continue", body: "{}"))
        #expect(response.status == 200)
    }

    @Test("an expectation the server does not know is 417")
    func unknownExpectation() throws {
        let test = try TestServer()
        let response = try test.connect().request(Text.post("Content-Length: 2", "Expect: 42", body: "{}"))
        #expect(response.status == 417)
    }

    @Test("a client that only ends its sending side still gets its answer")
    func halfClose() throws {
        let test = try TestServer(application: TestServer.silence)
        let client = try test.connect()
        client.send(Text.get())
        client.finishSending()
        let id = try #require(test.request("/a")).id
        test.server.respond(id, HTTPResponse(status: 200, body: [0x61]))
        #expect(try client.readResponse().text == "a")
        #expect(client.readToEnd().isEmpty && client.sawEnd)
    }

    @Test("an HTTP/1.0 client keeps its connection when it asks, and is told so")
    func legacyKeepAlive() throws {
        let test = try TestServer()
        let client = try test.connect()
        for _ in 0..<2 {
            let response = try client.request("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            #expect(response.header("Connection") == "keep-alive")
        }
        #expect(try client.request("GET /a HTTP/1.0\r\n\r\n").header("Connection") == "close")
        #expect(client.readToEnd().isEmpty)
    }

    @Test("two hundred pipelined requests are answered in order")
    func pipelined() throws {
        let test = try TestServer()
        let client = try test.connect()
        client.send((0..<200).map { "GET /a?\($0) HTTP/1.1\r\nHost: r\r\n\r\n" }.joined())
        for index in 0..<200 { #expect(try client.readResponse().text == "GET /a?\(index) ") }
    }

    @Test("answers may come from any thread, in any order")
    func threads() async throws {
        let test = try TestServer(application: TestServer.silence)
        let clients = try (0..<100).map { index in
            let client = try test.connect()
            client.send("GET /\(index) HTTP/1.1\r\nHost: r\r\n\r\n")
            return client
        }
        let requests = try #require(test.requests(count: 100))
        await withTaskGroup(of: Void.self) { group in
            for request in requests.reversed() {
                group.addTask {
                    test.server.respond(
                        request.id, HTTPResponse(status: 200, body: Array(request.target.utf8)))
                }
            }
        }
        for (index, client) in clients.enumerated() { #expect(try client.readResponse().text == "/\(index)") }
    }

    @Test("a second answer to a request is skipped and does not reach the next request")
    func secondAnswer() throws {
        let test = try TestServer(application: TestServer.silence)
        let client = try test.connect()
        client.send(Text.get() + "GET /b HTTP/1.1\r\nHost: r\r\n\r\n")
        let first = try #require(test.request("/a")).id
        test.server.respond(first, HTTPResponse(status: 200, body: [0x31]))
        test.server.respond(first, HTTPResponse(status: 200, body: [0x32]))
        let second = try #require(test.request("/b")).id
        test.server.respond(first, HTTPResponse(status: 200, body: [0x33]))
        test.server.respond(second, HTTPResponse(status: 200, body: [0x34]))
        #expect(try client.readResponse().text == "1")
        #expect(try client.readResponse().text == "4")
        #expect(test.waitForCounters { $0.skipped == 2 })
    }

    @Test("a request that the application closes ends without an answer and frees its place")
    func closedRequest() throws {
        let test = try TestServer { _ in
        } application: { server, request in
            server.close(request.id)
        }
        let client = try test.connect()
        client.send(Text.get())
        #expect(client.readToEnd().isEmpty)
        #expect(test.waitForCounters { $0.requestsInFlight == 0 && $0.openConnections == 0 })
    }

    @Test("a request tells its peer's address as text, over IPv4 and IPv6")
    func peers() throws {
        let test = try TestServer {
            $0.listeners = [.init(address: "127.0.0.1", port: 0), .init(address: "::1", port: 0)]
        }
        #expect(try RawClient(port: test.ports[0]).get("/a").status == 200)
        #expect(try RawClient(port: test.ports[1], address: "::1").get("/b").status == 200)
        #expect(test.requests.map(\.peer) == ["127.0.0.1", "::1"])
        #expect(test.requests.map(\.listener) == [0, 1])
    }

    @Test("a refusal's document names the rule and the status")
    func problem() throws {
        let test = try TestServer()
        let response = try test.connect().request(Text.post("Content-Length: 65537"))
        #expect(
            response.text
                == #"{"type":"about:blank","title":"Content Too Large","status":413,"#
                + #""detail":"The body exceeds 65536 bytes.","code":"body-too-large"}"#)
    }
}
