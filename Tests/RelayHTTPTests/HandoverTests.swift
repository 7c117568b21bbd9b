import Foundation
import Glibc
import RelayHTTP
import Testing

/// One server leaves its sockets to the next; nobody is turned away.
struct HandoverTests {
    private static func get(_ path: String) -> String { "GET \(path) HTTP/1.1\r\nHost: relay.test\r\n\r\n" }

    /// A server that goes on with what another one left.
    private func successor(of handover: HTTPHandover) throws -> TestServer {
        try TestServer { $0.inherited = handover }
    }

    @Test("a kept connection goes on with the successor, which answers what was sent meanwhile")
    func keptConnection() throws {
        let first = try TestServer()
        let client = try first.connect()
        client.send(Self.get("/a"))
        #expect(try client.readResponse().status == 200)
        let handover = first.server.handOver()
        #expect(handover.connections.count == 1 && handover.listeners.map(\.port) == [0])
        client.send(Self.get("/b"))
        let second = try successor(of: handover)
        #expect(second.port == first.port)
        second.server.resume()
        #expect(try client.readResponse().text.hasPrefix("GET /b"))
        #expect(second.requests.map(\.peer) == ["127.0.0.1"])
    }

    @Test("whoever connects in between waits in the queue and is answered")
    func newConnection() throws {
        let first = try TestServer()
        let handover = first.server.handOver()
        let client = try RawClient(port: first.port)
        client.send(Self.get("/a"))
        let second = try successor(of: handover)
        second.server.resume()
        #expect(try client.readResponse().status == 200)
    }

    @Test("nothing is read or accepted before the successor resumes")
    func paused() throws {
        let first = try TestServer()
        let kept = try first.connect()
        kept.send(Self.get("/a"))
        #expect(try kept.readResponse().status == 200)
        let second = try successor(of: first.server.handOver())
        kept.send(Self.get("/b"))
        let new = try RawClient(port: first.port)
        new.send(Self.get("/good"))
        // It never serves: what came is still there for the next one.
        let third = try successor(of: second.server.handOver())
        #expect(second.requests.isEmpty)
        third.server.resume()
        #expect(try kept.readResponse().status == 200)
        #expect(try new.readResponse().status == 200)
    }

    @Test("a request under way gets its answer from the one that took it, and its connection is handed over behind it")
    func running() throws {
        let first = try TestServer(application: TestServer.silence)
        let client = try first.connect()
        client.send(Self.get("/a"))
        let id = try #require(first.request("/a")).id
        let partial = try first.connect()
        partial.send("POST /b HTTP/1.1\r\nHost: r\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
        #expect(try partial.readHead().status == 100)
        let result = HandoverBox()
        let thread = Foundation.Thread { result.fill(first.server.handOver()) }
        thread.start()
        #expect(result.value == nil)
        first.server.respond(id, HTTPResponse(status: 200, body: [0x61]))
        #expect(try client.readResponse().text == "a")
        #expect(result.value == nil)
        partial.send("x")
        let other = try #require(first.request("/b")).id
        first.server.respond(other, HTTPResponse(status: 200, body: [0x62]))
        #expect(try partial.readResponse().text == "b")
        let handover = try #require(result.wait())
        #expect(handover.connections.count == 2)
        let second = try successor(of: handover)
        second.server.resume()
        for connection in [client, partial] {
            connection.send(Self.get("/good"))
            #expect(try connection.readResponse().status == 200)
        }
    }

    @Test("event streams end in good order")
    func streams() throws {
        let first = try TestServer(application: TestServer.silence)
        let client = try first.connect()
        client.send(Self.get("/a"))
        let id = try #require(first.request("/a")).id
        first.server.openStream(id, headers: [])
        #expect(try client.readHead().status == 200)
        let handover = first.server.handOver()
        #expect(try client.readChunk().isEmpty)
        #expect(first.waitForGone(id) && handover.connections.isEmpty)
        for listener in handover.listeners { close(listener.descriptor) }
    }

    @Test("a request that is never answered does not hold up the hand-over for longer than the deadline")
    func deadline() throws {
        let first = try TestServer({ $0.deadlines.stopMs = 50 }, application: TestServer.silence)
        let client = try first.connect()
        client.send(Self.get("/a"))
        _ = try #require(first.request("/a"))
        let handover = first.server.handOver()
        #expect(handover.connections.isEmpty && handover.listeners.count == 1)
        for listener in handover.listeners { close(listener.descriptor) }
    }

    @Test("a listener that is not configured any more is closed with its connections")
    func otherListener() throws {
        let first = try TestServer()
        let client = try first.connect()
        client.send(Self.get("/a"))
        #expect(try client.readResponse().status == 200)
        let handover = first.server.handOver()
        let second = try TestServer {
            $0.listeners = [.init(address: "127.0.0.2", port: 0)]
            $0.inherited = handover
        }
        #expect(second.port != first.port)
        #expect(client.readToEnd().isEmpty && client.sawEnd)
        #expect(throws: RawClient.Failure.self) { try RawClient(port: first.port) }
    }
}

/// What another thread gives.
private final class HandoverBox: @unchecked Sendable {
    // @unchecked: guarded by the condition.
    private let condition = NSCondition()
    private var handover: HTTPHandover?

    func fill(_ value: HTTPHandover) {
        condition.lock()
        handover = value
        condition.broadcast()
        condition.unlock()
    }

    var value: HTTPHandover? {
        condition.lock()
        defer { condition.unlock() }
        return handover
    }

    func wait() -> HTTPHandover? {
        condition.lock()
        defer { condition.unlock() }
        let end = Date().addingTimeInterval(10)
        while handover == nil, condition.wait(until: end) {}
        return handover
    }
}
