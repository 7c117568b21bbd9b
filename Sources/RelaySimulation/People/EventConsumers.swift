import Foundation
import MediaRelay
import RTPCore

/// Three who want every event: one follows the stream, one turns pages, one is a webhook's endpoint. Each goes on from what it
/// has when a connection breaks. They know nothing of the relay but what the API says.
final class EventConsumers {
    private unowned var simulation: RelaySimulation!

    // The stream.
    private var stream: UInt64?
    private var nextStream: UInt64 = 1
    private(set) var streamCursor: UInt64 = 0
    // Pages.
    private var page: UInt64?
    private var nextPage: UInt64 = 1
    private var answeredPages: Set<UInt64> = []
    private(set) var pageCursor: UInt64 = 0
    // The webhook.
    private(set) var delivered: Set<UInt64> = []
    private var newestOfRoom: [String: UInt64] = [:]
    private(set) var deliveredUpTo: UInt64 = 0

    init() {}

    func start(in simulation: RelaySimulation) {
        self.simulation = simulation
        subscribe()
        turn()
        getBored()
    }

    func controlStarted() {
        guard simulation != nil else { return }
        simulation.schedule(after: simulation.milliseconds(1...900)) { [unowned self] in subscribe() }
        simulation.schedule(after: simulation.milliseconds(1...900)) { [unowned self] in turn() }
    }

    func controlDied() {
        stream = nil
        page = nil
    }

    // MARK: The stream

    private func subscribe() {
        guard stream == nil, let control = simulation.control else { return }
        let id = nextStream
        nextStream += 1
        stream = id
        control.post(
            .subscribe(stream: id, after: streamCursor, room: nil, endsWithRoom: false), now: simulation.nodeNow)
    }

    /// From time to time the connection breaks by itself.
    private func getBored() {
        simulation.schedule(after: simulation.around(.seconds(9))) { [unowned self] in
            if let stream, let control = simulation.control {
                control.post(.unsubscribe(stream: stream), now: simulation.nodeNow)
                self.stream = nil
                simulation.schedule(after: simulation.milliseconds(1...600)) { [unowned self] in subscribe() }
            }
            getBored()
        }
    }

    /// The relay has closed the stream.
    func closed(_ id: UInt64) {
        guard id == stream else { return }
        stream = nil
        simulation.schedule(after: simulation.milliseconds(300...1_500)) { [unowned self] in subscribe() }
    }

    func written(_ id: UInt64, _ bytes: [UInt8]) {
        let pause = simulation.milliseconds(simulation.draw(12) == 0 ? 1...2_500 : 1...20)
        simulation.schedule(after: pause) { [unowned self] in read(id, bytes) }
    }

    private func read(_ id: UInt64, _ bytes: [UInt8]) {
        guard id == stream else { return }
        for part in bytes.split(separator: UInt8(ascii: "\n")) where part.starts(with: Self.data) {
            let json = Array(part.dropFirst(Self.data.count))
            if simulation.options.losesEvents, simulation.draw(25) == 0 { continue }
            guard let seq = Self.seq(of: json) else { return simulation.fail("an event without a number") }
            if seq != streamCursor + 1 { simulation.fail("the stream tells event \(seq) after \(streamCursor)") }
            streamCursor = seq
            simulation.eventAudit.heard(seq, json, by: "the stream")
        }
        simulation.control?.post(.drained(stream: id), now: simulation.nodeNow)
    }

    private static let data = Array("data: ".utf8)

    private static func seq(of json: [UInt8]) -> UInt64? {
        let head = Array("{\"seq\":".utf8)
        guard json.starts(with: head) else { return nil }
        return json.dropFirst(head.count).prefix { $0 >= 48 && $0 < 58 }.reduce(0) { $0 * 10 + UInt64($1 - 48) }
    }

    // MARK: Pages

    private func turn() {
        guard page == nil, let control = simulation.control else { return }
        let id = nextPage
        nextPage += 1
        page = id
        control.post(
            .page(
                EventPageRequest(
                    request: id, after: pageCursor, room: nil, limit: 1 + simulation.draw(60),
                    until: simulation.nodeNow + simulation.milliseconds(0...4_000))), now: simulation.nodeNow)
    }

    func answered(_ id: UInt64, _ json: [UInt8]) {
        if !answeredPages.insert(id).inserted { simulation.fail("a request for a page was answered twice") }
        simulation.schedule(after: simulation.milliseconds(1...30)) { [unowned self] in
            guard id == page else { return }
            page = nil
            for event in Self.events(of: json) {
                guard let seq = Self.seq(of: event) else { return simulation.fail("an event without a number") }
                if seq != pageCursor + 1 { simulation.fail("a page tells event \(seq) after \(pageCursor)") }
                pageCursor = seq
                simulation.eventAudit.heard(seq, event, by: "a page")
            }
            simulation.schedule(after: simulation.milliseconds(1...1_500)) { [unowned self] in turn() }
        }
    }

    /// The members of `{"events":[…],…}`.
    private static func events(of json: [UInt8]) -> [[UInt8]] {
        var events: [[UInt8]] = []
        var depth = 0
        var start = 0
        var isText = false
        var isEscaped = false
        for (index, byte) in json.enumerated() {
            if isText {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isText = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isText = true
            case UInt8(ascii: "{"):
                depth += 1
                if depth == 2 { start = index }
            case UInt8(ascii: "}"):
                depth -= 1
                if depth == 1 { events.append(Array(json[start...index])) }
            default: break
            }
        }
        return events
    }

    // MARK: The webhook

    func posted(_ post: WebhookPost, life: UInt64) {
        simulation.schedule(after: simulation.milliseconds(2...120)) { [unowned self] in
            let result = result()
            if result.takes { take(post) }
            simulation.schedule(after: simulation.milliseconds(1...40)) { [unowned self] in
                guard simulation.controlLives == life, let control = simulation.control else { return }
                control.webhookAnswered(result.answer, token: post.token, now: simulation.nodeNow)
            }
        }
    }

    private func result() -> (answer: WebhookResult, takes: Bool) {
        guard !simulation.isCalm else { return (.delivered, true) }
        switch simulation.draw(40) {
        case 0: return (.refused(status: 500, retryAfter: nil), false)
        case 1: return (.refused(status: 503, retryAfter: .seconds(1)), false)
        case 2: return (.timedOut, true)
        case 3: return (.broken(cause: "reset"), true)
        case 4: return (.unreachable(cause: "refused"), false)
        default: return (.delivered, true)
        }
    }

    private func take(_ post: WebhookPost) {
        guard let seq = Self.seq(of: post.body), post.id == "evt_\(seq)" else {
            return simulation.fail("the webhook got \(post.id) with another number inside")
        }
        simulation.eventAudit.heard(seq, post.body, by: "the webhook")
        guard delivered.insert(seq).inserted else { return }
        let room = EventAudit.room(of: post.body) ?? ""
        if let before = newestOfRoom[room], before > seq {
            simulation.fail("the webhook got event \(seq) of \(room) after \(before)")
        }
        newestOfRoom[room] = seq
        while delivered.contains(deliveredUpTo + 1) { deliveredUpTo += 1 }
    }
}
