import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// What the calls of a churn have come to. Confined to the loop's thread.
final class ChurnState: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    var isStopping = false
    var started = 0
    var running = 0
    var passed = 0
    private(set) var failed = 0
    private(set) var faults: [String] = []
    private var outcomes: [String: Int] = [:]
    private(set) var retries = 0

    func fail(_ fault: String) {
        failed += 1
        if faults.count < 20 { faults.append(fault) }
    }

    func note(outcome: String) { outcomes[outcome, default: 0] += 1 }
    func noteRetry() { retries += 1 }
    func count(of outcome: String) -> Int { outcomes[outcome] ?? 0 }

    var told: String {
        outcomes.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
            + ", \(retries) requests repeated"
    }
}

/// Calls of every kind at a rate, each by people whose apps try again until they have an answer.
enum Churn {
    /// What the people of a call do.
    enum Kind: Int, CaseIterable {
        case decline, busy, cancel, answerThenHangUp, ringOut, unreachable, talk, talkAgain

        /// Outcomes that this may have. A call that talked can lose a side with control: its transport is gone when the end
        /// that was decided, and carried out, was not stored.
        var outcomes: Set<String> {
            switch self {
            case .decline: ["rejected"]
            case .busy: ["busy"]
            case .cancel: ["cancelled"]
            case .answerThenHangUp: ["ended"]
            case .ringOut: ["unanswered"]
            case .unreachable: ["unreachable"]
            case .talk, .talkAgain: ["ended", "lost"]
            }
        }
    }

    static func run(_ bench: LoadBench, _ state: ChurnState, rate: Double) async {
        let start = MonotonicClock.now()
        while !state.isStopping {
            let number = state.started
            await bench.loop.sleep(until: start + .nanoseconds(Int64(Double(number) / rate * 1e9)))
            state.started += 1
            state.running += 1
            bench.loop.spawn {
                do {
                    let outcome = try await Call(bench: bench, state: state, number: number).run()
                    state.note(outcome: outcome)
                    state.passed += 1
                } catch {
                    state.fail("call \(number): \(error)")
                }
                state.running -= 1
            }
        }
    }

    private struct Call {
        let bench: LoadBench
        let state: ChurnState
        let number: Int
        var caller: String { "churn-a\(number)" }
        var callee: String { "churn-b\(number)" }

        func run() async throws -> String {
            guard let kind = Kind(rawValue: number % Kind.allCases.count) else { preconditionFailure("a kind") }
            let windowMs = kind == .ringOut || kind == .unreachable ? 1_000 : 45_000
            let created = try await again([201]) {
                try await bench.createRing(
                    caller: caller, callee: callee, windowMs: windowMs, headers: ["Idempotency-Key: churn-\(number)"])
            }
            guard let room = created.field("id") else { throw LoadFailure("a room without id") }
            var isReached = true
            switch kind {
            case .decline: try await end(room, callee, "rejected")
            case .busy: try await end(room, callee, "busy")
            case .cancel: try await end(room, caller, "cancelled")
            case .answerThenHangUp:
                try await post(room, "answer")
                try await end(room, caller, "ended")
            // When control is away for the whole window, its first ringing may be too late: then it reached nobody.
            case .ringOut: isReached = try await post(room, "ringing", 200, 410).status == 200
            case .unreachable: break
            case .talk, .talkAgain: try await talk(room)
            }
            guard let trace = await bench.log.trace(of: room, within: .seconds(40), { $0.isClosed }) else {
                throw LoadFailure(
                    "\(kind) in \(room) has no end after 40 s: \(bench.log.rooms[room].map { "\($0)" } ?? "-")")
            }
            bench.log.forget(room)
            // A room that was closed by the ring's end has told its outcome once: the checker holds it to that.
            let wanted = isReached ? kind.outcomes : ["unanswered", "unreachable"]
            guard let outcome = trace.outcomes.first, wanted.contains(outcome), trace.outcomes.count == 1 else {
                throw LoadFailure("\(kind) in \(room) ended as \(trace.outcomes)")
            }
            return outcome
        }

        /// Until there is an answer: a lost connection and a relay that is not ready are no answers.
        private func again(
            _ statuses: [Int], body: () async throws -> HTTPReply
        ) async throws -> HTTPReply {
            let limit = MonotonicClock.now() + .seconds(30)
            while true {
                do {
                    let reply = try await body()
                    if statuses.contains(reply.status) { return reply }
                    guard reply.status == 503 else {
                        throw LoadFailure("answered \(reply.status): \(reply.text.prefix(300))")
                    }
                } catch is ConnectionLost {
                    guard MonotonicClock.now() < limit else { throw LoadFailure("no answer within 30 s") }
                }
                state.noteRetry()
                await bench.loop.sleep(for: .milliseconds(30))
            }
        }

        @discardableResult
        private func post(_ room: String, _ verb: String, _ statuses: Int...) async throws -> HTTPReply {
            try await again(statuses.isEmpty ? [200] : statuses) {
                try await bench.http.json(
                    "POST", "/v1/rooms/\(room)/\(verb)", token: bench.http.token(callee, room), "")
            }
        }

        private func end(_ room: String, _ uid: String, _ status: String) async throws {
            _ = try await again([200]) { try await bench.end(room, uid, status) }
        }

        private func session(_ room: String, _ uid: String) async throws -> (FleetClient, String) {
            let client = try bench.fleet.make()
            do {
                let reply = try await again([201, 200]) {
                    try await bench.http.ask(
                        "POST", "/v1/rooms/\(room)/sessions?state=prepared", token: bench.http.token(uid, room),
                        type: "application/sdp", body: client.client.offer())
                }
                guard let location = reply.location else { throw LoadFailure("a session without Location") }
                try client.accept(reply.body)
                return (client, location)
            } catch {
                client.close()
                throw error
            }
        }

        private func talk(_ room: String) async throws {
            let (alice, alicePath) = try await session(room, caller)
            defer { alice.close() }
            let (ben, benPath) = try await session(room, callee)
            defer { ben.close() }
            guard await alice.wait(until: { $0.isConnected }), await ben.wait(until: { $0.isConnected }) else {
                throw LoadFailure("no transport in \(room)")
            }
            for (path, uid) in [(benPath, callee), (alicePath, caller)] {
                _ = try await again([200]) {
                    try await bench.http.json("POST", path + "/join", token: bench.http.token(uid, room), "")
                }
            }
            await bench.loop.sleep(for: .milliseconds(300))
            let (path, uid) = number.isMultiple(of: 16) ? (benPath, callee) : (alicePath, caller)
            _ = try await again([200]) {
                try await bench.http.ask("DELETE", path, token: bench.http.token(uid, room))
            }
        }
    }
}

/// A call that goes on for the whole run and must not notice.
final class TalkingCall: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    private let bench: LoadBench
    private let room: String
    private let clients: [FleetClient]
    private let path: String
    private let caller: String

    init(_ bench: LoadBench, _ number: Int) async throws {
        self.bench = bench
        caller = "talk-a\(number)"
        let callee = "talk-b\(number)"
        let created = try await bench.createRing(caller: caller, callee: callee)
        try LoadBench.expect(created, 201, of: "create")
        guard let room = created.field("id") else { throw LoadFailure("a room without id") }
        self.room = room
        let alice = try await bench.prepare(room, caller, query: "state=prepared&join=on-answer")
        let ben = try await bench.prepare(room, callee)
        guard await bench.log.trace(of: room, { $0.prepared.count == 2 }) != nil else {
            throw LoadFailure("\(room): not prepared")
        }
        let join = try await bench.http.json("POST", ben.location + "/join", token: bench.http.token(callee, room), "")
        try LoadBench.expect(join, 200, of: "join")
        clients = [alice.client, ben.client]
        path = alice.location
        for client in clients {
            let isHeard = await client.wait { $0.received.values.contains { $0.packetCount > 0 } }
            guard isHeard else { throw LoadFailure("\(room): no media") }
        }
    }

    /// Packets of media that both sides got, and numbers between the first and the last that never came.
    var receivedCount: Int { clients.reduce(0) { $0 + $1.packetCount } }
    var missingCount: Int {
        clients.reduce(0) { $0 + $1.client.received.values.reduce(0) { $0 + $1.missingCount } }
    }

    var longestGap: Interval { clients.map(\.longestGap).max() ?? .zero }

    /// Hangs up; says what was wrong.
    func end(_ limit: Interval) async -> String? {
        defer { for client in clients { client.close() } }
        let now = MonotonicClock.now()
        for client in clients {
            guard let last = client.lastPacketAt, now - last < limit, client.longestGap < limit else {
                return "\(room) was without media for \(client.longestGap.milliseconds) ms"
            }
        }
        if let early = bench.log.rooms[room], !early.outcomes.isEmpty { return "\(room) ended as \(early.outcomes)" }
        _ = try? await bench.http.ask("DELETE", path, token: bench.http.token(caller, room))
        let trace = await bench.log.trace(of: room) { $0.isClosed }
        return trace?.outcomes == ["ended"] ? nil : "\(room) ended as \(trace?.outcomes ?? [])"
    }
}
