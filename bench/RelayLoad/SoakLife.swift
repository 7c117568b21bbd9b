import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// The people of a soak: they call, talk for a while, hang up, and begin anew until they are told to stop. Confined to the loop's
/// thread.
struct SoakLife: Sendable {
    let bench: LoadBench
    let state: SoakScenario.State

    enum Kind: String { case audio, video, group }

    /// Calls of one kind, one after the other.
    func live(_ kind: Kind) async {
        while !state.isStopping {
            do {
                if kind == .group { try await group() } else { try await call(kind) }
                state.ended += 1
            } catch {
                state.fail("\(kind.rawValue): \(error)")
                await bench.loop.sleep(for: .seconds(1))
            }
        }
    }

    /// Ordinary calls, whose stages are timed.
    func measure() async {
        while !state.isStopping {
            var own = CallFigures()
            do {
                try await OrdinaryCall(
                    bench: bench, number: bench.nextCall(), talk: .milliseconds(300), isMeasured: true
                )
                .run(&own)
                state.figures.merge(own)
                state.ended += 1
            } catch {
                state.fail("measured call: \(error)")
            }
            await bench.loop.sleep(for: .milliseconds(500))
        }
    }

    private func pause(_ seconds: ClosedRange<Double>) async {
        let wanted = Double.random(in: seconds, using: &bench.random)
        let end = MonotonicClock.now() + .milliseconds(Int64(wanted * 1_000))
        while !state.isStopping, MonotonicClock.now() < end { await bench.loop.sleep(for: .milliseconds(200)) }
    }

    private func call(_ kind: Kind) async throws {
        let number = bench.nextCall()
        let (caller, callee) = ("soak-a\(number)", "soak-b\(number)")
        let created = try await bench.createRing(caller: caller, callee: callee, media: kind.rawValue)
        try LoadBench.expect(created, 201, of: "create")
        guard let room = created.field("id") else { throw LoadFailure("a room without id") }
        let options = { (options: inout SimulatedClient.Options) in options.hasVideo = kind == .video }
        let alice = try await bench.prepare(room, caller, query: "state=prepared&join=on-answer", options)
        defer { alice.client.close() }
        let ben = try await bench.prepare(room, callee, options)
        defer { ben.client.close() }
        guard await bench.log.trace(of: room, within: .seconds(30), { $0.prepared.count == 2 }) != nil else {
            throw LoadFailure("\(room) not prepared: \(alice.client.state); \(ben.client.state)")
        }
        let join = try await bench.http.json("POST", ben.location + "/join", token: bench.http.token(callee, room), "")
        try LoadBench.expect(join, 200, of: "join")
        let began = MonotonicClock.now()
        await pause(4...30)
        let seconds = Double((MonotonicClock.now() - began).nanoseconds) / 1e9
        for (uid, one) in [(caller, alice), (callee, ben)] where seconds > 3 {
            let wanted: Set<MediaKind> = kind == .video ? [.audio, .video] : [.audio]
            let got = Set(one.client.client.received.values.filter { $0.packetCount > Int(15 * seconds) }.map(\.kind))
            guard got.isSuperset(of: wanted) else {
                throw LoadFailure(
                    "\(uid) in \(room) got \(one.client.client.received.values.map { "\($0.kind) \($0.packetCount)" }) in \(seconds) s"
                )
            }
        }
        let leaver = number.isMultiple(of: 2) ? (alice, caller) : (ben, callee)
        let bye = try await bench.http.ask("DELETE", leaver.0.location, token: bench.http.token(leaver.1, room))
        try LoadBench.expect(bye, 200, of: "hang-up")
        try await expectEnd(of: room, "ended")
    }

    private func expectEnd(of room: String, _ outcome: String?) async throws {
        guard let trace = await bench.log.trace(of: room, { $0.isClosed }) else {
            throw LoadFailure("\(room) did not close")
        }
        guard outcome.map({ trace.outcomes == [$0] }) ?? true else {
            throw LoadFailure("\(room) ended as \(trace.outcomes)")
        }
        bench.log.forget(room)
    }

    /// A group of four seats, each taken for a while, again and again; then the server ends it.
    private func group() async throws {
        let number = bench.nextCall()
        let created = try await bench.http.json(
            "POST", "/v1/rooms", token: bench.http.server, #"{"kind":"group","media":"video"}"#)
        try LoadBench.expect(created, 201, of: "create")
        guard let room = created.field("id") else { throw LoadFailure("a room without id") }
        var seats: [Task<Void, Never>] = []
        for seat in 0..<4 {
            seats.append(
                bench.loop.spawn {
                    for stay in 0..<3 where !state.isStopping {
                        do {
                            try await sit(room, "soak-g\(number)-\(seat)-\(stay)")
                        } catch {
                            state.fail("group \(room): \(error)")
                        }
                    }
                })
        }
        for seat in seats { await seat.value }
        let end = try await bench.http.ask("DELETE", "/v1/rooms/\(room)", token: bench.http.server)
        try LoadBench.expect(end, 200, 204, of: "end of a group")
        try await expectEnd(of: room, nil)
    }

    private func sit(_ room: String, _ uid: String) async throws {
        await pause(0.2...3)
        guard !state.isStopping else { return }
        let one = try await bench.prepare(room, uid, query: "state=joined") {
            $0.extraAudioSlots = 2
            $0.extraVideoSlots = 2
        }
        defer { one.client.close() }
        guard await one.client.wait(until: { $0.isConnected }) else {
            throw LoadFailure("\(uid) did not connect: \(one.client.state)")
        }
        await pause(5...20)
        let bye = try await bench.http.ask("DELETE", one.location, token: bench.http.token(uid, room))
        try LoadBench.expect(bye, 200, of: "\(uid) leaves")
    }
}
