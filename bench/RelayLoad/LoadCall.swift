import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// Everything that a scenario drives one relay with. Confined to the loop's thread.
final class LoadBench: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    let loop: EventLoop
    let options: LoadOptions
    let report: LoadReport
    let relay: RelayProcess
    let http: HTTPClient
    let fleet: ClientFleet
    let log: LogChecker
    let follower: EventFollower
    var random: RandomSource
    private var lastCall = -1

    /// Starts a relay and follows its whole log.
    init(
        _ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport, binary: String? = nil,
        keepsFingerprints: Bool = false, workers: Int = 1, serving: [String] = [], tokenSeconds: Int64 = 10 * 3_600
    ) async throws {
        self.loop = loop
        self.options = options
        self.report = report
        random = .seeded(options.seed)
        relay = try RelayProcess(
            loop, binary: binary ?? options.binary, seed: options.seed, workers: workers, options: serving)
        http = try HTTPClient(loop, port: relay.httpPort, key: relay.key, tokenSeconds: tokenSeconds)
        fleet = ClientFleet(loop, seed: options.seed)
        let log = LogChecker(loop)
        self.log = log
        follower = EventFollower(
            http, path: "/v1/events", token: http.server, after: 0, keepsFingerprints: keepsFingerprints
        ) { log.take($0) }
        try await relay.start()
        try await follower.open()
    }

    /// Names the uids of a call: those of one relay are all different.
    func nextCall() -> Int {
        lastCall += 1
        return lastCall
    }

    /// Looks every 20 ms; false when it did not hold in time.
    func wait(within limit: Interval, until condition: () -> Bool) async -> Bool {
        let end = MonotonicClock.now() + limit
        while !condition() {
            guard MonotonicClock.now() < end else { return false }
            await loop.sleep(for: .milliseconds(20))
        }
        return true
    }

    func stop() async {
        follower.stop()
        http.closeIdle()
        await relay.stop()
    }

    /// A room in which `caller` rings `callee`.
    func createRing(
        caller: String, callee: String, windowMs: Int = 45_000, media: String = "audio", headers: [String] = []
    ) async throws -> HTTPReply {
        try await http.json(
            "POST", "/v1/rooms", token: http.server,
            #"{"kind":"peer","media":"\#(media)","ring":{"caller":"\#(caller)","callees":["\#(callee)"],"#
                + #""windowMs":\#(windowMs),"callerName":"\#(caller)"}}"#, headers: headers)
    }

    func end(_ room: String, _ uid: String, _ status: String, device: String = "phone") async throws -> HTTPReply {
        try await http.json(
            "POST", "/v1/rooms/\(room)/end", token: http.token(uid, room, device: device), #"{"status":"\#(status)"}"#)
    }

    /// Says how the relay answered when it was not as wanted.
    static func expect(_ reply: HTTPReply, _ statuses: Int..., of what: String) throws {
        guard statuses.contains(reply.status) else {
            throw LoadFailure("\(what) answered \(reply.status): \(reply.text.prefix(300))")
        }
    }

    /// A session's offer, sent; its transport begins to connect.
    func prepare(
        _ room: String, _ uid: String, device: String = "phone", query: String = "state=prepared",
        _ change: (inout SimulatedClient.Options) -> Void = { _ in }
    ) async throws -> (client: FleetClient, location: String, reply: HTTPReply) {
        let client = try fleet.make(change)
        do {
            let reply = try await http.ask(
                "POST", "/v1/rooms/\(room)/sessions?\(query)", token: http.token(uid, room, device: device),
                type: "application/sdp", body: client.client.offer())
            try Self.expect(reply, 201, 200, of: "prepare of \(uid)")
            guard let location = reply.location else { throw LoadFailure("prepare of \(uid) has no Location") }
            try client.accept(reply.body)
            return (client, location, reply)
        } catch {
            client.close()
            throw error
        }
    }
}

/// How long the stages of ordinary calls took.
struct CallFigures {
    var created = Samples()
    /// From the request to create to both sides prepared.
    var prepared = Samples()
    /// From the callee's join to `call.answered` at the caller's stream.
    var answered = Samples()
    /// From the callee's join to the first packet of the other side at either.
    var media = Samples()
    /// From the request that hangs up to `call.ended` at the caller's stream.
    var outcome = Samples()
    /// From the request that hangs up to its answer.
    var hangUp = Samples()
}

/// One ordinary call: create, ring, prepare, answer, talk, hang up; with everything checked that the two sides see.
struct OrdinaryCall {
    let bench: LoadBench
    let number: Int
    /// How long they talk.
    let talk: Interval
    let isMeasured: Bool

    private var caller: String { "caller\(number)" }
    private var callee: String { "callee\(number)" }

    private final class Seen: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var answeredAt: Instant?
        var endedAt: Instant?
        var outcomes: [String] = []
        var types: [String] = []
    }

    func run(_ figures: inout CallFigures) async throws {
        let created = try await bench.createRing(caller: caller, callee: callee)
        try LoadBench.expect(created, 201, of: "create")
        guard let room = created.field("id") else { throw LoadFailure("a room without id") }
        let seen = Seen()
        let stream = EventFollower(
            bench.http, path: "/v1/rooms/\(room)/events", token: bench.http.token(caller, room), after: nil
        ) { event in
            seen.types.append(event.type)
            if event.type == "call.answered" { seen.answeredAt = event.receivedAt }
            if event.type == "call.ended" {
                seen.endedAt = event.receivedAt
                seen.outcomes.append(event.outcome ?? "")
            }
        }
        try await stream.open()
        defer { stream.stop() }
        let alice = try await bench.prepare(room, caller, query: "state=prepared&join=on-answer")
        defer { alice.client.close() }
        try LoadBench.expect(
            try await bench.http.json(
                "POST", "/v1/rooms/\(room)/ringing", token: bench.http.token(callee, room), ""), 200, of: "ringing")
        let ben = try await bench.prepare(room, callee)
        defer { ben.client.close() }
        guard let ready = await bench.log.trace(of: room, { $0.prepared.count == 2 }) else {
            let told = bench.log.rooms[room].map { "\($0)" } ?? "nothing"
            throw LoadFailure(
                "\(room): not prepared in 20 s; caller \(alice.client.state); callee \(ben.client.state); told \(told)")
        }
        guard alice.client.packetCount + ben.client.packetCount == 0 else {
            throw LoadFailure("\(room): media before the answer")
        }
        let join = try await bench.http.json("POST", ben.location + "/join", token: bench.http.token(callee, room), "")
        try LoadBench.expect(join, 200, of: "join")
        let hasMedia = { (client: SimulatedClient) in client.received.values.contains { $0.packetCount > 0 } }
        guard await ben.client.wait(until: hasMedia), await alice.client.wait(until: hasMedia) else {
            throw LoadFailure("\(room): no media both ways")
        }
        await bench.loop.sleep(for: talk)
        let isCallee = number.isMultiple(of: 2)
        let leaver = isCallee ? ben : alice
        let bye = try await bench.http.ask(
            "DELETE", leaver.location, token: bench.http.token(isCallee ? callee : caller, room))
        try LoadBench.expect(bye, 200, of: "hang-up")
        let limit = MonotonicClock.now() + .seconds(10)
        while !stream.hasEnded, MonotonicClock.now() < limit { await bench.loop.sleep(for: .milliseconds(2)) }
        guard seen.outcomes == ["ended"], seen.types.last == "room.closed", stream.hasEnded else {
            throw LoadFailure(
                "\(room): the caller's stream told \(seen.outcomes), last \(seen.types.last ?? "nothing")")
        }
        guard let trace = await bench.log.trace(of: room, { $0.isClosed }), trace.outcomes == ["ended"] else {
            throw LoadFailure("\(room): the log does not tell one end")
        }
        bench.log.forget(room)
        guard isMeasured else { return }
        figures.created.add(from: created.sentAt, to: created.receivedAt)
        figures.prepared.add(from: created.sentAt, to: ready.preparedAt ?? created.sentAt)
        if let at = seen.answeredAt { figures.answered.add(from: join.sentAt, to: at) }
        for client in [alice.client, ben.client] {
            if let at = client.firstPacketAt { figures.media.add(from: join.sentAt, to: at) }
        }
        if let at = seen.endedAt { figures.outcome.add(from: bye.sentAt, to: at) }
        figures.hangUp.add(from: bye.sentAt, to: bye.receivedAt)
    }
}
