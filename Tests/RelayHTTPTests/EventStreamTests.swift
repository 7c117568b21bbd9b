import Glibc
import RelayHTTP
import Testing

/// Streams that stay open: server-sent events.
struct EventStreamTests {
    private static let headers = [HTTPResponse.Field("Content-Type", "text/event-stream")]

    /// A client whose request has become a stream.
    private func open(_ test: TestServer, _ path: String = "/a") throws -> (
        client: RawClient, id: HTTPRequestID
    ) {
        let client = try test.connect()
        client.send("GET \(path) HTTP/1.1\r\nHost: r\r\n\r\n")
        let id = try #require(test.request(path)).id
        test.server.openStream(id, headers: Self.headers)
        let head = try client.readHead()
        #expect(head.status == 200 && head.header("Transfer-Encoding") == "chunked")
        #expect(head.header("Content-Type") == "text/event-stream" && head.header("Content-Length") == nil)
        return (client, id)
    }

    private func silent(_ change: (inout HTTPConfiguration) -> Void = { _ in }) throws -> TestServer {
        try TestServer(change, application: TestServer.silence)
    }

    @Test("what is written to a stream arrives as chunks in order, and each write is drained once")
    func write() throws {
        let test = try silent()
        let stream = try open(test)
        for index in 0..<5 {
            test.server.write(stream.id, Array("data: \(index)\n\n".utf8))
            #expect(try stream.client.readChunk() == Array("data: \(index)\n\n".utf8))
            #expect(test.waitForDrained(stream.id, count: index + 1))
        }
    }

    @Test("an HTTP/1.0 client gets the stream unchunked until the connection ends")
    func legacy() throws {
        let test = try silent()
        let client = try test.connect()
        client.send("GET /a HTTP/1.0\r\n\r\n")
        let id = try #require(test.request("/a")).id
        test.server.openStream(id, headers: Self.headers)
        test.server.write(id, Array("data: x\n\n".utf8))
        test.server.broadcast([id], Array("data: y\n\n".utf8))
        test.server.close(id)
        #expect(try client.readHead().header("Transfer-Encoding") == nil)
        #expect(client.readToEnd() == Array("data: x\n\ndata: y\n\n".utf8))
    }

    @Test("page after page written when the last one has left reaches a slow reader whole and in order")
    func pages() throws {
        let test = try silent { $0.limits.sendBufferByteCount = 16 * 1024 }
        let client = try test.connect(receiveBufferByteCount: 8192)
        client.send(Text.get())
        let id = try #require(test.request("/a")).id
        test.server.openStream(id, headers: Self.headers)
        #expect(try client.readHead().status == 200)
        for page in 0..<20 {
            test.server.write(id, [UInt8](repeating: UInt8(page), count: 64 * 1024))
            #expect(try client.readChunk() == [UInt8](repeating: UInt8(page), count: 64 * 1024))
            #expect(test.waitForDrained(id, count: page + 1))
        }
        #expect(test.server.counters.streamOverflows == 0)
    }

    @Test("a broadcast reaches every stream and tells no drained")
    func broadcast() throws {
        let test = try silent()
        let streams = try (0..<50).map { try open(test, "/\($0)") }
        test.server.broadcast(streams.map(\.id), Array("data: all\n\n".utf8))
        for stream in streams { #expect(try stream.client.readChunk() == Array("data: all\n\n".utf8)) }
        // What the broadcast told would stand before this later request.
        try test.connect().send("GET /later HTTP/1.1\r\nHost: r\r\n\r\n")
        #expect(test.request("/later") != nil)
        #expect(!test.log.all.contains { if case .drained = $0 { true } else { false } })
    }

    @Test("a client that closes its stream is told as gone once, and again to whoever still writes to it")
    func gone() throws {
        let test = try silent()
        let stream = try open(test)
        stream.client.close()
        #expect(test.waitForGone(stream.id))
        func goneCount() -> Int { test.log.all.filter { if case .gone = $0 { true } else { false } }.count }
        test.server.close(stream.id)
        #expect(test.waitForCounters { $0.skipped == 1 && $0.openStreams == 0 })
        #expect(goneCount() == 1)
        test.server.write(stream.id, Array("x".utf8))
        #expect(test.waitForCounters { $0.skipped == 2 })
        #expect(goneCount() == 2)
    }

    @Test("a stream that the application closes ends with the last chunk behind all that was written")
    func close() throws {
        let test = try silent()
        let stream = try open(test)
        test.server.write(stream.id, [UInt8](repeating: 0x61, count: 50_000))
        test.server.close(stream.id)
        #expect(try stream.client.readChunk().count == 50_000)
        #expect(try stream.client.readChunk().isEmpty)
        #expect(stream.client.readToEnd().isEmpty && stream.client.sawEnd)
        stream.client.close()
        #expect(test.waitForCounters { $0.openConnections == 0 })
        #expect(!test.log.all.contains { if case .gone = $0 { true } else { false } })
    }

    @Test("a write longer than the queue closes the stream, one as long as the queue does not")
    func queueLimit() throws {
        let test = try silent { $0.limits.streamQueueByteCount = 5000 }
        let stream = try open(test)
        test.server.write(stream.id, [UInt8](repeating: 0x61, count: 5000))
        #expect(try stream.client.readChunk().count == 5000)
        test.server.write(stream.id, [UInt8](repeating: 0x61, count: 5001))
        #expect(test.waitForGone(stream.id))
        #expect(test.waitForCounters { $0.streamOverflows == 1 })
    }

    @Test("a stream that does not read is closed without disturbing the others")
    func slowReader() throws {
        let test = try silent { $0.limits.sendBufferByteCount = 8192 }
        let good = try open(test, "/good")
        let client = try test.connect(receiveBufferByteCount: 4096)
        client.send("GET /bad HTTP/1.1\r\nHost: r\r\n\r\n")
        let bad = try #require(test.request("/bad")).id
        test.server.openStream(bad, headers: [])
        let piece = [UInt8](repeating: 0x61, count: 2000)
        for index in 0..<200 {
            test.server.broadcast([bad, good.id], piece)
            #expect(try good.client.readChunk() == piece, "\(index)")
        }
        withExtendedLifetime(client) { #expect(test.waitForGone(bad)) }
        #expect(test.server.counters.openStreams == 1)
    }

    @Test("streams beyond their limit get 503, are told as gone, and other requests are served")
    func streamLimit() throws {
        let test = try TestServer({ $0.limits.eventStreamCount = 2 }) { server, request in
            guard request.target == "/a" else { return server.respond(request.id, HTTPResponse(status: 200)) }
            server.openStream(request.id, headers: [])
        }
        let clients = try (0..<3).map { _ in try test.connect() }
        for client in clients.prefix(2) {
            client.send(Text.get())
            #expect(try client.readHead().status == 200)
        }
        clients[2].send(Text.get())
        let refused = try clients[2].readResponse()
        #expect(refused.status == 503 && refused.header("Retry-After") == "1")
        let third = try #require(test.requests(count: 3)).last
        #expect(test.waitForGone(try #require(third).id))
        #expect(try test.connect().get("/b").status == 200)
        clients[0].close()
        withExtendedLifetime(clients) { #expect(test.waitForCounters { $0.openStreams == 1 }) }
    }

    @Test("a stream in answer to HEAD is its head alone")
    func head() throws {
        let test = try silent()
        let client = try test.connect()
        client.send("HEAD /a HTTP/1.1\r\nHost: r\r\n\r\n")
        let id = try #require(test.request("/a")).id
        test.server.openStream(id, headers: Self.headers)
        #expect(try client.readHead().status == 200)
        #expect(client.readToEnd().isEmpty && client.sawEnd)
        #expect(test.waitForGone(id))
    }

    @Test("stream bytes that the mailbox cannot hold close all streams instead of leaving a gap in one")
    func mailboxLimit() throws {
        // The flood is posted on the server's own thread, so that nothing is taken out of the mailbox
        // meanwhile.
        let streams = StreamIDs()
        let test = try TestServer({ $0.limits.mailboxByteCount = 20_000 }) { server, request in
            guard request.target == "/flood" else {
                streams.append(request.id)
                return server.openStream(request.id, headers: [])
            }
            for _ in 0..<30 { server.broadcast(streams.all, [UInt8](repeating: 0x61, count: 1000)) }
            server.respond(request.id, HTTPResponse(status: 204))
        }
        let clients = try (0..<3).map { _ in try test.connect() }
        for client in clients {
            client.send(Text.get())
            #expect(try client.readHead().status == 200)
        }
        #expect(try test.connect().get("/flood").status == 204)
        for id in streams.all { #expect(test.waitForGone(id)) }
        for client in clients { #expect(!client.readToEnd().isEmpty) }
        #expect(test.waitForCounters { $0.openStreams == 0 && $0.streamOverflows == 3 })
    }

    @Test("three hundred idle streams hold less than 8 KiB each")
    func idleMemory() async {
        await #expect(processExitsWith: .success) {
            let test = try TestServer(application: { server, request in
                server.openStream(request.id, headers: [])
            })
            func open() throws -> RawClient {
                let client = try test.connect()
                client.send(Text.get())
                _ = try client.readHead()
                return client
            }
            var clients = try (0..<50).map { _ in try open() }
            let before = residentByteCount()
            clients += try (0..<300).map { _ in try open() }
            let perStream = (residentByteCount() - before) / 300
            withExtendedLifetime(clients) { precondition(perStream < 8192, "\(perStream) bytes a stream") }
        }
    }
}

/// Ids that the sink collects.
final class StreamIDs: @unchecked Sendable {
    private var mutex = pthread_mutex_t()
    private var ids: [HTTPRequestID] = []

    init() { pthread_mutex_init(&mutex, nil) }

    func append(_ id: HTTPRequestID) {
        pthread_mutex_lock(&mutex)
        ids.append(id)
        pthread_mutex_unlock(&mutex)
    }

    var all: [HTTPRequestID] {
        pthread_mutex_lock(&mutex)
        defer { pthread_mutex_unlock(&mutex) }
        return ids
    }
}

/// Memory of this process that is in RAM, from /proc.
func residentByteCount() -> Int {
    var text = [CChar](repeating: 0, count: 128)
    let descriptor = open("/proc/self/statm", O_RDONLY)
    defer { close(descriptor) }
    let count = read(descriptor, &text, 127)
    let words = String(decoding: text.prefix(max(0, count)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        .split(separator: " ")
    return words.count > 1 ? (Int(words[1]) ?? 0) * 4096 : 0
}
