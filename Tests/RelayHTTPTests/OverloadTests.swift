import Glibc
import RelayHTTP
import Testing

/// More than the server takes: refused in good order, without a hang and without spinning.
struct OverloadTests {
    @Test("requests whose body is still coming count among those at once")
    func bodiesCount() throws {
        let test = try TestServer { $0.limits.requestCount = 1 }
        let slow = try test.connect()
        slow.send(Text.post("Content-Length: 2", body: "{"))
        #expect(test.waitForCounters { $0.requestsInFlight == 1 })
        #expect(try test.connect().get("/a").status == 503)
        slow.send("}")
        #expect(try slow.readResponse().status == 200)
        #expect(try test.connect().get("/a").status == 200)
        #expect(test.waitForCounters { $0.overloads == 1 && $0.requestsInFlight == 0 })
    }

    @Test("a body over the in-flight limit is refused before 100-continue asks for it")
    func noContinueWhenFull() throws {
        let test = try TestServer({ $0.limits.requestCount = 1 }, application: TestServer.silence)
        let first = try test.connect()
        first.send(Text.get())
        #expect(test.request("/a") != nil)
        let second = try test.connect()
        second.send(Text.post("Content-Length: 2", "Expect: 100-continue"))
        #expect(try second.readResponse().status == 503)
    }

    @Test("connections beyond the limit are told 503, and one that leaves makes room")
    func connectionLimit() throws {
        let test = try TestServer { $0.limits.connectionCount = 2 }
        let clients = try (0..<2).map { _ in try test.connect() }
        for client in clients { #expect(try client.get("/a").status == 200) }
        let refused = try test.connect()
        let response = try refused.readResponse()
        #expect(response.status == 503 && response.header("Retry-After") == "1")
        #expect(refused.readToEnd().isEmpty && refused.sawEnd)
        refused.close()
        clients[0].close()
        #expect(test.waitForCounters { $0.openConnections == 1 })
        #expect(try test.connect().get("/a").status == 200)
        withExtendedLifetime(clients) { #expect(test.server.counters.refusedConnections == 1) }
    }

    @Test("event streams do not count among the connections")
    func streamsApart() throws {
        let test = try TestServer({ $0.limits.connectionCount = 1 }) { server, request in
            guard request.target == "/stream" else { return TestServer.echo(server, request) }
            server.openStream(request.id, headers: [])
        }
        let streams = try (0..<5).map { _ in
            let client = try test.connect()
            client.send("GET /stream HTTP/1.1\r\nHost: r\r\n\r\n")
            #expect(try client.readHead().status == 200)
            return client
        }
        #expect(try test.connect().get("/a").status == 200)
        withExtendedLifetime(streams) {}
    }

    @Test("while too many answer bytes wait for slow readers, new requests get 503")
    func pendingOutput() throws {
        let test = try TestServer({
            $0.limits.pendingOutputByteCount = 100_000
            $0.limits.sendBufferByteCount = 8192
        }) { server, request in
            let count = request.target == "/big" ? 900_000 : 1
            server.respond(
                request.id, HTTPResponse(status: 200, body: [UInt8](repeating: 0x61, count: count)))
        }
        let slow = try test.connect(receiveBufferByteCount: 4096)
        slow.send("GET /big HTTP/1.1\r\nHost: r\r\n\r\n")
        #expect(test.waitForCounters { $0.pendingOutputByteCount > 100_000 })
        #expect(try test.connect().get("/a").status == 503)
        #expect(try slow.readResponse().body.count == 900_000)
        #expect(test.waitForCounters { $0.pendingOutputByteCount == 0 })
        #expect(try test.connect().get("/a").status == 200)
    }

    @Test(
        "without descriptors the server turns connections away without spinning, and serves again afterwards")
    func noDescriptors() async {
        await #expect(processExitsWith: .success) { try DescriptorShortage().turnsAway() }
    }

    @Test("when not even the spare descriptor helps, accepting pauses and goes on by itself")
    func acceptPauses() async {
        await #expect(processExitsWith: .success) { try DescriptorShortage().pauses() }
    }
}

/// A server whose process has no descriptor left: only in a process of its own.
private struct DescriptorShortage {
    let test: TestServer
    let good: RawClient

    init() throws {
        test = try TestServer()
        good = try test.connect()
        _ = try good.get("/a")
    }

    func turnsAway() throws {
        let clients = (0..<8).map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }
        // All numbers below the limit are in use: the server's accept fails with EMFILE.
        let old = limitDescriptors(rlim_t(clients[7] + 1))
        for client in clients { connect(client) }
        precondition(test.waitForCounters { $0.refusedConnections == 8 })
        let status = try statusWithoutSpinning()
        limitDescriptors(old)
        let afterwards = try test.connect().get("/a").status
        precondition(status == 200 && afterwards == 200)
    }

    func pauses() throws {
        let waiting = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        // Below every number in use: closing one does not help.
        let old = limitDescriptors(3)
        connect(waiting)
        let status = try statusWithoutSpinning()
        limitDescriptors(old)
        // The connection that waited is taken now.
        precondition(test.waitForCounters { $0.openConnections == 2 })
        let afterwards = try test.connect().get("/a").status
        precondition(status == 200 && afterwards == 200)
    }

    private func statusWithoutSpinning() throws -> Int {
        let start = processSeconds()
        usleep(250_000)
        precondition(processSeconds() - start < 0.1, "the loop spins")
        return try good.get("/a").status
    }

    /// Sets the limit and returns the one before.
    @discardableResult
    private func limitDescriptors(_ count: rlim_t) -> rlim_t {
        var limit = rlimit()
        precondition(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
        defer { precondition(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0) }
        let old = limit.rlim_cur
        limit.rlim_cur = count
        return old
    }

    private func connect(_ descriptor: Int32) {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = test.port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, 16) }
        }
        precondition(result == 0)
    }
}

/// CPU time of the whole process.
func processSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
