import Foundation
import RelayHTTP

/// A server on a free loopback port with a small application, whose events are kept for the test to look at.
final class TestServer: Sendable {
    /// What the sink was told, in order.
    final class Log: @unchecked Sendable {
        private let condition = NSCondition()
        private var events: [ServerEvent] = []

        func append(_ event: ServerEvent) {
            condition.lock()
            events.append(event)
            condition.broadcast()
            condition.unlock()
        }

        var all: [ServerEvent] {
            condition.lock()
            defer { condition.unlock() }
            return events
        }

        /// Waits until `find` gives something, at most 10 s.
        func wait<Found>(for find: ([ServerEvent]) -> Found?) -> Found? {
            condition.lock()
            defer { condition.unlock() }
            let end = Date().addingTimeInterval(10)
            while true {
                if let found = find(events) { return found }
                guard condition.wait(until: end) else { return nil }
            }
        }
    }

    /// Breaks the circle between sink and server.
    private final class Box: @unchecked Sendable {
        weak var server: HTTPServer?
    }

    let log = Log()
    let server: HTTPServer
    let ports: [UInt16]

    var port: UInt16 { ports[0] }

    /// Without `application`, `/a`, `/b`, `/good`, `/healthz` and `/v1/rooms` echo what was asked, all else
    /// is 404.
    init(
        _ change: (inout HTTPConfiguration) -> Void = { _ in },
        application: @escaping @Sendable (HTTPServer, HTTPRequest) -> Void = TestServer.echo
    ) throws {
        var configuration = HTTPConfiguration(listeners: [.init(address: "127.0.0.1", port: 0)])
        change(&configuration)
        let box = Box()
        let log = log
        server = HTTPServer(configuration: configuration) { event in
            log.append(event)
            guard case .request(let request) = event, let server = box.server else { return }
            application(server, request)
        }
        box.server = server
        ports = try server.start()
    }

    deinit { server.stop(graceful: false) }

    static let echo: @Sendable (HTTPServer, HTTPRequest) -> Void = { server, request in
        let known = [["a"], ["b"], ["good"], ["healthz"], ["v1", "rooms"]]
        guard let segments = request.pathSegments, known.contains(segments) else {
            return server.respond(request.id, HTTPResponse(status: 404))
        }
        let text = "\(request.method) \(request.target) " + String(decoding: request.body, as: UTF8.self)
        server.respond(
            request.id, HTTPResponse(status: 200, contentType: "text/plain", body: Array(text.utf8)))
    }

    /// Leaves every request to the test.
    static let silence: @Sendable (HTTPServer, HTTPRequest) -> Void = { _, _ in }

    func connect(receiveBufferByteCount: Int32? = nil) throws -> RawClient {
        let client = try RawClient(port: port, receiveBufferByteCount: receiveBufferByteCount)
        client.server = self
        return client
    }

    /// The requests that came so far.
    var requests: [HTTPRequest] { log.all.compactMap(\.request) }

    /// Waits for the request with a target.
    func request(_ target: String) -> HTTPRequest? {
        log.wait { $0.lazy.compactMap(\.request).first { $0.target == target } }
    }

    /// Waits until so many requests came.
    func requests(count: Int) -> [HTTPRequest]? {
        log.wait {
            let requests = $0.compactMap(\.request)
            return requests.count >= count ? requests : nil
        }
    }

    func waitForGone(_ id: HTTPRequestID) -> Bool {
        log.wait { $0.contains { if case .gone(id) = $0 { true } else { false } } ? true : nil } ?? false
    }

    /// Waits until the stream was drained so often.
    func waitForDrained(_ id: HTTPRequestID, count: Int = 1) -> Bool {
        log.wait {
            $0.filter { if case .drained(id) = $0 { true } else { false } }.count >= count ? true : nil
        }
            ?? false
    }

    func waitForStopped() -> Bool {
        log.wait { $0.contains { if case .stopped = $0 { true } else { false } } ? true : nil } ?? false
    }

    /// Waits until the published counters are as wanted: they follow each turn of the loop. At most 10 s.
    func waitForCounters(_ isWanted: (HTTPCounters) -> Bool) -> Bool {
        for _ in 0..<10_000 {
            if isWanted(server.counters) { return true }
            usleep(1000)
        }
        return false
    }
}

extension ServerEvent {
    var request: HTTPRequest? {
        if case .request(let request) = self { request } else { nil }
    }
}
