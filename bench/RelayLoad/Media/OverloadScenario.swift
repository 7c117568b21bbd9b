import MediaRelay
import RTPCore
import RelayLoadKit
import RelayTesting

/// T100: calls are added until the worker takes nobody new. From then on a new call is 503 with Retry-After, one that rings is answered,
/// those who talk lose nothing, and when they have less to say new ones are taken again. The short form's bound is a twentieth of a
/// core, so that any machine gets there; the long form's is the default.
enum OverloadScenario {
    /// Of the media of running calls, at any load: T100's bound.
    private static let lossLimit = 0.001

    private struct Verdict {
        var passed = 0
        var faults: [String] = []
        mutating func check(_ isGood: Bool, _ fault: @autoclosure () -> String) {
            if isGood { passed += 1 } else { faults.append(fault()) }
        }
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let bound = options.isShort ? 5 : 85
        let rig = try await MediaRig(
            loop, options, report, serving: ["--admission", "on", "--overload-cpu", "\(bound)"])
        do {
            try await run(rig, bound: bound)
        } catch {
            await rig.stop()
            throw error
        }
        await rig.stop()
    }

    private static func run(_ rig: MediaRig, bound: Int) async throws {
        let (bench, isShort) = (rig.bench, rig.bench.options.isShort)
        var verdict = Verdict()
        // Somebody waits for an answer meanwhile.
        let ringing = try await room(bench, #","ring":{"caller":"alice","callees":["ben"]}"#)
        verdict.check(
            try await prepare(bench, ringing, "alice").status == 201, "the caller was not taken before the load")
        var calls = isShort ? 8 : 60
        var (before, window): (LoadWindow?, LoadWindow?) = (nil, nil)
        var refusal: HTTPReply?
        while refusal == nil {
            guard 2 * calls <= 8_000 else { throw LoadFailure("\(calls) calls did not reach \(bound) % of a core") }
            try await rig.prepare(clients: 2 * calls, .audioVideo)
            var duel = rig.duel(.audioVideo, 0..<2 * calls)
            // Two reports, whenever the window begins.
            duel.seconds = 2
            duel.isRealTime = false
            let load = duel.window(try rig.relay(), seed: UInt64(calls))
            let reply = try await prepare(bench, try await room(bench), "carol")
            bench.report.progress(
                MonotonicClock.now(),
                "overload: \(calls) calls, \(LoadReport.number(load.busy * 100)) % of a core, \(lost(load)) packets lost, "
                    + "a new session is \(reply.status)")
            if reply.status == 503 {
                (refusal, window) = (reply, load)
            } else {
                before = load
                calls = calls * 3 / 2
                // Until it has reported a second without media: those who come next are reckoned with it.
                await bench.loop.sleep(for: .milliseconds(2_100))
            }
        }
        guard let refusal, let window else { return }
        verdict.check(refusal.retryAfter == 5 && refusal.field("code") == "overloaded", "refused as \(refusal.text)")
        verdict.check(
            try await prepare(bench, ringing, "ben").status == 201, "the other side of a call that rings was refused")
        for load in [before, window].compactMap({ $0 }) {
            let share = Double(lost(load)) / max(1, load.packetsPerSecond * 2.3)
            verdict.check(
                share <= lossLimit && load.unopened == 0,
                "running calls lost \(lost(load)) packets at \(LoadReport.number(load.busy * 100)) % of a core")
        }
        let closed = MonotonicClock.now()
        var status = 503
        while status == 503, MonotonicClock.now() - closed < .seconds(10) {
            await bench.loop.sleep(for: .milliseconds(100))
            status = try await prepare(bench, try await room(bench), "dave").status
        }
        let seconds = Double((MonotonicClock.now() - closed).nanoseconds) / 1e9
        verdict.check(status == 201, "10 s after the load a new session is \(status)")
        let metrics = try await bench.http.metrics()
        // A machine whose cores others take is behind its sockets before its thread has used much.
        let counted = ["cpu", "backlog"].reduce(0) {
            $0 + HTTPClient.metric("media_relay_sessions_refused_total{reason=\"\($1)\"}", in: metrics)
        }
        verdict.check(counted >= 1, "no refusal was counted")
        bench.report.line(
            "  \(calls) calls at \(LoadReport.number(window.packetsPerSecond)) packets/s use "
                + "\(LoadReport.number(window.busy * 100)) % of a core (bound \(bound)): 503, \(refusal.field("detail") ?? ""); \(lost(window)) packets of "
                + "running calls lost; taken again after \(LoadReport.number(seconds)) s without load")
        bench.report.figure(
            "overload_calls", Double(calls), "calls", [("bound_percent", "\(bound)"), ("lost", "\(lost(window))")])
        bench.report.count("overload", passed: verdict.passed, failed: verdict.faults.count, faults: verdict.faults)
    }

    /// What this program was too slow to take is not the relay's loss.
    private static func lost(_ window: LoadWindow) -> Int { max(0, window.lost - window.overflows) }

    private static func room(_ bench: LoadBench, _ more: String = "") async throws -> String {
        let reply = try await bench.http.json(
            "POST", "/v1/rooms", token: bench.http.server, #"{"kind":"peer","media":"audio"\#(more)}"#)
        try LoadBench.expect(reply, 201, of: "create")
        guard let id = reply.field("id") else { throw LoadFailure("a room without id") }
        return id
    }

    /// A session that nobody connects to: whether it is taken.
    private static func prepare(_ bench: LoadBench, _ room: String, _ uid: String) async throws -> HTTPReply {
        var options = SimulatedClient.Options()
        options.hasVideo = false
        options.seed = UInt64(bench.nextCall()) &+ 99
        return try await bench.http.ask(
            "POST", "/v1/rooms/\(room)/sessions?state=prepared", token: bench.http.token(uid, room),
            type: "application/sdp",
            body: SimulatedClient(options, address: .none).offer())
    }
}
