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
            "POST /a HTTP/1.1\r\nHost: relay.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n")
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
}
