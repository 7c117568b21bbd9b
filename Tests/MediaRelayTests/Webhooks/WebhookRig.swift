import Foundation
import Glibc
import RTPCore
import RelayClient
import RelayCore
import RelayHTTP

@testable import MediaRelay

/// A signaling server's webhook endpoint on loopback: keeps what it is sent, answers as it is told.
final class WebhookReceiver: @unchecked Sendable {
    // @unchecked: everything mutable is touched under the condition's lock.
    struct Received: Sendable {
        var request: HTTPRequest
        var id: String
        var status: Int
    }

    private let condition = NSCondition()
    private var received: [Received] = []
    private var answer: @Sendable (String) -> HTTPResponse?
    private var server: HTTPServer?
    private(set) var port: UInt16 = 0

    private let tls: HTTPConfiguration.TLSFiles?

    /// `answer` by `webhook-id`; nil: none ever.
    init(
        tls: HTTPConfiguration.TLSFiles? = nil,
        answer: @escaping @Sendable (String) -> HTTPResponse? = { _ in HTTPResponse(status: 204) }
    ) throws {
        self.tls = tls
        self.answer = answer
        try open(port: 0)
    }

    deinit { close() }

    func open(port: UInt16) throws {
        var configuration = HTTPConfiguration(
            listeners: [.init(address: "127.0.0.1", port: port, isSecure: tls != nil)])
        configuration.tls = tls
        let server = HTTPServer(configuration: configuration) { [weak self] event in
            if case .request(let request) = event { self?.receive(request) }
        }
        let port = try server.start()[0]
        condition.lock()
        self.server = server
        self.port = port
        condition.unlock()
    }

    /// Nobody listens any more.
    func close() {
        condition.lock()
        let server = server
        self.server = nil
        condition.unlock()
        server?.stop(graceful: false)
        server?.waitUntilStopped()
    }

    /// Connections accepted since it was opened last.
    var connectionCount: UInt64 { server?.counters.connections ?? 0 }

    func setAnswer(_ answer: @escaping @Sendable (String) -> HTTPResponse?) {
        condition.lock()
        self.answer = answer
        condition.unlock()
    }

    private func receive(_ request: HTTPRequest) {
        let id = request.headers.first("webhook-id") ?? ""
        condition.lock()
        let response = answer(id)
        received.append(Received(request: request, id: id, status: response?.status ?? 0))
        let server = server
        condition.broadcast()
        condition.unlock()
        if let response { server?.respond(request.id, response) }
    }

    var all: [Received] {
        condition.lock()
        defer { condition.unlock() }
        return received
    }

    /// The ids of what was taken, each once, in order.
    var taken: [String] {
        var seen: Set<String> = []
        return all.filter { (200..<300).contains($0.status) && seen.insert($0.id).inserted }.map(\.id)
    }

    /// Waits until `isThere`, at most 20 s.
    func wait(_ isThere: (WebhookReceiver) -> Bool) -> Bool {
        let end = Date().addingTimeInterval(20)
        while !isThere(self) {
            guard Date() < end else { return false }
            condition.lock()
            _ = condition.wait(until: Date().addingTimeInterval(0.05))
            condition.unlock()
        }
        return true
    }
}

/// Journal, feed and webhook threads over one file, as a node has them.
final class WebhookRig {
    static let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    let file = JournalFile()
    let output = TemporaryFolder()
    private(set) var journalThread: JournalThread?
    private(set) var webhooks: WebhookThread?
    private var turn: UInt64 = 0
    private(set) var newest: UInt64 = 0
    private let committed = CommitLatch()

    final class CommitLatch: @unchecked Sendable {
        private let condition = NSCondition()
        private var turn: UInt64 = 0
        func reach(_ turn: UInt64) {
            condition.lock()
            self.turn = turn
            condition.broadcast()
            condition.unlock()
        }
        func wait(for turn: UInt64) {
            condition.lock()
            while self.turn < turn { condition.wait() }
            condition.unlock()
        }
    }

    final class NoSink: EventSink {
        func write(_ stream: UInt64, _ bytes: [UInt8]) {}
        func close(_ stream: UInt64) {}
        func answer(_ request: UInt64, _ json: [UInt8]) {}
    }

    /// `urls` as in `--webhook`.
    func start(
        _ urls: [String], secrets: [String]? = nil, dialects: [String] = [], retention: JournalRetention = .init(),
        change: (inout WebhookThread.Options) -> Void = { _ in }
    ) throws {
        let names = urls.map { String($0.prefix { $0 != "=" }) }
        let endpoints = try WebhookEndpoint.endpoints(
            urls: urls, secrets: secrets ?? names.map { "\($0)=\(Self.secret)" }, dialects: dialects,
            allowsPlainHTTP: false)
        let journal = try Journal(path: file.path, bootID: "b")
        let contents = try journal.contents()
        newest = contents.lastSeq
        turn = 0
        let committed = committed
        committed.reach(0)
        let thread = try JournalThread(
            journal: journal, feed: EventFeed(journal: journal, lastSeq: contents.lastSeq, sink: NoSink()),
            retention: retention, onCommit: { committed.reach($0) }, onFailure: { preconditionFailure($0) })
        var options = WebhookThread.Options()
        options.outbox.backoff.first = .milliseconds(20)
        options.outbox.backoff.longest = .milliseconds(200)
        change(&options)
        let descriptor = Glibc.open(output.path + "/log", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        let webhooks = try WebhookThread(
            endpoints: endpoints, options: options, known: contents.webhooks, newest: contents.lastSeq,
            journal: { thread.post($0) }, log: Log(level: .debug, format: .text, descriptor: descriptor))
        journalThread = thread
        self.webhooks = webhooks
        try thread.start()
        try webhooks.start()
    }

    func stop(grace: Interval = .zero) {
        webhooks?.stop(newest: newest, grace: grace)
        journalThread?.stop()
        webhooks = nil
        journalThread = nil
    }

    deinit { stop() }

    /// Commits one event in each of the rooms, in one transaction. `json`: of the event, by its number.
    func happen(
        _ rooms: String?..., type: String = "participant.joined", json: (UInt64) -> String = { "{\"seq\":\($0)}" }
    ) {
        turn += 1
        var entry = JournalEntry(turn: turn)
        for room in rooms {
            newest += 1
            entry.events.append(
                JournalEvent(
                    seq: newest, room: room, timeMs: WallClock.nowMs, type: type, json: Array(json(newest).utf8)))
        }
        journalThread?.post(.store(entry))
        committed.wait(for: turn)
    }

    var log: String { (try? String(contentsOfFile: output.path + "/log", encoding: .utf8)) ?? "" }

    func status(_ name: String) -> WebhookStatus? { webhooks?.statuses.first { $0.name == name } }
}
