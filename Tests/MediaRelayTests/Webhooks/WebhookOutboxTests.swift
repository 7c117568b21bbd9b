import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

@Suite("Webhook outbox") struct WebhookOutboxTests {
    @Test("events of one room go one after another, rooms side by side up to the bound") func order() {
        var limits = WebhookOutbox.Limits()
        limits.parallel = 4
        var world = OutboxWorld(limits: limits)
        for index in 0..<60 { world.happen("r\(index % 6)") }
        world.run(.seconds(5))
        for room in 0..<6 { #expect(world.taken(of: "r\(room)") == world.all(of: "r\(room)")) }
        #expect(world.taken.count == 60)
        #expect(world.mostInFlight == 4)
        #expect(world.outbox.cursor == 60)
        #expect(world.saved == WebhookProgress(endpoint: "e", cursor: 60, arrears: []))
        // One room alone: never two at once.
        var lone = OutboxWorld()
        for _ in 0..<5 { lone.happen("r") }
        lone.run(.seconds(1))
        #expect(lone.mostInFlight == 1 && lone.taken.count == 5)
    }

    @Test("a room whose events are refused is tried again with growing waits and delays no other room") func poison() {
        var world = OutboxWorld()
        let start = world.now
        world.answer = { post, at in
            Int(post.id.dropFirst(4)) == 1 && at < start + .seconds(60)
                ? .refused(status: 500, retryAfter: nil) : .delivered
        }
        world.happen("bad")
        world.happen("good")
        world.happen("bad")
        world.run(.seconds(1))
        #expect(world.taken(of: "good") == [2])
        #expect(world.taken(of: "bad").isEmpty)
        #expect(world.outbox.cursor == 3)
        #expect(world.saved.arrears == [.init(stream: "bad", seq: 1)])
        for _ in 0..<10 {
            world.happen("good")
            world.happen("bad")
            world.run(.seconds(1))
            #expect(world.taken(of: "good") == world.all(of: "good"))
        }
        world.run(.seconds(120))
        #expect(world.taken(of: "bad") == world.all(of: "bad"))
        #expect(world.saved == WebhookProgress(endpoint: "e", cursor: 23, arrears: []))
        let tries = world.triesOf(1)
        #expect((6...12).contains(tries.count))
        #expect(world.outbox.status.state == .up)
    }

    @Test(
        "an endpoint that cannot be reached is tried with one event at a time, with growing waits, and costs no memory")
    func unreachable() {
        var world = OutboxWorld()
        let start = world.now
        world.answer = { _, at in at < start + .seconds(3_600) ? .unreachable(cause: "refused") : .delivered }
        for index in 0..<2_000 { world.happen("r\(index % 100)") }
        world.run(.seconds(10))
        world.mostHeld = 0
        let before = world.tries.count
        world.run(.seconds(3_000))
        #expect(world.mostHeld <= 1)
        #expect(world.outbox.status.state == .down)
        // 5 minutes at most between two tries, half of it at least.
        #expect((10...25).contains(world.tries.count - before))
        for (first, second) in zip(world.tries.dropFirst(20), world.tries.dropFirst(21)) {
            #expect(second.at - first.at <= .milliseconds(300_020))
        }
        world.run(.seconds(1_000))
        #expect(world.outbox.status.state == .up)
        for room in 0..<100 { #expect(world.taken(of: "r\(room)") == world.all(of: "r\(room)")) }
        #expect(world.taken.count == 2_000)
        #expect(world.notes.filter { $0 == .up }.count == 1)
    }

    @Test("an endpoint that refuses every room counts as down and comes back without loss or disorder")
    func allRefused() {
        var world = OutboxWorld()
        let start = world.now
        world.answer = { _, at in at < start + .seconds(600) ? .refused(status: 502, retryAfter: nil) : .delivered }
        for index in 0..<1_000 { world.happen("r\(index % 50)") }
        world.run(.seconds(590))
        #expect(world.outbox.status.state == .down)
        #expect(world.tries.count < 60)
        #expect(world.outbox.status.arrears <= 50)
        world.run(.seconds(600))
        for room in 0..<50 { #expect(world.taken(of: "r\(room)") == world.all(of: "r\(room)")) }
        #expect(world.outbox.status.state == .up && world.outbox.status.arrears == 0)
    }

    @Test("a room that fell behind while its endpoint refused everything has its events 20 s after it takes something")
    func catchUp() {
        var world = OutboxWorld()
        let start = world.now
        world.answer = { _, at in at < start + .seconds(3_600) ? .refused(status: 500, retryAfter: nil) : .delivered }
        world.happen("old")
        world.run(.seconds(3_600))
        // Its own next try is up to five minutes away.
        #expect(world.taken.isEmpty)
        world.happen("new")
        world.run(.seconds(20))
        #expect(world.taken(of: "new") == world.all(of: "new") && world.taken(of: "old") == world.all(of: "old"))
    }

    @Test("a room that always fails is tried a few times a minute at most, though its endpoint comes and goes")
    func alwaysFails() {
        var world = OutboxWorld()
        let start = world.now
        world.happen("bad")
        world.answer = { post, at in
            let isAway = (at - start).nanoseconds / 1_000_000_000 % 20 < 5
            return post.id == "evt_1"
                ? .refused(status: 500, retryAfter: nil) : isAway ? .unreachable(cause: "x") : .delivered
        }
        for _ in 0..<1_800 {
            world.happen("good")
            world.run(.seconds(1))
        }
        let tries = world.tries.filter { $0.id == "evt_1" }.count
        #expect(tries > 6 && tries < 200, "\(tries) tries in half an hour")
    }

    @Test("after a crash everything that was not saved is sent again, in order, and nothing is left out") func crash() {
        var world = OutboxWorld()
        for index in 0..<500 { world.happen(index % 7 == 0 ? nil : "r\(index % 5)") }
        for seed in 0..<8 as Range<UInt64> {
            world.run(.milliseconds(95))
            world.restart(seed: seed)
        }
        world.run(.seconds(60))
        for room in ["r0", "r1", "r2", "r3", "r4", nil] { #expect(world.taken(of: room) == world.all(of: room)) }
        #expect(world.taken.count < 500 + 8 * 100)
    }

    @Test("a stop in order repeats nothing that was answered") func orderlyStop() {
        var world = OutboxWorld()
        for index in 0..<300 { world.happen("r\(index % 3 == 0 ? 0 : index % 40)") }
        for _ in 0..<5 {
            world.run(.milliseconds(30))
            // All answers are in at a moment between two sends.
            world.run(.milliseconds(9))
            world.stop()
            world.restart()
        }
        world.run(.seconds(60))
        let repeats = world.taken.count - Set(world.taken.map(\.id)).count
        // Only what was in flight at a stop.
        #expect(repeats <= 5 * 16)
        for room in 0..<40 { #expect(world.taken(of: "r\(room)") == world.all(of: "r\(room)")) }
    }

    @Test("a page that is let go remembers which rooms the delivered ones have overtaken") func shed() {
        var world = OutboxWorld()
        world.latency = .milliseconds(100)
        for room in ["a", "a", "b", "b", "a"] { world.happen(room) }
        world.run(.milliseconds(100))
        // a1 and b3 are answered; a2 and b4 are under way.
        world.stop()
        #expect(world.saved == WebhookProgress(endpoint: "e", cursor: 3, arrears: [.init(stream: "a", seq: 2)]))
        world.restart()
        world.run(.seconds(2))
        #expect(world.taken.count == 5)
        #expect(world.taken(of: "a") == [1, 2, 5] && world.taken(of: "b") == [3, 4])
    }

    @Test("410 ends an endpoint until the next start") func gone() {
        var world = OutboxWorld()
        world.answer = { _, _ in .gone }
        for index in 0..<100 { world.happen("r\(index)") }
        world.run(.seconds(86_400))
        #expect(world.tries.count <= 16)
        #expect(world.outbox.status.state == .gone)
        #expect(world.notes == [.gone])
        world.answer = { _, _ in .delivered }
        world.restart()
        world.run(.seconds(60))
        #expect(Set(world.taken.map(\.id)).count == 100)
    }

    @Test("an endpoint that asks for a pause gets it, all rooms of it") func retryAfter() {
        var world = OutboxWorld()
        let start = world.now
        world.answer = { _, at in
            at < start + .seconds(30) ? .refused(status: 429, retryAfter: .seconds(30)) : .delivered
        }
        for index in 0..<40 { world.happen("r\(index)") }
        world.run(.seconds(29))
        #expect(world.tries.count == 16)
        world.run(.seconds(10))
        #expect(world.taken.count == 40)
        #expect(world.tries[16].at >= start + .seconds(30))
    }

    @Test("one who asks for a longer pause than an hour is tried again after an hour") func longRetryAfter() {
        var world = OutboxWorld()
        world.answer = { _, _ in .refused(status: 503, retryAfter: .seconds(80_000)) }
        world.happen("r")
        world.run(.seconds(3_700))
        #expect(world.tries.count == 2)
    }

    @Test("an endpoint whose cursor is older than the log is told so before anything else") func truncated() {
        var world = OutboxWorld()
        let start = world.now
        world.answer = { _, at in at < start + .seconds(100) ? .unreachable(cause: "x") : .delivered }
        for _ in 0..<50 { world.happen("r") }
        world.run(.seconds(50))
        world.oldest = 41
        world.run(.seconds(600))
        #expect(world.taken.first?.id == "evt_0_truncated_41")
        #expect(world.taken.dropFirst().map(\.id) == (41...50).map { "evt_\($0)" })
        #expect(world.outbox.status.truncated == 1)
        #expect(world.notes.contains(.truncated(after: 0, oldest: 41)))
    }

    @Test("a log that is empty by now is told as truncated too, once") func truncatedToNothing() {
        var world = OutboxWorld()
        let start = world.now
        world.answer = { _, at in at < start + .seconds(100) ? .unreachable(cause: "x") : .delivered }
        for _ in 0..<50 { world.happen("r") }
        world.run(.seconds(50))
        world.oldest = 51
        world.run(.seconds(600))
        #expect(world.taken.map(\.id) == ["evt_0_truncated_51"])
        #expect(world.outbox.cursor == 50)
        world.happen("r")
        world.run(.seconds(1))
        #expect(world.taken.last?.id == "evt_51")
    }

    @Test("a room in arrears that the log has overtaken is told so in its place") func truncatedRoom() {
        var world = OutboxWorld()
        let start = world.now
        world.answer = { post, at in
            guard at < start + .seconds(100), ["evt_1", "evt_2"].contains(post.id) else { return .delivered }
            return .refused(status: 500, retryAfter: nil)
        }
        world.happen("bad")
        for _ in 0..<10 { world.happen("good") }
        for _ in 0..<3 { world.happen("bad") }
        world.run(.seconds(50))
        world.oldest = 13
        world.run(.seconds(600))
        let notice = world.taken.firstIndex { $0.id == "evt_0_truncated_13" }
        let next = world.taken.firstIndex { $0.id == "evt_13" }
        #expect(notice != nil && next != nil && (notice ?? 0) < (next ?? 0))
        #expect(world.taken(of: "bad") == [13, 14])
        #expect(world.taken[notice ?? 0].body.count > 0)
        #expect(String(decoding: world.taken[notice ?? 0].body, as: UTF8.self).contains("\"roomId\":\"bad\""))
    }

    @Test("with too many rooms in arrears nothing new is sent, so that neither memory nor disk grows") func bound() {
        var limits = WebhookOutbox.Limits()
        limits.arrears = 20
        limits.streamsUntilDown = 1_000
        var world = OutboxWorld(limits: limits)
        let start = world.now
        world.answer = { _, at in at < start + .seconds(300) ? .refused(status: 500, retryAfter: nil) : .delivered }
        for index in 0..<1_000 { world.happen("r\(index % 200)") }
        world.run(.seconds(299))
        #expect(world.outbox.status.arrears <= 20 + limits.parallel)
        world.run(.seconds(900))
        for room in 0..<200 { #expect(world.taken(of: "r\(room)") == world.all(of: "r\(room)")) }
    }

    @Test("waits double from half a second to five minutes, and between a half and the whole of it is drawn")
    func backoff() {
        var random = RandomSource.seeded(7)
        let backoff = RetryBackoff()
        for (attempt, whole) in [
            (1, 500), (2, 1_000), (3, 2_000), (9, 128_000), (10, 256_000), (11, 300_000), (500, 300_000),
        ] {
            let delays = (0..<200).map { _ in backoff.delay(attempt: attempt, random: &random).milliseconds }
            #expect(delays.min() ?? 0 >= Int64(whole / 2))
            #expect(delays.max() ?? 0 <= Int64(whole))
            #expect((delays.max() ?? 0) - (delays.min() ?? 0) > Int64(whole / 3))
        }
    }

    @Test("against endpoints that fail at random, with crashes, every room gets all of its events in order")
    func model() {
        for seed in 0..<60 as Range<UInt64> {
            var random = RandomSource.seeded(seed)
            var limits = WebhookOutbox.Limits()
            limits.parallel = Int.random(in: 1...6, using: &random)
            limits.page = Int.random(in: 2...12, using: &random)
            limits.streamPage = Int.random(in: 1...3, using: &random)
            limits.arrears = Int.random(in: 2...10, using: &random)
            var world = OutboxWorld(limits: limits, seed: seed)
            let start = world.now
            var dice = RandomSource.seeded(seed &+ 1_000)
            world.answer = { _, at in
                guard at < start + .seconds(60) else { return .delivered }
                switch Int.random(in: 0..<10, using: &dice) {
                case 0: return .unreachable(cause: "x")
                case 1: return .timedOut
                case 2, 3: return .refused(status: 500, retryAfter: nil)
                case 4: return .broken(cause: "x")
                default: return .delivered
                }
            }
            for _ in 0..<40 {
                for _ in 0..<Int.random(in: 0...8, using: &random) {
                    let room = Int.random(in: 0...6, using: &random)
                    world.happen(room == 0 ? nil : "r\(room)")
                }
                world.run(.milliseconds(Int64.random(in: 0...3_000, using: &random)))
                if Int.random(in: 0..<6, using: &random) == 0 { world.restart(seed: seed) }
                #expect(world.mostInFlight <= limits.parallel, "seed \(seed)")
            }
            world.run(.seconds(3_600))
            for room in [nil, "r1", "r2", "r3", "r4", "r5", "r6"] {
                #expect(world.taken(of: room) == world.all(of: room), "seed \(seed), room \(room ?? "-")")
            }
            #expect(world.outbox.cursor == UInt64(world.log.count), "seed \(seed)")
            #expect(world.saved.arrears.isEmpty, "seed \(seed)")
        }
    }
}
