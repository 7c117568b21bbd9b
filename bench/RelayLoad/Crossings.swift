import RTPCore
import RelayCore

/// The race table of CALLS.md as pairs of requests. A window that closes has no request: `WindowCrossing` has that row.
enum Crossings {
    static let all = [
        claimCancel, twoDevicesClaim, declineClaim, cancelDecline, glare, leaveLeave, joinTakeover, hangUpEnd,
    ]

    // MARK: Without media

    private static func ring(_ bench: LoadBench, _ name: String, _ number: Int) async throws
        -> (room: String, caller: String, callee: String)
    {
        let (caller, callee) = ("\(name)-a\(number)", "\(name)-b\(number)")
        let reply = try await bench.createRing(caller: caller, callee: callee)
        try LoadBench.expect(reply, 201, of: "create")
        guard let room = reply.field("id") else { throw LoadFailure("a room without id") }
        return (room, caller, callee)
    }

    private static func post(
        _ bench: LoadBench, _ room: String, _ verb: String, _ uid: String, device: String = "phone", _ body: String = ""
    ) -> [UInt8] {
        HTTPClient.request(
            "POST", "/v1/rooms/\(room)/\(verb)", token: bench.http.token(uid, room, device: device),
            type: body.isEmpty ? nil : "application/json", body: Array(body.utf8))
    }

    /// Answered first: the cancel hangs up. Cancelled first: the answer is 410.
    static let claimCancel = Crossing(
        name: "claim × cancel",
        setUp: { bench, number in
            let call = try await ring(bench, "cc", number)
            return Crossing.Shot(
                room: call.room, first: post(bench, call.room, "answer", call.callee),
                second: post(bench, call.room, "end", call.caller, #"{"status":"cancelled"}"#))
        },
        judge: { result in
            let isAnswered = !result.trace.answers.isEmpty
            let outcome = isAnswered ? "ended" : "cancelled"
            if result.trace.outcomes != [outcome] { return "answered: \(isAnswered)" }
            if result.second.status != 200 || result.second.field("outcome") != outcome { return "the cancel" }
            if isAnswered { return result.first.status == 200 ? nil : "the answer" }
            return result.first.status == 410 && result.first.field("outcome") == outcome ? nil : "the late answer"
        },
        isFirstFirst: { !$0.trace.answers.isEmpty })

    static let twoDevicesClaim = Crossing(
        name: "two devices claim",
        setUp: { bench, number in
            let call = try await ring(bench, "dd", number)
            return Crossing.Shot(
                room: call.room, first: post(bench, call.room, "answer", call.callee, device: "phone"),
                second: post(bench, call.room, "answer", call.callee, device: "tablet"))
        },
        judge: { result in
            guard result.trace.answers.count == 1, let winner = result.trace.answers.first?.device else {
                return "\(result.trace.answers.count) answers"
            }
            let (won, lost) =
                winner == "phone" ? (result.first, result.second) : (result.second, result.first)
            if won.status != 200 { return "the first answer" }
            return lost.status == 409 && lost.field("code") == "answered-elsewhere" ? nil : "the second answer"
        },
        isFirstFirst: { $0.trace.answers.first?.device == "phone" })

    /// Declined first: the answer is 410. Answered first: the decline is nothing, and the call goes on.
    static let declineClaim = Crossing(
        name: "decline × claim",
        setUp: { bench, number in
            let call = try await ring(bench, "dc", number)
            return Crossing.Shot(
                room: call.room, first: post(bench, call.room, "end", call.callee, #"{"status":"rejected"}"#),
                second: post(bench, call.room, "answer", call.callee, device: "tablet"))
        },
        judge: { result in
            let isAnswered = !result.trace.answers.isEmpty
            if result.first.status != 200 { return "the decline" }
            if isAnswered {
                if result.first.field("outcome") != nil { return "the late decline tells an outcome" }
                return result.second.status == 200 && result.outcome == "ended" ? nil : "the answer"
            }
            if result.trace.outcomes != ["rejected"] || result.first.field("outcome") != "rejected" {
                return "the decline's outcome"
            }
            return result.second.status == 410 && result.second.field("outcome") == "rejected"
                ? nil : "the late answer"
        },
        isFirstFirst: { $0.trace.answers.isEmpty })

    static let cancelDecline = Crossing(
        name: "cancel × decline",
        setUp: { bench, number in
            let call = try await ring(bench, "cd", number)
            return Crossing.Shot(
                room: call.room, first: post(bench, call.room, "end", call.caller, #"{"status":"cancelled"}"#),
                second: post(bench, call.room, "end", call.callee, #"{"status":"rejected"}"#))
        },
        judge: { result in
            guard let outcome = result.outcome, ["cancelled", "rejected"].contains(outcome) else { return "no outcome" }
            for reply in [result.first, result.second]
            where reply.status != 200 || reply.field("outcome") != outcome {
                return "one of both is told something else"
            }
            return nil
        },
        isFirstFirst: { $0.outcome == "cancelled" })

    static let glare = Crossing(
        name: "create × create",
        setUp: { bench, number in
            let (a, b) = ("gg-a\(number)", "gg-b\(number)")
            func create(_ caller: String, _ callee: String) -> [UInt8] {
                HTTPClient.request(
                    "POST", "/v1/rooms", token: bench.http.server, type: "application/json",
                    body: Array(
                        #"{"kind":"peer","media":"audio","ring":{"caller":"\#(caller)","callees":["\#(callee)"]}}"#
                            .utf8))
            }
            return Crossing.Shot(first: create(a, b), second: create(b, a))
        },
        judge: { result in
            let replies = [result.first, result.second]
            guard let made = replies.first(where: { $0.status == 201 }),
                let refused = replies.first(where: { $0.status == 409 })
            else { return "not one of each" }
            if refused.field("code") != "glare" { return "the refusal" }
            return refused.field("roomId") == made.field("id") ? nil : "the refusal names another room"
        },
        room: { first, second in (first.status == 201 ? first : second).field("id") },
        isFirstFirst: { $0.first.status == 201 })

    // MARK: With real clients

    /// A call with everybody joined: the sessions' paths of caller and callee.
    private static func talk(_ bench: LoadBench, _ name: String, _ number: Int) async throws
        -> (call: (room: String, caller: String, callee: String), paths: [String], clients: [FleetClient])
    {
        let call = try await ring(bench, name, number)
        let alice = try await bench.prepare(call.room, call.caller, query: "state=prepared&join=on-answer")
        let ben = try await bench.prepare(call.room, call.callee)
        guard await bench.log.trace(of: call.room, { $0.prepared.count == 2 }) != nil else {
            throw LoadFailure("\(call.room): not prepared")
        }
        let join = try await bench.http.json(
            "POST", ben.location + "/join", token: bench.http.token(call.callee, call.room), "")
        try LoadBench.expect(join, 200, of: "join")
        guard await bench.log.trace(of: call.room, { $0.joined.count == 2 }) != nil else {
            throw LoadFailure("\(call.room): not joined")
        }
        return (call, [alice.location, ben.location], [alice.client, ben.client])
    }

    private static func leave(_ bench: LoadBench, _ path: String, _ uid: String, _ room: String) -> [UInt8] {
        HTTPClient.request("DELETE", path, token: bench.http.token(uid, room))
    }

    static let leaveLeave = Crossing(
        name: "leave × leave",
        setUp: { bench, number in
            let (call, paths, clients) = try await talk(bench, "ll", number)
            return Crossing.Shot(
                room: call.room, first: leave(bench, paths[0], call.caller, call.room),
                second: leave(bench, paths[1], call.callee, call.room), clients: clients)
        },
        judge: { result in
            if result.trace.outcomes != ["ended"] { return "the outcome" }
            if result.trace.left.count != 2 { return "\(result.trace.left.count) left" }
            return result.first.status == 200 && result.second.status == 200 ? nil : "an answer"
        },
        isFirstFirst: { result in
            result.trace.left.contains { $0.reason == "hangup" && $0.uid.hasPrefix("ll-a") }
        })

    static let hangUpEnd = Crossing(
        name: "hang-up × end",
        setUp: { bench, number in
            let (call, paths, clients) = try await talk(bench, "he", number)
            return Crossing.Shot(
                room: call.room, first: leave(bench, paths[0], call.caller, call.room),
                second: post(bench, call.room, "end", call.callee, #"{"status":"ended"}"#), clients: clients)
        },
        judge: { result in
            if result.trace.outcomes != ["ended"] { return "the outcome" }
            if result.trace.left.count != 2 { return "\(result.trace.left.count) left" }
            if result.first.status != 200 { return "the hang-up" }
            return result.second.status == 200 && result.second.field("outcome") == "ended" ? nil : "the end"
        },
        isFirstFirst: { result in
            result.trace.left.contains { $0.reason == "hangup" && $0.uid.hasPrefix("he-a") }
        })

    /// Two prepared devices of one user: one joins, the other would take the call over. The first claims, and the other's
    /// session went with the claim.
    static let joinTakeover = Crossing(
        name: "join × takeover",
        setUp: { bench, number in
            let call = try await ring(bench, "jt", number)
            let alice = try await bench.prepare(call.room, call.caller, query: "state=prepared&join=on-answer")
            let phone = try await bench.prepare(call.room, call.callee)
            let tablet = try await bench.prepare(call.room, call.callee, device: "tablet")
            guard await bench.log.trace(of: call.room, { $0.prepared.count == 3 }) != nil else {
                throw LoadFailure("\(call.room): not prepared")
            }
            return Crossing.Shot(
                room: call.room,
                first: HTTPClient.request(
                    "POST", phone.location + "/join", token: bench.http.token(call.callee, call.room)),
                second: HTTPClient.request(
                    "POST", tablet.location + "/join?takeover=true",
                    token: bench.http.token(call.callee, call.room, device: "tablet")),
                clients: [alice.client, phone.client, tablet.client])
        },
        judge: { result in
            guard result.trace.answers.count == 1, let winner = result.trace.answers.first?.device else {
                return "\(result.trace.answers.count) answers"
            }
            let (won, lost) = winner == "phone" ? (result.first, result.second) : (result.second, result.first)
            if won.status != 200 { return "the winner's answer" }
            if lost.status != 409 || lost.field("code") != "answered-elsewhere" { return "the loser's answer" }
            let joined = result.trace.joined.filter { $0.uid.hasPrefix("jt-b") }
            return joined.count == 1 && joined[0].device == winner ? nil : "joined \(joined)"
        },
        isFirstFirst: { $0.trace.answers.first?.device == "phone" })
}
