import CLinuxIO
import MediaRelay
import RTPCore
import RelayClient
import RelayTesting

/// One load from its first request to its last: makes rooms at the server that the plan names, brings people into them, lets them
/// talk, and takes them out again, whatever went wrong. Owns who is where; media and its figures are the `MediaThread`'s.
package actor LoadRun {
    /// From the request to a person's keys, and from there to the first packet of somebody else.
    private static let patience = Interval.seconds(10)
    private static let look = Duration.milliseconds(10)

    let plan: LoadPlan
    let thread: MediaThread
    private let whip: WHIPClient
    private let identity: Identity
    private let progress: @Sendable (String) -> Void
    private var freeBlocks: [Int]
    private var isInterrupted = false
    private var nextUser = 0
    private(set) var joins = JoinFigures()

    /// Shared by all clients, used on the media thread only.
    struct Identity: @unchecked Sendable {
        // @unchecked: see above.
        let value = DTLSClientIdentity()
    }

    /// A room whose people are in.
    private struct Filled {
        var block: Int
        var room: String?
        var locations: [(url: String, token: String?)] = []
    }

    package init(_ plan: LoadPlan, progress: @escaping @Sendable (String) -> Void) throws {
        self.plan = plan
        self.progress = progress
        let isShared = LoadPlan.isLoopback(url: plan.server.url)
        guard isShared || plan.mayLeaveMachine else {
            throw LoadFault("\(plan.server.url) is not on this machine")
        }
        guard plan.capacity <= LoadPort.capacity else { throw LoadFault("\(plan.capacity) clients are too many") }
        thread = try MediaThread(isShared: isShared, capacity: plan.capacity, profile: plan.profile, seed: 1)
        whip = WHIPClient(authorities: plan.authorities)
        identity = Identity()
        freeBlocks = (0..<max(1, plan.capacity / plan.roomSize)).reversed()
    }

    /// What comes is ended as if the time were over.
    package func interrupt() { isInterrupted = true }

    /// - Throws: nothing of what happens to single people: that is counted.
    package func run() async throws -> LoadSummary {
        defer { thread.stop() }
        let figures: MediaFigures =
            switch plan.scenario {
            case .audio, .video, .group: try await stay()
            case .churn: try await churn()
            case .storm: try await storm()
            }
        return LoadSummary(plan, joins, figures, wasInterrupted: isInterrupted)
    }

    // MARK: Scenarios

    /// Everybody comes, stays, and goes.
    private func stay() async throws -> MediaFigures {
        var rooms: [Filled] = []
        await withTaskGroup(of: Filled.self) { group in
            let start = ContinuousClock.now
            let people = plan.rooms * plan.roomSize
            for number in 0..<plan.rooms {
                let due = start + .seconds(Double(number * plan.roomSize) / plan.rate)
                guard
                    await sleep(
                        until: due, telling: { "\($0) of \(people) people have come" })
                else { break }
                group.addTask { await self.fill(hears: false) }
            }
            for await room in group { rooms.append(room) }
        }
        let begun = try await MediaFigures.begin(thread)
        _ = await sleep(until: .now + .seconds(plan.seconds)) { "\($0) people talk" }
        let figures = try await MediaFigures.end(thread, begun)
        await withTaskGroup { group in
            for room in rooms { group.addTask { await self.empty(room) } }
        }
        return figures
    }

    /// So many calls at a time, each of a few seconds.
    private func churn() async throws -> MediaFigures {
        let begun = try await MediaFigures.begin(thread)
        let end = ContinuousClock.now + .seconds(plan.seconds)
        await withTaskGroup { group in
            for number in 0..<plan.rooms {
                let first = ContinuousClock.now + .seconds(Double(number * plan.roomSize) / plan.rate)
                group.addTask {
                    guard await self.sleep(until: min(first, end)) else { return }
                    while await !self.isOver(end) {
                        let room = await self.fill(hears: false)
                        _ = await self.sleep(until: min(end, .now + .seconds(self.plan.callSeconds)))
                        await self.empty(room)
                    }
                }
            }
            group.addTask { _ = await self.sleep(until: end) { "\($0) people have come" } }
        }
        return try await MediaFigures.end(thread, begun)
    }

    private func isOver(_ end: ContinuousClock.Instant) -> Bool { isInterrupted || end <= .now }

    /// People come at a rate, whatever became of those before, and go once they have heard each other.
    private func storm() async throws -> MediaFigures {
        let begun = try await MediaFigures.begin(thread)
        await withTaskGroup { group in
            let start = ContinuousClock.now
            let count = max(1, Int(plan.seconds * plan.rate) / plan.roomSize)
            for number in 0..<count {
                let due = start + .seconds(Double(number * plan.roomSize) / plan.rate)
                guard await sleep(until: due, telling: { "\($0) people have come" }) else { break }
                group.addTask { await self.empty(self.fill(hears: true)) }
            }
        }
        return try await MediaFigures.end(thread, begun)
    }

    /// False when the load was interrupted meanwhile.
    private func sleep(
        until due: ContinuousClock.Instant, telling: (@Sendable (Int) -> String)? = nil
    ) async -> Bool {
        var told = ContinuousClock.now
        while !isInterrupted, .now < due {
            try? await Task.sleep(until: min(due, .now + .milliseconds(100)))
            guard let telling, told + .seconds(2) <= .now else { continue }
            told = .now
            progress(telling(joins.joined))
        }
        return !isInterrupted
    }

    // MARK: One room

    /// Makes a room and brings its people in. `hears`: until each has got a packet of somebody else.
    private func fill(hears: Bool) async -> Filled {
        guard let block = freeBlocks.popLast() else {
            joins.fail("more people at a time than planned", times: plan.roomSize)
            return Filled(block: -1)
        }
        var filled = Filled(block: block)
        do {
            if case .relay(let client, _) = plan.server {
                let kind: RelayClient.Kind = plan.scenario == .group ? .group : .peer
                let media: RelayClient.Media = plan.profile == .audio ? .audio : .video
                filled.room = try await client.createRoom(.init(kind: kind, media: media)).id
            }
        } catch {
            joins.fail("room: \(error)", times: plan.roomSize)
            return filled
        }
        var asked: [Instant] = []
        for seat in 0..<plan.roomSize {
            asked.append(MonotonicClock.now())
            do {
                try await join(block * plan.roomSize + seat, &filled)
            } catch {
                joins.fail("\(error)", times: plan.roomSize - seat)
                return filled
            }
        }
        for seat in 0..<plan.roomSize { await settle(block * plan.roomSize + seat, asked, seat, hears: hears) }
        return filled
    }

    /// Offers a session and takes the answer.
    private func join(_ number: Int, _ filled: inout Filled) async throws {
        nextUser += 1
        let uid = "load-\(nextUser)"
        let first = number / plan.roomSize * plan.roomSize
        let (room, roommates) = (filled.room ?? "", first..<first + plan.roomSize)
        let begun = MonotonicClock.now()
        let offer = try await thread.perform { [plan, identity] world in
            let client = LoadClient(
                number: number, control: SimulatedClient(plan.options(number, identity.value), address: .none),
                room: room, uid: uid, roommates: roommates)
            world.set.add(client)
            return client.control.offer()
        }
        let (endpoint, token) = try plan.endpoint(room: room, uid: uid)
        let session: WHIPClient.Session
        do {
            session = try await whip.open(offer, at: endpoint, token: token)
        } catch RelayClient.Failure.problem(let problem) where problem.code == "unknown" {
            throw LoadFault("offer: refused with status \(problem.status)")
        } catch {
            throw LoadFault("offer: \(error)")
        }
        if let location = session.location { filled.locations.append((location, token)) }
        joins.answered(after: MonotonicClock.now() - begun)
        try await thread.perform { [plan] world in
            let server = try plan.candidate(in: session.answer)
            guard let client = world.set[number] else { return }
            client.control.address(is: try world.set.port.open(number, towards: server))
            let now = MonotonicClock.now()
            try client.control.accept(answer: session.answer, relay: server, now: now)
            world.set.settle(client, now: now)
        }
    }

    /// Waits for a person's keys, and for somebody else's media where that is asked for, and counts what came of it.
    private func settle(_ number: Int, _ asked: [Instant], _ seat: Int, hears: Bool) async {
        let end = MonotonicClock.now() + Self.patience
        let wantsMedia = plan.roomSize > 1
        while true {
            let state = try? await thread.perform { world in
                world.set[number].map { ($0.connectedAt, $0.firstPacketAt, $0.control.phase) }
            }
            guard let (connected, heard, phase) = state else { return joins.fail("gone") }
            if let connected, heard != nil || !wantsMedia || !hears {
                // Of a person's set-up the last one's request is no part; of the first packet it is.
                return joins.join(
                    connected: connected - asked[seat], heard: heard.map { $0 - (asked.last ?? asked[seat]) })
            }
            if phase == .closed { return joins.fail("the server closed") }
            guard MonotonicClock.now() < end else {
                return joins.fail(
                    connected != nil
                        ? "no media of others within 10 s"
                        : phase == .checking ? "no answer to ICE checks" : "no DTLS keys")
            }
            try? await Task.sleep(for: Self.look)
        }
    }

    /// Takes everybody out and ends the room.
    private func empty(_ filled: Filled) async {
        guard filled.block >= 0 else { return }
        let numbers = filled.block * plan.roomSize..<(filled.block + 1) * plan.roomSize
        try? await thread.perform { world in
            let now = MonotonicClock.now()
            for client in numbers.compactMap({ world.set[$0] }) {
                world.mill.set(nil, of: client.number)
                client.control.close(now: now)
                world.set.settle(client, now: now)
                world.set.remove(client)
            }
        }
        do {
            if case .relay(let client, _) = plan.server {
                if let room = filled.room { try await client.endRoom(room) }
            } else {
                for (url, token) in filled.locations { try await whip.close(url, token: token) }
            }
        } catch RelayClient.Failure.problem(let problem) where [404, 410].contains(problem.status) {
            // The last one's leaving has ended it.
        } catch {
            joins.failToEnd("\(error)")
        }
        freeBlocks.append(filled.block)
    }
}
