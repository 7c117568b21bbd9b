import MediaRelay
import RTPCore
import RelayCore

/// The claim that crosses the end of the window: many rooms ring for one second, and each is answered within some milliseconds
/// of its end.
enum WindowCrossing {
    private final class Tally: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var passed = 0
        var answered = 0
        /// How much before a second after the answer to `create` the claim is sent, so that either is first about as often.
        var lead = 3_000.0
        var running = 0
        var faults: [String] = []
        var failed = 0
    }

    static func run(_ count: Int, _ bench: LoadBench) async throws {
        let tally = Tally()
        for number in 0..<count {
            while tally.running >= 150 { await bench.loop.sleep(for: .milliseconds(1)) }
            await bench.loop.sleep(for: .milliseconds(4))
            tally.running += 1
            bench.loop.spawn {
                do {
                    let isAnswered = try await one(number, lead: tally.lead, bench)
                    if isAnswered { tally.answered += 1 }
                    tally.lead = max(-5_000, min(100_000, tally.lead + (isAnswered ? -150 : 150)))
                    tally.passed += 1
                } catch {
                    tally.failed += 1
                    if tally.faults.count < 20 { tally.faults.append("claim × window: \(error)") }
                }
                tally.running -= 1
            }
            bench.report.progress(
                MonotonicClock.now(), "claim × window: \(number) of \(count), \(tally.failed) failed")
        }
        while tally.running > 0 { await bench.loop.sleep(for: .milliseconds(5)) }
        bench.report.line("  claim × window: the claim was first in \(100 * tally.answered / max(1, tally.passed)) %")
        bench.report.count("crossing claim × window", passed: tally.passed, failed: tally.failed, faults: tally.faults)
    }

    /// True: the claim won.
    private static func one(_ number: Int, lead: Double, _ bench: LoadBench) async throws -> Bool {
        let (caller, callee) = ("cw-a\(number)", "cw-b\(number)")
        let created = try await bench.createRing(caller: caller, callee: callee, windowMs: 1_000)
        try LoadBench.expect(created, 201, of: "create")
        guard let room = created.field("id") else { throw LoadFailure("a room without id") }
        let token = bench.http.token(callee, room)
        try LoadBench.expect(
            try await bench.http.json("POST", "/v1/rooms/\(room)/ringing", token: token, ""), 200, of: "ringing")
        // The relay decided some time between the two: the window ends a second after that.
        let early = Interval.microseconds(Int64(lead) + Int64.random(in: -2_000...2_000, using: &bench.random))
        await bench.loop.sleep(until: created.receivedAt + .seconds(1) - early)
        let answer = try await bench.http.json("POST", "/v1/rooms/\(room)/answer", token: token, "")
        let isAnswered = answer.status == 200
        if isAnswered {
            try LoadBench.expect(try await bench.end(room, caller, "ended"), 200, of: "hang-up")
        } else if answer.status != 410 || answer.field("outcome") != "unanswered" {
            throw LoadFailure("\(room): the late answer is \(answer.status) \(answer.text.prefix(200))")
        }
        guard let trace = await bench.log.trace(of: room, { $0.isClosed }) else {
            throw LoadFailure("\(room): no end in the log")
        }
        bench.log.forget(room)
        guard trace.answers.count == (isAnswered ? 1 : 0), trace.outcomes == [isAnswered ? "ended" : "unanswered"]
        else {
            throw LoadFailure(
                "\(room): \(trace.answers.count) answers, told \(trace.outcomes), answered \(answer.status)")
        }
        return isAnswered
    }
}
