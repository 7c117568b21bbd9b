import MediaRelay
import RTPCore
import RelayCore

/// Ring, answer and hang up, for ever, by real clients: what both processes hold in memory, their descriptors and threads.
///
/// Control keeps ended rooms, 20,000 at most, since their people may still ask how they ended: until then its memory grows with
/// every call, afterwards it must not. So the long form looks at what comes behind `warmUp` cycles, and the short form only at
/// how much a call leaves behind.
enum MemoryScenario {
    private static let warmUp = 25_000
    /// In so many calls no more than this is taken: what a call loses is less than a byte.
    private static let plateau = (calls: 20_000.0, byteCount: 16_384.0)
    /// What a call may leave behind in control: the ended room's record and its part of the recent events.
    private static let bytesPerEndedCall = 24_000.0
    private static let concurrency = 24

    private final class State: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var next = 0
        var done = 0
        var running = 0
        var failed = 0
        var faults: [String] = []
        var control = Trend()
        var worker = Trend()
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let bench = try await LoadBench(loop, options, report)
        do {
            try await run(bench)
        } catch {
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    private static func run(_ bench: LoadBench) async throws {
        let total = bench.options.count(short: 600, long: 100_000)
        let state = State()
        guard let worker = bench.relay.workerIDs().first else { throw LoadFailure("no worker runs") }
        let control = bench.relay.processID
        // Once around, so that threads, statements and pools are there.
        try await cycles(bench, state, until: min(total / 6, 200), sampling: nil)
        let before = (ProcessStatus(control), ProcessStatus(worker))
        let began = MonotonicClock.now()
        try await cycles(bench, state, until: total, sampling: (control, worker))
        let seconds = Double((MonotonicClock.now() - began).nanoseconds) / 1e9
        await bench.loop.sleep(for: .seconds(1))
        judge(bench, state, before, (ProcessStatus(control), ProcessStatus(worker)), seconds: seconds)
    }

    /// Runs calls, some at a time, until `total` were started and all are over.
    private static func cycles(
        _ bench: LoadBench, _ state: State, until total: Int, sampling processes: (control: Int32, worker: Int32)?
    ) async throws {
        let every = max(10, total / 400)
        for _ in 0..<concurrency {
            state.running += 1
            bench.loop.spawn {
                while state.next < total {
                    let number = state.next
                    state.next += 1
                    var figures = CallFigures()
                    do {
                        try await OrdinaryCall(bench: bench, number: number, talk: .milliseconds(20), isMeasured: false)
                            .run(&figures)
                        state.done += 1
                    } catch {
                        state.failed += 1
                        if state.faults.count < 20 { state.faults.append("\(error)") }
                    }
                    guard let processes, number.isMultiple(of: every) else { continue }
                    state.control.add(Double(number), Double(ProcessStatus(processes.control).residentBytes))
                    state.worker.add(Double(number), Double(ProcessStatus(processes.worker).residentBytes))
                }
                state.running -= 1
            }
        }
        while state.running > 0 {
            await bench.loop.sleep(for: .milliseconds(20))
            bench.report.progress(
                MonotonicClock.now(),
                "memory: \(state.done) of \(total) calls, control \(Int(state.control.points.last?.y ?? 0) >> 10) KiB, "
                    + "worker \(Int(state.worker.points.last?.y ?? 0) >> 10) KiB, \(state.failed) failed")
        }
    }

    private static func judge(
        _ bench: LoadBench, _ state: State, _ before: (control: ProcessStatus, worker: ProcessStatus),
        _ after: (control: ProcessStatus, worker: ProcessStatus), seconds: Double
    ) {
        var faults = state.faults + bench.log.faults
        var failed = state.failed + bench.log.faultCount
        var passed = state.done
        func check(_ isGood: Bool, _ fault: String) {
            if isGood { passed += 1 } else { failed += 1; faults.append(fault) }
        }
        let isLong = state.next > 2 * warmUp
        for (name, trend, old, new) in [
            ("control", state.control, before.control, after.control),
            ("worker", state.worker, before.worker, after.worker),
        ] {
            let settled = trend.from(Double(isLong ? warmUp : state.next / 3))
            let (slope, error) = settled.slope ?? (0, 0)
            let flat = settled.longestPlateau(rise: plateau.byteCount)
            let isFlat = abs(slope) <= 3 * error || flat >= plateau.calls
            if isLong || name == "worker" {
                check(
                    isFlat || (!isLong && settled.rise < 3e6),
                    "\(name) grows: \(LoadReport.number(slope)) ± \(LoadReport.number(error)) bytes per call")
            } else {
                check(
                    slope < bytesPerEndedCall,
                    "\(name) grows by \(LoadReport.number(slope)) bytes per call, more than an ended room takes")
            }
            check(new.threads == old.threads, "\(name) had \(old.threads) threads and has \(new.threads)")
            if let was = old.descriptors, let now = new.descriptors {
                // Connections that are kept alive come and go.
                check(now <= was + 2 * concurrency, "\(name) had \(was) descriptors and has \(now)")
            }
            bench.report.line(
                "  \(name): \(old.residentBytes >> 10) → \(new.residentBytes >> 10) KiB resident, "
                    + "slope \(LoadReport.number(slope)) ± \(LoadReport.number(error)) bytes per call"
                    + (isLong ? " behind \(warmUp) calls, at most 16 KiB in \(Int(flat)) calls" : "")
                    + ", \(new.threads) threads, \(new.descriptors.map { "\($0)" } ?? "?") descriptors")
            bench.report.figure(
                "memory_\(name)_bytes_per_call", slope, "bytes",
                [("error", LoadReport.number(error)), ("calls", "\(state.next)"), ("resident", "\(new.residentBytes)")])
        }
        bench.report.line(
            "  \(state.done) calls in \(LoadReport.number(seconds)) s: \(LoadReport.number(Double(state.done) / seconds)) a second"
        )
        bench.report.count("memory", passed: passed, failed: failed, faults: faults)
    }
}
