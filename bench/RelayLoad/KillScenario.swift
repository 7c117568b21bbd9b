import MediaRelay
import RTPCore
import RelayCore

/// Calls go on while control is killed again and again at random moments and started anew, as an operator's supervisor does.
/// Two consumers that resume, one of the stream and one of pages, must read the same log: nothing lost, nothing twice, numbers
/// without gap; every ring has one outcome, the one that its people brought about; calls that talk keep their media.
enum KillScenario {
    /// No media for so long counts as an interruption of a call that goes on.
    private static let longestGap = Interval.seconds(1)
    private static let talkingCalls = 4

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let bench = try await LoadBench(loop, options, report, keepsFingerprints: true)
        do {
            try await run(bench)
        } catch {
            report.say(bench.relay.logTail)
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    private static func run(_ bench: LoadBench) async throws {
        let kills = bench.options.count(short: 10, long: 200)
        let pages = PageConsumer(bench)
        bench.loop.spawn { await bench.follower.follow() }
        bench.loop.spawn { await pages.run() }
        let churn = ChurnState()
        var talks: [TalkingCall] = []
        for number in 0..<talkingCalls { talks.append(try await TalkingCall(bench, number)) }
        let rate = bench.options.rate ?? 100
        bench.loop.spawn { await Churn.run(bench, churn, rate: rate) }
        var away = Samples()
        for kill in 1...kills {
            await bench.loop.sleep(for: .milliseconds(Int64.random(in: 200...1_500, using: &bench.random)))
            let began = MonotonicClock.now()
            await bench.relay.killControl()
            await bench.loop.sleep(for: .milliseconds(Int64.random(in: 0...200, using: &bench.random)))
            try await bench.relay.start()
            away.add(MonotonicClock.now() - began)
            bench.report.progress(
                MonotonicClock.now(),
                "kill9: \(kill) of \(kills) kills, \(churn.started) calls, \(bench.log.eventCount) events, "
                    + "\(churn.faults.count + bench.log.faultCount) faults")
        }
        churn.isStopping = true
        let limit = MonotonicClock.now() + .seconds(60)
        while churn.running > 0, MonotonicClock.now() < limit { await bench.loop.sleep(for: .milliseconds(10)) }
        if churn.running > 0 { churn.fail("\(churn.running) calls have no end after 60 s") }
        for talk in talks {
            if let fault = await talk.end(longestGap) { churn.fail(fault) } else { churn.passed += 1 }
        }
        await compare(bench, pages, churn)
        pages.stop()
        let gap = talks.map(\.longestGap).max() ?? .zero
        bench.report.line(
            "kill9: \(kills) kills, \(churn.started) calls, \(bench.log.eventCount) events; control away "
                + "p50 \(LoadReport.ms(away.quantile(0.5))), longest \(LoadReport.ms(away.quantile(1))); longest gap of media "
                + LoadReport.ms(Double(gap.nanoseconds) / 1e6) + "; \(churn.told)")
        bench.report.figure("kill9_media_gap_ms", Double(gap.nanoseconds) / 1e6, "ms", [("kills", "\(kills)")])
        bench.report.figure("kill9_away_ms_p50", away.quantile(0.5), "ms", [("kills", "\(kills)")])
        bench.report.count(
            "kill9", passed: churn.passed, failed: churn.failed + bench.log.faultCount + pages.log.faultCount,
            faults: churn.faults + bench.log.faults + pages.log.faults)
    }

    /// Both consumers, and one that reads everything anew, must have read the same.
    private static func compare(_ bench: LoadBench, _ pages: PageConsumer, _ churn: ChurnState) async {
        let anew = PageConsumer(bench)
        await anew.readAll()
        let limit = MonotonicClock.now() + .seconds(10)
        while pages.log.lastSeq < anew.log.lastSeq || bench.log.lastSeq < anew.log.lastSeq, MonotonicClock.now() < limit
        {
            await bench.loop.sleep(for: .milliseconds(10))
        }
        let last = Int(anew.log.lastSeq)
        for (name, read) in [("stream", bench.follower.fingerprints), ("pages", pages.fingerprints)] {
            if read.prefix(last).elementsEqual(anew.fingerprints.prefix(last)), read.count >= last {
                churn.passed += 1
            } else {
                let at = zip(read, anew.fingerprints).enumerated().first { $1.0 != $1.1 }?.offset ?? read.count
                churn.fail("the \(name)' consumer read another log than there is: \(read.count) events, from \(at + 1)")
            }
        }
        if bench.log.rings != bench.log.endedRings {
            churn.fail("\(bench.log.rings) rings and \(bench.log.endedRings) ends")
        } else {
            churn.passed += 1
        }
    }
}

/// A consumer of the log by pages, which long-polls. Confined to the loop's thread.
final class PageConsumer: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    let log: LogChecker
    private(set) var fingerprints: [Int] = []
    private let bench: LoadBench
    private var isStopped = false

    init(_ bench: LoadBench) {
        self.bench = bench
        log = LogChecker(bench.loop)
    }

    func run() async {
        while !isStopped {
            if (try? await page(wait: 2)) == nil { await bench.loop.sleep(for: .milliseconds(30)) }
        }
    }

    func readAll() async {
        while let count = try? await page(wait: 0), count > 0 {}
    }

    func stop() { isStopped = true }

    private func page(wait: Int) async throws -> Int {
        let reply = try await bench.http.ask(
            "GET", "/v1/events?after=\(log.lastSeq)&limit=1000&wait=\(wait)", token: bench.http.server,
            headers: ["Accept: application/json"])
        try LoadBench.expect(reply, 200, of: "a page")
        guard case .array(let events)? = try JSONReader.read(reply.body)["events"] else {
            throw LoadFailure("a page without events")
        }
        for value in events {
            guard let event = LoadEvent(JSONText.of(value)[...], receivedAt: reply.receivedAt) else {
                throw LoadFailure("a page with something else than events")
            }
            fingerprints.append(event.fingerprint)
            log.take(event)
            if let room = event.room { log.forget(room) }
        }
        return events.count
    }
}
