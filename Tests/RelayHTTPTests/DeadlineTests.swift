import Glibc
import RelayHTTP
import Testing

/// Slow clients. Deadlines are made short; what must not be cut is watched for several of them.
struct DeadlineTests {
    /// Sends a little again and again, for about a second at most. True when a deadline passed meanwhile.
    private func trickle(_ text: String, to client: RawClient, of test: TestServer) -> Bool {
        for _ in 0..<90 {
            client.send(text)
            usleep(10_000)
            if test.server.counters.timeouts > 0 { return true }
        }
        return false
    }

    @Test("a byte now and then does not move the deadline of a head: 408 and a close")
    func slowLoris() throws {
        let test = try TestServer { $0.deadlines.headMs = 60 }
        let client = try test.connect()
        client.send("GET /a HTTP/1.1\r\nHost: r\r\n")
        #expect(trickle("X: y\r\n", to: client, of: test), "the deadline moved")
        #expect(try client.readResponse().status == 408)
        #expect(test.requests.isEmpty)
    }

    @Test("a byte now and then does not move the deadline of a body: 408 and a close")
    func slowBody() throws {
        let test = try TestServer { $0.deadlines.bodyMs = 60 }
        let client = try test.connect()
        client.send(Text.post("Content-Length: 60000"))
        #expect(trickle("x", to: client, of: test), "the deadline moved")
        #expect(try client.readResponse().status == 408)
        #expect(test.server.counters.requestsInFlight == 0)
    }

    @Test("a connection that is used no more is closed after the idle time without a word")
    func idle() throws {
        let test = try TestServer { $0.deadlines.idleMs = 30 }
        let client = try test.connect()
        #expect(try client.get("/a").status == 200)
        #expect(client.readToEnd().isEmpty && client.sawEnd)
        #expect(test.server.counters.timeouts == 0)
    }

    @Test("while the application works no deadline runs")
    func noDeadlineWhileWaiting() throws {
        let test = try TestServer(
            {
                $0.deadlines.headMs = 20
                $0.deadlines.bodyMs = 20
                $0.deadlines.idleMs = 20
                $0.deadlines.writeStallMs = 20
                $0.deadlines.lingerMs = 20
            }, application: TestServer.silence)
        let client = try test.connect()
        client.send(Text.get())
        let id = try #require(test.request("/a")).id
        usleep(120_000)
        test.server.respond(id, HTTPResponse(status: 200))
        #expect(try client.readResponse().status == 200)
    }

    @Test("an event stream has no deadline while nothing waits in it")
    func noDeadlineForStreams() throws {
        let test = try TestServer(
            {
                $0.deadlines.headMs = 20
                $0.deadlines.idleMs = 20
                $0.deadlines.writeStallMs = 20
            }, application: TestServer.silence)
        let client = try test.connect()
        client.send(Text.get())
        let id = try #require(test.request("/a")).id
        test.server.openStream(id, headers: [])
        #expect(try client.readHead().status == 200)
        usleep(120_000)
        test.server.broadcast([id], Array("data: x\n\n".utf8))
        #expect(try client.readChunk() == Array("data: x\n\n".utf8))
    }

    @Test("a reader that takes nothing of its answer is cut after the write-stall time")
    func slowRead() throws {
        let test = try TestServer({
            $0.deadlines.writeStallMs = 50
            $0.limits.sendBufferByteCount = 8 * 1024
        }) { server, request in
            server.respond(
                request.id, HTTPResponse(status: 200, body: [UInt8](repeating: 0x61, count: 900_000)))
        }
        let client = try test.connect(receiveBufferByteCount: 4096)
        client.send(Text.get())
        #expect(test.waitForCounters { $0.timeouts == 1 && $0.openConnections == 0 })
        #expect(test.server.counters.pendingOutputByteCount == 0)
        #expect(client.readToEnd().count < 900_000)
    }

    @Test("a reader that goes on taking gets its whole answer, however long it takes")
    func steadyRead() throws {
        let test = try TestServer({
            $0.deadlines.writeStallMs = 800
            $0.limits.sendBufferByteCount = 8 * 1024
        }) { server, request in
            server.respond(
                request.id, HTTPResponse(status: 200, body: [UInt8](repeating: 0x61, count: 400_000)))
        }
        let client = try test.connect(receiveBufferByteCount: 8192)
        client.send(Text.get())
        let head = try client.readHead()
        #expect(head.status == 200)
        let start = wallSeconds()
        var left = 400_000
        while left > 0 {
            left -= try client.read(min(left, 8000)).count
            usleep(24_000)
        }
        #expect(wallSeconds() - start > 1.0, "too fast to show anything")
        #expect(try client.request(Text.get("Connection: close")).status == 200)
    }

    @Test("two hundred slow clients do not keep a good one waiting")
    func manySlowClients() throws {
        let test = try TestServer()
        let slow = try (0..<200).map { _ in try test.connect() }
        for (index, client) in slow.enumerated() {
            client.send(index.isMultiple(of: 2) ? "GET /a HT" : Text.post("Content-Length: 10", body: "x"))
        }
        #expect(test.waitForCounters { $0.openConnections == 200 && $0.requestsInFlight == 100 })
        let good = try test.connect()
        for _ in 0..<20 { #expect(try good.get("/a").status == 200) }
        withExtendedLifetime(slow) {}
    }

    @Test("a client that never finishes its TLS handshake is closed after the head time")
    func handshakeDeadline() throws {
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(certificate: certificate, { $0.deadlines.headMs = 30 })
        let client = try test.connect()
        client.send([0x16, 0x03, 0x01])
        #expect(client.readToEnd().isEmpty)
        #expect(test.waitForCounters { $0.timeouts == 1 && $0.openConnections == 0 })
    }
}
