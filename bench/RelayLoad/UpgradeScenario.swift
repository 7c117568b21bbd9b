import Foundation
import MediaRelay
import RTPCore
import RelayCore

/// The program's file is replaced under calls that talk and calls that come and go, and SIGHUP lets the new one take over. No packet
/// of a call that talks may be missing, no request may be refused or cut, every call must end as its people brought it about, the
/// process must stay the same one, and the earlier build's worker must be gone when its last call has ended.
enum UpgradeScenario {
    private static let talkingCalls = 100

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let program = try ReplaceableProgram(options.binary)
        defer { program.remove() }
        let bench = try await LoadBench(loop, options, report, binary: program.path)
        do {
            try await run(bench, program)
        } catch {
            report.say(bench.relay.logTail)
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    private static func run(_ bench: LoadBench, _ program: ReplaceableProgram) async throws {
        let upgrades = bench.options.count(short: 1, long: 20)
        let rate = bench.options.rate ?? 50
        let churn = ChurnState()
        let probe = APIProbe(bench)
        bench.loop.spawn { await bench.follower.follow() }
        bench.loop.spawn { await Churn.run(bench, churn, rate: rate) }
        bench.loop.spawn { await probe.run(over: .kept) }
        bench.loop.spawn { await probe.run(over: .new) }
        var figures = Figures()
        for upgrade in 1...upgrades {
            try await once(bench, program, churn, probe, &figures)
            bench.report.progress(
                MonotonicClock.now(),
                "upgrade: \(upgrade) of \(upgrades), \(churn.started) calls, \(figures.missing) packets missing, "
                    + "\(churn.faults.count + bench.log.faultCount) faults")
        }
        churn.isStopping = true
        let limit = MonotonicClock.now() + .seconds(60)
        while churn.running > 0, MonotonicClock.now() < limit { await bench.loop.sleep(for: .milliseconds(10)) }
        if churn.running > 0 { churn.fail("\(churn.running) calls have no end after 60 s") }
        probe.isStopping = true
        tell(bench, churn, probe, figures, upgrades: upgrades, rate: rate)
    }

    private struct Figures {
        var received = 0
        var missing = 0
        var longestGap = Interval.zero
        /// From the signal until a worker of the new program was there.
        var worker = Samples()
    }

    /// Calls that talk, an upgrade under them, their end.
    private static func once(
        _ bench: LoadBench, _ program: ReplaceableProgram, _ churn: ChurnState, _ probe: APIProbe,
        _ figures: inout Figures
    ) async throws {
        var talks: [TalkingCall] = []
        for _ in 0..<talkingCalls { talks.append(try await TalkingCall(bench, bench.nextCall())) }
        let control = bench.relay.processID
        let before = Set(bench.relay.workerIDs())
        await bench.loop.sleep(for: .seconds(1))
        try program.replace()
        let began = MonotonicClock.now()
        bench.relay.signal(SIGHUP)
        guard await bench.wait(within: .seconds(20), until: { !Set(bench.relay.workerIDs()).isSubset(of: before) })
        else {
            throw LoadFailure("no worker of the new program within 20 s: \(bench.relay.logTail)")
        }
        figures.worker.add(MonotonicClock.now() - began)
        await bench.loop.sleep(for: .seconds(bench.options.isShort ? 3 : 5))
        if !before.isSubset(of: Set(bench.relay.workerIDs())) { churn.fail("a worker left while its calls went on") }
        for talk in talks {
            figures.received += talk.receivedCount
            figures.missing += talk.missingCount
            figures.longestGap = max(figures.longestGap, talk.longestGap)
            if talk.missingCount > 0 { churn.fail("a call that talks lacks \(talk.missingCount) packets") }
            if let fault = await talk.end(.seconds(1)) { churn.fail(fault) } else { churn.passed += 1 }
        }
        let hasLeft = await bench.wait(within: .seconds(15)) { before.isDisjoint(with: bench.relay.workerIDs()) }
        if hasLeft { churn.passed += 1 } else { churn.fail("the earlier worker is there 15 s after its last call") }
        if bench.relay.isRunning(as: control) { churn.passed += 1 } else { churn.fail("control is another process") }
    }

    private static func tell(
        _ bench: LoadBench, _ churn: ChurnState, _ probe: APIProbe, _ figures: Figures, upgrades: Int, rate: Double
    ) {
        if churn.retries > 0 { churn.fail("\(churn.retries) requests of calls were refused or cut") }
        if probe.refused > 0 { churn.fail("\(probe.refused) requests of the probe were refused or cut") }
        if churn.count(of: "lost") > 0 { churn.fail("\(churn.count(of: "lost")) calls ended as lost") }
        if bench.log.rings != bench.log.endedRings {
            churn.fail("\(bench.log.rings) rings and \(bench.log.endedRings) ends")
        } else {
            churn.passed += 1
        }
        var worker = figures.worker
        let gap = Double(figures.longestGap.nanoseconds) / 1e6
        let pause = Double(probe.longest.nanoseconds) / 1e6
        bench.report.line(
            "upgrade: \(upgrades) upgrades under \(talkingCalls) calls that talk and \(LoadReport.number(rate)) new ones a second: "
                + "\(figures.missing) of \(figures.received) packets lost, longest gap \(LoadReport.ms(gap)); "
                + "\(churn.retries + probe.refused) requests refused of \(bench.http.requestCount + probe.asked), longest answer "
                + "\(LoadReport.ms(pause)); new worker after \(LoadReport.ms(worker.quantile(0.5))); \(churn.told)")
        let context = [("upgrades", "\(upgrades)")]
        bench.report.figure("upgrade_packets_lost", Double(figures.missing), "packets", context)
        bench.report.figure("upgrade_requests_refused", Double(churn.retries + probe.refused), "requests", context)
        bench.report.figure("upgrade_longest_answer_ms", pause, "ms", context)
        bench.report.figure("upgrade_media_gap_ms", gap, "ms", context)
        bench.report.count(
            "upgrade", passed: churn.passed, failed: churn.failed + bench.log.faultCount,
            faults: churn.faults + bench.log.faults)
    }
}

/// A copy of the relay's program that can be replaced as a package does it: a new file under the old name.
struct ReplaceableProgram {
    let path: String
    private let folder: String
    private let original: String

    init(_ original: String) throws {
        self.original = original
        folder = FileManager.default.temporaryDirectory.path + "/media-relay-program-\(getpid())"
        path = folder + "/media-relay"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: original, toPath: path)
    }

    func replace() throws {
        try FileManager.default.copyItem(atPath: original, toPath: path + ".new")
        guard rename(path + ".new", path) == 0 else { throw LoadFailure("the program cannot be replaced") }
    }

    func remove() { try? FileManager.default.removeItem(atPath: folder) }
}

/// Asks `/healthz` all the time, over one kept connection or a new one each: nobody may notice. Confined to the loop's thread.
final class APIProbe: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    enum Way { case kept, new }
    private let bench: LoadBench
    var isStopping = false
    private(set) var asked = 0
    private(set) var refused = 0
    private(set) var longest = Interval.zero

    init(_ bench: LoadBench) { self.bench = bench }

    func run(over way: Way) async {
        let request = Array("GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n".utf8)
        var connection: HTTPConnection?
        while !isStopping {
            asked += 1
            let began = MonotonicClock.now()
            do {
                let used = try connection ?? HTTPConnection(bench.loop, port: bench.relay.httpPort)
                let reply = try await used.exchange(request)
                if reply.status != 200 { refused += 1 }
                if way == .kept, used.isOpen { connection = used } else { used.close() }
            } catch {
                refused += 1
                connection = nil
            }
            longest = max(longest, MonotonicClock.now() - began)
            await bench.loop.sleep(for: .milliseconds(10))
        }
        connection?.close()
    }
}
