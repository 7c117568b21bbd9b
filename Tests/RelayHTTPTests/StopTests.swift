import Glibc
import RelayHTTP
import Testing

/// Starting and stopping.
struct StopTests {
    @Test("a stop that is not graceful closes running requests and streams, tells each as gone, then stopped")
    func immediate() throws {
        let test = try TestServer(application: TestServer.silence)
        let waiting = try test.connect()
        waiting.send(Text.get())
        let request = try #require(test.request("/a")).id
        let streaming = try test.connect()
        streaming.send("GET /b HTTP/1.1\r\nHost: r\r\n\r\n")
        let stream = try #require(test.request("/b")).id
        test.server.openStream(stream, headers: [])
        #expect(try streaming.readHead().status == 200)
        test.server.stop(graceful: false)
        test.server.waitUntilStopped()
        #expect(waiting.readToEnd().isEmpty && streaming.readToEnd().isEmpty)
        #expect(test.waitForGone(request) && test.waitForGone(stream))
        guard case .stopped? = test.log.all.last else {
            Issue.record("stopped is not the last event")
            return
        }
        // Nothing happens any more, and nothing hangs.
        test.server.respond(request, HTTPResponse(status: 200))
        test.server.stop(graceful: true)
    }

    @Test(
        "a graceful stop closes idle connections and ends streams at once, and lets a running request finish")
    func graceful() throws {
        let test = try TestServer(application: TestServer.silence)
        let idle = try test.connect()
        let streaming = try test.connect()
        streaming.send(Text.get())
        let stream = try #require(test.request("/a")).id
        test.server.openStream(stream, headers: [])
        #expect(try streaming.readHead().status == 200)
        let running = try test.connect()
        running.send("GET /b HTTP/1.1\r\nHost: r\r\n\r\n")
        let request = try #require(test.request("/b")).id
        test.server.stop(graceful: true)
        #expect(idle.readToEnd().isEmpty && idle.sawEnd)
        #expect(try streaming.readChunk().isEmpty)
        #expect(test.waitForGone(stream))
        test.server.respond(request, HTTPResponse(status: 200, body: [0x61]))
        let response = try running.readResponse()
        #expect(response.text == "a" && response.header("Connection") == "close")
        for client in [streaming, running] { client.close() }
        #expect(test.waitForStopped())
    }

    @Test("a graceful stop does not wait for an application that never answers")
    func gracefulDeadline() throws {
        let test = try TestServer({ $0.deadlines.stopMs = 40 }, application: TestServer.silence)
        let client = try test.connect()
        client.send(Text.get())
        let id = try #require(test.request("/a")).id
        test.server.stop(graceful: true)
        #expect(client.readToEnd().isEmpty)
        #expect(test.waitForGone(id) && test.waitForStopped())
    }

    @Test("a second stop that is not graceful ends a graceful one")
    func secondStop() throws {
        let test = try TestServer(application: TestServer.silence)
        let client = try test.connect()
        client.send(Text.get())
        #expect(test.request("/a") != nil)
        test.server.stop(graceful: true)
        test.server.stop(graceful: false)
        #expect(test.waitForStopped())
        #expect(client.readToEnd().isEmpty)
    }

    @Test("a stop inside the sink does not wait for itself")
    func stopInSink() throws {
        let test = try TestServer { _ in
        } application: { server, request in
            server.respond(request.id, HTTPResponse(status: 200))
            server.stop(graceful: true)
        }
        let client = try test.connect()
        #expect(try client.get("/a").status == 200)
        client.close()
        #expect(test.waitForStopped())
    }

    @Test("a request that comes in during a graceful stop is still answered")
    func midRequest() throws {
        let test = try TestServer()
        let client = try test.connect()
        client.send("GET /a HTTP/1.1\r\nHost: r\r\n")
        #expect(try test.connect().get("/b").status == 200)
        // Answered behind the first bytes of the other client, so these have been read.
        test.server.stop(graceful: true)
        client.send("\r\n")
        let response = try client.readResponse()
        #expect(response.status == 200 && response.header("Connection") == "close")
    }

    @Test("a server that is let go stops")
    func release() throws {
        let log = TestServer.Log()
        let port: UInt16
        do {
            let configuration = HTTPConfiguration(listeners: [.init(address: "127.0.0.1", port: 0)])
            let server = HTTPServer(configuration: configuration) { log.append($0) }
            port = try server.start()[0]
        }
        #expect(log.wait { $0.isEmpty ? nil : true } == true)
        #expect(throws: RawClient.Failure.self) { try RawClient(port: port) }
    }

    @Test("an address that is not numeric does not start")
    func notNumeric() {
        #expect(throws: HTTPServerError.address("localhost")) {
            try TestServer { $0.listeners = [.init(address: "localhost", port: 0)] }
        }
    }

    @Test("a port in use names the call and the address, and a server that failed to start can start again")
    func portInUse() throws {
        let first = try TestServer()
        let listener = HTTPConfiguration.Listener(address: "127.0.0.1", port: first.port)
        let second = HTTPServer(configuration: HTTPConfiguration(listeners: [listener])) { _ in }
        #expect(
            throws: HTTPServerError.system(
                call: "bind", address: "127.0.0.1:\(first.port)", errno: EADDRINUSE)
        ) {
            try second.start()
        }
        first.server.stop(graceful: false)
        #expect(try second.start() == [first.port])
        second.stop(graceful: false)
    }

    @Test("neither a failed start nor a stopped server leaves a descriptor open")
    func descriptors() async {
        await #expect(processExitsWith: .success) {
            let certificate = try TestCertificate(name: "relay.test")
            func round() throws {
                let test = try TestServer(certificate: certificate)
                let client = try test.connectTLS(try ClientContext())
                _ = try client.get("/a")
                let half = try test.connect()
                half.send("GET")
                let taken = test.port
                let failing = try? TestServer {
                    $0.listeners = [
                        .init(address: "127.0.0.1", port: 0), .init(address: "127.0.0.1", port: taken),
                    ]
                }
                precondition(failing == nil)
                test.server.stop(graceful: false)
                test.server.waitUntilStopped()
            }
            try round()
            // The thread's last descriptors close right behind its last event.
            usleep(50_000)
            let before = openDescriptorCount()
            for _ in 0..<10 { try round() }
            usleep(50_000)
            let after = openDescriptorCount()
            precondition(after <= before, "\(before) descriptors became \(after)")
        }
    }
}

/// How many descriptors this process has open.
func openDescriptorCount() -> Int { (0..<1024).filter { fcntl(Int32($0), F_GETFD) >= 0 }.count }
