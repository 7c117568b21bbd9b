import MediaRelay
import RTPCore
import RelayCore

/// Two requests that are about to cross, and what must be true of their answers.
struct Crossing: Sendable {
    /// What is ready to be fired.
    struct Shot: Sendable {
        /// The room in question; nil where the requests make it.
        var room: String?
        var first: [UInt8] = []
        var second: [UInt8] = []
        /// To be closed afterwards.
        var clients: [FleetClient] = []
    }

    /// What came of it.
    struct Result: Sendable {
        var first: HTTPReply
        var second: HTTPReply
        var trace: RoomTrace
        var outcome: String? { trace.outcomes.first }
    }

    var name: String
    var setUp: @Sendable (LoadBench, Int) async throws -> Shot
    /// Nil: as CALLS.md's table says. Else what was wrong.
    var judge: @Sendable (Result) -> String?
    /// The room that the answers name, where `Shot.room` is nil.
    var room: @Sendable (HTTPReply, HTTPReply) -> String? = { _, _ in nil }
    /// Which of the two was first, for the count of both orders.
    var isFirstFirst: @Sendable (Result) -> Bool
}

/// Every race of CALLS.md, again and again, over real HTTP from two threads and with real clients where media is in play.
enum CrossingsScenario {
    private static let batchCount = 24

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let bench = try await LoadBench(loop, options, report)
        do {
            let pair = try CrossingPair(port: bench.relay.httpPort)
            defer { pair.stop() }
            let count = options.count(short: 200, long: 10_000)
            for crossing in Crossings.all { try await run(crossing, count, pair, bench) }
            try await WindowCrossing.run(count, bench)
            report.count(
                "crossings: the whole log", passed: bench.log.faultCount == 0 ? 1 : 0, failed: bench.log.faultCount,
                faults: bench.log.faults)
        } catch {
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    private final class Tally: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var passed = 0
        var failed = 0
        var firstFirst = 0
        /// How much later the second is fired so that either is first about as often: found on the way.
        var balance = 0.0
        var faults: [String] = []
        var running = 0
        var shots: [Crossing.Shot] = []

        func note(_ fault: String) {
            failed += 1
            if faults.count < 20 { faults.append(fault) }
        }
    }

    private static func run(_ crossing: Crossing, _ count: Int, _ pair: CrossingPair, _ bench: LoadBench) async throws {
        let tally = Tally()
        var number = 0
        while number < count {
            let batch = min(batchCount, count - number)
            await prepare(crossing, number..<number + batch, tally, bench)
            number += batch
            for shot in tally.shots {
                let skew = Interval.microseconds(
                    Int64(tally.balance) + Int64.random(in: -150...150, using: &bench.random))
                do {
                    let (first, second) = try await pair.fire(shot.first, shot.second, skew: skew)
                    tally.running += 1
                    bench.loop.spawn {
                        await judge(crossing, shot, first, second, tally, bench)
                        tally.running -= 1
                    }
                } catch {
                    tally.note("\(crossing.name): \(error)")
                }
            }
            while tally.running > 0 { await bench.loop.sleep(for: .milliseconds(1)) }
            bench.report.progress(
                MonotonicClock.now(), "\(crossing.name): \(number) of \(count), \(tally.failed) failed")
        }
        let share = 100 * tally.firstFirst / max(1, tally.passed)
        bench.report.line("  \(crossing.name): the first was first in \(share) %")
        bench.report.count(
            "crossing \(crossing.name)", passed: tally.passed, failed: tally.failed, faults: tally.faults)
    }

    private static func prepare(
        _ crossing: Crossing, _ numbers: Range<Int>, _ tally: Tally, _ bench: LoadBench
    ) async {
        tally.shots = []
        for number in numbers {
            tally.running += 1
            bench.loop.spawn {
                do {
                    tally.shots.append(try await crossing.setUp(bench, number))
                } catch {
                    tally.note("\(crossing.name), before the shot: \(error)")
                }
                tally.running -= 1
            }
        }
        while tally.running > 0 { await bench.loop.sleep(for: .milliseconds(1)) }
    }

    private static func judge(
        _ crossing: Crossing, _ shot: Crossing.Shot, _ first: HTTPReply, _ second: HTTPReply, _ tally: Tally,
        _ bench: LoadBench
    ) async {
        defer { for client in shot.clients { client.close() } }
        let said = "\(first.status) \(first.text.prefix(160)) | \(second.status) \(second.text.prefix(160))"
        guard let room = shot.room ?? crossing.room(first, second) else {
            return tally.note("\(crossing.name): no room in \(said)")
        }
        // What is still going on ends here; the log is read to the room's end, so that nothing can follow unseen.
        _ = try? await bench.http.ask("DELETE", "/v1/rooms/\(room)", token: bench.http.server)
        guard let trace = await bench.log.trace(of: room, { $0.isClosed }) else {
            return tally.note("\(crossing.name): \(room) has no end in the log; \(said)")
        }
        bench.log.forget(room)
        let result = Crossing.Result(first: first, second: second, trace: trace)
        if let fault = crossing.judge(result) {
            return tally.note("\(crossing.name), \(room): \(fault); told \(trace.outcomes); \(said)")
        }
        tally.passed += 1
        let isFirst = crossing.isFirstFirst(result)
        if isFirst { tally.firstFirst += 1 }
        tally.balance = max(-2_000, min(2_000, tally.balance + (isFirst ? -10 : 10)))
    }
}
